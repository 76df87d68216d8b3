import assert from "node:assert/strict";
import { test } from "node:test";
import {
  amountOf,
  amountText,
  durationText,
  parseQuantity,
  percent,
  quantityText,
  requestsText,
  unitOf,
} from "../src/model/amounts";

test("amounts are shown as people read them", () => {
  assert.equal(amountText(1500, "cpu"), "1.5");
  assert.equal(amountText(33_522_000, "cpu"), "33,522");
  assert.equal(amountText(96 * 2 ** 30, "bytes"), "96Gi");
  assert.equal(amountText(1.5 * 2 ** 40, "bytes"), "1.5Ti");
  assert.equal(amountText(12_345, "count"), "12,345");
  assert.equal(amountText(null, "count"), "–");
});

test("quantities are read and written without loss", () => {
  for (const [text, unit, amount] of [
    ["64", "cpu", 64_000],
    ["1500m", "cpu", 1500],
    ["32Gi", "bytes", 32 * 2 ** 30],
    ["1536Mi", "bytes", 1536 * 2 ** 20],
    ["3", "count", 3],
  ] as const) {
    assert.equal(amountOf(text, unit), amount);
    assert.equal(quantityText(amount, unit), text);
  }
  assert.equal(parseQuantity("1e3"), 1000);
  for (const wrong of ["", "4 Gi", "x", "4GB", "--1"]) assert.equal(parseQuantity(wrong), null);
});

test("durations have their two largest units", () => {
  const shown = [-5, 0, 59, 61, 600, 3661, 90_000, 864_000].map(durationText);
  assert.deepEqual(shown, ["0 s", "0 s", "59 s", "1 min 1 s", "10 min", "1 h 1 min", "1 d 1 h", "10 d"]);
});

test("a percentage is 100 only when it is full, and 0 only when it is empty", () => {
  assert.deepEqual(
    [percent(999, 1000), percent(1000, 1000), percent(1, 1000), percent(0, 1000), percent(3, 0), percent(3, 2)],
    [99, 100, 1, 0, 100, 150],
  );
});

test("requests name what their unit does not", () => {
  assert.equal(requestsText({ cpu: "4", memory: "16Gi", "nvidia.com/gpu": "1" }, 2), "4 cpu, 16Gi, 1 gpu, 2 more");
  assert.equal(requestsText({ memory: "1000" }), "1000 memory");
});

test("units follow the resource", () => {
  assert.deepEqual(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"].map(unitOf), [
    "cpu",
    "bytes",
    "bytes",
    "count",
  ]);
});
