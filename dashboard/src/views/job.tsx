// One job: why it is where it is, its life, its objects and its output.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { estimate, explain, history, logs, objectsOf } from "../api/calls";
import type { FinishedJob, JobObjects, JobSummary, KubeEvent, Moment, Pod } from "../api/types";
import { durationText, requestsText } from "../model/amounts";
import { counted } from "../model/text";
import { clockText } from "../model/times";
import { Actions, allowedVerbs } from "../parts/actions";
import { Icon } from "../parts/icon";
import { Sentences } from "../parts/sentences";
import { PlainTable } from "../parts/plaintable";
import { Ago, Block, Clock, Empty, Name, Panel, Problem, QueueLink, State, Until, Wide, Words } from "../parts/text";
import { useCall, useTitle } from "../state/hooks";
import { useLive } from "../state/live";
import { clusterQueueOf } from "../state/queues";

interface Subject {
  namespace: string;
  name: string;
  /** Changes when the job does, so that calls are made again. */
  version: string;
  /** Whether only the record of the finished job is left. */
  gone: boolean;
}

export function JobView({ namespace, name }: { namespace: string; name: string }): JSX.Element {
  const { overview, complete, ...live } = useJob(namespace, name);
  useTitle(name);
  const { job, finished } = live;
  const version = job ? [job.state, job.since, job.reason, job.place].join(" ") : (finished?.ended ?? "");
  const subject = { namespace, name, version, gone: !job && finished !== null };
  return (
    <>
      <div class="title-line">
        <h1>
          <span class="ns">
            <Name text={namespace} />/
          </span>
          <Name text={name} most={253} />
        </h1>
        {job ? <State state={job.state} /> : finished ? <State state={finished.state} /> : null}
        {job && <Actions jobs={[job]} meta={overview?.meta} />}
      </div>
      {job ? (
        <ActiveFacts job={job} />
      ) : finished ? (
        <FinishedFacts job={finished} />
      ) : (
        complete && <p class="muted">The job is not among those that run or wait, nor among the last finished ones.</p>
      )}
      <div class="two">
        <WhyPanel
          subject={subject}
          waits={job?.state === "PENDING"}
          releasable={job?.reason === "held by its owner" && allowedVerbs(overview?.meta).includes("release")}
        />
        <LifePanel subject={subject} />
      </div>
      <ObjectsPanel subject={subject} mayReadLogs={overview?.meta.can.logs ?? false} />
    </>
  );
}

function useJob(
  namespace: string,
  name: string,
): {
  overview: ReturnType<typeof useLive>["overview"];
  complete: boolean;
  job: JobSummary | null;
  finished: FinishedJob | null;
} {
  const state = useLive("jobs", "overview");
  const job = state.job(namespace, name);
  return {
    overview: state.overview,
    complete: state.complete,
    job,
    finished: job ? null : state.finishedJob(namespace, name),
  };
}

