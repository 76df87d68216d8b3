// The tree of cohorts and queues with their quotas, readable at 3 queues and at 1,000.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Overview, Usage } from "../api/types";
import { amountText, resourceText } from "../model/amounts";
import { queueLink } from "../model/route";
import { counted, printable, shortened } from "../model/text";
import { linesOf, ordered, totals, treeOf } from "../model/tree";
import type { TreeLine, TreeNode, TreeOrder } from "../model/tree";
import { useNarrow } from "../state/hooks";
import { Bar, Legend } from "./bar";
import { Icon } from "./icon";
import { Table } from "./table";
import type { Column } from "./table";
import { Denied, Empty, Name, Panel } from "./text";

/** With more queues than this, cohorts are closed until they are opened. */
const OPEN_MAX = 40;
/** With more lines than this, a search is offered. */
const SEARCH_MIN = 12;

export function QuotaPanel({ overview }: { overview: Overview }): JSX.Element {
  const nodes = useMemo(() => treeOf(overview.queues), [overview.queues]);
  const resources = useMemo(() => totals(nodes).map((total) => total.resource), [nodes]);
  const [text, setText] = useState("");
  const [resource, setResource] = useState("");
  const [order, setOrder] = useState<TreeOrder>("name");
  const [waitingOnly, setWaitingOnly] = useState(false);
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const narrow = useNarrow();
  const queues = nodes.filter((node) => node.kind !== "cohort").length;
  const openByDefault = queues <= OPEN_MAX;
  const lines = useMemo(
    () => linesOf(ordered(nodes, order), { text, resource, waitingOnly, toggled, openByDefault }),
    [nodes, order, text, resource, waitingOnly, toggled, openByDefault],
  );
  const toggle = (node: TreeNode): void => {
    const next = new Set(toggled);
    if (!next.delete(node.id)) next.add(node.id);
    setToggled(next);
  };
  const onKey = (line: TreeLine, key: string): boolean => {
    if (line.node.kind !== "cohort" || (key !== "ArrowRight" && key !== "ArrowLeft")) return false;
    if (line.open !== (key === "ArrowRight")) toggle(line.node);
    return true;
  };
  const open = (line: TreeLine): void => {
    if (line.node.kind === "cohort") toggle(line.node);
    else location.hash = queueLink(line.node.name);
  };
  const cohorts = nodes.length - queues;
  const size = cohorts ? `${counted(queues, "queue")} in ${counted(cohorts, "cohort")}` : counted(queues, "queue");
  return (
    <Panel
      title="Quota"
      id="quota-title"
      class="quota"
      aside={
        <>
          <span class="muted">{size}</span>
          <Legend />
        </>
      }
    >
      {(queues > SEARCH_MIN || resources.length > 1) && (
        <div class="filters">
          {queues > SEARCH_MIN && (
            <>
              <label>
                Find{" "}
                <input
                  type="search"
                  value={text}
                  placeholder="queue or cohort"
                  onInput={(event) => setText(event.currentTarget.value)}
                />
              </label>
              <label class="check">
                <input
                  type="checkbox"
                  checked={waitingOnly}
                  onChange={(event) => setWaitingOnly(event.currentTarget.checked)}
                />{" "}
                Only where jobs wait
              </label>
              <label>
                Order{" "}
                <select value={order} onChange={(event) => setOrder(event.currentTarget.value as TreeOrder)}>
                  <option value="name">by name</option>
                  <option value="pending">most pending first</option>
                  <option value="use">fullest first</option>
                </select>
              </label>
            </>
          )}
          {resources.length > 1 && (
            <label>
              Resource{" "}
              <select value={resource} onChange={(event) => setResource(event.currentTarget.value)}>
                <option value="">all</option>
                {resources.map((one) => (
                  <option key={one} value={one}>
                    {shortened(printable(resourceText(one)), 60)}
                  </option>
                ))}
              </select>
            </label>
          )}
        </div>
      )}
      {lines.length > 0 ? (
        <Table
          label="Cohorts and queues with their quotas"
          class="quota-table"
          columns={narrow ? narrowColumns(toggle) : wideColumns(toggle)}
          rows={lines}
          rowKey={lineKey}
          rowHeight={narrow ? 52 : 28}
          rowClass={lineClass}
          onKey={onKey}
          onOpen={open}
          resetKey={`${text} ${resource} ${waitingOnly} ${order}`}
        />
      ) : nodes.length > 0 ? (
        <Empty>No queue matches. Clear the filters above.</Empty>
      ) : overview.meta.queuesDenied ? (
        <Denied text={overview.meta.queuesDenied} />
      ) : (
        <Empty>
          There are no queues yet. <code>pykueue up --example</code> creates two, and <code>kubectl apply</code> your
          own.
        </Empty>
      )}
    </Panel>
  );
}

