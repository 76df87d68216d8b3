"""Does the demo show what it promises, and leave nothing behind, however it ends?"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.machine import SOON

Ending = Callable[["subprocess.Popen[str]"], None]


def killed(demo: "subprocess.Popen[str]") -> None:
    demo.send_signal(signal.SIGTERM)


def unheard(demo: "subprocess.Popen[str]") -> None:
    assert demo.stdout is not None
    demo.stdout.close()


@pytest.mark.parametrize(
    "ends", [pytest.param(killed, id="killed"), pytest.param(unheard, id="nobody listens any more")]
)
def test_a_demo_that_is_cut_short_cleans_up(tmp_path: Path, ends: Ending) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "pykueue", "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    assert demo.stderr is not None
    lines = [demo.stdout.readline() for _ in range(3)]
    assert "team red and team blue own 2 each" in lines[0]
    assert "train   submitted by red: 4 cpu" in lines[1]
    assert "train   runs, 2 of its 4 cpu borrowed" in lines[2]
    ends(demo)
    assert demo.wait(SOON) == 1
    assert demo.stderr.read() == ""
    for pipe in (demo.stdout, demo.stderr):
        pipe.close()
    assert list(tmp_path.iterdir()) == []
    mine = str(tmp_path).encode()
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if mine in command_of(path)]


def command_of(path: Path) -> bytes:
    """The command line of a process; empty where it has just gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
