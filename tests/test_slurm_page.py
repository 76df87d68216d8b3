"""Every command that docs/slurm.md tells to type exists, with its options."""

import re
import shlex

import click
import pytest

from pykueue.cli.main import cli
from tests.storyfile import ROOT

TYPED = re.compile(r"`(pykueue [^`]+)`")
COMMANDS = sorted(set(TYPED.findall((ROOT / "docs/slurm.md").read_text())))


@pytest.mark.parametrize("typed", COMMANDS)
def test_a_command_of_the_page_exists_with_its_options(typed: str) -> None:
    words = shlex.split(typed)[1:]
    ctx = click.Context(cli, info_name="pykueue")
    command: click.Command | None = cli
    while isinstance(command, click.Group) and words:
        command = command.get_command(ctx, words.pop(0))
        assert command is not None, typed
    assert command is not None
    offered = {one for param in command.params for one in (*param.opts, *param.secondary_opts)}
    ours = words[: words.index("--")] if "--" in words else words
    assert {one for one in ours if one.startswith("-")} <= offered, typed


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) > 15
