"""Run Kueue's own performance harness on each contender in turn, and print one line per floor."""

import signal
import sys
from argparse import ArgumentParser, Namespace
from types import FrameType
from typing import Final

from bench.race.contenders import (
    FAIR,
    FAIR_KUEUE,
    FAIR_OURS,
    LIMITS,
    MINE,
    NEW_LIMITS,
    OURS,
    OURS_ON_THEIRS,
    RIVALS,
    TITLES,
    Contender,
    contenders,
    control_plane,
)
from bench.race.managermetrics import Said
from bench.race.page import FAIR_PLACE, PAGE, write
from bench.race.result import Result, disturbed, middle_of, ratios
from bench.race.shapes import BASELINE, LARGE, QUICK, SHAPES, Shape
from bench.race.store import load, save
from bench.race.tables import figures, where_it_goes
from bench.race.track import RaceError, run
from pykueue.base.clock import SystemClock
from pykueue.base.units import format_instant

# How often each contender runs. In the baseline all run three times, because one run decides nothing, in an order that
# spreads the drift of a machine's speed over them. In the quick race the usually slower rival runs once.
ROUNDS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    QUICK.name: ((LIMITS, OURS, NEW_LIMITS), (OURS, LIMITS), (LIMITS, OURS)),
    BASELINE.name: (
        (LIMITS, OURS, OURS_ON_THEIRS, NEW_LIMITS),
        (NEW_LIMITS, OURS_ON_THEIRS, OURS, LIMITS),
        (LIMITS, OURS, OURS_ON_THEIRS, NEW_LIMITS),
    ),
    LARGE.name: ((OURS, LIMITS),),
}
REPEATS: Final = {BASELINE.name: 6}
"""How many runs are repeated at most, because another user of the hardware slowed the machine during them."""
FAIR_ROUNDS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    QUICK.name: ((FAIR_KUEUE, FAIR_OURS), (FAIR_OURS, FAIR_KUEUE), (FAIR_KUEUE, FAIR_OURS)),
    BASELINE.name: ((FAIR_KUEUE, FAIR_OURS), (FAIR_OURS, FAIR_KUEUE), (FAIR_KUEUE, FAIR_OURS)),
    LARGE.name: ((FAIR_OURS, FAIR_KUEUE),),
}


def options(arguments: list[str]) -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(prog="python -m bench.race", description="Race Kueue on its own scalability harness.")
    parser.add_argument("--shape", choices=SHAPES, default=BASELINE.name, help="the load; quick is a tenth of baseline")
    parser.add_argument("--fair", action="store_true", help="race full managers under fair sharing")
    parser.add_argument(
        "--only",
        action="append",
        choices=TITLES,
        help="run this contender alone (may be repeated); of the others the last results are taken, and marked",
    )
    parser.add_argument("--rounds", type=int, help="run everybody so many times, and take the median")
    parser.add_argument("--keep", action="store_true", help=f"write the tables to {PAGE}")
    parser.add_argument("--date", default="", help="the date to write there, as in 2026-01-31; else today")
    parser.add_argument(
        "--profile", action="store_true", help="look at what ours does every few milliseconds; its figures are not kept"
    )
    asked = parser.parse_args(arguments)
    if asked.keep and asked.profile:
        parser.error("--keep: figures of a run that was looked at are not kept; leave out --profile")
    names = entered(asked.fair)
    if strangers := [name for name in asked.only or () if name not in names]:
        parser.error(f"--only: {', '.join(strangers)}: not in this race; choose from {', '.join(names)}, or see --fair")
    return asked


def entered(fair: bool) -> list[str]:
    """The contenders of a race, in the order of its tables."""
    return [name for name in TITLES if (name in FAIR) == fair]


def plan(shape: Shape, only: list[str] | None, rounds: int | None, fair: bool = False) -> list[str]:
    """The contenders in order; with several rounds they alternate, so that a noisy minute affects all of them."""
    usual = (FAIR_ROUNDS if fair else ROUNDS)[shape.name]
    if only:
        usual = (tuple(dict.fromkeys(only)),) * len(usual)
    if rounds:
        usual = (usual[0],) * rounds
    return [name for each in usual for name in each]


