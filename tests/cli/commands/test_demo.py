"""Does the demo show what it promises, and leave nothing behind, however it ends?"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.machine import SOON

ROOT = Path(__file__).resolve().parents[3]
SENTENCES = (
    "train   running, 2 of its 4 cpu borrowed",
    "train   evicted: preempted for report, which took back what blue owns",
    "train   pending: needs 2 more cpu",
    "huge    can never start: asks for 9 cpu, this queue can have 4 at most",
    "serve   evicted: its pods were not ready in time",
)
KUEUES = re.compile(r"couldn't assign|insufficient|podset|UID|PodsReady|Preempted to")
"""Kueue's own words, which newcomers do not know."""
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
    assert "train   running, 2 of its 4 cpu borrowed" in lines[2]
    ends(demo)
    assert demo.wait(SOON) == 1
    assert demo.stderr.read() == ""
    for pipe in (demo.stdout, demo.stderr):
        pipe.close()
    assert list(tmp_path.iterdir()) == []
    mine = str(tmp_path).encode()
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if mine in command_of(path)]


@pytest.mark.slow("lasts as long as the demo")
def test_the_demo_says_in_our_words_what_happens_and_why() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pykueue", "demo"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    for words in SENTENCES:
        assert re.search(rf"s  {words}\n", done.stdout), f"{words!r} is not in:\n{done.stdout}"
    assert not KUEUES.search(done.stdout), done.stdout


def test_the_picture_in_the_readme_shows_these_words() -> None:
    rows = [
        "".join(row.itertext()) + "\n"
        for row in ElementTree.parse(ROOT / "docs/images/demo.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    for words in SENTENCES:
        assert any(re.search(rf"s  {words}\n", row) for row in rows), words
    assert not KUEUES.search("".join(rows))


def command_of(path: Path) -> bytes:
    """The command line of a process; empty where it has just gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
