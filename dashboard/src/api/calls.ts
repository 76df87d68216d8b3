// The calls that the page makes, each with the key of its session.
import type { Diff, Estimate, Explained, History, JobObjects, Moment, PreviewStatus } from "./types";

const BASE = "/ui/api/";
export const UNANSWERED = "the server does not respond";

/** A response that is no success: its code, and the server's sentence. */
export class CallError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retryAfter = 2,
  ) {
    super(message);
  }
}

let whenSessionEnds: (message: string) => void = () => undefined;

export function onSessionEnd(listener: (message: string) => void): void {
  whenSessionEnds = listener;
}

export function sessionKey(): string {
  try {
    return localStorage.getItem("pykueue-key") ?? "";
  } catch {
    return "";
  }
}

/** Sends a request; raises `CallError`. Network failures are errors with status 0. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("X-Pykueue-Key", sessionKey());
  let response: Response;
  try {
    response = await fetch(BASE + path, {
      ...init,
      headers,
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new CallError(0, UNANSWERED);
  }
  if (response.ok) return response;
  const message = await messageOf(response);
  if (response.status === 401) whenSessionEnds(message);
  throw new CallError(response.status, message, Number(response.headers.get("Retry-After")) || 2);
}

async function messageOf(response: Response): Promise<string> {
  const text = await response.text().catch(() => "");
  try {
    const found = (JSON.parse(text) as { message?: unknown }).message;
    if (typeof found === "string" && found) return found;
  } catch {
    // Not JSON: the text itself is the message.
  }
  return text.slice(0, 500) || `the server answered ${response.status}`;
}

async function get<T>(path: string, query: Record<string, string | string[]>, signal?: AbortSignal): Promise<T> {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) for (const one of [value].flat()) search.append(name, one);
  const response = await send(`${path}?${search}`, signal ? { signal } : {});
  return (await response.json()) as T;
}

async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await send(path, signal ? { ...init, signal } : init);
  return (await response.json()) as T;
}

export type ExplainKind = "job" | "workload" | "clusterqueue" | "localqueue";
export type Verb = "cancel" | "hold" | "release";

export const explain = (kind: ExplainKind, namespace: string, name: string, signal?: AbortSignal): Promise<Explained> =>
  get("explain", { kind, namespace, name }, signal);

export const estimate = (namespace: string, name: string, signal?: AbortSignal): Promise<Estimate> =>
  get("eta", { namespace, name }, signal);

export const preview = (set: readonly string[], signal?: AbortSignal): Promise<PreviewStatus> =>
  post("preview", { set, delete: [] }, signal);

export async function history(namespace: string, name: string, signal?: AbortSignal): Promise<History> {
  const found = await get<History | Moment[]>("history", { namespace, name }, signal);
  return Array.isArray(found) ? { items: found } : found;
}

export const objectsOf = (namespace: string, name: string, signal?: AbortSignal): Promise<JobObjects> =>
  get("job", { namespace, name }, signal);

export async function logs(namespace: string, name: string, signal?: AbortSignal): Promise<string> {
  const query = new URLSearchParams({ namespace, name, tail: "1000" });
  return (await send(`logs?${query}`, signal ? { signal } : {})).text();
}

export const act = (verb: Verb, namespace: string, name: string, signal?: AbortSignal): Promise<{ said?: string }> =>
  post("act", { verb, namespace, name }, signal);

export const diff = (set: string[], signal?: AbortSignal): Promise<Diff> => get("diff", { set }, signal);

export const apply = (set: readonly string[], seen: unknown, signal?: AbortSignal): Promise<{ said?: string }> =>
  post("apply", { set, seen }, signal);
