"""Does CI repeat what failed by chance, once, and nothing else? Real make and pytest on a small project."""

import re
import sys
from pathlib import Path

import pytest

from tests import ci
from tests.outcome import Outcome

MAKEFILE = """\
check: lint test
lint:
\ttest ! -e lint-fails
test:
\tPYTHONPATH= {python} -m pytest -q -p no:pykueue -p no:hypothesispytest -n 1 tests $(ARGS)
e2e:
\t{python} no-such-file.py
bench: bench-one bench-two
bench-one:
\t./program one {late}
bench-two:
\t./program two 1
"""

PROGRAM = """\
#!/bin/sh
# Exits with $2 as long as the file NAME-fails holds a line, of which it takes one.
[ -s "$1-fails" ] || exit 0
sed -i 1d "$1-fails"
exit "$2"
"""

TESTS = """\
import pathlib
import pytest

def lines(name):
    file = pathlib.Path(name)
    return file.read_text().splitlines() if file.exists() else []

@pytest.mark.parametrize("name", ["a 'phrase', with [marks]", *"bcdefghi"])
def test_thing(name):
    left = lines(name)
    pathlib.Path(name).write_text("\\n".join(left[1:]))
    assert not left
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_things.py").write_text(TESTS)
    (tmp_path / "Makefile").write_text(MAKEFILE.format(python=sys.executable, late=int(Outcome.LATE)))
    (tmp_path / "program").write_text(PROGRAM)
    (tmp_path / "program").chmod(0o755)
    return tmp_path


def fail(project: Path, *names: str, times: int = 1) -> None:
    for name in names:
        (project / name).write_text("once\n" * times)


def test_a_step_that_passes_is_run_once(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert ci.run(["check", "bench"], project) == 0
    told = capfd.readouterr().out
    assert "once more" not in told
    assert re.search(r"^=== check \d+ s, bench \d+ s$", told, re.MULTILINE), "what each step took"


def test_a_test_that_fails_once_is_repeated_alone_and_listed(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fail(project, "a 'phrase', with [marks]", "b")
    assert ci.run(["check"], project) == 0
    told = capfd.readouterr().out
    first, second = told.split("--- once more, alone: make test")
    assert "2 failed, 7 passed" in first
    assert "2 passed in" in second
    assert "repeated: tests/test_things.py::test_thing[b] (make check): failed, then passed" in told


def test_a_test_that_fails_twice_fails_ci(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fail(project, "b", times=2)
    fail(project, "c")
    assert ci.run(["check"], project) == 1
    told = capfd.readouterr().out
    assert "test_thing[b] (make check): failed, then failed again" in told
    assert "test_thing[c] (make check): failed, then passed" in told


def test_many_failures_are_not_repeated(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fail(project, "a 'phrase', with [marks]", *"bcdefghi")
    assert ci.run(["check"], project) == 1
    assert "9 failures in make check are too many to repeat" in capfd.readouterr().out


def test_a_step_that_would_start_too_late_is_left_out_and_named(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ci.run(["check", "--in-time", "bench"], project) == 0
    assert "NOT RUN" not in capfd.readouterr().out
    monkeypatch.setattr(ci, "START_SECONDS", 0)
    fail(project, "one-fails")
    assert ci.run(["check", "--in-time", "bench"], project) == 0
    told = capfd.readouterr().out
    assert "NOT RUN: make bench" in told
    assert "all that ran passed" in told


def test_a_failure_that_is_no_test_is_not_repeated(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fail(project, "b", "lint-fails")
    assert ci.run(["check"], project) == 1
    assert "once more" not in capfd.readouterr().out


def test_a_run_without_a_list_of_failed_tests_is_not_repeated(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert ci.run(["e2e"], project) == 1
    assert "once more" not in capfd.readouterr().out


def test_a_collection_error_fails_again(project: Path) -> None:
    (project / "tests/test_broken.py").write_text("import nothing_of_that_name\n")
    assert ci.run(["check"], project) == 1


def test_a_program_that_is_late_is_repeated(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fail(project, "one-fails")
    assert ci.run(["bench"], project) == 0
    assert "repeated: bench-one (make bench): failed, then passed" in capfd.readouterr().out


def test_a_program_that_is_late_twice_fails_ci(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fail(project, "one-fails", times=2)
    assert ci.run(["bench"], project) == 1
    assert "repeated: bench-one (make bench): failed, then failed again" in capfd.readouterr().out


def test_a_program_that_fails_is_not_repeated(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fail(project, "one-fails", "two-fails")
    assert ci.run(["bench"], project) == 1
    assert "once more" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("outcomes", "outcome"),
    [
        pytest.param([], Outcome.PASSED, id="nothing was missed"),
        pytest.param([Outcome.PASSED, Outcome.LATE], Outcome.LATE, id="a bound of time"),
        pytest.param([Outcome.LATE, Outcome.FAILED], Outcome.FAILED, id="more than a bound of time"),
    ],
)
def test_outcomes_combine(outcomes: list[Outcome], outcome: Outcome) -> None:
    assert Outcome.of(outcomes) is outcome
