"""Command-line options that several commands share."""

from collections.abc import Callable
from typing import Any, Final

import click

from pykueue.cli.formats import FORMATS

Command = Callable[..., Any]

tolerating_unknown_gates: Final = click.option(
    "--tolerate-unknown-gates",
    is_flag=True,
    help="Warn about unknown feature gates instead of rejecting them.",
)

namespaced: Final = click.option(
    "-n", "--namespace", metavar="NAME", help="Namespace; default: that of the kubeconfig."
)

selecting: Final = click.option(
    "-l", "--selector", metavar="SELECTOR", help="The jobs with these labels instead, e.g. sweep=7 or 'team in (a,b)'."
)


def choosing_server(command: Command) -> Command:
    """Add the options that choose a server, for `target.chosen`."""
    for option in (
        click.option(
            "--data", metavar="DIR", help="Data directory of the local server; see `pykueue up --help` for the default."
        ),
        click.option("--context", metavar="NAME", help="Context in that kubeconfig, or in kubectl's."),
        click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the server; see `pykueue run --help`."),
    ):
        command = option(command)
    return command


def choosing_format(command: Command) -> Command:
    """Add the options that choose how rows are printed, for `formats.printed`."""
    for option in (
        click.option("--no-headers", is_flag=True, help="Omit the headers of a table or of csv."),
        click.option(
            "-o",
            "--output",
            type=click.Choice(FORMATS),
            metavar="FORMAT",
            help=f"Print {', '.join(FORMATS[:-1])} or {FORMATS[-1]} instead of a table.",
        ),
    ):
        command = option(command)
    return command
