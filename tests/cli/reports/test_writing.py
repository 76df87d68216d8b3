"""Are files written for their owner alone, and are bad names refused with a sentence?"""

import stat
from pathlib import Path

import pytest

from pykueue.cli.reports.writing import Output, length_of, output_of, rendered, write
from pykueue.reports.curves import DAY, HOUR
from pykueue.reports.figures import figures
from tests.reports.samples import day


def test_a_file_replaces_an_older_one_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    other = tmp_path / "other"
    other.write_text("untouched")
    file.symlink_to(other)
    write(output_of("-o", str(file)), "new", "-o")
    assert (file.read_text(), other.read_text(), file.is_symlink()) == ("new", "untouched", False)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_formats_by_name_and_by_suffix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of("-o", "csv") == Output("csv")
    assert output_of("-o", str(tmp_path / "a.SVG")) == Output("svg", str(tmp_path / "a.SVG"))
    write(Output("csv"), "a,b\n", "-o")
    assert capsys.readouterr().out == "a,b\n"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("report.pdf", "-o: 'report.pdf' has no known format; name a file that ends with .html or .svg or .csv"),
        ("missing/report.html", "-o: missing is not a directory; create it"),
    ],
)
def test_outputs_that_cannot_be(given: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        output_of("-o", given)
    assert end.value.code == 2
    assert says in capsys.readouterr().err


def test_a_folder_cannot_be_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.html").mkdir()
    with pytest.raises(SystemExit) as end:
        write(Output("html", str(tmp_path / "a.html")), "x", "-o")
    assert end.value.code == 1
    assert "choose another file" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "micros"), [("7d", 7 * DAY), ("12h", 12 * HOUR), ("1h30m", HOUR * 3 // 2)])
def test_lengths(given: str, micros: int) -> None:
    assert length_of(given) == micros


@pytest.mark.parametrize("given", ["", "d", "7", "7days", "0s", "-1h", "99999999999d", "99999d", "²d"])
def test_lengths_that_are_none(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        length_of(given)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("--since: ")


def test_every_format_is_rendered() -> None:
    found = figures(day())
    assert rendered(found, "html").startswith("<!DOCTYPE html>")
    assert rendered(found, "svg").startswith("<?xml")
    assert rendered(found, "csv").startswith("table,")
