"""Do the walkthroughs of CONTRIBUTING.md still work? Applies each diff to a copy of the sources and runs its tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/walkthroughs"
TESTS = {
    "reason": ["tests/scenarios", "tests/test_tidy.py"],
    "kind": ["tests/apiserver/verbs/test_writing.py", "-k", "resource_quota"],
    "metric": ["tests/controllers/metrics/test_metrics.py", "-k", "own_and_use"],
}
"""The tests that cover what each diff adds."""
SPOKEN = frozenset({"covers", "match", "kueue_", "pykueue_"})
"""What the steps put in code font without naming a class, function or constant."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TESTS))
def test_a_walkthrough_works(name: str, tmp_path: Path) -> None:
    for part in ("src", "tests", "docs", "bench", "examples"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    subprocess.run(["git", "apply", str(FOLDER / f"{name}.diff")], cwd=tmp_path, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *TESTS[name]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(TESTS))
def test_the_diff_applies(name: str, tmp_path: Path) -> None:
    diff = FOLDER / f"{name}.diff"
    for changed in re.findall(r"^--- a/(\S+)", diff.read_text(), re.MULTILINE):
        (tmp_path / changed).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / changed, tmp_path / changed)
    applied = subprocess.run(["git", "apply", str(diff)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert applied.returncode == 0, f"{applied.stderr}\nmake the change again and save `git diff` as {diff}"


@pytest.mark.parametrize("name", sorted(TESTS))
def test_the_steps_name_the_files_that_the_diff_changes(name: str) -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    start = guide.rindex("\n### ", 0, guide.index(f"walkthroughs/{name}.diff"))
    step = guide[start : guide.index("\n#", guide.index(f"walkthroughs/{name}.diff"))]
    for changed in re.findall(r"^\+\+\+ b/(\S+)", (FOLDER / f"{name}.diff").read_text(), re.MULTILINE):
        assert changed in step or f"{Path(changed).parent}/" in step, f"{changed} is not mentioned"


@pytest.mark.parametrize("name", sorted(TESTS))
def test_the_steps_name_what_is_there(name: str) -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    start = guide.rindex("\n### ", 0, guide.index(f"walkthroughs/{name}.diff"))
    step = guide[start : guide.index("\n#", guide.index(f"walkthroughs/{name}.diff"))]
    sources = "\n".join(file.read_text() for file in (ROOT / "src/pykueue").rglob("*.py"))
    for named in re.findall(r"`(?:\w+\.)?([A-Za-z_]{4,})`", step):
        assert re.search(rf"\b(class|def) {named}\b|^{named}\b.* = ", sources, re.MULTILINE) or named in SPOKEN, named


def test_every_diff_has_its_walkthrough() -> None:
    assert {file.stem for file in FOLDER.glob("*.diff")} == set(TESTS)
