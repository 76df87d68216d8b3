"""The `pykueue` command line. The module of a command is imported only when that command runs."""

from difflib import get_close_matches
from importlib import import_module, metadata
from typing import Final

import click

from pykueue.cli.groups import Group

COMMANDS: Final = {
    "attach": "pykueue.cli.commands.attach",
    "backup": "pykueue.cli.commands.backup",
    "cancel": "pykueue.cli.commands.cancel",
    "config": "pykueue.cli.commands.config",
    "demo": "pykueue.cli.commands.demo",
    "down": "pykueue.cli.commands.status",
    "export": "pykueue.cli.commands.export",
    "hold": "pykueue.cli.commands.hold",
    "jobs": "pykueue.cli.commands.jobs",
    "logs": "pykueue.cli.commands.logs",
    "manager": "pykueue.cli.commands.manager",
    "manifests": "pykueue.cli.commands.manifests",
    "queue": "pykueue.cli.commands.queue",
    "release": "pykueue.cli.commands.hold",
    "replay": "pykueue.cli.commands.replay",
    "requeue": "pykueue.cli.commands.hold",
    "restore": "pykueue.cli.commands.backup",
    "run": "pykueue.cli.commands.run",
    "simulate": "pykueue.cli.commands.simulate",
    "status": "pykueue.cli.commands.status",
    "top": "pykueue.cli.commands.top",
    "up": "pykueue.cli.commands.up",
    "user": "pykueue.cli.commands.user",
    "wait": "pykueue.cli.commands.wait",
}
"""The module that defines each command."""
ALIASES: Final = {"squeue": "jobs"}
"""Commands under the names of other tools."""
OTHER_NAMES: Final = {
    "abort": "cancel",
    "add": "run",
    "apply": "up --apply FILE",
    "exec": "run",
    "follow": "attach",
    "info": "status",
    "init": "up",
    "kill": "cancel",
    "list": "jobs",
    "log": "logs",
    "ls": "jobs",
    "pause": "hold",
    "ps": "jobs",
    "queues": "queue",
    "remove": "cancel",
    "restart": "requeue",
    "rm": "cancel",
    "sacct": "jobs --finished",
    "sbatch": "run --detach",
    "scancel": "cancel",
    "serve": "up",
    "server": "up",
    "sim": "simulate",
    "sinfo": "status",
    "srun": "run",
    "start": "up",
    "stop": "down",
    "submit": "run",
    "tail": "logs -f",
    "users": "user",
    "version": "--version",
}
"""What other tools call our commands."""
KUBECTL: Final = {
    "delete": "delete job NAME",
    "describe": "describe job NAME",
    "get": "get jobs",
}
"""Commands of other tools for which we use kubectl."""


class Commands(Group):
    """The commands, each imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        found = getattr(import_module(module), cmd_name)
        assert isinstance(found, click.Command), f"{module} has no command {cmd_name}"
        return found

    def suggestion(self, ctx: click.Context, name: str) -> str:
        """What to type in place of an unknown command; empty if nothing is close."""
        if name in KUBECTL:
            return f" Use kubectl {KUBECTL[name]}; `pykueue up` prints the KUBECONFIG to export."
        near = [OTHER_NAMES[name]] if name in OTHER_NAMES else get_close_matches(name, COMMANDS, n=1)
        return f" Did you mean pykueue {near[0]}?" if near else ""


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

    Errors are written to standard error. Exit codes: 0, success; 1, failed, see the help of the command; 2, invalid
    input; 130, Ctrl-C.
    """


def main() -> None:
    """Run the command line."""
    cli(prog_name="pykueue")
