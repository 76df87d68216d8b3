"""Messages of a command to its user, apart from the output of jobs."""

import click

from pykueue.base.text import printable


def tell(words: str) -> None:
    """Print a message to standard error, apart from the command's own output."""
    click.echo(printable(f"pykueue: {words}"), err=True)
