"""Write the tables of bench/race/README.md, one set for each load."""

import os
import re
from pathlib import Path
from typing import Final

from bench.race.contenders import MINE, TITLES
from bench.race.result import Ratio, Result, ratios
from bench.race.tables import figures, grid, rivals, where_it_goes

FILE: Final = Path(__file__).with_name("README.md")
PAGE: Final = "bench/race/README.md"
FAIR_PLACE: Final = "fair"


def machine() -> str:
    """A short description of the machine without identifying details."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} cores, {found[1].strip() if found else 'CPU model unknown'}"


def marks(place: str) -> tuple[str, str]:
    """The markers around the tables of a load, or of the race under fair sharing."""
    option = "--fair" if place == FAIR_PLACE else f"--shape {place}"
    return f"<!-- {place}: written by `python -m bench.race {option} --keep` -->", f"<!-- end of {place} -->"


def replaced(page: str, place: str, text: str) -> str:
    """The page with other tables in a place."""
    begin, end = marks(place)
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"{PAGE}: has no place for the tables of {place}; put {begin} and {end} around it")
    return f"{before}{begin}\n\n{text}\n{end}{after}"


def floors(found: list[Ratio], title: str) -> str:
    """The floors as a table."""
    rows = [
        [
            ratio.floor.name,
            f"≤ {ratio.floor.at_most:.2f}",
            f"{ratio.floor.aim:.2f}",
            f"{ratio.value:.2f}" + ("" if ratio.ok else " missed"),
            TITLES[ratio.whose],
        ]
        for ratio in found
    ]
    return grid([title, "floor", "aim", "ratio", "against"], rows)


def text(results: list[Result], fresh: frozenset[str], date: str) -> str:
    """All tables of a load, with their origin."""
    by_name = {each.contender: each for each in results}
    rows = [
        floors(ratios(by_name[name], rivals(results)), TITLES[name])
        for name in MINE
        if name in by_name and rivals(results)
    ]
    origin = f"{date}, {machine()}; {results[0].workloads:,} workloads.\n"
    return "\n".join([origin, figures(results, fresh), *rows, where_it_goes(results)])


def write(place: str, results: list[Result], fresh: frozenset[str], date: str) -> None:
    """Put tables into their place on the page."""
    FILE.write_text(replaced(FILE.read_text(), place, text(results, fresh, date)))
