"""Does it survive being killed at any moment? `python -m tests.crash`: faults under load, with the auditor watching.

A run is a plan of faults in a seeded order. What each took is kept in the run's folder, so that a run that was broken
off goes on with `--resume FOLDER`, on a new control plane.
"""

import sys
from pathlib import Path

import click

from pykueue.base.clock import SystemClock
from pykueue.base.units import format_instant
from tests.crash.faults import FAULTS
from tests.crash.mutant import MUTANTS
from tests.crash.record import Plan, Record, steps, summary
from tests.crash.run import run, say, try_mutant
from tests.plane.plane import ROOT
from tests.plane.process import stop_on_signals


@click.command()
@click.option("--kills", default=200, show_default=True, help="How often to kill the manager.")
@click.option("--each", default=1, show_default=True, help="How often to do each of the other faults.")
@click.option("--only", default="", help=f"Faults to do, with commas, of {', '.join(FAULTS)}; `none` for load alone.")
@click.option("--skip", default="", help="Faults not to do, with commas.")
@click.option("--cut", "cut_seconds", default=30.0, show_default=True, help="Length of the cut, in seconds.")
@click.option("--lease", "lease_seconds", default=3, show_default=True, help="Length of the lease, in seconds.")
@click.option("--calm", default=5.0, show_default=True, help="Seconds of load before the first fault.")
@click.option("--seed", default=1, show_default=True, help="Where rng begins.")
@click.option("--program", type=click.Choice(["pykueue", "kueue", *MUTANTS]), default="pykueue", show_default=True)
@click.option("--fair", is_flag=True, help="With fair sharing.")
@click.option("--mutants", default="", help=f"Broken managers to try instead: all, or some of {', '.join(MUTANTS)}.")
@click.option("--resume", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Run to go on with.")
def main(
    kills: int,
    each: int,
    only: str,
    skip: str,
    cut_seconds: float,
    lease_seconds: int,
    calm: float,
    seed: int,
    program: str,
    fair: bool,
    mutants: str,
    resume: Path | None,
) -> None:
    """Run the plan of faults; the exit code is 0 if all was well, 75 if only a time bound was missed, else 1."""
    for option, asked, known in (
        ("--only", only, {*FAULTS, "none"}),
        ("--skip", skip, {*FAULTS}),
        ("--mutants", mutants, {*MUTANTS, "all"}),
    ):
        if unknown := {name for name in asked.split(",") if name} - known:
            raise click.UsageError(f"{option}: there is no {', '.join(sorted(unknown))}; see --help")
    stop_on_signals()
    folder = ROOT / "build" / "crash" / format_instant(SystemClock().now()).replace(":", "")
    if mutants:
        folder.mkdir(parents=True)
        names = list(MUTANTS) if mutants == "all" else mutants.split(",")
        unseen = [name for name in names if not try_mutant(name, folder, seed, lease_seconds)]
        say(f"{len(names) - len(unseen)} of {len(names)} broken managers were found out")
        sys.exit(1 if unseen else 0)
    if resume is not None:
        record = Record.open(resume)
    else:
        chosen = steps(kills, each, seed, only.split(",") if only else [], skip.split(","))
        record = Record.begin(folder, Plan(chosen, seed, cut_seconds, lease_seconds, program, fair))
    say(f"{len(record.steps)} faults, {len(record.done)} of them done; the record is in {record.folder}")
    run(record, calm)
    text, outcome = summary(record)
    print(text)
    sys.exit(outcome)


if __name__ == "__main__":
    main()
