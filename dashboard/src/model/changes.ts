// Changes of quotas that are only thought of, in the words of `pykueue preview --set`.
import type { Usage } from "../api/types";

/** The path and value of `clusterqueue/main.cpu=64`; null if there is no value. */
export function splitSet(set: string): [string, string] | null {
  const equals = set.indexOf("=");
  return equals > 0 ? [set.slice(0, equals).trim(), set.slice(equals + 1).trim()] : null;
}

/** The paths of a quota in the words of the API: the one with its flavor, and the short one if it has one flavor. */
export function quotaPaths(usage: Usage, all: readonly Usage[], suffix = ""): string[] {
  const kind = usage.kind === "cohort" ? "cohort" : "clusterqueue";
  const alone =
    all.filter((one) => one.name === usage.name && one.kind === usage.kind && one.resource === usage.resource)
      .length === 1;
  const long = `${kind}/${usage.name}.flavor/${usage.flavor}.${usage.resource}${suffix}`;
  return alone ? [`${kind}/${usage.name}.${usage.resource}${suffix}`, long] : [long];
}

/** The value that some changes give to a field with these paths; null if none does. */
export function valueOf(sets: readonly string[], paths: readonly string[]): string | null {
  for (const set of sets) {
    const parts = splitSet(set);
    if (parts && paths.includes(parts[0])) return parts[1];
  }
  return null;
}

/** The changes with a field set to a value, or as it is if the value is null. */
export function withValue(sets: readonly string[], paths: readonly string[], value: string | null): string[] {
  const others = sets.filter((set) => !paths.includes(splitSet(set)?.[0] ?? ""));
  return value === null ? others : [...others, `${paths[0] ?? ""}=${value}`];
}

/** Whether a line of a diff is added, removed, a heading or context. */
export function diffKind(line: string): "added" | "removed" | "heading" | "context" {
  if (line.startsWith("+++") || line.startsWith("---") || line.startsWith("@@")) return "heading";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "context";
}

export type Severity = "bad" | "good" | "plain";

interface EffectWords {
  one: string;
  many: string;
  severity: Severity;
}

export const EFFECTS: Record<string, EffectWords> = {
  Evicted: { one: "is evicted", many: "would be evicted", severity: "bad" },
  Restarts: { one: "restarts", many: "would restart", severity: "bad" },
  NotStarted: { one: "does not start", many: "would not start", severity: "bad" },
  NeverStarts: { one: "never starts", many: "could never start", severity: "bad" },
  Blocked: { one: "is blocked", many: "would be blocked", severity: "bad" },
  Deleted: { one: "is deleted", many: "would be deleted", severity: "plain" },
  Starts: { one: "starts", many: "would start", severity: "good" },
  Reserves: { one: "gets quota", many: "would get quota", severity: "good" },
  Waits: { one: "waits", many: "would wait", severity: "plain" },
  Moves: { one: "moves", many: "would move in line", severity: "plain" },
};
