"""Command-line options that several commands share."""

import math
from collections.abc import Callable
from typing import Any, Final

import click

from pykueue.cli import completion
from pykueue.cli.formats import FORMATS
from pykueue.cli.serverstate import fail

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
    "-n",
    "--namespace",
    metavar="NAME",
    help="Namespace; default: that of the kubeconfig.",
    shell_complete=completion.namespaces,
)

OBJECT_FORMATS: Final = ("json", "yaml", "name")


def dry_run(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Check the value of --dry-run."""
    if value not in ("none", "client", "server"):
        fail(f'invalid dry-run value ({value}). Must be "none", "server", or "client"')
    return value


trying: Final = click.option(
    "--dry-run",
    default="none",
    metavar="none|client|server",
    callback=dry_run,
    help="`client` only prints the request; `server` sends it without storing the result.",
    shell_complete=completion.one_of("none", "client", "server"),
)
printing_object: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(OBJECT_FORMATS),
    metavar="FORMAT",
    help="Print the object as json or yaml, or only its name.",
)

selecting: Final = click.option(
    "-l", "--selector", metavar="SELECTOR", help="Select jobs by label instead, e.g. sweep=7 or 'team in (a,b)'."
)


def choosing_server(command: Command) -> Command:
    """Add the options that choose a server, for `target.chosen`."""
    for option in (
        click.option(
            "--data", metavar="DIR", help="Data directory of the local server; see `pykueue up --help` for the default."
        ),
        click.option(
            "--context",
            metavar="NAME",
            help="Context in that kubeconfig, or in kubectl's.",
            shell_complete=completion.contexts,
        ),
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
