"""Is this Configuration good? `pykueue config check`: every mistake of a file, with what to do about it."""

import sys

import click

from pykueue.api.config.unbuilt import read_built
from pykueue.base.text import printable
from pykueue.cli.flags import tolerating_unknown_gates
from pykueue.cli.manifestfiles import content, unreadable


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
@tolerating_unknown_gates
def check(file: str, feature_gates: str, tolerate_unknown_gates: bool) -> None:
    """Say what is wrong with a Configuration FILE.

    Mistakes and warnings go to the standard error. A feature that is not built is a warning, or a mistake if it
    changes which jobs are admitted.

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
        loaded, found = read_built(text, feature_gates=feature_gates, tolerate_unknown_gates=tolerate_unknown_gates)
        mistakes = [str(one) for one in found]
        for warning in () if loaded is None else loaded.warnings:
            click.echo(printable(f"{file}: warning: {warning}"), err=True)
    for mistake in mistakes:
        click.echo(printable(f"{file}: {mistake}"), err=True)
    if mistakes:
        sys.exit(2)
    click.echo(f"{file}: can be used")
