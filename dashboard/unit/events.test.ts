import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser, parseBlock } from "../src/api/events";

const STREAM = 'id: 1\nevent: overview\ndata: {"a": "x\\ny"}\n\n: beat\n\nevent: delta\ndata: {}\n\n';

test("events are the same whatever the pieces they arrive in", () => {
  for (let size = 1; size <= STREAM.length; size += 1) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < STREAM.length; at += size) found.push(...parser.push(STREAM.slice(at, at + size)));
    assert.deepEqual(found, [
      { name: "overview", data: '{"a": "x\\ny"}' },
      { name: "delta", data: "{}" },
    ]);
  }
});

test("an event that is not complete is kept for the next piece", () => {
  const parser = new EventParser();
  assert.deepEqual(parser.push("event: jobs\ndata: 1\n"), []);
  assert.deepEqual(parser.push("\n"), [{ name: "jobs", data: "1" }]);
});

test("a comment is no event", () => {
  assert.equal(parseBlock(": beat"), null);
});
