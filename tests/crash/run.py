"""How does a crash run go? A control plane, a manager under load, faults one after the other, the auditor all along."""

import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pykueue.audit.world import FINAL, INITIAL, Finding, Settings
from pykueue.base.clock import SystemClock
from pykueue.base.units import format_instant
from tests.crash.crew import Crew, crew_on
from tests.crash.faults import FAULTS, Scene
from tests.crash.load import Load
from tests.crash.mutant import MUTANTS
from tests.crash.provider import Provider, by_luck, define
from tests.crash.record import Record, Step
from tests.crash.watchman import HOLD_SECONDS, LAG_SECONDS, Watchman
from tests.outcome import Outcome
from tests.plane.client import Client, Late
from tests.plane.plane import Plane
from tests.plane.programs import LEASE, NAMESPACE, USER, Site, ours, theirs

DRAIN_SECONDS = 180
QUIET_SECONDS = HOLD_SECONDS + 14
"""How long to go on watching when all is done: longer than the auditor lets anything be late, and lags behind."""
MUTANT_SECONDS = 90
"""How long a manager that is broken on purpose may go unnoticed."""


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{format_instant(SystemClock().now())[11:19]} {text}", flush=True)


@contextlib.contextmanager
def late_exits(findings: list[Finding]) -> Iterator[None]:
    """Exit with `Outcome.LATE` when what the block waits for does not come in time, unless there are findings."""
    try:
        yield
    except Late as late:
        say(f"LATE {late}")
        raise SystemExit(Outcome.FAILED if findings else Outcome.LATE) from late


class Stage(NamedTuple):
    """Where a run takes place."""

    crew: Crew
    load: Load
    watchman: Watchman
    findings: list[Finding]


@contextlib.contextmanager
def stage(
    folder: Path, program: str, rng: random.Random, lease_seconds: int, name: str, *, fair: bool = False
) -> Iterator[Stage]:
    """A control plane with a manager that leads, what Jobs need, and the auditor; logs and history go to the folder."""
    findings: list[Finding] = []

    def found(finding: Finding) -> None:
        findings.append(finding)
        say(f"FOUND {finding}")

    site_of = theirs if program == "kueue" else ours
    with late_exits(findings), Plane.start(logged=USER) as plane, Site.on(plane, site_of()) as site:
        define(plane)
        try:
            with crew_on(site, program, lease_seconds, fair=fair) as crew:
                load = Load(plane.client, rng, f"job-{name}")
                crew.start()
                crew.await_leader()
                load.prepare()
                settings = Settings(
                    lease=f"{NAMESPACE}/{LEASE}",
                    plain_resources=True,
                    lag_seconds=LAG_SECONDS,
                    fair_sharing=(FINAL, INITIAL) if fair else (),
                )
                history = folder / f"history-{name}.jsonl.gz"
                with (
                    Watchman(plane.kubeconfig, history, settings, ended=load.ended, found=found) as watchman,
                    Provider(plane.client, by_luck(random.Random(rng.random()))),
                ):
                    load.start()
                    try:
                        yield Stage(crew, load, watchman, findings)
                    finally:
                        load.stop()
        finally:
            for log in plane.folder.glob("manager-*.log"):
                (folder / f"{name}-{log.name}").write_bytes(log.read_bytes())


def run(record: Record, calm: float) -> None:
    """Do what is left of the plan, and see all Jobs to their end."""
    name = str(len(record.done))
    rng = random.Random(f"{record.seed}/{name}")
    seeded = random.Random(rng.random())
    with stage(record.folder, record.program, seeded, record.lease_seconds, name, fair=record.fair) as on:
        time.sleep(calm)
        scene = Scene(on.crew.plane, on.crew, on.load, rng, record.cut_seconds, on.watchman)
        start, told = time.monotonic(), 0
        for step in record.left():
            on.watchman.check()
            on.load.check()
            on.crew.mend()
            began = time.monotonic()
            figures = FAULTS[step.fault](scene)
            for finding in on.findings[told:]:
                record.found(finding)
            told = len(on.findings)
            record.finish(step, time.monotonic() - began, figures)
            report(record, step, figures, on, time.monotonic() - start)
        on.load.stop()
        say(f"no more Jobs; {len(on.load.unfinished)} are to be finished")
        drained = Client.soon(lambda: settled(on), DRAIN_SECONDS)
        time.sleep(QUIET_SECONDS)
        on.watchman.check()
        for finding in on.findings[told:]:
            record.found(finding)
        close(record, on, drained=drained)


def settled(on: Stage) -> bool:
    """Whether every Job has ended; meanwhile managers that gave up are started anew."""
    on.crew.mend()
    return not on.load.unfinished


def close(record: Record, on: Stage, *, drained: bool) -> None:
    """Write down what came of the run."""
    follower = on.watchman.follower
    assert follower is not None, "the auditor has begun"
    record.close(
        made=on.load.made,
        refused=on.load.refused,
        unfinished=[] if drained else sorted(on.load.unfinished.values()),
        counts=dict(on.watchman.tally.counts),
        events=on.watchman.auditor.events,
        gaps=follower.gaps,
        restores=follower.restores,
        out_of_order=follower.out_of_order,
        starved_seconds=on.watchman.starvation.seconds,
        gave_up=on.crew.gave_up,
        ready_seconds=on.crew.ready_seconds,
    )


def report(record: Record, step: Step, figures: dict[str, float], on: Stage, elapsed: float) -> None:
    """Print how far the run has got."""
    counts = on.watchman.tally.counts
    took = record.done[step.number]["took"]
    told = "".join(f" {name.replace('_', ' ')} {value:.2f}" for name, value in figures.items())
    say(
        f"{len(record.done)}/{len(record.steps)} {step.fault} ({took:.1f} s){told} | {elapsed:.0f} s, "
        f"Jobs {on.load.made} made, {counts['Jobs ended']} ended, evictions {counts['Evicted']}, "
        f"findings {len(record.findings)}"
    )


def try_mutant(name: str, folder: Path, seed: int, lease_seconds: int) -> bool:
    """Whether the auditor notices what is wrong with a manager that is broken on purpose."""
    mutant = MUTANTS[name]
    say(f"a manager that {mutant.says}: the auditor must find {mutant.rule!r}")
    with stage(folder, name, random.Random(seed), lease_seconds, name) as on:
        start = time.monotonic()

        def noticed() -> bool:
            on.watchman.check()
            on.load.check()
            # With less to do, what is forgotten stands out.
            if time.monotonic() - start > MUTANT_SECONDS / 2:
                on.load.enough.set()
            return any(finding.rule == mutant.rule for finding in on.findings)

        found = Client.soon(noticed, MUTANT_SECONDS)
    made = f"{on.load.made} Jobs, {on.load.refused} refused{f' ({on.load.refusal[:300]})' if on.load.refused else ''}"
    say(f"{name}: {'found' if found else 'NOT FOUND'} after {time.monotonic() - start:.0f} s, {made}")
    return found
