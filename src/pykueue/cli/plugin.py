"""`kubectl pykueue`: kubectl runs the program `kubectl-pykueue`, and `kubectl_complete-pykueue` for completion."""

import re
import sys
from typing import Final

import click

PROGRAM: Final = "kubectl-pykueue"
"""The name by which kubectl finds its plugin."""
SHOWN: Final = "kubectl pykueue"
COMMAND: Final = re.compile(r"(?<!kubectl )(?<![-\w./])pykueue (?=[a-z])")
"""The start of a command in a help text."""
NO_FILES: Final = 4
"""Tells kubectl not to complete the names of files."""


def is_plugin() -> bool:
    """Whether this process was started by the name of kubectl's plugin."""
    return sys.argv[0].rpartition("/")[2] == PROGRAM


class PluginHelp(click.HelpFormatter):
    """Help that shows commands as kubectl's plugin."""

    def getvalue(self) -> str:
        """The help."""
        return COMMAND.sub(f"{SHOWN} ", super().getvalue())


def complete() -> None:
    """Print completions as kubectl expects them: one in each line, then what to do with them."""
    from click.shell_completion import ShellComplete

    from pykueue.cli.main import cli

    *words, last = sys.argv[1:] or [""]
    for one in ShellComplete(cli, {}, "pykueue", "").get_completions(words, last):
        if one.type == "plain":
            click.echo(f"{one.value}\t{one.help}" if one.help else one.value)
    click.echo(f":{NO_FILES}")
