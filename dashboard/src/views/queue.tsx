// One queue: its quota, its line, who runs, who borrows, its rules in words.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { explain } from "../api/calls";
import type { Explanation, Neighbour, Policy, Usage } from "../api/types";
import { amountText, requestsText, resourceText } from "../model/amounts";
import { keyOf } from "../model/filter";
import type { JobRow } from "../model/filter";
import { jobLink, jobsLink, whatIfLink } from "../model/route";
import { counted } from "../model/text";
import { Bar } from "../parts/bar";
import { Eta } from "../parts/eta";
import { Icon } from "../parts/icon";
import { num, PlainTable } from "../parts/plaintable";
import { Sentences } from "../parts/sentences";
import { Table } from "../parts/table";
import type { Column } from "../parts/table";
import { Ago, Denied, Empty, JobLink, Name, Panel, Problem, QueueLink, State, Until, Wide } from "../parts/text";
import { useEstimates } from "../state/estimates";
import { useCall, useNarrow, useTitle } from "../state/hooks";
import { useLive } from "../state/live";
import { clusterQueueOf } from "../state/queues";

/** Estimates are costly, so only the head of the line gets them. */
const ESTIMATED = 8;
const WAITING = new Set(["PENDING", "HELD"]);

export function QueueView({ name }: { name: string }): JSX.Element {
  const state = useLive("jobs", "overview");
  const { overview, complete, jobsVersion } = state;
  useTitle(name);
  const mine = useMemo(
    () => state.active().filter((job) => clusterQueueOf(job) === name),
    [name, jobsVersion, overview?.policies],
  );
  const waiting = useMemo(() => mine.filter((job) => WAITING.has(job.state)).sort(inLine), [mine]);
  const running = useMemo(
    () => mine.filter((job) => !WAITING.has(job.state)).sort((left, right) => left.sinceMillis - right.sinceMillis),
    [mine],
  );
  const usages = overview?.queues.filter((row) => row.kind !== "cohort" && row.name === name) ?? [];
  const policy = overview?.policies[name];
  const meta = overview?.meta;
  const unlisted = !usages.length && !policy;
  // A name that no ClusterQueue has is that of a LocalQueue if jobs have it, or if ClusterQueues may not be read.
  const local = usages[0]?.kind === "localqueue" || (unlisted && (mine.length > 0 || meta?.readsQuotas === false));
  const namespace = local ? (mine[0]?.namespace ?? meta?.home ?? "") : "";
  const found = useCall(`${local} ${namespace} ${usages[0]?.running ?? 0} ${usages[0]?.pending ?? 0}`, (signal) =>
    explain(local ? "localqueue" : "clusterqueue", namespace, name, signal),
  );
  const denied = meta?.jobsDenied ?? "";
  const others = meta?.namespace
    ? {
        waiting: rest(
          found.value?.object.pending?.count ?? (local ? undefined : usages[0]?.pending),
          waiting.filter((job) => job.state === "PENDING").length,
        ),
        running: rest(found.value?.object.holding ?? (local ? undefined : usages[0]?.running), running.length),
      }
    : {};
  if (overview && complete && unlisted && !mine.length && (found.error || meta?.queuesDenied))
    return <NoQueue name={name} problem={found.error} denied={meta?.queuesDenied ?? ""} />;
  return (
    <>
      <div class="title-line">
        <h1>
          <Name text={name} most={253} />
        </h1>
        <span class="muted">
          {local ? (
            "LocalQueue"
          ) : policy?.cohort ? (
            <>
              ClusterQueue in cohort <Name text={policy.cohort} />
            </>
          ) : (
            "ClusterQueue without a cohort"
          )}
        </span>
        {policy?.stopPolicy && policy.stopPolicy !== "None" && (
          <span class="tag tag-bad">
            <Icon name="held" /> stopped: <Name text={policy.stopPolicy} />
          </span>
        )}
        {!local && (
          <a class="button" href={whatIfLink([], name)}>
            What if…
          </a>
        )}
      </div>
      <UsagePanel usages={usages} policy={policy} />
      <LinePanel jobs={waiting} name={name} complete={complete} others={others.waiting} denied={denied} />
      <RunningPanel jobs={running} name={name} complete={complete} others={others.running} denied={denied} />
      <div class="two">
        <BorrowPanel found={found.value?.object ?? null} error={found.error} policy={policy} />
        <RulesPanel policy={policy} mayRead={meta?.readsQuotas !== false} />
      </div>
      {found.value?.object.tree && (
        <Panel title="Explanation" id="explain-title">
          <Sentences tree={found.value.object.tree} subject={name} />
        </Panel>
      )}
    </>
  );
}

