"""`kubectl pykueue`: kubectl runs the program `kubectl-pykueue`."""

import re
import sys
from typing import Final

import click

PROGRAM: Final = "kubectl-pykueue"
"""The name by which kubectl finds its plugin."""
SHOWN: Final = "kubectl pykueue"
COMMAND: Final = re.compile(r"(?<!kubectl )(?<![-\w./])pykueue (?=[a-z])")
"""The start of a command in a help text."""


def is_plugin() -> bool:
    """Whether this process was started by the name of kubectl's plugin."""
    return sys.argv[0].rpartition("/")[2] == PROGRAM


class PluginHelp(click.HelpFormatter):
    """Help that shows commands as kubectl's plugin."""

    def getvalue(self) -> str:
        """The help."""
        return COMMAND.sub(f"{SHOWN} ", super().getvalue())
