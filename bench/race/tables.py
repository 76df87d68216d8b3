"""Results side by side, as Markdown that also reads well on a terminal."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bench.race.contenders import RIVALS, TITLES
from bench.race.managermetrics import Said
from bench.race.requests import writes
from bench.race.result import Result

FEWEST: Final = 0.005
"""A kind of request with fewer requests per workload gets no row."""


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |\n"
        for line in lines
    )


def title(result: Result, fresh: frozenset[str]) -> str:
    """The column header of a contender; marks a result of an earlier run."""
    name = TITLES[result.contender]
    return name if result.contender in fresh else f"{name} (earlier run of {result.date})"


def figures(results: Sequence[Result], fresh: frozenset[str]) -> str:
    """The figures of each contender."""
    rows: list[tuple[str, Callable[[Result], str]]] = [
        ("wall, s", lambda each: f"{each.wall:,.1f}"),
        ("wall of each run, s", lambda each: ", ".join(f"{wall:,.0f}" for wall in each.walls)),
        ("slowness of the machine in each", lambda each: ", ".join(f"{one:.2f}" for one in each.slowness)),
        (
            "CPU time taken by other machines in each, %",
            lambda each: ", ".join(f"{part:.1%}"[:-1] for part in each.stolen),
        ),
        ("kube-apiserver, CPU s", lambda each: f"{each.apiserver:,.1f}"),
        ("etcd, CPU s", lambda each: f"{each.etcd:,.1f}"),
        ("manager, CPU s", lambda each: f"{each.manager:,.1f}"),
        ("manager, peak MB", lambda each: f"{each.memory / 2**20:,.0f}"),
        ("harness, CPU s", lambda each: f"{each.runner:,.1f}"),
        ("anything else on the machine, CPU s", lambda each: f"{each.others:,.1f}"),
    ]
    rows += [(f"mean to admission, {name}, s", waiting(name)) for name in results[0].classes]
    rows += [
        ("evictions", lambda each: f"{each.evictions:,.0f}"),
        ("admissions/s", lambda each: f"{each.workloads / each.wall:,.0f}"),
        ("kube-apiserver, CPU ms per workload", lambda each: f"{each.apiserver / each.workloads * 1000:.1f}"),
        ("writes per workload", lambda each: f"{writes(each.requests) / each.workloads:.2f}"),
        ("run time lost to evictions, s", lambda each: own(each, lambda said: said.lost_seconds)),
        ("evictions whose preemptor did not start", lambda each: own(each, lambda said: said.unserved)),
        ("Events the manager dropped", lambda each: own(each, lambda said: said.dropped_events)),
        ("changes the harness's recorder dropped", lambda each: f"{each.dropped:,}"),
    ]
    head = ["", *(title(each, fresh) for each in results)]
    return grid(head, ([name, *map(figure, results)] for name, figure in rows))


def own(result: Result, figure: Callable[[Said], float]) -> str:
    """A figure of our manager."""
    return "" if result.said is None else f"{figure(result.said):,.0f}"


def waiting(name: str) -> Callable[[Result], str]:
    """The mean wait of a class, of any result."""
    return lambda each: f"{each.classes[name].admission:,.1f}"


def where_it_goes(results: Sequence[Result]) -> str:
    """Requests to the API server per workload, by verb and kind, most expensive first."""

    def per_workload(each: Result, asked: str) -> float:
        return each.requests.get(asked, 0) / each.workloads

    asked = {name for each in results for name in each.requests if per_workload(each, name) >= FEWEST}
    order = sorted(
        asked, key=lambda name: (name[0].isdigit(), -max(per_workload(each, name) for each in results), name)
    )
    rows = [[spoken(name), *(f"{per_workload(each, name):.3f}" for each in results)] for name in order]
    return grid(["requests per workload", *(TITLES[each.contender] for each in results)], rows)


def spoken(asked: str) -> str:
    """A kind of request in words; a refused one begins with its status code."""
    first, _, rest = asked.partition(" ")
    return f"refused with {first}: {rest}" if first.isdigit() else asked


def rivals(results: Sequence[Result]) -> list[Result]:
    """The contenders to beat."""
    return [each for each in results if each.contender in RIVALS]
