"""Run the engine's benchmarks: prints one line per floor, and exits with an error if one is missed."""

import sys
from argparse import ArgumentParser
from statistics import median

from bench import kernel
from bench.floors import MEASURES, Result, best, outcome
from bench.record import keep, run_of
from pykueue.base.clock import SystemClock
from pykueue.base.units import format_instant


def main(arguments: list[str]) -> int:
    """Measure, print, and store the results if requested."""
    parser = ArgumentParser(prog="python -m bench", description="Time the engine against its floors.")
    parser.add_argument("only", nargs="*", metavar="MEASURE", help=f"some of {', '.join(MEASURES)}; all without it")
    parser.add_argument("--keep", action="store_true", help="write bench/results/DATE.json and docs/benchmarks.md")
    parser.add_argument("--date", default="", help="the date to keep them under, as in 2026-01-31; else today")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.only) - set(MEASURES))
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such measure; take some of {', '.join(MEASURES)}")
    if options.keep and options.only:
        parser.error("--keep: keeps whole runs; leave out the names of measures")
    speeds = [kernel.seconds() for _ in range(3)]
    print(f"kernel {median(speeds):.3f} s, reference {kernel.REFERENCE} s; CPU time throughout")
    results: list[Result] = []
    for name in options.only or MEASURES:
        for result in best(MEASURES[name]):
            print(result.line(), flush=True)
            results.append(result)
    if options.keep:
        date = options.date or format_instant(SystemClock().now())[:10]
        print(f"kept in {keep(run_of(results, date, median(speeds)))}")
    return outcome(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
