"""Does it survive being killed at any moment? `python -m tests.crash`: faults under load, with the auditor watching.

A run is a plan of faults in a seeded order. What each took is kept in the run's folder, so that a run that was broken
off goes on with `--resume FOLDER`, on a new control plane.
"""

import random
import sys
import time
from pathlib import Path

import click

from pykueue.audit.world import Finding, Settings
from pykueue.base.clock import SystemClock
from pykueue.base.units import format_instant
from tests.crash.crew import Crew, crew_on
from tests.crash.faults import FAULTS, Scene
from tests.crash.load import Load
from tests.crash.record import Record, Step, plan, summary
from tests.crash.watchman import Watchman
from tests.plane.client import Client
from tests.plane.plane import ROOT, Plane
from tests.plane.process import stop_on_signals
from tests.plane.programs import LEASE, NAMESPACE, Site, ours, theirs

DRAIN_SECONDS = 180
QUIET_SECONDS = 13
"""How long to go on watching when all is done: longer than the auditor lets anything be late."""


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{format_instant(SystemClock().now())[11:19]} {text}", flush=True)


@click.command()
@click.option("--kills", default=200, show_default=True, help="How often to kill the manager.")
@click.option("--each", default=1, show_default=True, help="How often to do each of the other faults.")
@click.option("--cut", "cut_seconds", default=30.0, show_default=True, help="Length of the cut, in seconds.")
@click.option("--seed", default=1, show_default=True, help="Where luck begins.")
@click.option("--only", default="", help="Faults to do, with commas; `none` for load alone.")
@click.option("--calm", default=5.0, show_default=True, help="Seconds of load before the first fault.")
@click.option("--program", default="pykueue", show_default=True, help="pykueue, kueue, or a mutant's name.")
@click.option("--resume", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Run to go on with.")
@click.option("--keep", is_flag=True, help="Keep the control plane's files.")
def main(
    kills: int,
    each: int,
    cut_seconds: float,
    seed: int,
    only: str,
    calm: float,
    program: str,
    resume: Path | None,
    keep: bool,
) -> None:
    """Run the plan of faults, and exit with 1 unless all was well."""
    stop_on_signals()
    if resume is not None:
        record = Record.open(resume)
    else:
        folder = ROOT / "build" / "crash" / format_instant(SystemClock().now()).replace(":", "")
        record = Record.begin(folder, plan(kills, each, seed, only.split(",") if only else []), cut_seconds, program)
    say(f"{len(record.steps)} faults, {len(record.done)} of them done; the record is in {record.folder}")
    with Plane.start(keep=keep) as plane, Site.on(plane, theirs() if record.program == "kueue" else ours()) as site:
        try:
            with crew_on(site, record.program) as crew:
                run(crew, record, seed, calm)
        finally:
            record.keep_logs(plane.folder)
    text, well = summary(record)
    print(text)
    sys.exit(0 if well else 1)


def run(crew: Crew, record: Record, seed: int, calm: float) -> None:
    """Do what is left of the plan, and see all Jobs to their end."""
    client, luck = crew.plane.client, random.Random(f"{seed}/{len(record.done)}")
    load = Load(client, random.Random(luck.random()), f"job-{len(record.done)}")
    load_ready(load, crew)
    settings = Settings(lease=f"{NAMESPACE}/{LEASE}")

    def found(finding: Finding) -> None:
        record.found(finding)
        say(f"FOUND {finding}")

    history = record.folder / f"history-{len(record.done)}.jsonl.gz"
    with Watchman(crew.plane.kubeconfig, history, settings, ended=load.ended, found=found) as watchman:
        scene = Scene(crew.plane, crew, load, luck, record.cut_seconds)
        load.start()
        time.sleep(calm)
        start = time.monotonic()
        for step in record.left():
            watchman.check()
            crew.mend()
            began = time.monotonic()
            figures = FAULTS[step.fault](scene)
            took = time.monotonic() - began
            record.finish(step, took, figures)
            report(record, step, took, figures, watchman, load, time.monotonic() - start)
        load.stop()
        crew.mend()
        say(f"no more Jobs; {len(load.unfinished)} are to be finished")
        drained = Client.soon(lambda: drained_or_mended(crew, load), DRAIN_SECONDS)
        time.sleep(QUIET_SECONDS)
        watchman.check()
        follower = watchman.follower
        record.close(
            made=load.made,
            refused=load.refused,
            unfinished=[] if drained else sorted(load.unfinished.values()),
            counts=dict(watchman.tally.counts),
            events=watchman.auditor.events,
            gaps=follower.gaps if follower else 0,
            out_of_order=follower.out_of_order if follower else 0,
            gave_up=crew.gave_up,
            ready_seconds=crew.ready_seconds,
        )


def load_ready(load: Load, crew: Crew) -> None:
    """Have a manager that leads, and what Jobs need."""
    crew.start()
    crew.await_leader()
    load.prepare()


def drained_or_mended(crew: Crew, load: Load) -> bool:
    """Whether every Job has ended; meanwhile managers that gave up are started anew."""
    crew.mend()
    return not load.unfinished


def report(
    record: Record, step: Step, took: float, figures: dict[str, float], watchman: Watchman, load: Load, elapsed: float
) -> None:
    """Print how far the run has got."""
    counts = watchman.tally.counts
    told = " ".join(f"{name}={value:.2f}" for name, value in figures.items())
    say(
        f"{len(record.done)}/{len(record.steps)} {step.fault} {took:.1f} s {told} | {elapsed:.0f} s, "
        f"Jobs {load.made} made {counts['Jobs ended']} ended, evictions {counts['Evicted']}, "
        f"findings {len(record.findings)}"
    )


if __name__ == "__main__":
    main()