/** How many jobs of all are those of others; null if that is not known. */
const rest = (all: number | undefined, own: number): number | null =>
  all === undefined ? null : Math.max(0, all - own);

/** "3 jobs", or of a user who may list only own jobs "1 of yours, 2 of others". */
function ownText(count: number, others: number | null | undefined): string {
  if (others === undefined) return counted(count, "job");
  return others === null ? `${count} of yours` : `${count} of yours, ${others.toLocaleString("en-US")} of others`;
}

/** What is said in place of an empty table. */
function noneText(others: number | null | undefined, none: string, verb: string, verbs: string): string {
  if (others === undefined) return none;
  if (others === null) return `None of your jobs ${verb} in this queue. Those of others are not listed.`;
  return others
    ? `None of your jobs ${verb} in this queue; ${counted(others, "job")} of others ${others === 1 ? verb : verbs}.`
    : none;
}

interface QueueJobs {
  jobs: JobRow[];
  name: string;
  complete: boolean;
  /** How many of others there are; null if that is not known, undefined if all jobs are listed. */
  others: number | null | undefined;
  /** That the reader may list no jobs; empty if some may be listed. */
  denied: string;
}

interface JobsPanelProps extends QueueJobs {
  id: string;
  title: string;
  /** What the table is for screen readers. */
  label: string;
  columns: Column<JobRow>[];
  /** The filter of the page of jobs that lists the same. */
  filter: { state: string; sort?: string };
  /** What is said if there are none, and what one job and several do. */
  none: [text: string, verb: string, verbs: string];
}

/** Jobs of the queue in a table, or why there are none. */
function JobsPanel(props: JobsPanelProps): JSX.Element {
  const { jobs, name, others } = props;
  const narrow = useNarrow();
  const aside = <a href={jobsLink({ ...props.filter, queue: name })}>{ownText(jobs.length, others)}</a>;
  return (
    <Panel title={props.title} id={props.id} aside={jobs.length > 0 && aside}>
      {props.denied ? (
        <Denied text={props.denied} />
      ) : jobs.length === 0 ? (
        <Empty>{props.complete ? noneText(others, ...props.none) : "The jobs are being loaded…"}</Empty>
      ) : (
        <Table
          label={props.label}
          class="line-table"
          columns={props.columns}
          rows={jobs}
          rowKey={(job) => job.key}
          rowHeight={narrow ? 60 : 30}
          onOpen={(job) => (location.hash = jobLink(job.namespace, job.name))}
        />
      )}
    </Panel>
  );
}

/** The scheduler says so in its reason; an estimate of such a job would take long and say the same. */
const neverStarts = (job: JobRow): boolean => job.reason?.startsWith("can never start") ?? false;

/** By place; jobs that have none, such as held ones, come last. */
const inLine = (left: JobRow, right: JobRow): number =>
  (left.place ?? 1e9) - (right.place ?? 1e9) || left.sinceMillis - right.sinceMillis;

function NoQueue({ name, problem, denied }: { name: string; problem: string; denied: string }): JSX.Element {
  return (
    <div class="empty">
      <h1>
        {denied ? "Queue" : "No queue"} <Name text={name} />
      </h1>
      {denied ? <Denied text={denied} /> : <Problem text={problem} />}
      <p>
        <a href="#/">Go to the overview</a>, which lists all queues that you may see.
      </p>
    </div>
  );
}

