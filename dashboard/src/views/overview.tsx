// The first screen: is it full, who waits longest and why, what starts next.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Change, Counts, JobSummary, Overview } from "../api/types";
import { amountText, percent, requestsText, resourceText } from "../model/amounts";
import { keyOf } from "../model/filter";
import { jobsLink } from "../model/route";
import { seriesOf } from "../model/series";
import { counted } from "../model/text";
import { now } from "../model/times";
import { totals, treeOf } from "../model/tree";
import type { Total } from "../model/tree";
import { Meter } from "../parts/bar";
import { Eta } from "../parts/eta";
import { Icon } from "../parts/icon";
import { PlainTable } from "../parts/plaintable";
import { Plot } from "../parts/plot";
import { QuotaPanel } from "../parts/quota";
import { Ago, Clock, Denied, Empty, JobLink, Name, Panel, QueueLink, Words } from "../parts/text";
import { useEstimates } from "../state/estimates";
import { useTitle } from "../state/hooks";
import { live, useLive } from "../state/live";
import { clusterQueueOf } from "../state/queues";

const LISTED = 4;
const ESTIMATED = 3;
const CHANGES_SHOWN = 25;
const SERIES_HOURS = 6;
const SERIES_MIN_SECONDS = 1800;
const SERIES_MILLIS = 10_000;
/** How many finished jobs the server sends at first. */
const FINISHED_SENT = 500;

export function OverviewView(): JSX.Element {
  const { overview } = useLive("overview");
  useTitle("Overview");
  if (!overview) return <></>;
  const denied = overview.meta.jobsDenied ?? "";
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Notes notes={overview.meta.notes} />
      {!denied && <CountStrip counts={overview.counts} />}
      <div class="three">
        <FullPanel overview={overview} />
        <LongestPanel jobs={overview.longest} pending={overview.counts.pending} denied={denied} />
        <NextPanel jobs={overview.next} pending={overview.counts.pending} denied={denied} />
      </div>
      <QuotaPanel overview={overview} />
      <div class="two">
        <ChangesPanel changes={overview.changes} denied={denied} />
        {!denied && <SeriesPanel />}
      </div>
    </>
  );
}

function Notes({ notes }: { notes: string[] }): JSX.Element | null {
  if (!notes.length) return null;
  return (
    <ul class="notes">
      {notes.map((note) => (
        <li key={note}>
          <Name text={note} most={500} />
        </li>
      ))}
    </ul>
  );
}

