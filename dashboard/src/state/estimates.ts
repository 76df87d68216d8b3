// When jobs start, asked one after the other: the server answers one such question of a user at a time.
import { useEffect, useReducer } from "preact/hooks";
import { CallError, estimate } from "../api/calls";
import type { Estimate } from "../api/types";

const FRESH_MILLIS = 120_000;
const PAUSE_MILLIS = 250;

type Answer = { at: number; estimate: Estimate } | { at: number; error: string };

const answers = new Map<string, Answer>();
const wanted: string[] = [];
const listeners = new Set<() => void>();
let busy = false;

function pause(millis: number): Promise<void> {
  return new Promise((done) => window.setTimeout(done, millis));
}

async function ask(key: string): Promise<Answer> {
  const slash = key.indexOf("/");
  for (let tries = 0; ; tries += 1) {
    try {
      return { at: Date.now(), estimate: await estimate(key.slice(0, slash), key.slice(slash + 1)) };
    } catch (error) {
      if (!(error instanceof CallError) || error.status !== 429 || tries >= 5) {
        return { at: Date.now(), error: error instanceof Error ? error.message : String(error) };
      }
      await pause(error.retryAfter * 1000);
    }
  }
}

async function work(): Promise<void> {
  if (busy) return;
  busy = true;
  for (let key = wanted.shift(); key !== undefined; key = wanted.shift()) {
    const answer = answers.get(key);
    if (answer && Date.now() - answer.at < FRESH_MILLIS) continue;
    answers.set(key, await ask(key));
    listeners.forEach((listener) => listener());
    await pause(PAUSE_MILLIS);
  }
  busy = false;
}

/** The answers for some jobs, by `namespace/name`; they arrive one by one, and are asked for again when they are old. */
export function useEstimates(keys: readonly string[]): ReadonlyMap<string, Answer> {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const joined = keys.join("\n");
  useEffect(() => {
    const listener = (): void => redraw(0);
    listeners.add(listener);
    const refresh = (): void => {
      if (document.hidden) return;
      wanted.splice(0, wanted.length, ...joined.split("\n").filter(Boolean));
      void work();
    };
    refresh();
    const timer = window.setInterval(refresh, FRESH_MILLIS);
    return () => {
      listeners.delete(listener);
      window.clearInterval(timer);
      wanted.length = 0;
    };
  }, [joined]);
  return answers;
}
