// The wire types of the page's API, as the server sends them.

export type JobState = "PENDING" | "HELD" | "RUNNING" | "FAILING" | "STOPPING" | "COMPLETED" | "FAILED" | "CANCELLED";

/** A job that runs or waits. Fields with their default value are left out by the server. */
export interface JobSummary {
  namespace: string;
  name: string;
  state: JobState;
  owner?: string;
  queue?: string;
  clusterQueue?: string;
  requests?: Record<string, string>;
  gpus?: number[];
  submitted?: string;
  since?: string;
  limitSeconds?: number | null;
  deadline?: string;
  progress?: string;
  place?: number | null;
  reason?: string;
  message?: string;
  requestsLeftOut?: number;
}

/** A job that has ended. */
export interface FinishedJob {
  namespace: string;
  name: string;
  uid: string;
  state: JobState;
  owner?: string;
  queue?: string;
  clusterQueue?: string;
  requests?: Record<string, string>;
  submitted?: string;
  started?: string;
  ended?: string;
  exitCode?: number | null;
  waitedSeconds?: number;
  ranSeconds?: number;
  preempted?: number;
  lostSeconds?: number;
  progress?: string;
  reason?: string;
  message?: string;
}

export type UsageKind = "cohort" | "queue" | "localqueue";
export type Unit = "cpu" | "bytes" | "count";

/** What a cohort or queue uses of a resource of a flavor; cpu in thousandths. */
export interface Usage {
  kind: UsageKind;
  name: string;
  cohort: string;
  flavor: string;
  resource: string;
  nominal: number | null;
  used: number;
  borrowed: number;
  lent: number | null;
  running: number;
  pending: number;
  depth: number;
  unit: Unit;
}

export interface QuotaLimit {
  flavor: string;
  resource: string;
  borrowingLimit?: string | null;
  lendingLimit?: string | null;
}

export interface Policy {
  strategy?: string;
  preemption?: Record<string, unknown>;
  flavorFungibility?: Record<string, unknown>;
  stopPolicy?: string;
  cohort?: string;
  words?: string[];
  limits?: QuotaLimit[];
  localQueues?: string[];
}

export interface Meta {
  setting: "machine" | "cluster";
  server: string;
  user: string;
  version: string;
  viewOnly: boolean;
  asOf: string;
  stale: string;
  notes: string[];
  /** What everybody has to know: that no manager runs. */
  alert?: string;
  /** The namespace of the user. */
  home?: string;
  /** The only namespace whose jobs the user may list; empty if that is all. */
  namespace?: string;
  /** That the user may list no jobs, and what to do; empty if some may be listed. */
  jobsDenied?: string;
  /** The same of queues. */
  queuesDenied?: string;
  /** Whether the user may read ClusterQueues. */
  readsQuotas?: boolean;
  can: { cancel: boolean; hold: boolean; apply: boolean; logs: boolean };
}

export interface Counts {
  running: number;
  pending: number;
  held: number;
  failing: number;
  finishedLastHour: number;
}

export interface Change {
  at: string;
  kind: string;
  job: string;
  namespace: string;
  queue: string;
  text: string;
}

export interface Gpu {
  number: number;
  user?: string;
  /** `namespace/name`, or empty. */
  job?: string;
}

/** Something of which there is a fixed amount; cpu in thousandths. */
export interface Capacity {
  capacity?: number;
  /** Null if only what the user's own jobs request is known. */
  used?: number | null;
  free?: number;
  /** What the user's own jobs request, if those of others are not listed. */
  own?: number | null;
}

export interface MachineUser {
  name: string;
  running?: number;
  pending?: number;
  cpu?: number;
  memory?: number;
  gpus?: number;
}

export interface Machine {
  name?: string;
  cpus?: Capacity | null;
  memory?: Capacity | null;
  gpus?: Gpu[];
  /** Null if it is not known which GPUs the jobs of others have. */
  gpusFree?: number | null;
  disk?: Capacity | null;
  users?: MachineUser[];
}

export interface Overview {
  meta: Meta;
  counts: Counts;
  queues: Usage[];
  policies: Record<string, Policy>;
  longest: JobSummary[];
  next: JobSummary[];
  changes: Change[];
  machine: Machine | null;
}

/** A sentence of an explanation, and those that explain it. */
export interface Sentence {
  code: string;
  text: string;
  children?: Sentence[];
}

export interface Neighbour {
  clusterQueue: string;
  flavor: string;
  resource: string;
  amount: string;
}

export interface HolderRow {
  name: string;
  amounts: [string, string, string][];
  since?: string;
  until?: string;
  stopping?: boolean;
}

export interface Explanation {
  tree?: Sentence;
  state?: string;
  clusterQueue?: string;
  localQueue?: string;
  borrowers?: Neighbour[];
  lenders?: Neighbour[];
  holders?: HolderRow[];
  holding?: number;
  pending?: { count: number };
  holdersOfOtherNamespaces?: number;
  obstacle?: string;
}

export interface Explained {
  lines: string[];
  object: Explanation;
  /** Why the answer is less than the scheduler might know; empty if it is not. */
  note?: string;
}

export interface Estimate {
  state: string;
  asked?: string;
  started?: string;
  earliest?: string;
  latest?: string;
  median?: string;
  reason?: string;
  notBefore?: string;
  message?: string;
}

export interface Affected {
  workload: string;
  effect: string;
  job?: string;
  queue?: string;
  flavors?: string[];
  place?: number | null;
  placeBefore?: number | null;
  clause?: string;
  by?: string;
  reason?: string;
}

export interface QuotaChange {
  flavor: string;
  resource: string;
  nominalBefore: string;
  nominal: string;
  usedBefore: string;
  used: string;
}

export interface QueueChange {
  name: string;
  runningBefore: number;
  running: number;
  pendingBefore: number;
  pending: number;
  quotas: QuotaChange[];
}

export interface PreviewStatus {
  at?: string;
  affected?: Affected[];
  hidden?: Record<string, number>;
  more?: Record<string, number>;
  queues?: QueueChange[];
  notes?: string[];
}

export interface Moment {
  at: string;
  what: string;
  text: string;
}

export interface History {
  items: Moment[];
  older?: boolean;
}

export interface Pod {
  name: string;
  phase?: string;
  node?: string;
  started?: string;
  ended?: string;
  exitCode?: number | null;
  message?: string;
}

export interface KubeEvent {
  at?: string;
  type?: string;
  reason?: string;
  text?: string;
  /** The kind of the object that it is about. */
  about?: string;
}

export interface JobObjects {
  job?: string;
  workload?: string;
  pods?: Pod[];
  events?: KubeEvent[];
}

export interface ObjectDiff {
  kind: string;
  name: string;
  namespace?: string;
  lines: string[];
}

export interface Diff {
  objects: ObjectDiff[];
  seen: unknown;
}
