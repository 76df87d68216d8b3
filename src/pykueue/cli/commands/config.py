"""`pykueue config check`: report every error in a Configuration file, with a fix for each."""

import sys

import click

from pykueue.api.config.unbuilt import read_built
from pykueue.base.text import printable
from pykueue.cli.flags import tolerating_unknown_gates
from pykueue.cli.groups import Group
from pykueue.cli.manifestfiles import content, unreadable


@click.group(cls=Group)
def config() -> None:
    """Check a Configuration file.

    \b
    Example:
      pykueue config check config.yaml
    """


@config.command()
@click.argument("file")
@click.option(
    "--feature-gates", metavar="NAME=BOOL,...", default="", help="Feature gates to check together with the file."
)
@tolerating_unknown_gates
def check(file: str, feature_gates: str, tolerate_unknown_gates: bool) -> None:
    """Check a Configuration FILE and list its errors.

    Errors and warnings are written to standard error. An unsupported feature is a warning, or an error if it changes
    which jobs are admitted.

    \b
    Example:
      pykueue config check config.yaml --feature-gates PriorityBoost=true

    Exit codes: 0, the file is valid; 2, it is not.
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
    click.echo(f"{file}: valid")