def interrupted(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM like Ctrl-C, so that everything that was started is stopped."""
    raise KeyboardInterrupt


def race(shape: Shape, order: list[str], date: str, profile: bool) -> list[Result]:
    """The median of each contender's runs; raises an error for one that does not finish every workload."""
    built = control_plane()
    ready = {each.name: each for each in contenders(list(dict.fromkeys(order)), built, profile)}
    runs: list[Result] = []
    left, repeats = list(order), REPEATS.get(shape.name, 0)
    while left:
        contender: Contender = ready[left.pop(0)]
        print(f"{shape.name}, run {len(runs) + 1} of {len(runs) + 1 + len(left)}: {contender.title}", flush=True)
        found = run(contender, shape, built, date)
        if not found.complete:
            missing = f"{found.unfinished:,} of {found.workloads:,} workloads were not seen through"
            raise RaceError(f"{contender.name}: {missing}")
        print(line(found), flush=True)
        runs.append(found)
        if not profile:
            save(middle_of(contender.name, runs))
        if not left and (again := disturbed(runs)[:repeats]):
            repeats -= len(again)
            runs = [each for each in runs if each not in again]
            left = [each.contender for each in again]
            for each in again:
                print(f"to repeat, as the machine was disturbed: {each.contender},{line(each)}", flush=True)
    return [middle_of(name, runs) for name in ready]


def line(found: Result) -> str:
    """What is printed after a run."""
    slow = f"the machine was {found.slowness[0]:.2f} times slower than the reference"
    stolen = f"{found.stolen[0]:.1%} of its CPU time went to others"
    cpu = f"kube-apiserver {found.apiserver:.1f}, manager {found.manager:.1f}, harness {found.runner:.1f} CPU s"
    return f"  {found.wall:.1f} s, {cpu}; {slow}, {stolen}"


def judge(results: list[Result], fresh: frozenset[str], shape: Shape) -> bool:
    """Print one line per floor, for each of ours; returns whether all are met."""
    by_name = {each.contender: each for each in results}
    rivals = [by_name[name] for name in RIVALS if name in by_name]
    mine = [name for name in MINE if name in by_name]
    if not mine or not rivals:
        print("\nno floor was judged: that takes ours and one of Kueue's")
        return True
    stale = [each.contender for each in rivals if each.contender not in fresh]
    if stale:
        print(f"\nnot of this run, and perhaps of a busier or quieter hour: {', '.join(stale)}")
    kept = True
    for name in mine:
        print(f"\n{TITLES[name]}, {shape.name}: figure by figure against the better of {len(rivals)}")
        for ratio in ratios(by_name[name], rivals):
            print(ratio.line())
            kept = kept and ratio.ok
        kept = judge_said(by_name[name].said) and kept
    return kept


def judge_said(said: Said | None) -> bool:
    """Print a line for each thing that our manager must not do; returns whether it did none of them."""
    if said is None:
        return True
    never = {"evictions whose preemptor did not start": said.unserved, "Events dropped": said.dropped_events}
    for what, times in never.items():
        print(f"{what:<40} {times:,.0f} {'MISSED' if times else 'ok'}")
    return not any(never.values())


def main(arguments: list[str]) -> int:
    """Run the race, print, and store the tables if requested."""
    asked = options(arguments)
    shape = SHAPES[asked.shape]
    date = asked.date or format_instant(SystemClock().now())[:10]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        results = race(shape, plan(shape, asked.only, asked.rounds, asked.fair), date, asked.profile)
    except RaceError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; everything that was started is stopped", file=sys.stderr)
        return 130
    fresh = frozenset(each.contender for each in results)
    names = entered(asked.fair)
    results += [old for name in names if name not in fresh and (old := load(shape.name, name))]
    results.sort(key=lambda each: names.index(each.contender))
    print(f"\n{figures(results, fresh)}\n{where_it_goes(results)}")
    kept = judge(results, fresh, shape)
    if asked.keep:
        write(FAIR_PLACE if asked.fair else shape.name, results, fresh, date)
    return 0 if kept or shape is QUICK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
