"""Store a run with its origin, as JSON and as the table of docs/benchmarks.md."""

from os import cpu_count, getloadavg
from pathlib import Path
from platform import machine, python_implementation, python_version
from typing import Final

import msgspec

from bench import kernel
from bench.floors import Result, number
from pykueue.base.struct import Frozen

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "bench" / "results"
PAGE: Final = ROOT / "docs" / "benchmarks.md"
BEGIN: Final = "<!-- written by `python -m bench --keep` -->"
END: Final = "<!-- end -->"


class Origin(Frozen):
    """When, with which versions and on which machine a run was made."""

    date: str
    python: str
    machine: str
    cpus: int
    load: float
    """The load average of the last minute; the excess over one is other work."""
    kernel_seconds: float
    kernel_reference: float = kernel.REFERENCE


class Line(Frozen):
    """One result, as plain numbers."""

    name: str
    unit: str
    asked: float
    effective: float
    measured: float
    at_least: bool
    ok: bool
    why: str
    note: str


class Run(Frozen):
    """All results of one run."""

    origin: Origin
    results: tuple[Line, ...]


def run_of(results: list[Result], date: str, kernel_seconds: float) -> Run:
    """Results with their origin."""
    python = f"{python_implementation()} {python_version()}"
    origin = Origin(date, python, machine(), cpu_count() or 1, round(getloadavg()[0], 2), round(kernel_seconds, 4))
    return Run(origin, tuple(map(line_of, results)))


def line_of(result: Result) -> Line:
    """A result as it is stored."""
    floor = result.floor
    return Line(
        floor.name,
        floor.unit,
        floor.asked,
        round(floor.effective(result.slowness), 3),
        round(result.measured, 3),
        floor.at_least,
        result.ok,
        floor.why,
        result.note,
    )


def keep(run: Run) -> Path:
    """Write a run to its file and its table to the page; returns the file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{run.origin.date}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run)) + b"\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, end, rest = rest.partition(END)
    assert end, f"{PAGE.name}: has no place for the table; put {BEGIN} and {END} around it"
    PAGE.write_text(f"{before}{BEGIN}\n{table(run)}{END}{rest}")
    return path


def sign(line: Line) -> str:
    """Whether a number is a minimum or a maximum."""
    return "≥" if line.at_least else "≤"


def table(run: Run) -> str:
    """A run as Markdown."""
    origin = run.origin
    rows = [
        f"| {line.name} | {line.why} | {sign(line)} {number(line.asked)} | {sign(line)} {number(line.effective)} "
        f"| {number(line.measured)} {line.unit} | {line.note} |"
        for line in run.results
    ]
    return "\n".join(
        [
            "",
            "| floor | what is measured | required | required here | measured here | details |",
            "| --- | --- | ---: | ---: | ---: | --- |",
            *rows,
            "",
            f"Origin: {origin.date}, {origin.python} on {origin.machine}, {origin.cpus} CPUs at a load of "
            f"{origin.load}; the kernel took {origin.kernel_seconds:.3f} s, and {origin.kernel_reference:.3f} s on the "
            "reference machine. "
            f"Stored in `bench/results/{origin.date}.json`.",
            "",
            "",
        ]
    )
