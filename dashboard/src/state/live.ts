// The state that the server streams: one copy, from which all views are drawn.
import { useEffect, useReducer } from "preact/hooks";
import { onSessionEnd } from "../api/calls";
import type { ServerEvent } from "../api/events";
import { Stream } from "../api/stream";
import type { FinishedJob, JobSummary, Overview } from "../api/types";
import { finishedRow, keyOf, rowOf } from "../model/filter";
import type { JobRow } from "../model/filter";
import { sorted } from "../model/order";
import { learnClock } from "../model/times";

export type Connection =
  | { state: "connecting" }
  | { state: "live"; heard: number }
  | { state: "lost"; since: number; nextTry: number; problem: string }
  | { state: "ended"; message: string };

export type Topic = "overview" | "jobs" | "connection";

const FINISHED_MAX = 2000;
const MANY_JOBS = 5000;

class Live {
  overview: Overview | null = null;
  connection: Connection = { state: "connecting" };
  /** Whether all jobs have arrived once. */
  complete = false;
  jobsVersion = 0;
  /** What has arrived of the snapshot with which a connection begins. */
  private fresh = { overview: false, jobs: false };
  private jobs = new Map<string, JobRow>();
  private incoming: Map<string, JobRow> | null = null;
  private finished = new Map<string, FinishedJob>();
  private activeRows: JobRow[] | null = null;
  private endedRows: JobRow[] | null = null;
  private readonly listeners = new Map<Topic, Set<() => void>>();
  private readonly timers = new Map<Topic, number>();
  private readonly stream = new Stream({
    opened: () => this.connected(),
    received: (event) => this.receive(event),
    lost: (problem, nextTry) => this.lost(problem, nextTry),
    ended: (message) => this.end(message),
  });

  start(): void {
    onSessionEnd((message) => this.end(message));
    this.stream.connect();
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.connection.state === "lost") this.retry();
    });
  }

  retry(): void {
    this.stream.connect();
  }

  /** The jobs that run or wait. */
  active(): JobRow[] {
    return (this.activeRows ??= [...this.jobs.values()]);
  }

  /** The jobs that have ended, newest first. */
  ended(): JobRow[] {
    return (this.endedRows ??= sorted(
      [...this.finished.values()].map((job) => finishedRow({ ...job })),
      "-since",
    ));
  }

  finishedJobs(): Iterable<FinishedJob> {
    return this.finished.values();
  }

  job(namespace: string, name: string): JobRow | null {
    return this.jobs.get(keyOf({ namespace, name })) ?? null;
  }

  /** The latest record of a finished job of this name. */
  finishedJob(namespace: string, name: string): FinishedJob | null {
    let found: FinishedJob | null = null;
    for (const job of this.finished.values()) {
      if (job.name === name && job.namespace === namespace && (job.ended ?? "") > (found?.ended ?? "")) found = job;
    }
    return found;
  }

  subscribe(topic: Topic, listener: () => void): () => void {
    const all = this.listeners.get(topic) ?? new Set();
    this.listeners.set(topic, all.add(listener));
    return () => all.delete(listener);
  }

  /** Whether what is shown may no longer be true. */
  get stale(): boolean {
    return this.connection.state !== "live" || Boolean(this.overview?.meta.stale);
  }

  /** The data are still those of the connection before, so the page is not live yet. */
  private connected(): void {
    this.incoming = null;
    this.fresh = { overview: false, jobs: false };
  }

  /** The page is live once it has a whole snapshot; a server that has lost its own server sends only the overview. */
  private settle(): void {
    const waits = this.connection.state === "connecting" || this.connection.state === "lost";
    if (!waits || !this.fresh.overview || !(this.fresh.jobs || this.overview?.meta.stale)) return;
    this.connection = { state: "live", heard: Date.now() };
    this.changed("connection");
  }

  private lost(problem: string, nextTry: number): void {
    const since =
      this.connection.state === "lost"
        ? this.connection.since
        : this.connection.state === "live"
          ? this.connection.heard
          : Date.now();
    this.connection = { state: "lost", since, nextTry, problem };
    this.changed("connection");
  }

  private end(message: string): void {
    this.connection = { state: "ended", message };
    this.changed("connection");
  }

  private receive(event: ServerEvent): void {
    if (this.connection.state === "live") this.connection.heard = Date.now();
    switch (event.name) {
      case "overview":
        this.overview = JSON.parse(event.data) as Overview;
        learnClock(this.overview.meta.asOf);
        this.fresh.overview = true;
        this.changed("overview");
        break;
      case "jobs":
        this.addChunk(JSON.parse(event.data) as { first?: boolean; rows: JobSummary[]; more: boolean });
        break;
      case "delta":
        this.applyDelta(JSON.parse(event.data) as { set: JobSummary[]; del: string[] });
        break;
      case "finished":
        this.addFinished((JSON.parse(event.data) as { rows: FinishedJob[] }).rows);
        break;
    }
    this.settle();
  }

  /** Until the first table is complete its rows are shown as they come; a later one replaces the whole. */
  private addChunk(chunk: { first?: boolean; rows: JobSummary[]; more: boolean }): void {
    if (!this.incoming || chunk.first) {
      this.incoming = new Map();
      if (!this.complete) this.jobs = this.incoming;
    }
    for (const job of chunk.rows) {
      const row = rowOf(job);
      this.incoming.set(row.key, row);
    }
    if (!chunk.more) {
      this.jobs = this.incoming;
      this.incoming = null;
      this.complete = true;
      this.fresh.jobs = true;
    }
    this.jobsChanged();
  }

  private applyDelta(delta: { set: JobSummary[]; del: string[] }): void {
    const tables = this.incoming && this.incoming !== this.jobs ? [this.jobs, this.incoming] : [this.jobs];
    const rows = delta.set.map(rowOf);
    for (const table of tables) {
      for (const key of delta.del) table.delete(key);
      for (const row of rows) table.set(row.key, row);
    }
    this.jobsChanged();
  }

  private addFinished(rows: FinishedJob[]): void {
    this.endedRows = null;
    for (const job of rows) this.finished.set(job.uid || `${keyOf(job)} ${job.ended ?? ""}`, job);
    if (this.finished.size > FINISHED_MAX) {
      const byEnd = [...this.finished].sort(([, left], [, right]) =>
        (left.ended ?? "") < (right.ended ?? "") ? 1 : -1,
      );
      this.finished = new Map(byEnd.slice(0, FINISHED_MAX));
    }
    this.jobsChanged();
  }

  private jobsChanged(): void {
    this.activeRows = null;
    this.jobsVersion += 1;
    this.changed("jobs");
  }

  /** Tells the views, not more often than they can be drawn without holding up the reader's own input. */
  private changed(topic: Topic): void {
    if (this.timers.has(topic)) return;
    const delay = topic !== "jobs" ? 0 : this.jobs.size > MANY_JOBS ? 1000 : 100;
    const timer = window.setTimeout(() => {
      this.timers.delete(topic);
      for (const listener of [...(this.listeners.get(topic) ?? [])]) listener();
    }, delay);
    this.timers.set(topic, timer);
  }
}

export const live = new Live();

/** The live state; the component is drawn again when one of these topics changes. */
export function useLive(...topics: Topic[]): Live {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const ends = topics.map((topic) => live.subscribe(topic, () => redraw(0)));
    return () => ends.forEach((end) => end());
  }, []);
  return live;
}