function UsagePanel({ usages, policy }: { usages: Usage[]; policy: Policy | undefined }): JSX.Element {
  const limit = (usage: Usage, which: "borrowingLimit" | "lendingLimit"): string => {
    const found = policy?.limits?.find((one) => one.flavor === usage.flavor && one.resource === usage.resource)?.[
      which
    ];
    return found || (policy?.cohort ? "none" : "–");
  };
  return (
    <Panel title="Quota" id="usage-title">
      {usages.length === 0 ? (
        <Empty>No quota of this queue is known to you.</Empty>
      ) : (
        <Wide label="Quota">
          <PlainTable
            heads={[
              "Flavor",
              "Resource",
              ["Use", "usage-bar"],
              num("Used"),
              num("Nominal"),
              num("Borrowed"),
              num("Borrowing limit"),
              num("Lending limit"),
            ]}
            class="usage"
          >
            {usages.map((usage) => (
              <tr key={`${usage.flavor} ${usage.resource}`}>
                <td>
                  <Name text={usage.flavor} />
                </td>
                <td title={usage.resource}>
                  <Name text={resourceText(usage.resource)} />
                </td>
                <td class="usage-bar">
                  <Bar usage={usage} />
                </td>
                <td class="num">{amountText(usage.used, usage.unit)}</td>
                <td class="num">{amountText(usage.nominal, usage.unit)}</td>
                <td class="num">{usage.borrowed ? amountText(usage.borrowed, usage.unit) : "0"}</td>
                <td class="num">
                  <Name text={limit(usage, "borrowingLimit")} />
                </td>
                <td class="num">
                  <Name text={limit(usage, "lendingLimit")} />
                </td>
              </tr>
            ))}
          </PlainTable>
        </Wide>
      )}
    </Panel>
  );
}

function LinePanel(props: QueueJobs): JSX.Element {
  const narrow = useNarrow();
  const head = props.jobs
    .slice(0, ESTIMATED)
    .filter((job) => job.state === "PENDING" && !neverStarts(job))
    .map(keyOf);
  const answers = useEstimates(head);
  const asked = new Set(head);
  const eta = (job: JobRow): JSX.Element =>
    asked.has(job.key) ? (
      <Eta answers={answers} job={job.key} />
    ) : neverStarts(job) ? (
      <span class="muted">never</span>
    ) : (
      <a href={jobLink(job.namespace, job.name)} tabIndex={-1} class="muted">
        see job
      </a>
    );
  const columns: Column<JobRow>[] = narrow
    ? [
        { id: "place", title: "Place", numeric: true, cell: (job) => job.place ?? "–" },
        {
          id: "job",
          title: "Job",
          cell: (job, tab) => (
            <>
              <JobLink namespace={job.namespace} name={job.name} tabIndex={tab} />
              <span class="second">
                <Ago at={job.since || job.submitted} /> ·{" "}
                {asked.has(job.key) && (
                  <>
                    <Eta answers={answers} job={job.key} /> ·{" "}
                  </>
                )}
                <Name text={job.reason} most={100} />
              </span>
            </>
          ),
        },
      ]
    : [
        { id: "place", title: "Place", numeric: true, cell: (job) => job.place?.toLocaleString("en-US") ?? "–" },
        {
          id: "job",
          title: "Job",
          cell: (job, tab) => <JobLink namespace={job.namespace} name={job.name} tabIndex={tab} />,
        },
        { id: "owner", title: "Owner", optional: true, cell: (job) => <Name text={job.owner} most={40} /> },
        {
          id: "asks",
          title: "Requests",
          optional: true,
          cell: (job) => <Name text={requestsText(job.requests, job.requestsLeftOut)} most={80} />,
        },
        { id: "since", title: "Waiting for", numeric: true, cell: (job) => <Ago at={job.since || job.submitted} /> },
        { id: "eta", title: "Estimated start", cell: eta },
        {
          id: "reason",
          title: "Reason",
          cell: (job) => (job.state === "HELD" ? <State state="HELD" /> : <Name text={job.reason} most={160} />),
        },
      ];
  return (
    <JobsPanel
      {...props}
      id="line-title"
      title="Waiting, in order"
      label="Waiting jobs in order"
      columns={columns}
      filter={{ state: "PENDING,HELD", sort: "place" }}
      none={["No job waits in this queue.", "waits", "wait"]}
    />
  );
}

