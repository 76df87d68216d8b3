"""Does the table have every figure, and no cell that a spreadsheet computes?"""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.text import is_formula, printable
from pykueue.reports.csvfile import HEAD, csv_text
from pykueue.reports.figures import figures
from pykueue.reports.records import Material
from tests.reports.samples import HOSTILE, day


def read(material: Material) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(figures(material)))))


def test_every_figure_has_a_row() -> None:
    found = read(day())
    assert {row["table"] for row in found} == {
        *("period", "use", "waits", "lost work", "longest", "others", "calibration", "notes"),
    }

    def value(**wanted: str) -> list[str]:
        return [row["value"] for row in found if all(row[name] == text for name, text in wanted.items())]

    assert value(table="waits", queue="red", measure="p90") == ["14400.0"]
    assert value(table="lost work", queue="red", measure="lost", resource="cpu") == ["14400"]
    assert value(table="use", queue="red", measure="mean use", time="2026-03-02T02:00:00Z") == ["4"]
    assert value(table="use", queue="", measure="nominal", time="2026-03-02T02:00:00Z") == ["4"]
    assert [row["text"] for row in found if row["table"] == "longest"] == ["needs 2 more cpu"] * 2


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_in_their_cells(name: str) -> None:
    check(name)


@given(name=st.text(min_size=1))
def test_any_name_stays_in_its_cell(name: str) -> None:
    check(name)


def check(name: str) -> None:
    found = read(day(name, name, name, name))
    assert all(set(row) == set(HEAD) for row in found), "no row has more or fewer cells"
    assert [value for row in found for value in row.values() if is_formula(value)] == []
    assert printable(name) in {row["job"].removeprefix("'") for row in found} | {row["job"] for row in found}
