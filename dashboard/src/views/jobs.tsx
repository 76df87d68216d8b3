// The table of all jobs, with filters that are part of the address.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { JobState } from "../api/types";
import { requestsText } from "../model/amounts";
import { choices, ENDED, matching, NO_FILTER } from "../model/filter";
import type { Choice, Filter, JobRow } from "../model/filter";
import { sorted } from "../model/order";
import { jobLink, jobsLink } from "../model/route";
import { counted, printable, shortened } from "../model/text";
import { Actions, allowedVerbs } from "../parts/actions";
import { Table } from "../parts/table";
import type { Column } from "../parts/table";
import { Ago, Denied, Empty, JobLink, Name, QueueLink, State } from "../parts/text";
import { replaceAddress, useNarrow, useTitle } from "../state/hooks";
import { live, useLive } from "../state/live";
import { clusterQueueOf } from "../state/queues";

const FINISHED = "COMPLETED,FAILED,CANCELLED";
const STATES: [string, string][] = [
  ["", "Running and waiting"],
  ["RUNNING", "Running"],
  ["PENDING", "Pending"],
  ["HELD", "Held"],
  ["FAILING", "Failing"],
  ["STOPPING", "Stopping"],
  [FINISHED, "Finished"],
  ["COMPLETED", "Completed"],
  ["FAILED", "Failed"],
  ["CANCELLED", "Cancelled"],
];
/** So many jobs can be selected at once: each is acted on by a call of its own. */
const SELECT_MAX = 200;

export function filterOf(query: URLSearchParams): Filter {
  const filter = { ...NO_FILTER };
  for (const name of Object.keys(filter) as (keyof Filter)[]) filter[name] = query.get(name) ?? "";
  return filter;
}

/** The rows that a filter may concern: those that have ended only if it asks for them. */
function candidates(filter: Filter): JobRow[] {
  const states = filter.state.toUpperCase().split(",").filter(Boolean) as JobState[];
  const ended = states.some((state) => ENDED.has(state));
  const active = states.length === 0 || states.some((state) => !ENDED.has(state));
  return ended ? (active ? [...live.active(), ...live.ended()] : live.ended()) : live.active();
}

export function JobsView({ query }: { query: URLSearchParams }): JSX.Element {
  const { overview, complete, jobsVersion } = useLive("jobs", "overview");
  const filter = filterOf(query);
  const filterKey = JSON.stringify(filter);
  const narrow = useNarrow();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  useTitle("Jobs");
  // Filters keep the order, so that typing does not sort again.
  const all = useMemo(() => sorted(candidates(filter), filter.sort), [filter.state, filter.sort, jobsVersion]);
  const rows = useMemo(() => matching(all, filter), [all, filterKey]);
  const chosen = useMemo(() => rows.filter((row) => selected.has(row.key)), [rows, selected]);
  const change = (part: Partial<Filter>): void => replaceAddress(jobsLink({ ...filter, ...part }));
  const mayAct = allowedVerbs(overview?.meta).length > 0;
  const columns = useMemo(
    () => columnsFor({ narrow, selected, setSelected, rows, mayAct }),
    [narrow, selected, rows, mayAct],
  );
  return (
    <>
      <div class="title-line">
        <h1>Jobs</h1>
        <span class="muted" role="status">
          {countText(rows.length, complete)}
        </span>
        {chosen.length > 0 && (
          <span class="chosen">
            {counted(chosen.length, "job")} selected
            <Actions jobs={chosen} meta={overview?.meta} all />
            <button type="button" class="quiet" onClick={() => setSelected(new Set())}>
              Clear
            </button>
          </span>
        )}
      </div>
      <Filters filter={filter} change={change} version={jobsVersion} />
      {rows.length > 0 ? (
        <Table
          label="Jobs"
          class="fill jobs-table"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.key}
          rowHeight={narrow ? 60 : 30}
          rowClass={(row) => (selected.has(row.key) ? "selected" : "")}
          sort={filter.sort || "state"}
          onSort={(sort) => change({ sort })}
          onOpen={(row) => (location.hash = jobLink(row.namespace, row.name))}
          resetKey={filterKey}
          onKey={(row, key) => key === " " && mayAct && (toggle(row, selected, setSelected), true)}
        />
      ) : (
        <NoJobs filter={filter} complete={complete} denied={overview?.meta.jobsDenied ?? ""} />
      )}
    </>
  );
}

