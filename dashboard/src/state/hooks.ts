// Hooks that several views use.
import { useEffect, useReducer, useState } from "preact/hooks";
import { CallError } from "../api/calls";
import { parseRoute } from "../model/route";
import type { Route } from "../model/route";

/** The current route. */
export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = (): void => setHash(location.hash);
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return parseRoute(hash);
}

/** Replaces the address without a new entry in the browser's history: a filter is not a page. */
export function replaceAddress(hash: string): void {
  if (hash === location.hash) return;
  history.replaceState(null, "", hash);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

const tickers = new Set<() => void>();
let ticking = 0;

/** Draws the component again every second, for durations. */
export function useTick(): void {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const tick = (): void => redraw(0);
    tickers.add(tick);
    if (!ticking) ticking = window.setInterval(() => !document.hidden && [...tickers].forEach((one) => one()), 1000);
    return () => {
      tickers.delete(tick);
      if (tickers.size === 0) {
        window.clearInterval(ticking);
        ticking = 0;
      }
    };
  }, []);
}

/** Whether a media query matches. */
export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const changed = (): void => setMatches(list.matches);
    changed();
    list.addEventListener("change", changed);
    return () => list.removeEventListener("change", changed);
  }, [query]);
  return matches;
}

/** Whether a table has room for one column only; it needs more than a page without tables does. */
export const useNarrow = (): boolean => useMedia("(max-width: 860px)");

/** Sets the title of the document while the component is shown. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · pykueue` : "pykueue";
  }, [title]);
}

export interface Loaded<T> {
  value: T | null;
  error: string;
  /** The code of the error; 0 if there is none. */
  status: number;
  loading: boolean;
}

/** What a call returns; called again when the key changes, while the old value is still shown. */
export function useCall<T>(key: string, call: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Loaded<T> & { subject: string }>({
    value: null,
    error: "",
    status: 0,
    loading: true,
    subject: key,
  });
  useEffect(() => {
    const controller = new AbortController();
    let timer = 0;
    const load = (): void => {
      call(controller.signal).then(
        (value) => setState({ value, error: "", status: 0, loading: false, subject: key }),
        (error: unknown) => {
          if (controller.signal.aborted) return;
          if (error instanceof CallError && error.status === 429)
            timer = window.setTimeout(load, error.retryAfter * 1000);
          else {
            const status = error instanceof CallError ? error.status : 0;
            setState((old) => ({ ...old, error: errorText(error), status, loading: false, subject: key }));
          }
        },
      );
    };
    setState((old) => ({ ...old, loading: true }));
    load();
    return () => {
      window.clearTimeout(timer);
      controller.abort();
    };
  }, [key]);
  // An answer to another question is not that to this one, even before the effect has run.
  return state.subject === key ? state : { ...state, loading: true };
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
