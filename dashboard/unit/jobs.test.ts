import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobSummary } from "../src/api/types";
import { choices, finishedRow, matching, NO_FILTER, reasonGroup, rowOf } from "../src/model/filter";
import { sorted } from "../src/model/order";

const job = (name: string, part: Partial<JobSummary>): JobSummary => ({
  namespace: "team",
  name,
  state: "PENDING",
  ...part,
});

const ROWS = [
  job("c", { state: "RUNNING", owner: "bo", clusterQueue: "left", since: "2026-01-01T00:00:03Z" }),
  job("a", {
    owner: "ann",
    clusterQueue: "right",
    place: 2,
    since: "2026-01-01T00:00:02Z",
    reason: "needs 2 more cpu",
  }),
  job("b", {
    owner: "ann",
    clusterQueue: "left",
    place: 1,
    since: "2026-01-01T00:00:01Z",
    reason: "needs 40 more cpu",
  }),
  job("d", { state: "HELD", owner: "cy", queue: "main", since: "2026-01-01T00:00:04Z" }),
].map(rowOf);

const names = (rows: readonly JobSummary[]): string => rows.map((row) => row.name).join("");

test("every order is as its column says, and its reverse", () => {
  const expected = { since: "bacd", name: "abcd", state: "cbad", owner: "bacd", queue: "bcda", place: "bacd" };
  for (const [sort, order] of Object.entries(expected)) {
    assert.equal(names(sorted(ROWS, sort)), order, sort);
    assert.equal(names(sorted(ROWS, `-${sort}`)), [...order].reverse().join(""), sort);
  }
  assert.equal(names(sorted(ROWS, "nonsense")), expected.state);
});

test("filters are combined", () => {
  const found = (part: object): string => names(matching(ROWS, { ...NO_FILTER, ...part }));
  assert.equal(found({}), "cabd");
  assert.equal(found({ state: "running,held" }), "cd");
  assert.equal(found({ queue: "left" }), "cb");
  assert.equal(found({ queue: "main" }), "d");
  assert.equal(found({ owner: "ann", queue: "left" }), "b");
  assert.equal(found({ reason: "needs N more cpu" }), "ab");
  assert.equal(found({ text: "TEAM/ cpu" }), "ab");
  assert.equal(found({ text: "nothing" }), "");
});

test("reasons that differ in numbers only are one", () => {
  assert.equal(
    reasonGroup("needs 1.5Gi more memory in flavor a100, 2 of 3"),
    "needs N more memory in flavor a100, N of N",
  );
  assert.deepEqual(
    choices(ROWS, (row) => row.reasonGroup),
    [{ value: "needs N more cpu", count: 2 }],
  );
});

test("two finished jobs of one name are two rows", () => {
  const ended = { namespace: "team", name: "a", state: "FAILED" as const, ended: "2026-01-01T00:00:00Z" };
  assert.notEqual(finishedRow({ ...ended, uid: "1" }).key, finishedRow({ ...ended, uid: "2" }).key);
});
