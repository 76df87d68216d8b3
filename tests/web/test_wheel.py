"""Does an installed wheel serve the page, without Node and without this repository?"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykueue.web.assets import assets
from tests.storyfile import ROOT

SHOWS = "import pykueue; from pykueue.web.assets import assets; print(pykueue.__file__, *sorted(assets()), sep='\\n')"


@pytest.mark.slow("builds and installs a wheel")
def test_a_wheel_has_the_page(tmp_path: Path) -> None:
    def run(*words: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=ROOT if not environment else tmp_path,
            env=os.environ | environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    (wheel,) = tmp_path.glob("*.whl")
    target = tmp_path / "installed"
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    place, *files = run("-c", SHOWS, PYTHONPATH=str(target)).splitlines()
    assert Path(place).is_relative_to(target)
    assert files == sorted(assets())
    assert {"index.html", "enter.js"} <= {Path(file).name for file in files}
    # The command finds the files of its own installation.
    assert "--view-only" in run("-m", "pykueue", "dashboard", "--help", PYTHONPATH=str(target))
