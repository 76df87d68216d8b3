"""What came of a crash run? The plan, what is done of it and what was found, on disk from step to step."""

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

from pykueue.audit.world import Finding
from tests.crash.faults import FAULTS, takeover_max
from tests.crash.watchman import ANSWERS
from tests.outcome import Outcome


class Step(NamedTuple):
    """One fault of the plan."""

    number: int
    fault: str


class Plan(NamedTuple):
    """What a run is to do."""

    steps: list[Step]
    seed: int
    cut_seconds: float
    lease_seconds: int
    program: str
    fair: bool = False
    """Whether fair sharing is on."""


def steps(kills: int, each: int, seed: int, only: list[str], skip: list[str] | None = None) -> list[Step]:
    """The faults in the order in which they happen: the others spread among the kills by rng."""
    chosen = [name for name in FAULTS if (not only or name in only) and name not in (skip or [])]
    others = [name for name in chosen if name != "kill"] * each
    faults = ["kill"] * (kills if "kill" in chosen else 0) + others
    random.Random(seed).shuffle(faults)
    return [Step(number, fault) for number, fault in enumerate(faults)]


class Record:
    """A run's folder: `plan.json`, and one line of `steps.jsonl` for everything that came of it."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.steps = [Step(*step) for step in plan.steps]
        self.seed, self.cut_seconds, self.lease_seconds = plan.seed, plan.cut_seconds, plan.lease_seconds
        self.program, self.fair = plan.program, plan.fair
        self.done: dict[int, dict[str, Any]] = {}
        self.findings: list[str] = []
        self.endings: list[dict[str, Any]] = []
        self.file = folder / "steps.jsonl"

    @classmethod
    def begin(cls, folder: Path, plan: Plan) -> "Record":
        """A new run."""
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(json.dumps(plan._asdict()))
        return cls(folder, plan)

    @classmethod
    def open(cls, folder: Path) -> "Record":
        """A run that was broken off."""
        record = cls(folder, Plan(**json.loads((folder / "plan.json").read_text())))
        for line in record.file.read_text().splitlines() if record.file.exists() else []:
            record.take(json.loads(line))
        return record

    def take(self, line: dict[str, Any]) -> None:
        match line["is"]:
            case "step":
                self.done[line["number"]] = line
            case "finding":
                self.findings.append(line["says"])
            case "end":
                self.endings.append(line)

    def write(self, line: dict[str, Any]) -> None:
        self.take(line)
        with self.file.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def left(self) -> list[Step]:
        """What is still to be done."""
        return [step for step in self.steps if step.number not in self.done]

    def finish(self, step: Step, took: float, figures: dict[str, float]) -> None:
        self.write({"is": "step", "number": step.number, "fault": step.fault, "took": took, "figures": figures})

    def found(self, finding: Finding) -> None:
        self.write({"is": "finding", "says": str(finding)})

    def close(self, **figures: Any) -> None:
        self.write({"is": "end", **figures})


def summary(record: Record) -> tuple[str, Outcome]:
    """The figures of a run as a table, and how it ended."""
    rows: list[tuple[str, str, Outcome]] = []
    for fault in FAULTS:
        mine = [line for line in record.done.values() if line["fault"] == fault]
        if not mine:
            continue
        figures = [f"{len(mine)} times"]
        outcome = Outcome.PASSED
        for name in sorted({name for line in mine for name in line["figures"]}):
            values = [line["figures"][name] for line in mine if name in line["figures"]]
            figures.append(f"{name.replace('_', ' ')} {min(values):.2f} to {max(values):.2f}")
            if name == "takeover_seconds":
                most = takeover_max(fault, record.lease_seconds)
                figures[-1] += f" (at most {most:.1f})"
                outcome = Outcome.PASSED if max(values) <= most else Outcome.LATE
        rows.append((fault, ", ".join(figures), outcome))
    for end in record.endings:
        counts = end["counts"]
        rows.append(
            (
                "Jobs",
                f"{end['made']} made ({end['refused']} refused by the API server), {counts.get('Jobs ended', 0)} "
                f"ended, {counts.get('Jobs failed', 0)} failed, {len(end['unfinished'])} not finished in the end",
                Outcome.FAILED if counts.get("Jobs failed") else Outcome.PASSED,
            )
        )
        rows += [("", f"not finished: {key}", Outcome.LATE) for key in end["unfinished"][:20]]
        evicted = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if name.startswith("Evicted "))
        rows.append(
            ("workloads", f"{counts.get('Admitted', 0)} admissions; {evicted or 'no evictions'}", Outcome.PASSED)
        )
        answers = ", ".join(f"{counts[name]} {name}" for name in ANSWERS if counts.get(name))
        rows.append(
            ("capacity", f"asked for {counts.get('requests', 0)} times; {answers or 'no answers'}", Outcome.PASSED)
        )
        rows.append(("managers", f"{end['gave_up']} ended by themselves", Outcome.PASSED))
        looks = f"{end['events']} events, {end['gaps']} gaps, {end['out_of_order']} out of order"
        looks += f", {end['restores']} restores" if end.get("restores") else ""
        starved = end.get("starved_seconds", 0)
        looks += f"; no lateness was judged during {starved:.0f} s without a processor" if starved else ""
        rows.append(("auditor", looks, Outcome.PASSED))
    if not record.endings:
        rows.append(("run", "broken off; go on with --resume", Outcome.FAILED))
    rows.append(("findings", str(len(record.findings)), Outcome.FAILED if record.findings else Outcome.PASSED))
    rows += [("", says, Outcome.FAILED) for says in record.findings[:50]]
    marks = {Outcome.PASSED: "ok", Outcome.FAILED: "NO", Outcome.LATE: "LATE"}
    text = "\n".join(f"{marks[outcome]:<5}{name:<18} {figures}" for name, figures, outcome in rows)
    return text, Outcome.of(outcome for _, _, outcome in rows)
