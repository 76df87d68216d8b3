"""What can I ask? The command `pykueue`; each of its commands is a module that is read when it is asked for."""

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
"""Each command, and the module with a command of that name in it."""


class Commands(click.Group):
    """Commands that cost nothing until they are used."""

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
    """The version that is installed."""
    try:
        return metadata.version("pykueue")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Say the version and end."""
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
    help="Say the version and end.",
)
def cli() -> None:
    """Queue batch jobs against quotas, as Kueue does.

    \b
    Example:
      pykueue up --example
      pykueue run -q team-a --cpu 2 -- python train.py
      pykueue simulate examples/quickstart
      pykueue config check config.yaml
      pykueue manifests --image example.com/pykueue:1 | kubectl apply --server-side -f -

    Errors go to the standard error. Exit codes: 0, done; 1, stopped before the end, by Ctrl-C for one, or what the
    command says of itself; 2, something is wrong with the input.
    """


def main() -> None:
    """Run the command line."""
    cli(prog_name="pykueue")