function Facts({ items }: { items: [string, ComponentChildren][] }): JSX.Element {
  return (
    <dl class="facts">
      {items.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function ActiveFacts({ job }: { job: JobSummary }): JSX.Element {
  const waits = job.state === "PENDING" || job.state === "HELD";
  const items: [string, ComponentChildren][] = [
    ["Queue", <QueueLink name={clusterQueueOf(job)} />],
    ["Owner", <Name text={job.owner || "–"} />],
    ["Requests", <Name text={requestsText(job.requests, job.requestsLeftOut) || "–"} />],
    [waits ? "Waiting for" : "Running for", <Ago at={job.since || job.submitted} />],
  ];
  if (job.place) items.push(["Place", job.place.toLocaleString("en-US")]);
  // Such as a pod for which the machine has no room, although the job has its quota.
  if (!waits && job.reason) items.push(["Problem", <Name text={job.reason} most={200} />]);
  if (job.progress) items.push(["Tasks done", <Name text={job.progress} />]);
  if (job.gpus?.length) items.push(["GPUs", job.gpus.join(", ")]);
  if (job.deadline) items.push(["Time limit ends in", <Until at={job.deadline} />]);
  else if (job.limitSeconds) items.push(["Time limit", durationText(job.limitSeconds)]);
  return <Facts items={items} />;
}

function FinishedFacts({ job }: { job: FinishedJob }): JSX.Element {
  const items: [string, ComponentChildren][] = [
    ["Queue", <QueueLink name={clusterQueueOf(job)} />],
    ["Owner", <Name text={job.owner || "–"} />],
    ["Requested", <Name text={requestsText(job.requests) || "–"} />],
    ["Ended", <Clock at={job.ended} />],
    ["Waited", durationText(job.waitedSeconds ?? 0)],
    ["Ran", durationText(job.ranSeconds ?? 0)],
  ];
  if (typeof job.exitCode === "number") items.push(["Exit code", String(job.exitCode)]);
  if (job.preempted)
    items.push(["Preempted", `${counted(job.preempted, "time")}, ${durationText(job.lostSeconds ?? 0)} of work lost`]);
  if (job.reason) items.push(["Reason", <Name text={job.reason} most={300} />]);
  return <Facts items={items} />;
}

interface WhyPanelProps {
  subject: Subject;
  waits: boolean;
  /** Whether its owner holds it, and the reader may release it. */
  releasable: boolean;
}

function WhyPanel({ subject, waits, releasable }: WhyPanelProps): JSX.Element {
  const { namespace, name, version } = subject;
  const found = useCall(version, (signal) => explain("job", namespace, name, signal));
  return (
    <Panel title="Why" id="why-title">
      {releasable ? (
        <p class="answer">Held. Press Release to queue it again.</p>
      ) : found.value?.object.tree ? (
        <Sentences tree={found.value.object.tree} subject={name} />
      ) : found.value ? (
        <Block text={found.value.lines.join("\n")} label="Explanation" />
      ) : found.error ? (
        <Problem text={found.error} />
      ) : (
        <Empty>Asking the scheduler…</Empty>
      )}
      {found.value?.note && (
        <p class="muted">
          <Name text={found.value.note} most={500} />.
        </p>
      )}
      {waits && <EtaLine subject={subject} />}
    </Panel>
  );
}

function EtaLine({ subject }: { subject: Subject }): JSX.Element {
  const { namespace, name, version } = subject;
  const found = useCall(version, (signal) => estimate(namespace, name, signal));
  const message = found.value?.message || found.value?.reason;
  return (
    <p class="eta">
      <Icon name="pending" tone="tone-wait" />
      <span>
        <strong>Estimated start:</strong>{" "}
        {message ? (
          <Words text={message} most={1000} />
        ) : found.error ? (
          <Name text={found.error} most={500} />
        ) : (
          "estimating…"
        )}
      </span>
    </p>
  );
}

/** The word, the icon and its tone for what can happen in the life of a job, as the server calls it in lower case. */
const MOMENTS: Record<string, [string, string, string]> = {
  submitted: ["submitted", "submitted", "tone-muted"],
  wait: ["queued", "pending", "tone-wait"],
  queued: ["queued", "pending", "tone-wait"],
  reserve: ["quota reserved", "dot", "tone-own"],
  reserved: ["quota reserved", "dot", "tone-own"],
  unreserve: ["quota released", "preempted", "tone-muted"],
  check: ["check", "dot", "tone-muted"],
  admit: ["admitted", "running", "tone-own"],
  admitted: ["admitted", "running", "tone-own"],
  started: ["started", "running", "tone-own"],
  evict: ["evicted", "preempted", "tone-bad"],
  evicted: ["evicted", "preempted", "tone-bad"],
  preempted: ["preempted", "preempted", "tone-bad"],
  requeue: ["queued again", "pending", "tone-wait"],
  requeued: ["queued again", "pending", "tone-wait"],
  deactivate: ["deactivated", "held", "tone-muted"],
  held: ["held", "held", "tone-muted"],
  released: ["released", "pending", "tone-wait"],
  finish: ["finished", "stopping", "tone-muted"],
  finished: ["finished", "stopping", "tone-muted"],
  completed: ["completed", "completed", "tone-good"],
  failed: ["failed", "failed", "tone-bad"],
  cancelled: ["cancelled", "cancelled", "tone-muted"],
};

function LifePanel({ subject }: { subject: Subject }): JSX.Element {
  const { namespace, name, version } = subject;
  const found = useCall(version, (signal) => history(namespace, name, signal));
  const items = found.value?.items;
  return (
    <Panel title="Timeline" id="life-title">
      {items?.length ? (
        <ol class="life">
          {found.value?.older && (
            <li class="muted">
              <span />
              <span>What was before is no longer recorded.</span>
            </li>
          )}
          {items.map((moment, index) => (
            <MomentItem key={index} moment={moment} before={items[index - 1]} />
          ))}
        </ol>
      ) : found.error && !subject.gone ? (
        <Problem text={found.error} />
      ) : (
        <Empty>{found.loading ? "Asking for its history…" : "Nothing is recorded of this job yet."}</Empty>
      )}
    </Panel>
  );
}

function MomentItem({ moment, before }: { moment: Moment; before: Moment | undefined }): JSX.Element {
  const [word, icon, tone] = MOMENTS[moment.what.toLowerCase()] ?? [moment.what, "dot", "tone-muted"];
  const after = before ? (Date.parse(moment.at) - Date.parse(before.at)) / 1000 : 0;
  return (
    <li>
      <span class="life-mark">
        <Icon name={icon} tone={tone} />
      </span>
      <div>
        <p class="life-head">
          <strong>
            <Name text={word} most={60} />
          </strong>{" "}
          <time dateTime={moment.at}>{clockText(moment.at, true)}</time>
          {after >= 1 && <span class="muted"> after {durationText(after)}</span>}
        </p>
        {moment.text && moment.text !== word && (
          <p>
            <Words text={moment.text} most={1000} />
          </p>
        )}
      </div>
    </li>
  );
}

const TABS: [string, string][] = [
  ["pods", "Pods"],
  ["events", "Events"],
  ["job", "Job"],
  ["workload", "Workload"],
  ["logs", "Logs"],
];

function ObjectsPanel({ subject, mayReadLogs }: { subject: Subject; mayReadLogs: boolean }): JSX.Element {
  const [tab, setTab] = useState("pods");
  const { namespace, name, version } = subject;
  const found = useCall(version, (signal) => objectsOf(namespace, name, signal));
  const tabs = TABS.filter(([id]) => id !== "logs" || mayReadLogs);
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const index = (tabs.findIndex(([id]) => id === tab) + step + tabs.length) % tabs.length;
    setTab(tabs[index]?.[0] ?? "pods");
    document.getElementById(`tab-${tabs[index]?.[0] ?? ""}`)?.focus();
  };
  return (
    <section class="panel" aria-label="Objects of the job">
      <div class="tabs" role="tablist" aria-label="Objects of the job" onKeyDown={onKeyDown}>
        {tabs.map(([id, label]) => (
          <button
            key={id}
            id={`tab-${id}`}
            type="button"
            role="tab"
            aria-selected={tab === id}
            aria-controls="tab-panel"
            tabIndex={tab === id ? 0 : -1}
            onClick={() => setTab(id)}
          >
            {label}
          </button>
        ))}
      </div>
      <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${tab}`} class="tab-panel">
        {tab === "logs" ? (
          <Logs subject={subject} />
        ) : found.error && subject.gone ? (
          <Empty>The Job and its pods are deleted; only its record is left.</Empty>
        ) : found.error && !found.value ? (
          <Problem text={found.error} />
        ) : found.value ? (
          <Objects tab={tab} found={found.value} />
        ) : (
          <Empty>Loading…</Empty>
        )}
      </div>
    </section>
  );
}

function Objects({ tab, found }: { tab: string; found: JobObjects }): JSX.Element {
  if (tab === "pods") return <Pods pods={found.pods ?? []} />;
  if (tab === "events") return <Events events={found.events ?? []} />;
  const text = tab === "job" ? found.job : found.workload;
  return text ? (
    <Block text={text} label={tab === "job" ? "The Job as YAML" : "The Workload as YAML"} />
  ) : (
    <Empty>It does not exist, or you may not read it.</Empty>
  );
}

/** How a pod ended; empty while it has not. */
function podEnd(pod: Pod): string {
  const code = typeof pod.exitCode === "number" ? `exit code ${pod.exitCode}` : "";
  return [code, pod.message].filter(Boolean).join(": ");
}

function Pods({ pods }: { pods: Pod[] }): JSX.Element {
  if (!pods.length) return <Empty>It has no pods now.</Empty>;
  return (
    <Wide label="Pods">
      <PlainTable heads={["Pod", "Phase", "Node", "Started", "Ended"]}>
        {pods.map((pod) => (
          <tr key={pod.name}>
            <td>
              <Name text={pod.name} />
            </td>
            <td>
              <Name text={pod.phase} />
            </td>
            <td>
              <Name text={pod.node} />
            </td>
            <td>
              <Clock at={pod.started} seconds />
            </td>
            <td>
              <Clock at={pod.ended} seconds /> <Name text={podEnd(pod)} most={300} />
            </td>
          </tr>
        ))}
      </PlainTable>
    </Wide>
  );
}

function Events({ events }: { events: KubeEvent[] }): JSX.Element {
  if (!events.length) return <Empty>There are no events; the server keeps them for an hour.</Empty>;
  return (
    <Wide label="Events">
      <PlainTable heads={["Time", "Type", "Of", "Reason", "Message"]}>
        {events.map((event, index) => (
          <tr key={index}>
            <td>
              <Clock at={event.at} seconds />
            </td>
            <td>
              <Name text={event.type} />
            </td>
            <td>
              <Name text={event.about} />
            </td>
            <td>
              <Name text={event.reason} />
            </td>
            <td class="wrap">
              <Name text={event.text} most={1000} />
            </td>
          </tr>
        ))}
      </PlainTable>
    </Wide>
  );
}

function Logs({ subject }: { subject: Subject }): JSX.Element {
  const [count, setCount] = useState(0);
  const { namespace, name, version } = subject;
  const found = useCall(`${version} ${count}`, (signal) => logs(namespace, name, signal));
  return (
    <>
      <div class="filters">
        <button type="button" onClick={() => setCount(count + 1)} disabled={found.loading}>
          {found.loading ? "Loading…" : "Load again"}
        </button>
        <span class="muted">the last 1,000 lines</span>
      </div>
      {found.error ? (
        <Problem text={found.error} />
      ) : found.value ? (
        <Block text={found.value} label="Output of the job" />
      ) : (
        <Empty>{found.loading ? "Loading…" : "It has written nothing yet."}</Empty>
      )}
    </>
  );
}
