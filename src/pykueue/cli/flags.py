"""Command-line options that several commands share."""

import math
from collections.abc import Callable
from typing import Any, Final

import click

from pykueue.cli.formats import FORMATS

Command = Callable[..., Any]


class Count(click.IntRange):
    """A whole number within limits, with a sentence for anything else."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; fails with what is allowed."""
        allowed = f"{self.min} or more" if self.max is None else f"{self.min} to {self.max}"
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number; use {allowed}", param, ctx)
        if (self.min is not None and number < self.min) or (self.max is not None and number > self.max):
            self.fail(f"{number} is out of range; use {allowed}", param, ctx)
        return number


class Cores(click.FloatRange):
    """A number of cores, more than 0, with a sentence for anything else."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails with how to write it."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number of cores; write it as in 2 or 0.5", param, ctx)
        if number <= 0:
            self.fail(f"{value} is not more than 0; write a number of cores, as in 2 or 0.5", param, ctx)
        return number


CORES: Final = Cores(min=0, min_open=True)

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
