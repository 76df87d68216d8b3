"""Does every example print what it promises? Each folder's run.sh is run; `--rewrite` accepts what it prints now."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/run.sh"))
WIDTH = 100


def test_there_are_examples() -> None:
    names = {path.name for path in EXAMPLES}
    assert names >= {"quickstart", "borrowing", "preemption", "requeue", "demo", "local", "testing"}
    assert "own-admission-check" in names
    assert names == {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}, "each needs a run.sh"


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_prints_what_it_promises(folder: Path, request: pytest.FixtureRequest) -> None:
    if "kubectl" in (folder / "run.sh").read_text() and shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    environment = {
        **os.environ,
        "PYKUEUE": f"{sys.executable} -m pykueue",
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(
        ["sh", "run.sh"], env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
    expected = folder / "expect.txt"
    if request.config.getoption("--rewrite"):
        expected.write_text(done.stdout)
    assert done.stdout == expected.read_text()
    assert max(map(len, done.stdout.splitlines())) <= WIDTH
    assert (folder / "README.md").read_text().startswith("# ")
