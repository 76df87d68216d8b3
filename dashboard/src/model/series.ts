// How many jobs ran and waited over time, from the jobs that the page knows.
import type { FinishedJob } from "../api/types";
import type { JobRow } from "./filter";

export interface Series {
  /** Seconds since the epoch. */
  times: number[];
  running: number[];
  waiting: number[];
}

const WAITS = new Set(["PENDING", "HELD"]);

interface Edge {
  at: number;
  running: number;
  waiting: number;
}

/**
 * The counts between two times in seconds, in steps. A job counts as waiting from its submission to the start of its
 * last run: that is all that is recorded of one that was preempted.
 */
export function seriesOf(
  active: Iterable<JobRow>,
  finished: Iterable<FinishedJob>,
  from: number,
  until: number,
  steps = 120,
): Series {
  const first: Edge = { at: from, running: 0, waiting: 0 };
  const edges = [first];
  // Most of many jobs began before: they are counted, and need no edge of their own.
  const span = (start: number, end: number, running: number, waiting: number): void => {
    if (end <= from || start >= until) return;
    if (start <= from) {
      first.running += running;
      first.waiting += waiting;
    } else edges.push({ at: start, running, waiting });
    if (end < until) edges.push({ at: end, running: -running, waiting: -waiting });
  };
  for (const job of active) {
    const since = job.sinceMillis / 1000,
      submitted = job.submittedMillis / 1000;
    if (WAITS.has(job.state)) span(submitted, until, 0, 1);
    else {
      span(submitted, since, 0, 1);
      span(since, until, 1, 0);
    }
  }
  for (const job of finished) {
    const started = seconds(job.started),
      ended = seconds(job.ended);
    span(seconds(job.submitted) || started, started || ended, 0, 1);
    if (started) span(started, ended, 1, 0);
  }
  return sampled(edges, from, until, steps);
}

function sampled(edges: Edge[], from: number, until: number, steps: number): Series {
  edges.sort((left, right) => left.at - right.at);
  const series: Series = { times: [], running: [], waiting: [] };
  let running = 0,
    waiting = 0,
    next = 0;
  for (let step = 0; step <= steps; step += 1) {
    const at = from + ((until - from) * step) / steps;
    for (let edge = edges[next]; edge && edge.at <= at; edge = edges[(next += 1)]) {
      running += edge.running;
      waiting += edge.waiting;
    }
    series.times.push(Math.round(at));
    series.running.push(running);
    series.waiting.push(waiting);
  }
  return series;
}

function seconds(text: string | undefined): number {
  return (Date.parse(text ?? "") || 0) / 1000;
}
