"""Is this Configuration good? `pykueue config check`: every mistake of a file, with what to do about it."""

import sys

import click

from pykueue.api.unbuilt import read_built
from pykueue.api.yamltext import printable
from pykueue.cli.files import content, unreadable


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
        text = content(file)
    except (OSError, ValueError) as error:
        mistakes = [unreadable(error)]
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
