// Which jobs a table shows, and in which order. Fast enough for 50,000 rows between two frames.
import type { FinishedJob, JobState, JobSummary } from "../api/types";

/** A row of the table of jobs: one that runs or waits, or one that has ended. */
export interface JobRow extends JobSummary {
  key: string;
  ended?: string;
  /** Everything that the free text filter looks at, in lower case. */
  haystack: string;
  /** Its reason without numbers, which differ from job to job. */
  reasonGroup: string;
  sinceMillis: number;
  submittedMillis: number;
}

export interface Filter {
  state: string;
  queue: string;
  owner: string;
  reason: string;
  text: string;
  sort: string;
}

export const NO_FILTER: Filter = { state: "", queue: "", owner: "", reason: "", text: "", sort: "" };
export const ENDED: ReadonlySet<JobState> = new Set<JobState>(["COMPLETED", "FAILED", "CANCELLED"]);

export function keyOf(job: { namespace: string; name: string }): string {
  return `${job.namespace}/${job.name}`;
}

const HELD = "held by its owner; `pykueue release` queues it again";

/** A summary as a row. The parsed object is ours, so it is completed in place: copies of 50,000 would be slow. */
export function rowOf(job: JobSummary): JobRow {
  const row = job as JobRow;
  row.key = keyOf(job);
  // The page has a button for what the command does.
  if (row.reason === HELD) row.reason = "held by its owner";
  row.haystack = `${row.key} ${job.reason ?? ""}`.toLowerCase();
  row.reasonGroup = reasonGroup(job.reason);
  row.submittedMillis = Date.parse(job.submitted || job.since || "") || 0;
  row.sinceMillis = !job.since || job.since === job.submitted ? row.submittedMillis : Date.parse(job.since) || 0;
  return row;
}

/** A finished job as a row; several may have had the same name, so its key has its uid. */
export function finishedRow(job: FinishedJob): JobRow {
  const { started: _started, ended, uid, exitCode: _exit, ...rest } = job;
  const since = ended ?? "";
  return { ...rowOf({ ...rest, since }), key: `${keyOf(job)}#${uid}`, ended: since };
}

const groups = new Map<string, string>();
const GROUPS_MAX = 10_000;

/** The part of a reason by which jobs are grouped: numbers differ from job to job. */
export function reasonGroup(reason = ""): string {
  let found = groups.get(reason);
  if (found === undefined) {
    found = reason.replace(/(?<![\w.-])\d+(?:[.,]\d+)?(?:[KMGTPE]i?|m)?\b/g, "N");
    if (groups.size >= GROUPS_MAX) groups.clear();
    groups.set(reason, found);
  }
  return found;
}

export function queueOf(job: JobSummary): string {
  return job.clusterQueue || job.queue || "";
}

/** The rows that match; a state may be several, separated by commas. */
export function matching(rows: readonly JobRow[], filter: Filter): JobRow[] {
  const states = new Set(filter.state ? filter.state.toUpperCase().split(",") : []);
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(
    (row) =>
      (states.size === 0 || states.has(row.state)) &&
      (!filter.queue || row.clusterQueue === filter.queue || row.queue === filter.queue) &&
      (!filter.owner || row.owner === filter.owner) &&
      (!filter.reason || row.reasonGroup === filter.reason) &&
      words.every((word) => row.haystack.includes(word)),
  );
}

export interface Choice {
  value: string;
  count: number;
}

/** The values that occur, the most frequent first. */
export function choices(rows: readonly JobRow[], value: (row: JobRow) => string, most = 500): Choice[] {
  const counts = new Map<string, number>();
  for (const row of rows) {
    const found = value(row);
    if (found) counts.set(found, (counts.get(found) ?? 0) + 1);
  }
  const found = [...counts].map(([one, count]) => ({ value: one, count }));
  return found.sort((left, right) => right.count - left.count || (left.value < right.value ? -1 : 1)).slice(0, most);
}
