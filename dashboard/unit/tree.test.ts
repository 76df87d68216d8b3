import assert from "node:assert/strict";
import { test } from "node:test";
import type { Usage } from "../src/api/types";
import { linesOf, ordered, partsOf, totals, treeOf } from "../src/model/tree";
import type { TreeView } from "../src/model/tree";

function usage(part: Partial<Usage>): Usage {
  const row: Usage = {
    kind: "queue",
    name: "",
    cohort: "",
    flavor: "default",
    resource: "cpu",
    nominal: 8000,
    used: 4000,
    borrowed: 0,
    lent: null,
    running: 1,
    pending: 0,
    depth: 0,
    unit: "cpu",
  };
  return { ...row, ...part };
}

const ROWS = [
  usage({ kind: "cohort", name: "all", nominal: 24_000, used: 20_000 }),
  usage({ name: "direct", depth: 1 }),
  usage({ kind: "cohort", name: "inner", depth: 1 }),
  usage({ name: "deep", depth: 2, pending: 3, used: 8000 }),
  usage({ name: "deep", depth: 2, pending: 3, resource: "memory", unit: "bytes", nominal: 10, used: 1 }),
  usage({ name: "alone", used: 1000 }),
];
const VIEW: TreeView = { text: "", resource: "", waitingOnly: false, toggled: new Set(), openByDefault: true };

const shown = (view: Partial<TreeView>): string =>
  linesOf(treeOf(ROWS), { ...VIEW, ...view })
    .map((line) => line.node.name)
    .join(" ");

test("nodes know their parents and how many queues they have", () => {
  const nodes = treeOf(ROWS);
  assert.deepEqual(
    nodes.map((node) => [node.name, node.parent?.name ?? "", node.queues]),
    [
      ["all", "", 2],
      ["direct", "all", 0],
      ["inner", "all", 1],
      ["deep", "inner", 0],
      ["alone", "", 0],
    ],
  );
});

test("a closed cohort hides what is in it, and a search opens it", () => {
  assert.equal(shown({}), "all direct inner deep deep alone");
  assert.equal(shown({ openByDefault: false }), "all alone");
  assert.equal(shown({ openByDefault: false, toggled: new Set(["cohort/all"]) }), "all direct inner alone");
  assert.equal(shown({ openByDefault: false, text: "DEEP" }), "all inner deep deep");
  assert.equal(shown({ waitingOnly: true }), "all inner deep deep");
  assert.equal(shown({ resource: "memory" }), "deep");
});

test("another order keeps cohorts above what is in them", () => {
  const names = (order: "pending" | "use"): string[] => ordered(treeOf(ROWS), order).map((node) => node.name);
  assert.deepEqual(names("use"), ["all", "direct", "inner", "deep", "alone"]);
  assert.equal(names("pending").indexOf("deep") > names("pending").indexOf("inner"), true);
});

test("totals count a cohort once, not its queues again", () => {
  assert.deepEqual(totals(treeOf(ROWS)), [
    { resource: "cpu", unit: "cpu", nominal: 32_000, used: 21_000, known: true },
  ]);
});

test("the parts of a bar fill what is used, and mark where the quota ends", () => {
  assert.deepEqual(partsOf(usage({ nominal: 8, used: 10, borrowed: 2 })), {
    own: 80,
    borrowed: 20,
    lent: 0,
    quota: 80,
  });
  assert.deepEqual(partsOf(usage({ nominal: 10, used: 5, lent: 2 })), { own: 30, borrowed: 0, lent: 20, quota: 100 });
  assert.deepEqual(partsOf(usage({ nominal: 0, used: 0 })), { own: 0, borrowed: 0, lent: 0, quota: 100 });
});

test("a quota that may not be read is not one of 0", () => {
  const known = (nominal: number | null): boolean[] => totals(treeOf([usage({ nominal })])).map((total) => total.known);
  assert.deepEqual([known(null), known(0), known(8000)], [[false], [true], [true]]);
});
