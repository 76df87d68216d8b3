"""Would the auditor notice? `python -m tests.mutants` runs the manager with one fault at a time, and says who found it.

The exit code is 1 if a fault was not found, or if something was found without one.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import NamedTuple

import click

from tests.mutants import fairload
from tests.mutants.fairload import FairLoad
from tests.mutants.faults import broken
from tests.mutants.load import SECONDS, FixedLoad
from tests.mutants.table import FAIR_MUTANTS, MUTANTS


class Result(NamedTuple):
    """What came of a run: the rules found broken, after how many seconds of the load, and how long it took."""

    rules: list[str]
    after: int
    took: float
    first: str = ""
    """The first finding."""


def tried(name: str, *, fair: bool = False) -> Result:
    """Play the load of a mutant, or one of the two with the manager as it is if the name is empty."""
    mutant = {**MUTANTS, **FAIR_MUTANTS}.get(name)
    start = time.monotonic()
    with broken(mutant) if mutant is not None else nullcontext():
        load = FairLoad() if fair or name in FAIR_MUTANTS else FixedLoad()
        with closing(load.stage):
            seconds = load.play(mutant.rule if mutant is not None else "")
    findings = load.stage.auditor.findings
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    wanted = [str(one) for one in findings if mutant is None or one.rule == mutant.rule]
    return Result(rules, seconds, time.monotonic() - start, wanted[0] if wanted else "")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*MUTANTS, *FAIR_MUTANTS]))
@click.option("--verbose", is_flag=True, help="Print the first finding of each.")
def main(names: tuple[str, ...], verbose: bool) -> None:
    """Run the manager as it is, then each mutant, under a fixed load with the auditor watching."""
    with logging_disabled():
        found_all = try_all(names or (*MUTANTS, *FAIR_MUTANTS), verbose)
    sys.exit(0 if found_all else 1)


@contextmanager
def logging_disabled() -> Iterator[None]:
    """A broken manager logs every error that it causes."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def try_all(names: tuple[str, ...], verbose: bool) -> bool:
    """Print a line for each; whether the auditor found all mutants, and nothing without one."""
    start, survivors, disturbed = time.monotonic(), 0, False
    for fair in sorted({name in FAIR_MUTANTS for name in names}):
        sound = tried("", fair=fair)
        disturbed = disturbed or bool(sound.rules)
        print(f"{'none':<13} {'nothing' if not sound.rules else sound.first:<12} {sound.took:>5.1f} s")
    for name in names:
        mutant, result = {**MUTANTS, **FAIR_MUTANTS}[name], tried(name)
        found = mutant.rule in result.rules
        survivors += not found
        rule = mutant.rule if found else "SURVIVED"
        print(f"{name:<13} {rule:<12} {result.took:>5.1f} s  {mutant.says}", flush=True)
        if verbose or not found:
            seconds = fairload.SECONDS if name in FAIR_MUTANTS else SECONDS
            print(f"{'':<13} after {result.after} s of {seconds}, rules {result.rules}: {result.first}", flush=True)
    print(f"{len(names)} mutants, {survivors} survived, {time.monotonic() - start:.0f} s")
    return not survivors and not disturbed


if __name__ == "__main__":
    main()
