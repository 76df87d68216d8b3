"""Does our engine decide what the real Kueue decided? Replays recordings of Kueue v0.19.2, cycle by cycle.

`python -m tests.parity.replay FILE.jsonl.gz` prints one line per scenario that differs, then how many are identical.
"""

import gzip
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from os import cpu_count
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from pykueue.api.codec import decode
from pykueue.base.units import Instant, Seconds, after, amount_text, parse_instant
from pykueue.bridge import inbound
from pykueue.engine import model
from pykueue.engine.decisions import Admit, Bypassed, Evict, Wait
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Gone, Seen, Stopped, Synced, Written
from pykueue.engine.wording import message

Record = dict[str, Any]

KUEUE_0_19 = replace(model.KUEUE_SETTING, recompute_overlap=False, pods_ready=None)
"""What the recordings ran under: two gates of 0.20 did not exist, and waitForPodsReady was off."""
BOTH_STRATEGIES = (model.ShareStrategy.FINAL, model.ShareStrategy.INITIAL)
CHUNK = 8


def thing(tree: Record) -> model.Thing:
    """An object of a recording, as the engine knows it."""
    found = inbound.thing(decode(tree))
    assert found is not None, f"a recording holds no {tree['kind']}"
    return found


class Replay:
    """One scenario, step by step."""

    def __init__(self, scenario: Record, options: model.Options) -> None:
        self.scenario = scenario
        if scenario.get("fairSharing"):
            options = replace(options, fair_sharing=BOTH_STRATEGIES)
        self.engine = Engine(options)
        self.now: Instant = parse_instant(scenario["start"])
        self.engine.observe(Seen(model.Namespace("default")))
        for kind in ("resourceFlavors", "cohorts", "clusterQueues", "localQueues"):
            for tree in scenario[kind]:
                self.engine.observe(Seen(thing(tree)))
        self.engine.observe(Synced())

    def update(self, name: str, **changes: Any) -> None:
        """Tell the engine that a workload changed."""
        workload = self.engine.workload(f"default/{name}")
        if workload is not None:
            self.engine.observe(Seen(replace(workload, **changes)))

    def step(self, step: Record) -> Record | None:
        """Carry out a step; what was decided, if it has a cycle."""
        engine = self.engine
        self.now = after(self.now, Seconds(1))
        for tree in step.get("create") or ():
            engine.observe(Seen(thing(tree)))
        stopped = step.get("stopped") or ()
        for item in list(engine.items()):
            if "*" in stopped or item.key.removeprefix("default/") in stopped:
                engine.observe(Stopped(item.key))
        for name in step.get("finish") or ():
            self.update(name, finished=True)
        for name in step.get("delete") or ():
            engine.observe(Gone("Workload", f"default/{name}"))
        for name, counts in (step.get("reclaim") or {}).items():
            self.update(name, reclaimable=tuple(counts.items()))
        if step.get("clusterQueue"):
            # A replaced spec is a new generation, even where the recording put the same spec in its place.
            edited = thing(step["clusterQueue"])
            assert isinstance(edited, model.ClusterQueue), "a step's clusterQueue is a ClusterQueue"
            before = engine.queue(edited.name)
            assert before is not None, "a step edits a ClusterQueue that exists"
            engine.observe(Seen(replace(edited, generation=before.generation + 1)))
        return self.cycle() if step.get("cycle") else None

    def cycle(self) -> Record:
        """Run one cycle and describe it as the recordings do."""
        engine = self.engine
        found: Record = {"admitted": {}, "evicted": {}, "waits": {}, "queued": {}, "parked": {}}
        for decision in engine.decide(self.now):
            name = decision.workload.removeprefix("default/")
            match decision:
                case Admit(admission=admission):
                    found["admitted"][name] = {
                        "clusterQueue": admission.queue,
                        "podSetAssignments": [described(a) for a in admission.assignments],
                    }
                case Evict(preemption=reason, by_uid=by):
                    found["evicted"][name] = {"reason": str(reason), "by": by}
                case Wait(reason=reason, why=why) if not isinstance(why, Bypassed):
                    found["waits"][name] = {"reason": str(reason), "message": message(why)}
            engine.observe(Written(decision.workload))
        for queue in sorted(spec.name for spec in engine.queues()):
            for item, parked in engine.pending(queue):
                place = found["parked" if parked else "queued"]
                place.setdefault(queue, []).append(item.key.removeprefix("default/"))
        for place in (found["queued"], found["parked"]):
            for names in place.values():
                names.sort()
        return found


def described(assignment: model.Assignment) -> Record:
    """A pod set's assignment as Kueue writes it."""
    found: Record = {"name": assignment.pod_set}
    if assignment.flavors:
        found["flavors"] = dict(assignment.flavors)
    if assignment.usage:
        found["resourceUsage"] = {r: amount_text(r, amount) for r, amount in assignment.usage}
    found["count"] = assignment.count
    return found


def differences(record: Record, options: model.Options = KUEUE_0_19) -> Iterator[str]:
    """Where our decisions differ from the recorded ones: the step, what, and how."""
    replay = Replay(record["scenario"], options)
    recorded = {entry["step"]: entry for entry in record["decided"]}
    for index, step in enumerate(record["scenario"]["steps"]):
        ours = replay.step(step)
        if ours is None:
            continue
        theirs = recorded.get(index, {})
        for what in ("admitted", "evicted", "waits", "queued", "parked"):
            expected = theirs.get(what) or {}
            if ours[what] != expected:
                for name in sorted({*ours[what], *expected}):
                    if ours[what].get(name) != expected.get(name):
                        yield f"step {index} {what} {name}: ours {ours[what].get(name)}, Kueue's {expected.get(name)}"


def judge(line: bytes) -> tuple[str, str]:
    """The scenario's name, and its first difference; empty when it has none."""
    record = msgspec.json.decode(line)
    try:
        first = next(differences(record), "")
    except Exception as error:  # One scenario that cannot be played must not hide how the others come out.
        first = f"raised {type(error).__name__}: {error}"
    return record["scenario"]["name"], first


def judge_file(path: Path) -> list[tuple[str, str]]:
    """Every scenario of a file with its first difference, judged in parallel."""
    with gzip.open(path) as lines, ProcessPoolExecutor(cpu_count()) as pool:
        return list(pool.map(judge, lines, chunksize=CHUNK))


def main(arguments: list[str]) -> int:
    """Replay a file and say where it differs; whether that is a mistake is for the reader to judge."""
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        print("usage: python -m tests.parity.replay FILE.jsonl.gz", file=sys.stderr)
        return 2
    results = judge_file(Path(arguments[0]))
    different = [(name, first) for name, first in results if first]
    for name, first in different:
        print(f"{name}: {first}")
    print(f"{len(results) - len(different)} of {len(results)} scenarios identical")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