function RunningPanel(props: QueueJobs): JSX.Element {
  const narrow = useNarrow();
  const limit = (job: JobRow): JSX.Element =>
    job.deadline ? <Until at={job.deadline} /> : <span class="muted">no limit</span>;
  const columns: Column<JobRow>[] = narrow
    ? [
        {
          id: "job",
          title: "Job",
          cell: (job, tab) => (
            <>
              <JobLink namespace={job.namespace} name={job.name} tabIndex={tab} />
              <span class="second">
                <State state={job.state} /> · <Ago at={job.since} /> ·{" "}
                <Name text={requestsText(job.requests)} most={60} />
              </span>
            </>
          ),
        },
      ]
    : [
        { id: "state", title: "State", cell: (job) => <State state={job.state} /> },
        {
          id: "job",
          title: "Job",
          cell: (job, tab) => <JobLink namespace={job.namespace} name={job.name} tabIndex={tab} />,
        },
        { id: "owner", title: "Owner", optional: true, cell: (job) => <Name text={job.owner} most={40} /> },
        {
          id: "asks",
          title: "Holds",
          optional: true,
          cell: (job) => <Name text={requestsText(job.requests, job.requestsLeftOut)} most={80} />,
        },
        { id: "since", title: "Running for", numeric: true, cell: (job) => <Ago at={job.since} /> },
        { id: "eta", title: "Stopped in", cell: limit },
      ];
  return (
    <JobsPanel
      {...props}
      id="running-title"
      title="Running"
      label="Running jobs"
      columns={columns}
      filter={{ state: "RUNNING,FAILING,STOPPING" }}
      none={["No job runs in this queue.", "runs", "run"]}
    />
  );
}

function Neighbours({ title, rows, verb }: { title: string; rows: Neighbour[]; verb: string }): JSX.Element | null {
  if (!rows.length) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="plain">
        {rows.map((row) => (
          <li key={`${row.clusterQueue} ${row.flavor} ${row.resource}`}>
            <QueueLink name={row.clusterQueue} /> {verb} {row.amount} <Name text={resourceText(row.resource)} /> of
            flavor <Name text={row.flavor} />
          </li>
        ))}
      </ul>
    </>
  );
}

interface BorrowPanelProps {
  found: Explanation | null;
  error: string;
  policy: Policy | undefined;
}

/** The answer lists queues that leave quota unused only while this one borrows, so without them nothing is said of it. */
function BorrowPanel({ found, error, policy }: BorrowPanelProps): JSX.Element {
  const nothing = found && !found.borrowers?.length && !found.lenders?.length;
  return (
    <Panel title="Who borrows from whom" id="borrow-title">
      {error && !found && <Problem text={error} />}
      {!found && !error && <Empty>Asking the scheduler…</Empty>}
      {nothing && (
        <Empty>
          {policy && !policy.cohort
            ? "It is in no cohort, so it neither borrows nor lends."
            : "No other queue of its cohort borrows."}
        </Empty>
      )}
      {found && <Neighbours title="Queues that borrow" rows={found.borrowers ?? []} verb="borrows" />}
      {found && <Neighbours title="Queues that leave quota unused" rows={found.lenders ?? []} verb="leaves unused" />}
    </Panel>
  );
}

function RulesPanel({ policy, mayRead }: { policy: Policy | undefined; mayRead: boolean }): JSX.Element {
  const locals = policy?.localQueues ?? [];
  return (
    <Panel title="Rules" id="rules-title">
      {policy ? (
        <>
          <ul>
            {(policy.words ?? []).map((word) => (
              <li key={word}>
                <Name text={word} most={500} />
              </li>
            ))}
          </ul>
          <h3>LocalQueues of this queue</h3>
          {locals.length ? (
            <p class="muted">
              {locals.slice(0, 50).map((one, index) => (
                <span key={one}>
                  {index > 0 && ", "}
                  <Name text={one} />
                </span>
              ))}
              {locals.length > 50 && ` and ${locals.length - 50} more`}
            </p>
          ) : (
            <p class="muted">None: no job can be submitted to this queue.</p>
          )}
        </>
      ) : (
        <Empty>{mayRead ? "Its rules are not known." : "You may not read ClusterQueues, which hold the rules."}</Empty>
      )}
    </Panel>
  );
}
