// A table of which only the visible rows exist: 50,000 rows scroll as fast as 50.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useMedia } from "../state/hooks";
import { Icon } from "./icon";

export interface Column<T> {
  id: string;
  title: string;
  /** Draws a cell. Controls in it take `tabIndex`, so that only those of the current row are reached by Tab. */
  cell: (row: T, tabIndex: number) => ComponentChildren;
  numeric?: boolean;
  /** Left out where there is no room for all columns, so that the names keep theirs. */
  optional?: boolean;
  /** By which words of `sort` the column is sorted; absent if it is not. */
  sort?: string;
  /** Draws the heading in place of its title. */
  head?: () => ComponentChildren;
}

interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  rowHeight: number;
  rowClass?: (row: T) => string;
  onOpen?: (row: T) => void;
  onKey?: (row: T, key: string) => boolean;
  sort?: string;
  onSort?: (sort: string) => void;
  class?: string;
  /** When this changes the table is shown from its start again. */
  resetKey?: string;
}

const OVERSCAN = 6;

/** The rows that exist of those that there are. */
export function windowOf(top: number, height: number, rowHeight: number, count: number): [number, number] {
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  return [Math.min(first, Math.max(0, count - 1)), Math.min(count, Math.ceil((top + height) / rowHeight) + OVERSCAN)];
}

export function Table<T>(props: TableProps<T>): JSX.Element {
  const { rows, rowHeight } = props;
  const crowded = useMedia("(max-width: 1150px)");
  const columns = crowded ? props.columns.filter((column) => !column.optional) : props.columns;
  const box = useRef<HTMLDivElement>(null);
  const [[first, last], setWindow] = useState<[number, number]>([0, 40]);
  const [current, setCurrent] = useState(0);
  const focusNext = useRef(false);
  const active = Math.min(current, Math.max(0, rows.length - 1));

  const measure = (): void => {
    const element = box.current;
    if (!element) return;
    const next = windowOf(element.scrollTop, element.clientHeight, rowHeight, rows.length);
    setWindow((old) => (old[0] === next[0] && old[1] === next[1] ? old : next));
  };
  useLayoutEffect(measure, [rows.length, rowHeight]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [rows.length, rowHeight]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = 0;
    setCurrent(0);
  }, [props.resetKey]);
  useLayoutEffect(() => {
    if (!focusNext.current) return;
    const row = box.current?.querySelector<HTMLElement>("tr[data-current]");
    if (row) {
      focusNext.current = false;
      row.focus({ preventScroll: true });
    }
  });

  const go = (index: number): void => {
    const element = box.current;
    if (!element || rows.length === 0) return;
    const target = Math.max(0, Math.min(rows.length - 1, index));
    const head = element.querySelector("thead")?.clientHeight ?? 0;
    const above = target * rowHeight;
    if (above < element.scrollTop) element.scrollTop = above;
    else if (above + rowHeight + head > element.scrollTop + element.clientHeight) {
      element.scrollTop = above + rowHeight + head - element.clientHeight;
    }
    focusNext.current = true;
    setCurrent(target);
    measure();
  };
  const pageRows = (): number => Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / rowHeight) - 2);

  const onKeyDown = (event: KeyboardEvent): void => {
    const steps: Record<string, () => number> = {
      ArrowDown: () => active + 1,
      ArrowUp: () => active - 1,
      PageDown: () => active + pageRows(),
      PageUp: () => active - pageRows(),
      Home: () => 0,
      End: () => rows.length - 1,
    };
    const element = event.target as HTMLElement;
    const row = rows[active];
    if (element.tagName === "TH" || element.closest("thead") || event.altKey || event.ctrlKey || event.metaKey) return;
    const step = steps[event.key];
    if (step) {
      event.preventDefault();
      go(step());
    } else if (element.tagName === "TR" && row !== undefined) {
      if (props.onKey?.(row, event.key)) event.preventDefault();
      else if (event.key === "Enter") props.onOpen?.(row);
    }
  };

  const shown = rows.slice(first, last);
  return (
    <div class={`table-box ${props.class ?? ""}`} ref={box} onScroll={measure} onKeyDown={onKeyDown}>
      <table role="grid" aria-label={props.label} aria-rowcount={rows.length + 1} style={{ "--row": `${rowHeight}px` }}>
        <colgroup>
          {columns.map((column) => (
            <col key={column.id} class={`col-${column.id}`} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <Heading key={column.id} column={column} sort={props.sort} onSort={props.onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Spacer height={first * rowHeight} columns={columns.length} />
          {shown.map((row, offset) => {
            const index = first + offset;
            const isActive = index === active;
            return (
              <tr
                key={props.rowKey(row)}
                aria-rowindex={index + 2}
                tabIndex={isActive ? 0 : -1}
                data-current={isActive ? "" : undefined}
                class={props.rowClass?.(row)}
                onFocus={() => setCurrent(index)}
              >
                {columns.map((column) => (
                  <td key={column.id} class={column.numeric ? "num" : undefined}>
                    {column.cell(row, isActive ? 0 : -1)}
                  </td>
                ))}
              </tr>
            );
          })}
          <Spacer height={(rows.length - Math.min(last, rows.length)) * rowHeight} columns={columns.length} />
        </tbody>
      </table>
    </div>
  );
}

function Spacer({ height, columns }: { height: number; columns: number }): JSX.Element | null {
  if (height <= 0) return null;
  return (
    <tr class="spacer" aria-hidden="true">
      <td colSpan={columns} style={{ height: `${height}px` }} />
    </tr>
  );
}

interface HeadingProps<T> {
  column: Column<T>;
  sort: string | undefined;
  onSort: ((sort: string) => void) | undefined;
}

function Heading<T>({ column, sort, onSort }: HeadingProps<T>): JSX.Element {
  const scope = { scope: "col" as const, class: column.numeric ? "num" : undefined };
  if (column.head) return <th {...scope}>{column.head()}</th>;
  if (!column.sort || !onSort) return <th {...scope}>{column.title}</th>;
  const sorted = sort === column.sort ? "ascending" : sort === `-${column.sort}` ? "descending" : "none";
  return (
    <th {...scope} aria-sort={sorted}>
      <button
        type="button"
        class="sort"
        onClick={() => onSort(sorted === "ascending" ? `-${column.sort}` : (column.sort ?? ""))}
      >
        {column.title}
        {sorted !== "none" && <Icon name={sorted === "ascending" ? "up" : "down"} />}
      </button>
    </th>
  );
}
