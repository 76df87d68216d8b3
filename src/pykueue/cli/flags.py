"""Flags that several commands share."""

from typing import Final

import click

tolerating_unknown_gates: Final = click.option(
    "--tolerate-unknown-gates",
    is_flag=True,
    help="Ignore feature gates that are unknown here, with a warning; otherwise they are refused.",
)
