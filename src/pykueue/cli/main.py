"""The `pykueue` command line. The module of a command is imported only when that command runs."""

from importlib import import_module, metadata
from typing import Final

import click

COMMANDS: Final = {
    "backup": "pykueue.cli.commands.backup",
    "config": "pykueue.cli.commands.config",
    "demo": "pykueue.cli.commands.demo",
    "down": "pykueue.cli.commands.status",
    "manager": "pykueue.cli.commands.manager",
    "manifests": "pykueue.cli.commands.manifests",
    "replay": "pykueue.cli.commands.replay",
    "restore": "pykueue.cli.commands.backup",
    "run": "pykueue.cli.commands.run",
    "simulate": "pykueue.cli.commands.simulate",
    "status": "pykueue.cli.commands.status",
    "up": "pykueue.cli.commands.up",
    "user": "pykueue.cli.commands.user",
}
"""The module that defines each command."""


class Commands(click.Group):
    """A group that imports its commands on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        found = getattr(import_module(module), cmd_name)
        assert isinstance(found, click.Command), f"{module} has no command {cmd_name}"
        return found


def version() -> str:
    """The installed version."""
    try:
        return metadata.version("pykueue")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the version and exit."""
    if value and not ctx.resilient_parsing:
        click.echo(f"pykueue {version()}")
        ctx.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Queue batch jobs against quotas, with the API of Kueue.

    \b
    Example:
      pykueue up --example
      pykueue run -q team-a --cpu 2 -- python train.py
      pykueue simulate examples/quickstart
      pykueue config check config.yaml
      pykueue manifests --image example.com/pykueue:1 | kubectl apply --server-side -f -

    Errors are written to standard error. Exit codes: 0, success; 1, failed or interrupted, see the help of the command;
    2, invalid input.
    """


def main() -> None:
    """Run the command line."""
    cli(prog_name="pykueue")
