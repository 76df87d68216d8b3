"""Are the commands in the recorded session still commands? Is the picture of it what was recorded last?"""

import shlex
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import click
import pytest

from bench.session import COLUMNS, COMMANDS, shown
from pykueue.cli.main import cli
from tests.storyfile import ROOT

PROMPT = "$ "
ROWS = [
    "".join(row.itertext())
    for row in ElementTree.parse(ROOT / "docs/images/day.svg").iter("{http://www.w3.org/2000/svg}text")
]
TYPED = [row.removeprefix(PROMPT) for row in ROWS if row.startswith(PROMPT)]


def test_the_picture_shows_the_session() -> None:
    assert list(COMMANDS) == TYPED, "record it again: make picture"


@pytest.mark.parametrize("typed", TYPED)
def test_a_command_of_the_picture_can_be_typed(typed: str) -> None:
    program, *words = shlex.split(typed)
    assert program == "pykueue"
    command: click.Command = cli
    context = click.Context(cli, info_name="pykueue")
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"no command {name!r}"
        command = found
    # Parses the words, checks them, and runs nothing.
    command.make_context(command.name, words, parent=context)


def test_the_picture_shows_what_people_look_for() -> None:
    text = "\n".join(ROWS)
    for words in (
        "waits for job train to succeed",
        "needs 1 more cpu",
        "accuracy 0.93",
        "all 6 tasks succeeded",
        "seed 3",
        "job default/survey cancelled",
    ):
        assert words in text
    report = {row.split()[0]: row.split()[3] for row in ROWS[ROWS.index(f"{PROMPT}{COMMANDS[-1]}") + 2 :]}
    assert report == {"survey": "CANCELLED", "sweep": "COMPLETED", "report": "COMPLETED", "train": "COMPLETED"}


def test_lines_fit_the_terminal_that_was_recorded() -> None:
    assert [row for row in ROWS if len(row) > COLUMNS] == []


def test_what_a_terminal_shows_is_recorded(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin"}
    assert shown("stty size; echo wrong >&2; pwd", environment, tmp_path) == f"40 {COLUMNS}\nwrong\n{tmp_path}\n"
    with pytest.raises(subprocess.CalledProcessError):
        shown("exit 3", environment, tmp_path)