const lineKey = (line: TreeLine): string => `${line.node.id} ${line.usage.flavor} ${line.usage.resource}`;
const lineClass = (line: TreeLine): string => `${line.first ? "line-first" : ""} line-${line.node.kind}`;

function amounts(usage: Usage): string {
  return `${amountText(usage.used, usage.unit)} / ${amountText(usage.nominal, usage.unit)}`;
}

const some = (value: number | null, usage: Usage): string => (value ? amountText(value, usage.unit) : "");

/** The name of a cohort opens and closes it; that of a queue leads to its page. */
function NodeName({
  line,
  toggle,
  tabIndex,
}: {
  line: TreeLine;
  toggle: (node: TreeNode) => void;
  tabIndex: number;
}): JSX.Element {
  const { node } = line;
  const indent = { "--depth": String(Math.min(node.depth, 8)) };
  if (node.kind === "cohort") {
    return (
      <span class="node" style={indent}>
        <button type="button" class="toggle" tabIndex={tabIndex} aria-expanded={line.open} onClick={() => toggle(node)}>
          <Icon name={line.open ? "open" : "closed"} tone="tone-muted" />
          <Name text={node.name} most={80} />
        </button>
        <span class="muted count">{counted(node.queues, "queue")}</span>
      </span>
    );
  }
  return (
    <span class="node" style={indent}>
      <a href={queueLink(node.name)} tabIndex={tabIndex}>
        <Name text={node.name} most={80} />
      </a>
    </span>
  );
}

function wideColumns(toggle: (node: TreeNode) => void): Column<TreeLine>[] {
  const pending = (line: TreeLine): JSX.Element | string =>
    line.node.pending ? <strong>{line.node.pending.toLocaleString("en-US")}</strong> : "0";
  return [
    {
      id: "node",
      title: "Cohort or queue",
      cell: (line, tab) =>
        line.first ? (
          <NodeName line={line} toggle={toggle} tabIndex={tab} />
        ) : (
          <span class="hidden">
            <Name text={line.node.name} most={80} />
          </span>
        ),
    },
    { id: "flavor", title: "Flavor", cell: (line) => <Name text={line.usage.flavor} most={60} /> },
    {
      id: "resource",
      title: "Resource",
      cell: (line) => (
        <span title={line.usage.resource}>
          <Name text={resourceText(line.usage.resource)} most={40} />
        </span>
      ),
    },
    { id: "bar", title: "Use", cell: (line) => <Bar usage={line.usage} /> },
    { id: "used", title: "Used", numeric: true, cell: (line) => amountText(line.usage.used, line.usage.unit) },
    { id: "nominal", title: "Nominal", numeric: true, cell: (line) => amountText(line.usage.nominal, line.usage.unit) },
    {
      id: "borrowed",
      title: "Borrowed",
      numeric: true,
      optional: true,
      cell: (line) => some(line.usage.borrowed, line.usage),
    },
    { id: "lent", title: "Lent", numeric: true, optional: true, cell: (line) => some(line.usage.lent, line.usage) },
    {
      id: "running",
      title: "Running",
      numeric: true,
      cell: (line) => line.first && line.node.running.toLocaleString("en-US"),
    },
    { id: "pending", title: "Pending", numeric: true, cell: (line) => line.first && pending(line) },
  ];
}

function narrowColumns(toggle: (node: TreeNode) => void): Column<TreeLine>[] {
  return [
    {
      id: "node",
      title: "Cohort or queue",
      cell: (line, tab) => (
        <>
          {line.first ? (
            <NodeName line={line} toggle={toggle} tabIndex={tab} />
          ) : (
            <span class="hidden">
              <Name text={line.node.name} most={80} />
            </span>
          )}
          <span class="second node" style={{ "--depth": String(Math.min(line.node.depth, 8)) }}>
            <Name text={resourceText(line.usage.resource)} most={30} /> · <Name text={line.usage.flavor} most={30} />
            {line.first && line.node.pending > 0 && <> · {line.node.pending.toLocaleString("en-US")} pending</>}
          </span>
        </>
      ),
    },
    {
      id: "narrow-bar",
      title: "Used / nominal",
      numeric: true,
      cell: (line) => (
        <>
          <span>{amounts(line.usage)}</span>
          <Bar usage={line.usage} />
        </>
      ),
    },
  ];
}
