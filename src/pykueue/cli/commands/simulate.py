"""`pykueue simulate`: run queues and jobs from manifests under virtual time and report what happens."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from pykueue.api.durations import DurationError, Micros, parse_duration
from pykueue.api.jobsummary import FinishedList
from pykueue.base.text import printable
from pykueue.base.units import Instant, amount_text, format_instant, parse_instant
from pykueue.bridge.runtimes import Learned, RunTimes
from pykueue.cli.flags import tolerating_unknown_gates
from pykueue.cli.manifestfiles import contents
from pykueue.cli.tables import duration, hanging, painted, table, wants_colour
from pykueue.engine.record.explain import either
from pykueue.sim.document import as_json
from pykueue.sim.manifests import Mistake
from pykueue.sim.report import ENDINGS, Report, report
from pykueue.sim.trace import START, Invalid, Setting, read_trace
from pykueue.sim.world import END_OF_TIME, End, MomentKind, World

WHAT_WIDTH: Final = 11
WHERE: Final = re.compile(r"(.*): document (\d+)(?:, item (\d+))?", re.DOTALL)
"""The file and position of a mistake; see `sim.manifests.Document.where`."""
MISTAKES_SHOWN_MAX: Final = 200
COLOURS: Final = {
    MomentKind.STARTS: "green",
    MomentKind.RUNS: "green",
    MomentKind.RESERVES: "cyan",
    MomentKind.WAITS: "yellow",
    MomentKind.PREEMPTED: "red",
    MomentKind.EVICTED: "red",
    MomentKind.DEACTIVATED: "red",
}


def length(ctx: click.Context, param: click.Parameter, value: str | None) -> Micros | None:
    """Parse a duration option."""
    if value is None:
        return None
    try:
        found = parse_duration(value)
    except DurationError as error:
        raise click.BadParameter(str(error)) from error
    if found < 0:
        raise click.BadParameter(f"{value!r} is negative; use a duration after the start, e.g. 1h")
    return found


def moment(ctx: click.Context, param: click.Parameter, value: str) -> Instant:
    """Parse a timestamp option."""
    try:
        found = parse_instant(value)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{value!r} is not a timestamp; use RFC 3339, e.g. 2026-01-31T12:00:00Z") from error
    if not 0 <= found < END_OF_TIME:
        raise click.BadParameter(f"{value!r} is out of range; use a year from 1970 to 8999")
    return found


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--config", metavar="FILE", help="Configuration file; may also be one of the FILEs.")
@click.option("--feature-gates", metavar="NAME=BOOL,...", default="", help="Feature gates, as for `pykueue manager`.")
@tolerating_unknown_gates
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, help="Seed for the jitter of backoffs.")
@click.option(
    "--until",
    metavar="DURATION",
    callback=length,
    help="Stop after this long, e.g. 90m; default: when nothing is left to happen.",
)
@click.option("--start", metavar="INSTANT", callback=moment, default=format_instant(START), help="Start time.")
@click.option(
    "--run-times",
    metavar="FILE",
    help="Finished jobs, from `pykueue jobs --finished -o json`; jobs without pykueue.io/run-seconds run like them.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@click.option("--explain", is_flag=True, help="Add to each wait what would resolve it.")
def simulate(
    files: tuple[str, ...],
    config: str | None,
    feature_gates: str,
    tolerate_unknown_gates: bool,
    seed: int,
    until: Micros | None,
    start: Instant,
    run_times: str | None,
    output: str,
    explain: bool,
) -> None:
    """Simulate queues and jobs without a cluster.

    Each FILE contains manifests in YAML or JSON: ClusterQueues, LocalQueues, ResourceFlavors, Cohorts,
    WorkloadPriorityClasses, PriorityClasses, AdmissionChecks, ProvisioningRequestConfigs, Namespaces, LimitRanges,
    RuntimeClasses, Workloads, Jobs, and the Configuration. A directory stands for the manifests in it, and - for
    standard input.

    \b
    Annotations on a Job or Workload set its behaviour (defaults in parentheses):
      pykueue.io/arrival: 30s          when it is created (at the start)
      pykueue.io/run-seconds: "600"    how long it runs once its pods are ready (60)
      pykueue.io/ready-seconds: "5"    how long its pods take to become ready, or never (0)
      pykueue.io/stop-seconds: "30"    how long its pods take to stop (0)
      pykueue.io/checkpoint: "true"    after an eviction it resumes (starts over)
    An annotation on an AdmissionCheck sets its result:
      pykueue.io/check: retry          ready, pending, retry or rejected (ready)
    Without it, a check with a ProvisioningRequestConfig of class scripted.pykueue.io follows the
    parameters of that class; other classes find capacity at once.

    \b
    Example:
      pykueue simulate examples/preemption
      pykueue simulate queues.yaml jobs.yaml --until 24h -o json | jq .summary
      pykueue jobs --finished -o json > finished.json
      pykueue simulate queues.yaml jobs.yaml --run-times finished.json

    Exit codes: 0, the simulation ended; 1, it did not settle; 2, invalid input; 130, Ctrl-C.
    """
    mistakes: list[Mistake] = []
    texts = [text for file in files for text in contents(file, mistakes)]
    configuration = None if config is None else next(contents(config, mistakes), None)
    learned = Learned() if run_times is None else learned_from(run_times, mistakes)
    try:
        trace = read_trace(texts, Setting(configuration, feature_gates, seed, start, tolerate_unknown_gates, learned))
    except Invalid as error:
        mistakes += error.mistakes
    if mistakes:
        complain(in_order(mistakes, files))
        sys.exit(2)
    past = World(trace).run(None if until is None else Instant(start + until))
    found = report(past)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(as_json(found)), indent=2).decode())
    else:
        colour = wants_colour(sys.stdout, os.environ)
        click.echo("\n".join(rendered(found, colour=colour, explain=explain)), color=colour)
    if found.ended is End.BOUND:
        click.echo(f"Error: {ENDINGS[End.BOUND]}", err=True)
        sys.exit(1)


def learned_from(file: str, mistakes: list[Mistake]) -> Learned:
    """The run times of the finished jobs in a file."""
    found = RunTimes()
    for name, raw in contents(file, mistakes):
        try:
            jobs = msgspec.json.decode(raw, type=FinishedList).items
            for job in jobs:
                found.learn_job(job)
        except ValueError as error:
            advice = "write it with `pykueue jobs --finished -o json`"
            mistakes.append(Mistake(name, f"is no list of finished jobs: {error}; {advice}"))
    return found.learned(START)


def in_order(mistakes: Sequence[Mistake], files: Sequence[str]) -> list[Mistake]:
    """The mistakes in the order of the files and of their documents; those of no file last."""
    named = ["<stdin>" if file == "-" else file for file in files]

    def place(mistake: Mistake) -> tuple[int, str, int, int]:
        found = WHERE.fullmatch(mistake.where)
        file, number, item = found.groups() if found else (mistake.where, None, None)
        within = (index for index, name in enumerate(named) if file == name or Path(name) in Path(file).parents)
        return next(within, len(named)), file, int(number or 0), int(item or 0)

    return sorted(mistakes, key=place)


def complain(mistakes: list[Mistake]) -> None:
    """Print all errors to standard error."""
    for mistake in mistakes[:MISTAKES_SHOWN_MAX]:
        click.echo(printable(str(mistake)), err=True)
    rest = len(mistakes) - MISTAKES_SHOWN_MAX
    if rest > 0:
        click.echo(f"and {rest} more", err=True)
    count = "1 error" if len(mistakes) == 1 else f"{len(mistakes)} errors"
    click.echo(f"Error: {count} in the input; nothing was simulated", err=True)


def rendered(found: Report, *, colour: bool, explain: bool) -> Iterator[str]:
    """The report as lines of text."""
    yield from timeline(found, colour=colour, explain=explain)
    yield ""
    span = duration(found.end - found.start)
    total, done = sum(one.workloads for one in found.queues), sum(one.finished for one in found.queues)
    yield from hanging("", f"After {span}: {done} of {total} workloads finished; {ENDINGS[found.ended]}.")
    yield from (line for note in found.notes for line in hanging("Note: ", printable(note)))
    yield ""
    yield from queue_table(found)
    yield ""
    yield from use_table(found)
    if found.waiting:
        yield ""
        yield from still_waiting(found, colour=colour)


def timeline(found: Report, *, colour: bool, explain: bool) -> Iterator[str]:
    """The events, one per line."""
    shown = [one for one in found.lines if not one.beside]
    names = short_names([one.name for one in found.lines] + [one.name for one in found.waiting])
    width = max((len(names[one.name]) for one in shown), default=0)
    clock = max((len(duration(one.at - found.start)) for one in shown), default=7)
    for one in shown:
        what = painted(f"{one.what.value:<{WHAT_WIDTH}}", COLOURS.get(one.what), on=colour)
        lead = f"{duration(one.at - found.start):>{clock}}  {names[one.name]:<{width}}  "
        plain = len(lead) + WHAT_WIDTH + 2
        first, *rest = hanging(" " * plain, printable(one.why))
        yield f"{lead}{what}  {first[plain:]}".rstrip()
        yield from rest
        if explain and one.helps:
            yield from hanging(" " * plain + "helps: ", printable(either(one.helps)))


def short_names(names: list[str]) -> dict[str, str]:
    """Each name, without its namespace where all share one."""
    spaces = {name.partition("/")[0] for name in names}
    return {name: name.partition("/")[2] if len(spaces) == 1 else name for name in names}


def queue_table(found: Report) -> list[str]:
    """Waits, admissions and preemptions of each ClusterQueue.

    A wait lasts from arrival to the first start; `waited` is the total, including waits after evictions.
    """
    rows = []
    for one in found.queues:
        wait = one.wait
        waits = ("-", "-", "-") if wait is None else (duration(wait.mean), duration(wait.p95), duration(wait.longest))
        counts = (one.workloads, one.admissions, one.finished, one.preempts, one.preempted, one.evicted)
        arrived, admissions, finished, *rest = map(str, counts)
        rows.append((one.queue, arrived, admissions, finished, *waits, duration(one.waited), *rest))
    headers = (
        "ClusterQueue",
        "jobs",
        "starts",
        "done",
        "wait mean",
        "p95",
        "max",
        "waited",
        "preempts",
        "preempted",
        "evicted",
    )
    return table(headers, rows, "<>>>>>>>>>>")


def use_table(found: Report) -> list[str]:
    """How much of each quota was used."""
    rows = [
        (
            one.queue,
            one.flavor,
            one.resource,
            amount_text(one.resource, one.nominal),
            "-" if one.tenths_of_percent is None else f"{one.tenths_of_percent / 10:.1f}%",
            amount_text(one.resource, one.peak),
        )
        for one in found.use
    ]
    return table(("ClusterQueue", "flavor", "resource", "nominal", "used", "peak"), rows, "<<<>>>")


def still_waiting(found: Report, *, colour: bool) -> Iterator[str]:
    """Unfinished workloads, with the reason and what would help."""
    names = short_names([one.name for one in found.lines])
    yield "Not finished:"
    for one in found.waiting:
        state = painted(one.state, "yellow", on=colour)
        yield f"  {names[one.name]} {state} since {duration(one.since - found.start)}"
        yield from hanging("    why:   ", printable(one.why))
        if one.helps:
            yield from hanging("    helps: ", printable(either(one.helps)))
