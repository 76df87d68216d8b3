import assert from "node:assert/strict";
import { test } from "node:test";
import type { Usage } from "../src/api/types";
import { diffKind, quotaPaths, splitSet, valueOf, withValue } from "../src/model/changes";
import { estimateText } from "../src/model/estimates";
import { jobLink, jobsLink, parseRoute, queueLink, whatIfLink } from "../src/model/route";
import { seriesOf } from "../src/model/series";
import { rowOf } from "../src/model/filter";
import { printable, printableBlock, shortened } from "../src/model/text";
import { agoText, clockText, localTimes } from "../src/model/times";

test("addresses lead back to what they were made of, whatever the names", () => {
  for (const name of ["plain", "with/slash", "per%cent", "a?b=c#d", "ümlaut"]) {
    assert.deepEqual(parseRoute(queueLink(name)), { view: "queue", name });
    assert.deepEqual(parseRoute(jobLink("team", name)), { view: "job", namespace: "team", name });
    assert.deepEqual(parseRoute(whatIfLink([`clusterqueue/${name}.cpu=1`], name)), {
      view: "whatif",
      sets: [`clusterqueue/${name}.cpu=1`],
      queue: name,
    });
  }
  const jobs = parseRoute(jobsLink({ state: "PENDING", owner: "", queue: "a&b" }));
  assert.equal(jobs.view === "jobs" && jobs.query.toString(), "state=PENDING&queue=a%26b");
  assert.deepEqual(parseRoute(""), { view: "overview" });
  assert.equal(parseRoute("#/no/such").view, "unknown");
  assert.equal(parseRoute("#/queue/%").view, "queue");
});

test("text cannot hide or reorder itself", () => {
  assert.equal(printable("abc\u202egnp\u0000\n"), "abc\\u202egnp\\u0000\\u000a");
  assert.equal(printableBlock("\u001b[31mred\u001b[0m\r\n\tnext\u202e"), "red\n\tnext\\u202e");
  assert.equal(shortened("x".repeat(300)).length, 200);
});

const usage = { kind: "queue", name: "a.b", flavor: "default", resource: "cpu" } as Usage;

test("a quota has its short path only where it has one flavor", () => {
  assert.deepEqual(quotaPaths(usage, [usage]), ["clusterqueue/a.b.cpu", "clusterqueue/a.b.flavor/default.cpu"]);
  assert.deepEqual(quotaPaths(usage, [usage, { ...usage, flavor: "spot" }]), ["clusterqueue/a.b.flavor/default.cpu"]);
});

test("a change of a field replaces the one before", () => {
  const paths = quotaPaths(usage, [usage]);
  const sets = ["clusterqueue/a.b.flavor/default.cpu=4", "cohort/c.cpu=1"];
  assert.equal(valueOf(sets, paths), "4");
  assert.deepEqual(withValue(sets, paths, "5"), ["cohort/c.cpu=1", "clusterqueue/a.b.cpu=5"]);
  assert.deepEqual(withValue(sets, paths, null), ["cohort/c.cpu=1"]);
  assert.equal(splitSet("no value"), null);
  assert.deepEqual(["+++ a", "+a", "-a", " a"].map(diffKind), ["heading", "added", "removed", "context"]);
});

test("estimates are short", () => {
  const at = (hour: number): string => new Date(2020, 0, 1, hour, 10).toISOString();
  const found = { state: "Pending", asked: at(9), earliest: at(10), latest: at(11) };
  assert.equal(estimateText(found), "1 Jan 2020 10:10 – 11:10");
  assert.equal(estimateText({ ...found, latest: at(9) }), "now");
  assert.equal(estimateText({ ...found, latest: "" }), "1 Jan 2020 10:10 or later");
  assert.equal(estimateText({ state: "Pending" }), "not within 30 days");
  assert.equal(estimateText({ state: "Never" }), "never");
});

test("times are of the reader's zone, with the date unless it is today's", () => {
  const noon = new Date(2026, 0, 2, 12, 0, 5);
  assert.equal(clockText(noon.toISOString(), true, noon.getTime()), "12:00:05");
  assert.equal(clockText(noon.toISOString(), false, noon.getTime() + 86_400_000), "2 Jan 12:00");
  assert.equal(clockText("nonsense"), "");
  const said = localTimes(`since ${noon.toISOString()}, at last`);
  assert.match(said, /^since 2 Jan( 2026)? 12:00, at last$/);
  assert.equal(agoText(noon.toISOString(), noon.getTime() + 61_000), "1 min 1 s");
});

test("jobs are counted while they wait and while they run", () => {
  const at = (seconds: number): string => new Date(seconds * 1000).toISOString();
  const active = [
    rowOf({ namespace: "t", name: "waits", state: "PENDING", submitted: at(1030), since: at(1030) }),
    rowOf({ namespace: "t", name: "runs", state: "RUNNING", submitted: at(900), since: at(1020) }),
  ];
  const finished = [
    {
      namespace: "t",
      name: "ended",
      uid: "u",
      state: "COMPLETED" as const,
      submitted: at(800),
      started: at(900),
      ended: at(1010),
    },
  ];
  const found = seriesOf(active, finished, 1000, 1040, 4);
  assert.deepEqual(found.times, [1000, 1010, 1020, 1030, 1040]);
  assert.deepEqual(found.running, [1, 0, 1, 1, 1]);
  assert.deepEqual(found.waiting, [1, 1, 0, 1, 1]);
});
