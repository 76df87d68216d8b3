// Addresses within the page. They can be shared: everything that a view shows is in them.

export type Route =
  | { view: "overview" }
  | { view: "queue"; name: string }
  | { view: "job"; namespace: string; name: string }
  | { view: "whatif"; sets: string[]; queue: string }
  | { view: "machine" }
  | { view: "jobs"; query: URLSearchParams }
  | { view: "unknown"; path: string };

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The route of a location's hash. */
export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const search = new URLSearchParams(query);
  const [view, first, second] = parts;
  if (view === undefined) return { view: "overview" };
  if (view === "queue" && first) return { view, name: parts.slice(1).join("/") };
  if (view === "job" && first && second) return { view, namespace: first, name: second };
  if (view === "whatif") return { view, sets: search.getAll("set"), queue: search.get("queue") ?? "" };
  if (view === "machine") return { view };
  if (view === "jobs") return { view, query: search };
  return { view: "unknown", path };
}

export const queueLink = (name: string): string => `#/queue/${encodeURIComponent(name)}`;

export const jobLink = (namespace: string, name: string): string =>
  `#/job/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

export const jobsLink = (filter: Record<string, string>): string => withQuery("#/jobs", filter);

export function whatIfLink(sets: readonly string[], queue = ""): string {
  const query = new URLSearchParams();
  if (queue) query.set("queue", queue);
  for (const set of sets) query.append("set", set);
  const text = query.toString();
  return text ? `#/whatif?${text}` : "#/whatif";
}

/** A path with the parameters that have a value. */
export function withQuery(path: string, values: Record<string, string>): string {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}
