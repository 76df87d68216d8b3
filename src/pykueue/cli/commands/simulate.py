"""`pykueue simulate`: run queues and jobs from manifests under virtual time and report what happens."""

import gc
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
import msgspec

from pykueue.api.durations import DurationError, Micros, parse_duration
from pykueue.api.jobsummary import FinishedList
from pykueue.base.text import printable
from pykueue.base.units import Instant, amount_text, format_instant, parse_instant
from pykueue.bridge.runtimes import Learned, RunTimes
from pykueue.cli.flags import Count, tolerating_unknown_gates
from pykueue.cli.formats import Column, csv_lines, table_lines
from pykueue.cli.manifestfiles import contents
from pykueue.cli.reports.simulated import Plots
from pykueue.cli.reports.writing import HTML, SVG, output_of, write
from pykueue.cli.tables import duration, hanging, painted, table, wants_colour
from pykueue.engine.record.explain import either
from pykueue.sim.document import as_json
from pykueue.sim.manifests import Mistake
from pykueue.sim.report import ENDINGS, JobRow, Report, report
from pykueue.sim.trace import START, Invalid, Setting, read_trace
from pykueue.sim.world import END_OF_TIME, End, MomentKind, World

WHAT_WIDTH: Final = 11
WHERE: Final = re.compile(r"(.*): document (\d+)(?:, item (\d+))?", re.DOTALL)
"""The file and position of a mistake; see `sim.manifests.Document.where`."""
MISTAKES_SHOWN_MAX: Final = 200
COLLECT_EVERY: Final = 100_000
"""New objects between collections of garbage; Python's default is 700."""
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


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely.

    What a simulation creates lives to its end and has next to no cycles: of 18,239 jobs, 1,300 collections found 1,300
    objects, and took a tenth of the time.
    """
    usual = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


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
    help="Stop after this long, e.g. 90m; default: when no more events are due.",
)
@click.option("--start", metavar="INSTANT", callback=moment, default=format_instant(START), help="Start time.")
@click.option(
    "--run-times",
    metavar="FILE",
    help="Finished jobs, from `pykueue jobs --finished -o json`; jobs without pykueue.io/run-seconds run like them.",
)
@click.option("--set", "set_", multiple=True, metavar="KIND/NAME.FIELD=VALUE", help="Set a field of an object.")
@click.option("--timeline", is_flag=True, help="Show every event, too.")
@click.option("--explain", is_flag=True, help="Like --timeline, and show for each wait what would resolve it.")
@click.option("--jobs", is_flag=True, help="Show a table of all jobs, too.")
@click.option(
    "--longest", type=Count(min=1), metavar="N", help="Like --jobs, but only the N jobs with the longest waiting times."
)
@click.option("--plot", metavar="FILE", help="Also write a page with plots to FILE, which ends with .html or .svg.")
@click.option(
    "--compare",
    metavar="FILE",
    help="Simulate the same jobs with the queues in FILE as well, and show the differences.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    help="Output format; csv is the table of jobs.",
)
@rare_collections()
def simulate(
    files: tuple[str, ...],
    config: str | None,
    feature_gates: str,
    tolerate_unknown_gates: bool,
    seed: int,
    until: Micros | None,
    start: Instant,
    run_times: str | None,
    set_: tuple[str, ...],
    timeline: bool,
    explain: bool,
    jobs: bool,
    longest: int | None,
    plot: str | None,
    compare: str | None,
    output: str,
) -> None:
    """Simulate queues and jobs without a cluster.

    Each FILE contains manifests in YAML or JSON: ClusterQueues, LocalQueues, ResourceFlavors, Cohorts,
    WorkloadPriorityClasses, PriorityClasses, AdmissionChecks, ProvisioningRequestConfigs, Namespaces, LimitRanges,
    RuntimeClasses, Workloads, Jobs, and the Configuration. FILE can also be a directory of manifests, or - for standard
    input.

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
    parameters of that class; other classes find capacity immediately.

    --set changes an object before the simulation starts, as `pykueue preview --set` does.

    --compare runs a second simulation, in which the manifests of its FILE replace all those of the same kinds, and
    ClusterQueues and Cohorts together; jobs and everything else stay as they are. The page of --plot opens without a
    network and contains no scripts; only you can read the file.

    \b
    Example:
      pykueue simulate examples/preemption --timeline
      pykueue simulate queues.yaml jobs.yaml --longest 10
      pykueue simulate queues.yaml jobs.yaml --set clusterqueue/main.cpu=64 -o csv > jobs.csv
      pykueue simulate queues.yaml jobs.yaml --until 24h -o json | jq .summary
      pykueue simulate queues.yaml jobs.yaml --compare other-queues.yaml --plot plot.html
      pykueue jobs --finished -o json > finished.json
      pykueue simulate queues.yaml jobs.yaml --run-times finished.json

    Exit codes: 0, the simulation ended; 1, it did not settle; 2, invalid input; 130, Ctrl-C.
    """
    if compare is not None and output == "csv":
        raise click.UsageError("--compare cannot be combined with -o csv.")
    target = None if plot is None else output_of("--plot", plot, (HTML, SVG), to_stdout=False)
    mistakes: list[Mistake] = []
    texts = [text for file in files for text in contents(file, mistakes)]
    configuration = None if config is None else next(contents(config, mistakes), None)
    learned = Learned() if run_times is None else learned_from(run_times, mistakes)
    setting = Setting(configuration, feature_gates, seed, start, tolerate_unknown_gates, learned, set_)
    traces = []
    for other in ([], list(contents(compare, mistakes))) if compare is not None else ([],):
        try:
            traces.append(read_trace(texts, setting, other))
        except Invalid as error:
            mistakes += error.mistakes
    if mistakes:
        named = (*files, *(() if compare is None else (compare,)))
        complain(in_order(list(dict.fromkeys(mistakes)), named))
        sys.exit(2)
    pasts = [World(trace).run(None if until is None else Instant(start + until)) for trace in traces]
    in_words = timeline or explain or output == "json" or plot is not None or compare is not None
    reports = [report(past, events=in_words) for past in pasts]
    found = reports[0]
    plots = Plots(pasts, reports, ("as in " + " ".join(files), f"with {compare}"))
    if output == "json":
        told = as_json(found) | ({"compared": as_json(reports[1])} if compare is not None else {})
        click.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    elif output == "csv":
        rows = longest_first(found.jobs, longest)
        click.echo("\n".join(csv_lines(rows, job_columns(found.start), no_headers=False)))
    else:
        colour = wants_colour(sys.stdout, os.environ)
        events = timeline_of(found, colour=colour, explain=explain) if timeline or explain else ()
        listed = job_table(found, longest) if jobs or longest is not None else ()
        lines = (
            *events,
            *rendered(found, listed, colour=colour),
            *(plots.differences() if compare is not None else ()),
        )
        click.echo("\n".join(lines), color=colour)
    if target is not None:
        write(target, plots.text(target.form), "--plot")
    if any(one.ended is End.BOUND for one in reports):
        click.echo(f"Error: {ENDINGS[End.BOUND]}", err=True)
        sys.exit(1)


def learned_from(file: str, mistakes: list[Mistake]) -> Learned:
    """The run times of the finished jobs in a file."""
    found = RunTimes()
    for name, raw in contents(file, mistakes):
        try:
            tree = msgspec.json.decode(raw)
            if not isinstance(tree, dict) or "items" not in tree:
                raise ValueError("it has no items")
            for job in msgspec.convert(tree, type=FinishedList).items:
                found.learn_job(job)
        except ValueError as error:
            advice = "write it with `pykueue jobs --finished -o json`"
            mistakes.append(Mistake(name, f"is not a list of finished jobs: {error}; {advice}"))
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


def rendered(found: Report, jobs: Sequence[str], *, colour: bool) -> Iterator[str]:
    """The report as lines of text, with these lines about jobs."""
    span = duration(found.end - found.start)
    total, done = sum(one.workloads for one in found.queues), sum(one.finished for one in found.queues)
    yield from hanging("", f"After {span}: {done} of {total} workloads finished; {ENDINGS[found.ended]}.")
    yield from (line for note in found.notes for line in hanging("Note: ", printable(note)))
    yield ""
    yield from queue_table(found)
    yield ""
    yield from wait_table(found)
    yield ""
    yield from use_table(found)
    if jobs:
        yield ""
        yield from jobs
    if found.waiting:
        yield ""
        yield from still_waiting(found, colour=colour)


def timeline_of(found: Report, *, colour: bool, explain: bool) -> Iterator[str]:
    """The events, one per line, and an empty line."""
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
    yield ""


def short_names(names: list[str]) -> dict[str, str]:
    """Each name, without its namespace where all share one."""
    spaces = {name.partition("/")[0] for name in names}
    return {name: name.partition("/")[2] if len(spaces) == 1 else name for name in names}


def queue_table(found: Report) -> list[str]:
    """Jobs, admissions and preemptions of each ClusterQueue; `waited` is the total, including waits after evictions."""
    rows = []
    for one in found.queues:
        counts = (one.workloads, one.admissions, one.finished, one.preempts, one.preempted, one.evicted)
        arrived, admissions, finished, *rest = map(str, counts)
        rows.append((one.queue, arrived, admissions, finished, duration(one.waited), *rest))
    headers = ("ClusterQueue", "jobs", "starts", "done", "waited", "preempts", "preempted", "evicted")
    return table(headers, rows, "<>>>>>>>")


def wait_table(found: Report) -> list[str]:
    """The waits of each ClusterQueue, from arrival to the first start."""
    rows = []
    for one in found.queues:
        wait = one.wait
        known = () if wait is None else (wait.mean, wait.p50, wait.p90, wait.p95, wait.p99, wait.longest)
        rows.append((one.queue, *(map(duration, known) if known else ("-",) * 6)))
    return table(("ClusterQueue", "wait mean", "median", "p90", "p95", "p99", "max"), rows, "<>>>>>>")


def longest_first(rows: Sequence[JobRow], longest: int | None) -> Sequence[JobRow]:
    """The jobs in order of arrival, or so many that waited longest."""
    return rows if longest is None else sorted(rows, key=lambda one: -one.waited)[:longest]


def job_columns(start: Instant) -> tuple[Column[JobRow], ...]:
    """The columns of the table of jobs; times are since the start."""

    def since(at: Instant | None) -> str:
        return "-" if at is None else duration(at - start)

    return (
        Column("JOB", lambda one: one.name),
        Column("CLUSTERQUEUE", lambda one: one.queue),
        Column("ARRIVED", lambda one: since(one.arrived), ">"),
        Column("STARTED", lambda one: since(one.started), ">"),
        Column("FINISHED", lambda one: since(one.finished), ">"),
        Column("WAITED", lambda one: duration(one.waited), ">"),
        Column("EVICTIONS", lambda one: str(one.evictions), ">"),
    )


def job_table(found: Report, longest: int | None) -> list[str]:
    """The jobs, or those that waited longest."""
    return table_lines(longest_first(found.jobs, longest), job_columns(found.start))


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
    names = short_names([one.name for one in found.jobs])
    yield "Not finished:"
    for one in found.waiting:
        state = painted(one.state, "yellow", on=colour)
        yield f"  {names[one.name]} {state} since {duration(one.since - found.start)}"
        yield from hanging("    why:   ", printable(one.why))
        if one.helps:
            yield from hanging("    helps: ", printable(either(one.helps)))
