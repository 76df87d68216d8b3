// Amounts of resources and durations, as numbers and as text.
import type { Unit } from "../api/types";

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const SUFFIXES: Record<string, number> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** A number with at most so many decimals, and commas between thousands. */
function decimal(value: number, digits: number): string {
  const [whole = "", part] = String(Number(value.toFixed(digits))).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part ? `${grouped}.${part}` : grouped;
}

/** An amount as people read it: cores, bytes with a binary unit, or a count. */
export function amountText(value: number | null, unit: Unit): string {
  if (value === null) return "–";
  if (unit === "cpu") return decimal(value / 1000, Math.abs(value) < 10_000 ? 2 : 1);
  if (unit === "count") return decimal(value, 0);
  let power = 0;
  while (Math.abs(value) >= 1024 ** (power + 1) && power < BINARY.length - 1) power += 1;
  return `${decimal(value / 1024 ** power, 1)}${BINARY[power] ?? ""}`;
}

/** A Kubernetes quantity in base units; null if it is none. */
export function parseQuantity(text: string): number | null {
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([A-Za-z]*)$/.exec(text.trim());
  const scale = match ? SUFFIXES[match[2] ?? ""] : undefined;
  return match && scale !== undefined ? Number(match[1]) * scale : null;
}

/** An amount as a Kubernetes quantity, exactly. */
export function quantityText(value: number, unit: Unit): string {
  if (unit === "cpu") return value % 1000 === 0 ? String(value / 1000) : `${value}m`;
  if (unit === "count") return String(value);
  let power = 0;
  while (value !== 0 && value % 1024 ** (power + 1) === 0 && power < BINARY.length - 1) power += 1;
  return `${value / 1024 ** power}${BINARY[power] ?? ""}`;
}

/** A quantity in the unit of usage rows: thousandths of a cpu, bytes or whole units; null if it is none. */
export function amountOf(text: string, unit: Unit): number | null {
  const value = parseQuantity(text);
  return value === null ? null : Math.round(unit === "cpu" ? value * 1000 : value);
}

/** The unit in which a resource is counted. */
export function unitOf(resource: string): Unit {
  if (resource === "cpu") return "cpu";
  return resource === "memory" || resource.endsWith("storage") || resource.startsWith("hugepages-") ? "bytes" : "count";
}

/** A resource in as few letters as are clear: `nvidia.com/gpu` is `gpu`. */
export function resourceText(resource: string): string {
  return resource.slice(resource.lastIndexOf("/") + 1) || resource;
}

/** What a job asks for, in one line. */
export function requestsText(requests: Record<string, string> | undefined, leftOut = 0): string {
  // An amount of memory is one by its unit.
  const parts = Object.entries(requests ?? {}).map(([name, value]) =>
    name === "memory" && /[A-Za-z]$/.test(value) ? value : `${value} ${resourceText(name)}`,
  );
  if (leftOut > 0) parts.push(`${leftOut} more`);
  return parts.join(", ");
}

/** A duration in its two largest units: `3 h 12 min`. */
export function durationText(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole < 600 && whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 && days < 10 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** How much of a whole, as a whole percentage that says 100 only when it is full and 0 only when it is empty. */
export function percent(part: number, whole: number): number {
  if (whole <= 0) return part > 0 ? 100 : 0;
  const exact = (part / whole) * 100;
  if (exact > 0 && exact < 1) return 1;
  return exact < 100 ? Math.min(99, Math.round(exact)) : Math.round(exact);
}
