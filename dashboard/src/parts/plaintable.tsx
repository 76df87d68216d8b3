// A table that is drawn as a whole: a few rows, a heading for each column.
import type { ComponentChildren, JSX } from "preact";

/** The title of a column, and its class if it has one. */
export type Head = string | [title: string, className: string];

/** The headings of columns with numbers. */
export const num = (title: string): Head => [title, "num"];

interface PlainTableProps {
  heads: readonly Head[];
  class?: string;
  /** Whether only screen readers get the headings. */
  hideHeads?: boolean;
  /** The rows. */
  children: ComponentChildren;
}

export function PlainTable(props: PlainTableProps): JSX.Element {
  return (
    <table class={`plain-table ${props.class ?? ""}`}>
      <thead class={props.hideHeads ? "hidden" : undefined}>
        <tr>
          {props.heads.map((head) => {
            const [title, name] = typeof head === "string" ? [head] : head;
            return (
              <th key={title} scope="col" class={name}>
                {title}
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>{props.children}</tbody>
    </table>
  );
}