function CountStrip({ counts }: { counts: Counts }): JSX.Element {
  const items: [string, number, string][] = [
    ["Running", counts.running, "RUNNING"],
    ["Pending", counts.pending, "PENDING"],
    ["Held", counts.held, "HELD"],
    ["Failing", counts.failing, "FAILING"],
    ["Finished in the last hour", counts.finishedLastHour, "COMPLETED,FAILED,CANCELLED"],
  ];
  return (
    <ul class="counts" aria-label="Jobs by state">
      {items.map(([label, count, state]) => (
        <li key={label}>
          <a href={jobsLink({ state })} class={state === "FAILING" && count ? "count-bad" : ""}>
            <strong>{count.toLocaleString("en-US")}</strong> <span>{label}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}

const NAMES: Record<string, string> = { cpu: "CPU", gpu: "GPU" };

/** "CPU and GPU are", "memory is". */
function subject(some: readonly Total[]): string {
  const names = some.map((total) => resourceText(total.resource)).map((name) => NAMES[name] ?? name);
  const last = names.pop() ?? "";
  return names.length ? `${names.join(", ")} and ${last} are` : `${last} is`;
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** One sentence: which resources are used up, and what is free of the others. */
export function fullSentence(all: readonly Total[]): string {
  const known = all.filter((total) => total.nominal > 0);
  const full = known.filter((total) => total.used >= total.nominal);
  if (!known.length) return "No quotas are known.";
  if (full.length === known.length) return "Yes: all quota is in use.";
  if (full.length)
    return `${capital(subject(full))} full; ${subject(known.filter((total) => !full.includes(total)))} free.`;
  const highest = known.reduce((left, right) => (right.used / right.nominal > left.used / left.nominal ? right : left));
  return highest.used
    ? `No: of ${resourceText(highest.resource)}, ${percent(highest.used, highest.nominal)} % is in use.`
    : "No: nothing is in use.";
}

function FullPanel({ overview }: { overview: Overview }): JSX.Element {
  const all = useMemo(() => totals(treeOf(overview.queues)), [overview.queues]);
  return (
    <Panel title="Is it full?" id="full-title">
      <p class="answer">
        <Name text={fullSentence(all)} most={300} />
      </p>
      <PlainTable heads={["Resource", "Use", "In use", "Free"]} class="meters" hideHeads>
        {all.slice(0, 6).map((total) => (
          <TotalRow key={total.resource} total={total} />
        ))}
      </PlainTable>
    </Panel>
  );
}

function TotalRow({ total }: { total: Total }): JSX.Element {
  const text = (value: number): string => amountText(value, total.unit);
  const free = Math.max(0, total.nominal - total.used);
  return (
    <tr>
      <th scope="row" title={total.resource}>
        <Name text={resourceText(total.resource)} most={24} />
      </th>
      <td class="meter-cell">
        {total.known && (
          <Meter part={total.used} whole={total.nominal} label={`${percent(total.used, total.nominal)} % in use`} />
        )}
      </td>
      <td class="num">
        {total.known ? `${text(total.used)} of ${text(total.nominal)}` : `${text(total.used)} in use`}
      </td>
      <td class="num">{total.nominal > 0 && (free ? `${text(free)} free` : "full")}</td>
    </tr>
  );
}

function JobItem({ job, end }: { job: JobSummary; end: JSX.Element }): JSX.Element {
  return (
    <li>
      <div class="item-main">
        <JobLink namespace={job.namespace} name={job.name} />
        <span class="num">{end}</span>
      </div>
      <div class="item-why">
        <QueueLink name={clusterQueueOf(job)} />{" "}
        <span class="muted">
          <Name text={requestsText(job.requests, job.requestsLeftOut)} most={100} />
        </span>
        {job.reason && (
          <p class="reason">
            <Words text={job.reason} most={160} />
          </p>
        )}
      </div>
    </li>
  );
}

interface JobsProps {
  jobs: JobSummary[];
  pending: number;
  /** That the reader may list no jobs; empty if some may be listed. */
  denied: string;
}

function LongestPanel({ jobs, pending, denied }: JobsProps): JSX.Element {
  const all = pending > LISTED && (
    <a href={jobsLink({ state: "PENDING", sort: "since" })}>all {pending.toLocaleString("en-US")}</a>
  );
  return (
    <Panel title="Who waits longest, and why?" id="longest-title" aside={all}>
      {denied ? (
        <Denied text={denied} />
      ) : jobs.length === 0 ? (
        <Empty>No job waits.</Empty>
      ) : (
        <ol class="items">
          {jobs.slice(0, LISTED).map((job) => (
            <JobItem key={keyOf(job)} job={job} end={<Ago at={job.since || job.submitted} />} />
          ))}
        </ol>
      )}
    </Panel>
  );
}

function NextPanel({ jobs, pending, denied }: JobsProps): JSX.Element {
  const shown = jobs.slice(0, LISTED);
  const answers = useEstimates(shown.slice(0, ESTIMATED).map(keyOf));
  return (
    <Panel
      title="What starts next?"
      id="next-title"
      aside={jobs.length > 0 && <span class="muted">next in line of their queues</span>}
    >
      {denied ? (
        <Denied text={denied} />
      ) : shown.length === 0 ? (
        <Empty>
          {pending ? "No job is at the head of a queue." : "Nothing waits: a new job starts at once if there is room."}
        </Empty>
      ) : (
        <ol class="items">
          {shown.map((job, index) => (
            <JobItem
              key={keyOf(job)}
              job={job}
              end={
                index < ESTIMATED ? (
                  <Eta answers={answers} job={keyOf(job)} />
                ) : (
                  <span class="muted">place {job.place ?? "?"}</span>
                )
              }
            />
          ))}
        </ol>
      )}
    </Panel>
  );
}

const KINDS: Record<string, [string, string]> = {
  started: ["running", "tone-own"],
  finished: ["completed", "tone-good"],
  failed: ["failed", "tone-bad"],
  preempted: ["preempted", "tone-wait"],
  evicted: ["preempted", "tone-wait"],
  held: ["held", "tone-muted"],
  submitted: ["submitted", "tone-muted"],
  cancelled: ["cancelled", "tone-muted"],
};

function ChangesPanel({ changes, denied }: { changes: Change[]; denied: string }): JSX.Element {
  const [all, setAll] = useState(false);
  const shown = all ? changes : changes.slice(0, CHANGES_SHOWN);
  return (
    <Panel
      title="Changes in the last hour"
      id="changes-title"
      aside={<span class="muted">{changes.length >= 200 ? "the last 200" : changes.length || ""}</span>}
    >
      {denied ? (
        <Denied text={denied} />
      ) : changes.length === 0 ? (
        <Empty>Nothing has changed in the last hour.</Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="List of changes">
          <ol class="changes">
            {shown.map((change) => (
              <ChangeItem key={`${change.at} ${change.kind} ${change.namespace}/${change.job}`} change={change} />
            ))}
          </ol>
          {changes.length > shown.length && (
            <button type="button" class="quiet" onClick={() => setAll(true)}>
              Show all {changes.length}
            </button>
          )}
        </div>
      )}
    </Panel>
  );
}

function ChangeItem({ change }: { change: Change }): JSX.Element {
  const [icon, tone] = KINDS[change.kind] ?? ["dot", "tone-muted"];
  return (
    <li>
      <Clock at={change.at} />
      <span class="kind">
        <Icon name={icon} tone={tone} />
        <Name text={change.kind} most={20} />
      </span>
      <span class="what">
        <JobLink namespace={change.namespace} name={change.job} />
        {change.queue && (
          <>
            {" "}
            in <QueueLink name={change.queue} />
          </>
        )}
        {change.text && (
          <span class="muted">
            {" "}
            <Words text={change.text} most={160} />
          </span>
        )}
      </span>
    </li>
  );
}

/** From when on the plot is complete and has something to show, in seconds. */
function seriesStart(until: number): number {
  const finished = [...live.finishedJobs()];
  const times = (texts: (string | undefined)[]): number[] =>
    texts.map((text) => Date.parse(text ?? "") / 1000).filter(Boolean);
  // The server sends so many finished jobs at most: before the end of the oldest of them, others ran that are unknown.
  const known = finished.length < FINISHED_SENT ? 0 : Math.min(...times(finished.map((job) => job.ended)));
  let first = Math.min(until - SERIES_MIN_SECONDS, ...times(finished.map((job) => job.submitted)));
  for (const job of live.active()) if (job.submittedMillis) first = Math.min(first, job.submittedMillis / 1000);
  return Math.max(until - SERIES_HOURS * 3600, known, first);
}

/** "and the last 60 finished jobs"; empty if there are none. */
function finishedText(count: number): string {
  if (!count) return "";
  return count === 1 ? " and the last finished job" : ` and the last ${counted(count, "finished job")}`;
}

function SeriesPanel(): JSX.Element {
  // The plot covers hours: it need not follow every change.
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => setTick((count) => count + 1), SERIES_MILLIS);
    const end = live.subscribe("jobs", () => live.complete && setTick((count) => count || 1));
    return () => {
      window.clearInterval(timer);
      end();
    };
  }, []);
  const series = useMemo(() => {
    const until = now() / 1000;
    return live.complete ? seriesOf(live.active(), live.finishedJobs(), seriesStart(until), until) : null;
  }, [tick]);
  const peak = (values: number[]): string =>
    values.reduce((left, right) => Math.max(left, right), 0).toLocaleString("en-US");
  const last = (values: number[]): string => (values.at(-1) ?? 0).toLocaleString("en-US");
  return (
    <Panel title="Running and waiting jobs over time" id="series-title">
      {series ? (
        <figure>
          <Plot series={series} label="Plot of running and waiting jobs over time" />
          <figcaption>
            <ul class="legend">
              <li>
                <span class="line-own" /> running: {last(series.running)} now, {peak(series.running)} at most
              </li>
              <li>
                <span class="line-dashed" /> waiting: {last(series.waiting)} now, {peak(series.waiting)} at most
              </li>
            </ul>
            <p class="muted">
              From the jobs that exist{finishedText([...live.finishedJobs()].length)}; of a preempted job only the last
              run is known.
            </p>
          </figcaption>
        </figure>
      ) : (
        <Empty>The jobs are being loaded…</Empty>
      )}
    </Panel>
  );
}
