"""`pykueue delete`: delete Workloads together with their jobs, as kueuectl does, and other objects with kubectl."""

from typing import Any, Final

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced, trying
from pykueue.cli.kueuectl.kubectl import PassedOn, run
from pykueue.cli.kueuectl.typenames import ByType
from pykueue.cli.serverstate import fail

PASSED_ON: Final = ("clusterqueue", "localqueue", "resourceflavor", "cohort", "admissioncheck", "topology")


@click.group(cls=ByType)
def delete() -> None:
    """Delete a Workload with its job, or another object.

    Objects other than Workloads are deleted by kubectl.

    \b
    Example:
      pykueue delete workload job-train-1a2b3 -n team-a
      pykueue delete clusterqueue main

    Exit codes: 0, success, or not confirmed; 1, the server rejected the request or does not respond; 2, invalid input.
    """


@delete.command()
@click.argument("names", nargs=-1, shell_complete=completion.active_workloads)
@click.option("-y", "--yes", is_flag=True, help="Delete jobs without confirmation.")
@click.option("--all", "everything", is_flag=True, help="Delete all Workloads of the namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="With --all: the Workloads of all namespaces.")
@namespaced
@trying
@choosing_server
def workload(names: tuple[str, ...], yes: bool, everything: bool, all_namespaces: bool, **given: Any) -> None:
    """Delete Workloads and the jobs they belong to.

    The jobs are deleted together with their Workloads: a Workload that is deleted alone is recreated. Workloads without
    a job are deleted directly. Names that do not exist are reported and skipped.

    \b
    Example:
      pykueue delete workload job-train-1a2b3
      pykueue delete kwl --all -n team-a --yes
      pykueue delete workload job-train-1a2b3 --dry-run client

    Exit codes: 0, success, or not confirmed; 1, the server rejected the request or does not respond; 2, invalid input.
    """
    if not everything and not names:
        fail("requires at least 1 arg(s), only received 0")
    if everything and names:
        fail("name cannot be provided when a selector is specified")
    if all_namespaces and names:
        fail("a resource cannot be retrieved by name across all namespaces")
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.kube.client.http import HttpKube

    target = chosen(given["kubeconfig"], given["context"], given["data"])
    namespace = "" if all_namespaces else given["namespace"] or target.connection.namespace
    dry_run = given["dry_run"]

    async def ask(kube: HttpKube) -> None:
        from pykueue.cli.kueuectl.ownerdeletion import carried_out, planned, question

        plan = await planned(kube, names, namespace)
        asks = question(plan, everything=everything)
        if asks and dry_run == "none" and not yes and not confirmed(asks):
            click.echo("Deletion is canceled")
            return
        await carried_out(kube, plan, dry_run=dry_run)

    asked(target, "delete", ask)


def confirmed(asks: str) -> bool:
    """Whether the user types y."""
    click.echo(f"{asks}Do you want to proceed (y/n)? ", nl=False)
    try:
        typed = input()
    except EOFError:
        click.echo()
        return False
    return typed.strip().lower() == "y"


def passed_on(name: str) -> None:
    """Add the command that deletes objects of a type with kubectl."""

    def command(words: tuple[str, ...]) -> None:
        run("delete", [name, *words])

    command.__doc__ = (
        f"Delete {'an' if name[0] in 'aeiou' else 'a'} {name}, with kubectl.\n\nAll arguments are passed to "
        f"`kubectl delete {name}`.\n\n\b\nExample:\n"
        f"  pykueue delete {name} NAME\n\n"
        "Exit codes: 0, success; 1, kubectl failed, or is not installed; 2, invalid input."
    )
    argument = click.argument("words", nargs=-1, type=click.UNPROCESSED)
    delete.command(name, cls=PassedOn)(argument(command))


for one in PASSED_ON:
    passed_on(one)
