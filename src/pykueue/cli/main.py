"""The `pykueue` command line. The module of a command is imported only when that command runs."""

import sys
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Final

import click

from pykueue.cli.groups import Group
from pykueue.cli.plugin import SHOWN, PluginHelp, is_plugin

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: Final = {
    "attach": "pykueue.cli.commands.attach",
    "backup": "pykueue.cli.commands.backup",
    "cancel": "pykueue.cli.commands.cancel",
    "completion": "pykueue.cli.commands.completion",
    "config": "pykueue.cli.commands.config",
    "create": "pykueue.cli.commands.create",
    "dashboard": "pykueue.cli.commands.dashboard",
    "delete": "pykueue.cli.commands.delete",
    "demo": "pykueue.cli.commands.demo",
    "describe": "pykueue.cli.commands.passthrough",
    "doctor": "pykueue.cli.commands.doctor",
    "down": "pykueue.cli.commands.status",
    "edit": "pykueue.cli.commands.passthrough",
    "eta": "pykueue.cli.commands.eta",
    "explain": "pykueue.cli.commands.explain",
    "export": "pykueue.cli.commands.export",
    "get": "pykueue.cli.commands.passthrough",
    "history": "pykueue.cli.commands.history",
    "hold": "pykueue.cli.commands.hold",
    "jobs": "pykueue.cli.commands.jobs",
    "list": "pykueue.cli.commands.list",
    "logs": "pykueue.cli.commands.logs",
    "manager": "pykueue.cli.commands.manager",
    "manifests": "pykueue.cli.commands.manifests",
    "patch": "pykueue.cli.commands.passthrough",
    "preview": "pykueue.cli.commands.preview",
    "queue": "pykueue.cli.commands.queue",
    "release": "pykueue.cli.commands.hold",
    "replay": "pykueue.cli.commands.replay",
    "report": "pykueue.cli.commands.report",
    "requeue": "pykueue.cli.commands.hold",
    "restore": "pykueue.cli.commands.backup",
    "resume": "pykueue.cli.commands.stop",
    "run": "pykueue.cli.commands.run",
    "simulate": "pykueue.cli.commands.simulate",
    "status": "pykueue.cli.commands.status",
    "stop": "pykueue.cli.commands.stop",
    "top": "pykueue.cli.commands.top",
    "up": "pykueue.cli.commands.up",
    "user": "pykueue.cli.commands.user",
    "version": "pykueue.cli.commands.version",
    "wait": "pykueue.cli.commands.wait",
}
"""The module that defines each command."""
ALIASES: Final = {"squeue": "jobs"}
"""Commands under the names of other tools."""
SUMMARIES: Final = {
    "attach": "Follow a job as `pykueue run` does.",
    "backup": "Write a consistent backup of a server to FILE.",
    "cancel": "Cancel jobs, pending or running.",
    "completion": "Print a completion script for a shell.",
    "config": "Check a Configuration file.",
    "create": "Create a ClusterQueue, LocalQueue or ResourceFlavor.",
    "dashboard": "Show queues and jobs in a browser.",
    "delete": "Delete a Workload with its job, or another object.",
    "demo": "Show two teams sharing this machine, with real processes.",
    "describe": "Show details of an object, with kubectl.",
    "doctor": "Find misconfigurations, each with a remedy.",
    "down": "Stop the server started by `pykueue up`.",
    "edit": "Edit an object, with kubectl.",
    "eta": "Estimate when jobs start.",
    "explain": "Explain why a job is pending or was evicted, or who uses a queue.",
    "export": "Print queues, users and pending Jobs as YAML for a cluster.",
    "get": "Show objects, with kubectl.",
    "history": "List the decisions about a job.",
    "hold": "Prevent jobs from running until they are released.",
    "jobs": "List running and pending jobs, or finished jobs.",
    "list": "List queues, Workloads, flavors and other objects.",
    "logs": "Print the output of jobs.",
    "manager": "Run the controllers on a Kubernetes cluster.",
    "manifests": "Print the manifests of a cluster installation.",
    "patch": "Change fields of an object, with kubectl.",
    "preview": "Show what a new job or a change would do, without doing it.",
    "queue": "Divide the machine between teams, without writing YAML.",
    "release": "Release held jobs.",
    "replay": "Replay journals and compare the decisions.",
    "report": "Report on use, waits, preemptions and lost work.",
    "requeue": "Stop running jobs and queue them again.",
    "restore": "Restore a server from a backup FILE.",
    "resume": "Resume a stopped queue or Workload.",
    "run": "Run COMMAND as a Job and follow its output.",
    "simulate": "Simulate queues and jobs without a cluster.",
    "status": "Show the machine, its queues, and why jobs are pending.",
    "stop": "Stop a queue or a Workload.",
    "top": "Show how much of their quota cohorts and queues use.",
    "up": "Run queues, an API and jobs on this machine.",
    "user": "Manage the users of a shared server.",
    "version": "Print the versions of client, server and manager.",
    "wait": "Wait for jobs to end, and exit with their exit code.",
}
"""The first sentence of each command's help, so that listing the commands does not import them."""
OTHER_NAMES: Final = {
    "abort": "cancel",
    "add": "run",
    "apply": "up --apply FILE",
    "exec": "run",
    "follow": "attach",
    "info": "status",
    "init": "up",
    "kill": "cancel",
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
    "submit": "run",
    "tail": "logs -f",
    "users": "user",
    "whatif": "preview",
    "why": "explain",
}
"""What other tools call our commands."""
COMMON_OPTIONS: Final = frozenset(
    {"-n", "--namespace", "-A", "--all-namespaces", "-o", "--output", "--kubeconfig", "--context", "--data"}
)
"""Options of many commands, which kubectl accepts before a command as well."""
NO_FILES: Final = 4
"""Tells kubectl not to complete the names of files."""


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, without importing those that have a summary here."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.summary(ctx, name)) for name in self.list_commands(ctx)])

    def summary(self, ctx: click.Context, name: str) -> str:
        """The first sentence of a command's help."""
        if name in SUMMARIES:
            return SUMMARIES[name]
        command = self.get_command(ctx, name)
        return command.get_short_help_str() if command is not None else ""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """What a shell offers: commands, without importing them, or options."""
        from click.shell_completion import CompletionItem

        named = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=self.summary(ctx, name)) for name in named), *options]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command; the error for one that belongs to a command says where it goes."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in COMMON_OPTIONS:
                raise
            after = f"it goes after the command, as in `{ctx.command_path} list workload -n team-a`"
            raise click.NoSuchOption(
                error.option_name, f"No such option: {error.option_name}; {after}.", ctx=ctx
            ) from error

    def suggestion(self, ctx: click.Context, name: str) -> str:
        """What to type in place of an unknown command; empty if nothing is close."""
        near = [OTHER_NAMES[name]] if name in OTHER_NAMES else get_close_matches(name, COMMANDS, n=1)
        return f" Did you mean {ctx.command_path} {near[0]}?" if near else ""


def version() -> str:
    """The installed version."""
    # Takes longer to import than everything else that `--help` needs.
    from importlib import metadata

    try:
        return metadata.version("pykueue")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the version and exit."""
    if value and not ctx.resilient_parsing:
        click.echo(f"pykueue {version()}")
        ctx.exit()


@click.command(
    "pykueue", cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
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
    """Run the command line, as `pykueue` or, if kubectl started it, as `kubectl pykueue`."""
    if is_plugin():
        click.Context.formatter_class = PluginHelp
    cli(prog_name=SHOWN if is_plugin() else "pykueue")


def complete() -> None:
    """Print completions as kubectl expects them of its plugins: one in each line, then what to do with them."""
    from click.shell_completion import ShellComplete

    *words, last = sys.argv[1:] or [""]
    for one in ShellComplete(cli, {}, "pykueue", "").get_completions(words, last):
        if one.type == "plain":
            click.echo(f"{one.value}\t{one.help}" if one.help else one.value)
    click.echo(f":{NO_FILES}")
