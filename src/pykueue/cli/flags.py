"""Command-line options that several commands share."""

from typing import Final

import click

tolerating_unknown_gates: Final = click.option(
    "--tolerate-unknown-gates",
    is_flag=True,
    help="Warn about unknown feature gates instead of rejecting them.",
)
