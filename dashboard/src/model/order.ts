// The order of 50,000 rows between two frames: by numbers, which sort several times faster than by a comparison.
import { queueOf } from "./filter";
import type { JobRow } from "./filter";

const STATES: Record<string, number> = {
  FAILING: 0,
  RUNNING: 1,
  STOPPING: 2,
  PENDING: 3,
  HELD: 4,
  FAILED: 5,
  CANCELLED: 6,
  COMPLETED: 7,
};
/** More rows than there ever are; with a number of 31 bits it stays below 2 ** 53. */
const ROWS_MAX = 2 ** 21;
const LAST = 2 ** 31 - 1;

type Numbered = (row: JobRow) => number;

const byPlace: Numbered = (row) => row.place ?? LAST;
const bySince: Numbered = (row) => Math.floor(row.sinceMillis / 1000);
const byState: Numbered = (row) => STATES[row.state] ?? 9;

/** A stable sort by a number from 0 to 2 ** 31. */
function pass(rows: readonly JobRow[], number: Numbered): JobRow[] {
  const keys = new Float64Array(rows.length);
  rows.forEach((row, index) => (keys[index] = number(row) * ROWS_MAX + index));
  keys.sort();
  return Array.from(keys, (key) => rows[key % ROWS_MAX] as JobRow);
}

/** The rank of each row's text among all that occur: few differ, so sorting those is quick. */
function ranked(rows: readonly JobRow[], text: (row: JobRow) => string): Numbered {
  const ranks = new Map<string, number>();
  for (const row of rows) ranks.set(text(row), 0);
  [...ranks.keys()].sort().forEach((value, rank) => ranks.set(value, rank));
  return (row) => ranks.get(text(row)) ?? 0;
}

/** By namespace, then by name: many short lists sort faster than a long one. */
function byName(rows: readonly JobRow[]): JobRow[] {
  const spaces = new Map<string, JobRow[]>();
  for (const row of rows) {
    const members = spaces.get(row.namespace);
    if (members) members.push(row);
    else spaces.set(row.namespace, [row]);
  }
  return [...spaces.keys()]
    .sort()
    .flatMap((space) =>
      (spaces.get(space) ?? []).sort((left, right) => (left.name < right.name ? -1 : left.name > right.name ? 1 : 0)),
    );
}

const ORDERS: Record<string, (rows: readonly JobRow[]) => JobRow[]> = {
  name: byName,
  since: (rows) => pass(rows, bySince),
  state: (rows) => pass(pass(rows, bySince), byState),
  owner: (rows) =>
    pass(
      pass(rows, bySince),
      ranked(rows, (row) => row.owner ?? ""),
    ),
  queue: (rows) => pass(pass(rows, byPlace), ranked(rows, queueOf)),
  place: (rows) => pass(pass(rows, ranked(rows, queueOf)), byPlace),
};

/** The rows in an order: `since` has the oldest first, `-since` the newest. */
export function sorted(rows: readonly JobRow[], sort: string): JobRow[] {
  const reverse = sort.startsWith("-");
  const order = ORDERS[reverse ? sort.slice(1) : sort] ?? ORDERS.state;
  const found = order ? order(rows) : [...rows];
  return reverse ? found.reverse() : found;
}
