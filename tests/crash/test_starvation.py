"""Is a starved machine recognised, and lateness excused for as long as that lasts?"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import starvation
from tests.crash.starvation import Starvation, Ticks, stolen, ticks
from tests.patience import soon


def test_times_of_guests_are_not_counted_twice(tmp_path: Path) -> None:
    file = tmp_path / "stat"
    file.write_text("cpu  100 0 20 1000 0 0 3 7 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    assert ticks(file) == Ticks(7, 1130)
    assert ticks(tmp_path / "none") == Ticks(0, 0)
    assert stolen(Ticks(0, 0), Ticks(50, 100)) == 0.5
    assert stolen(Ticks(7, 9), Ticks(7, 9)) == 0


def test_lateness_is_excused_while_the_machine_is_starved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starvation, "EVERY_SECONDS", 0.01)
    # Looks at a machine that is well, starved twice in a row, well, starved, and well from then on.
    totals = [0, 100, 200, 300, 400, 500]
    stolen_by_then = [0, 10, 90, 170, 175, 255]
    looks = [Ticks(stolen, total) for stolen, total in zip(stolen_by_then, totals, strict=True)]
    excuses: list[str] = []

    @contextlib.contextmanager
    def excused() -> Iterator[None]:
        excuses.append("begin")
        yield
        excuses.append("end")

    with Starvation(excused, lambda: looks.pop(0) if len(looks) > 1 else looks[0]) as on:
        assert soon(lambda: excuses == ["begin", "end"] * 2)
    assert on.seconds == pytest.approx(0.03)


def test_an_excuse_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starvation, "EVERY_SECONDS", 0.01)
    excuses: list[str] = []
    time = iter(range(0, 1_000_000, 100))

    @contextlib.contextmanager
    def excused() -> Iterator[None]:
        excuses.append("begin")
        yield
        excuses.append("end")

    with Starvation(excused, lambda: Ticks(now := next(time), now + 1)):
        assert soon(lambda: bool(excuses))
        assert excuses == ["begin"]
    assert excuses == ["begin", "end"]
