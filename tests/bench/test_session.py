"""Are the commands in the recorded sessions still commands? Are the pictures of them what was recorded last?"""

import shlex
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import click
import pytest

from bench.session import COLUMNS, SESSIONS, shown
from pykueue.cli.main import cli
from tests.storyfile import ROOT

PROMPT = "$ "
SVG_TEXT = "{http://www.w3.org/2000/svg}text"


def rows(session: str) -> list[str]:
    picture = ElementTree.parse(ROOT / "docs/images" / f"{session}.svg")
    return ["".join(row.itertext()) for row in picture.iter(SVG_TEXT)]


TYPED = {session: [row.removeprefix(PROMPT) for row in rows(session) if row.startswith(PROMPT)] for session in SESSIONS}


@pytest.mark.parametrize("session", SESSIONS)
def test_the_picture_shows_the_session(session: str) -> None:
    assert list(SESSIONS[session]) == TYPED[session], "record it again: make picture"


@pytest.mark.parametrize("typed", dict.fromkeys(one for session in TYPED.values() for one in session))
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


def test_the_picture_of_a_day_shows_what_people_look_for() -> None:
    found = rows("day")
    text = "\n".join(found)
    for words in (
        "waits for job train to succeed",
        "needs 1 more cpu",
        "accuracy 0.93",
        "all 6 tasks succeeded",
        "seed 3",
        "job default/survey cancelled",
    ):
        assert words in text
    last = SESSIONS["day"][-1]
    report = {row.split()[0]: row.split()[3] for row in found[found.index(f"{PROMPT}{last}") + 2 :]}
    assert report == {"survey": "CANCELLED", "sweep": "COMPLETED", "report": "COMPLETED", "train": "COMPLETED"}


def test_the_picture_of_questions_has_their_answers() -> None:
    text = "\n".join(rows("why"))
    for words in (
        "waits: needs 2 more cpu in flavor machine",
        "what would let it start, the easiest first:",
        "align: starts between",
        "default/align  speech        starts",
        "preempted for Job train, which took back what vision owns",
        "is preempted: Job train takes back quota",
    ):
        assert words in text


@pytest.mark.parametrize("session", SESSIONS)
def test_lines_fit_the_terminal_that_was_recorded(session: str) -> None:
    assert [row for row in rows(session) if len(row) > COLUMNS] == []


def test_what_a_terminal_shows_is_recorded(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin"}
    assert shown("stty size; echo wrong >&2; pwd", environment, tmp_path) == f"40 {COLUMNS}\nwrong\n{tmp_path}\n"
    with pytest.raises(subprocess.CalledProcessError):
        shown("exit 3", environment, tmp_path)