function countText(count: number, complete: boolean): string {
  return complete ? counted(count, "job") : `${counted(count, "job")} so far, loading…`;
}

function NoJobs({ filter, complete, denied }: { filter: Filter; complete: boolean; denied: string }): JSX.Element {
  if (denied) return <Denied text={denied} />;
  if (!complete) return <Empty>The jobs are being loaded…</Empty>;
  const filtered = Object.entries(filter).some(([name, value]) => name !== "sort" && value);
  if (filtered)
    return (
      <Empty>
        No job matches these filters. <a href="#/jobs">Show all that run or wait</a>.
      </Empty>
    );
  return (
    <Empty>
      No job runs or waits. Submit one with <code>pykueue run -q QUEUE -- COMMAND</code>, or look at those that have{" "}
      <a href={jobsLink({ state: FINISHED })}>finished</a>.
    </Empty>
  );
}

interface FiltersProps {
  filter: Filter;
  change: (part: Partial<Filter>) => void;
  version: number;
}

function Filters({ filter, change, version }: FiltersProps): JSX.Element {
  // What occurs is counted only once the reader turns to the filters: that takes as long as a filter itself.
  const [used, setUsed] = useState(0);
  const all = useMemo(() => (used ? candidates(filter) : []), [used, filter.state]);
  const turn = (): void => setUsed(version);
  const queues = useMemo(() => choices(all, clusterQueueOf), [all]);
  const owners = useMemo(() => choices(all, (row) => row.owner ?? ""), [all]);
  const reasons = useMemo(() => choices(all, (row) => row.reasonGroup, 50), [all]);
  const states = STATES.some(([value]) => value === filter.state)
    ? STATES
    : [...STATES, [filter.state, filter.state] as [string, string]];
  const active = [filter.state, filter.queue, filter.owner, filter.reason, filter.text].some(Boolean);
  return (
    <form
      class="filters"
      role="search"
      aria-label="Filter jobs"
      onFocusIn={turn}
      onPointerEnter={turn}
      onSubmit={(event) => event.preventDefault()}
    >
      <label>
        Find{" "}
        <input
          type="search"
          value={filter.text}
          placeholder="name or reason"
          onInput={(event) => change({ text: event.currentTarget.value })}
        />
      </label>
      <label>
        State{" "}
        <select value={filter.state} onChange={(event) => change({ state: event.currentTarget.value })}>
          {states.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <Suggest
        label="Queue"
        name="queue"
        value={filter.queue}
        options={queues}
        onChange={(queue) => change({ queue })}
      />
      <Suggest
        label="Owner"
        name="owner"
        value={filter.owner}
        options={owners}
        onChange={(owner) => change({ owner })}
      />
      <label class="grow">
        Reason{" "}
        <select value={filter.reason} onChange={(event) => change({ reason: event.currentTarget.value })}>
          <option value="">any</option>
          {withValue(reasons, filter.reason).map((one) => (
            <option key={one.value} value={one.value}>
              {shortened(printable(one.value), 90)}
              {one.count > 0 && ` (${one.count})`}
            </option>
          ))}
        </select>
      </label>
      {active && (
        <a class="button quiet" href={jobsLink({ sort: filter.sort })}>
          Clear filters
        </a>
      )}
    </form>
  );
}

function withValue(options: Choice[], value: string): Choice[] {
  return value && !options.some((one) => one.value === value) ? [...options, { value, count: 0 }] : options;
}

interface SuggestProps {
  label: string;
  name: string;
  value: string;
  options: Choice[];
  onChange: (value: string) => void;
}

/** A field with suggestions; it takes effect once it holds one of them, or when it is left. */
function Suggest({ label, name, value, options, onChange }: SuggestProps): JSX.Element {
  const typed = (event: Event): void => {
    const text = (event.target as HTMLInputElement).value;
    if (text === "" || options.some((one) => one.value === text)) onChange(text);
  };
  return (
    <label>
      {label}{" "}
      <input
        type="search"
        list={`${name}-options`}
        value={value}
        placeholder="any"
        onInput={typed}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
      <datalist id={`${name}-options`}>
        {options.slice(0, 100).map((one) => (
          <option key={one.value} value={one.value} />
        ))}
      </datalist>
    </label>
  );
}

function toggle(row: JobRow, selected: ReadonlySet<string>, setSelected: (next: ReadonlySet<string>) => void): void {
  const next = new Set(selected);
  if (!next.delete(row.key) && next.size < SELECT_MAX) next.add(row.key);
  setSelected(next);
}

interface ColumnOptions {
  narrow: boolean;
  selected: ReadonlySet<string>;
  setSelected: (next: ReadonlySet<string>) => void;
  rows: JobRow[];
  mayAct: boolean;
}

function selectColumn({ selected, setSelected, rows }: ColumnOptions): Column<JobRow> {
  const tooMany = rows.length > SELECT_MAX;
  const all = rows.length > 0 && !tooMany && rows.every((row) => selected.has(row.key));
  const toggleAll = (): void => setSelected(all ? new Set() : new Set(rows.map((row) => row.key)));
  return {
    id: "select",
    title: "Select",
    head: () => (
      <input
        type="checkbox"
        checked={all}
        disabled={tooMany}
        onChange={toggleAll}
        aria-label="Select all jobs"
        title={tooMany ? `Filter to ${SELECT_MAX} jobs or fewer to select all of them` : "Select all jobs"}
      />
    ),
    cell: (row, tabIndex) => (
      <input
        type="checkbox"
        tabIndex={tabIndex}
        checked={selected.has(row.key)}
        onChange={() => toggle(row, selected, setSelected)}
        aria-label={`Select ${shortened(printable(row.name), 100)}`}
      />
    ),
  };
}

function StateCell({ row }: { row: JobRow }): JSX.Element {
  return (
    <>
      <State state={row.state} />
      {row.progress && (
        <span class="muted progress">
          {" "}
          <Name text={row.progress} most={16} />
        </span>
      )}
    </>
  );
}

function columnsFor(options: ColumnOptions): Column<JobRow>[] {
  const select = options.mayAct ? [selectColumn(options)] : [];
  const job: Column<JobRow> = {
    id: "job",
    title: "Job",
    sort: "name",
    cell: (row, tab) => <JobLink namespace={row.namespace} name={row.name} tabIndex={tab} />,
  };
  if (options.narrow) {
    const both = (row: JobRow, tab: number): JSX.Element => (
      <>
        <JobLink namespace={row.namespace} name={row.name} tabIndex={tab} />
        <span class="second">
          <StateCell row={row} /> · <Ago at={row.since || row.submitted} /> ·{" "}
          <Name text={row.reason || clusterQueueOf(row)} most={80} />
        </span>
      </>
    );
    return [...select, { ...job, cell: both }];
  }
  return [
    ...select,
    { id: "state", title: "State", sort: "state", cell: (row) => <StateCell row={row} /> },
    job,
    {
      id: "queue",
      title: "Queue",
      sort: "queue",
      cell: (row, tab) => <QueueLink name={clusterQueueOf(row)} tabIndex={tab} />,
    },
    { id: "owner", title: "Owner", optional: true, sort: "owner", cell: (row) => <Name text={row.owner} most={40} /> },
    {
      id: "asks",
      title: "Requests",
      optional: true,
      cell: (row) => <Name text={requestsText(row.requests, row.requestsLeftOut)} most={80} />,
    },
    {
      id: "place",
      title: "Place",
      numeric: true,
      sort: "place",
      cell: (row) => row.place?.toLocaleString("en-US") ?? "",
    },
    { id: "since", title: "For", numeric: true, sort: "since", cell: (row) => <Ago at={row.since || row.submitted} /> },
    { id: "reason", title: "Reason", cell: (row) => <Name text={row.reason} most={160} /> },
  ];
}
