"""Messages of a command to its user, apart from the output of jobs."""

import contextlib

import click

from pykueue.base.text import printable


def tell(words: str) -> None:
    """Print a message to standard error, apart from the command's own output; nothing if its reader is gone."""
    # A terminal that was closed raises another error than a pipe.
    with contextlib.suppress(OSError):
        click.echo(printable(f"pykueue: {words}"), err=True)
