"""Is this Configuration good? `pykueue config check`: every mistake of a file, with what to do about it."""

import sys
from pathlib import Path

import click

from pykueue.api.unbuilt import read_built
from pykueue.api.yamltext import TEXT_MAX, printable


@click.group()
def config() -> None:
    """Look at the controller's Configuration.

    \b
    Example:
      pykueue config check config.yaml
    """


@config.command()
@click.argument("file")
@click.option("--feature-gates", metavar="NAME=BOOL,...", default="", help="Feature gates that go with the file.")
def check(file: str, feature_gates: str) -> None:
    """Say what is wrong with a Configuration FILE.

    Mistakes and warnings go to the standard error.

    \b
    Example:
      pykueue config check config.yaml --feature-gates PriorityBoost=true

    Exit codes: 0, the file can be used; 2, it cannot.
    """
    try:
        with Path(file).open("rb") as opened:
            text = opened.read(TEXT_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        mistakes = [f"cannot be read: {reason}; check the name and your rights to it"]
    else:
        loaded, found = read_built(text, feature_gates=feature_gates)
        mistakes = [str(one) for one in found]
        for warning in () if loaded is None else loaded.warnings:
            click.echo(printable(f"{file}: warning: {warning}"), err=True)
    for mistake in mistakes:
        click.echo(printable(f"{file}: {mistake}"), err=True)
    if mistakes:
        sys.exit(2)
    click.echo(f"{file}: can be used")
