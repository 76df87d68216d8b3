"""Turn the value of `run --notify` into the command that the job's own machine runs at its start and end."""

import shlex
import sys
from typing import Final

from pykueue.cli.serverstate import fail

URLS: Final = ("http://", "https://")


def notification(given: str) -> list[str]:
    """The command for --notify, as an argument list without a shell; exits if it is invalid."""
    if given.lower().startswith(URLS):
        if not given.isprintable() or " " in given:
            fail(f"--notify: {given!r} is not a valid URL; encode spaces and control characters")
        return [sys.executable, "-P", "-m", "pykueue.node.notifypost", given]
    try:
        words = shlex.split(given)
    except ValueError as error:
        fail(f"--notify: {given!r} cannot be split into words: {error}; quote it as for a shell")
    if not words:
        fail("--notify: the command is empty; use COMMAND or an http or https URL")
    if "://" in words[0]:
        fail(f"--notify: {words[0]!r} is neither a command nor an http or https URL")
    return words


def check_notifiable(*, local: bool) -> None:
    """Exit if the server is not that of one machine, where supervisors of ours run jobs."""
    if not local:
        fail(
            "--notify: not supported on a cluster, and this server was selected by --kubeconfig, --context or "
            "KUBECONFIG; notify from the command itself, or select the local server with --data"
        )
