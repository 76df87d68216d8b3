"""Write the tables of bench/race/README.md, one set for each load."""

import os
import re
from pathlib import Path
from typing import Final

from bench.race.contenders import OURS, OURS_ON_THEIRS, TITLES
from bench.race.result import Ratio, Result, ratios
from bench.race.shapes import Shape
from bench.race.tables import figures, grid, rivals, where_it_goes

FILE: Final = Path(__file__).with_name("README.md")
PAGE: Final = "bench/race/README.md"


def machine() -> str:
    """A short description of the machine without identifying details."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} cores, {found[1].strip() if found else 'CPU model unknown'}"


def marks(shape: str) -> tuple[str, str]:
    """The markers around the tables of a load."""
    return f"<!-- {shape}: written by `python -m bench.race --shape {shape} --keep` -->", f"<!-- end of {shape} -->"


def replaced(page: str, shape: str, text: str) -> str:
    """The page with other tables for a load."""
    begin, end = marks(shape)
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"{PAGE}: has no place for the tables of {shape}; put {begin} and {end} around it")
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
        for name in (OURS, OURS_ON_THEIRS)
        if name in by_name and rivals(results)
    ]
    origin = f"{date}, {machine()}; {results[0].workloads:,} workloads.\n"
    return "\n".join([origin, figures(results, fresh), *rows, where_it_goes(results)])


def write(shape: Shape, results: list[Result], fresh: frozenset[str], date: str) -> None:
    """Put the tables of a load into the page."""
    FILE.write_text(replaced(FILE.read_text(), shape.name, text(results, fresh, date)))
