"""`pykueue get`, `describe`, `edit` and `patch`: kubectl's commands, against the server that pykueue chooses."""

import click

from pykueue.cli import completion
from pykueue.cli.kueuectl.kubectl import PassedOn, run
from pykueue.cli.kueuectl.typenames import ALIASES, full_name


def offered(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What a shell offers: types, and after a type the names of its objects."""
    words = ctx.params.get("words") or ()
    if not words:
        return [name for name in ALIASES if name.startswith(incomplete)]
    known = {
        "clusterqueue": completion.cluster_queues,
        "localqueue": completion.local_queues,
        "workload": completion.workloads,
    }.get(full_name(words[0]))
    return known(ctx, param, incomplete) if known else []


words_for_kubectl = click.argument("words", nargs=-1, type=click.UNPROCESSED, shell_complete=offered)


@click.command(cls=PassedOn)
@words_for_kubectl
def get(words: tuple[str, ...]) -> None:
    """Show objects, with kubectl.

    All words go to `kubectl get`; --kubeconfig, --context and --data choose the server as in other commands.

    \b
    Example:
      pykueue get clusterqueue main -o yaml
      pykueue get workload -n team-a

    Exit codes: 0, success; 1, kubectl failed, or is not installed; 2, invalid input.
    """
    run("get", words)


@click.command(cls=PassedOn)
@words_for_kubectl
def describe(words: tuple[str, ...]) -> None:
    """Show details of an object, with kubectl.

    All words go to `kubectl describe`; --kubeconfig, --context and --data choose the server as in other commands.

    \b
    Example:
      pykueue describe workload job-train-1a2b3 -n team-a
      pykueue describe cq main

    Exit codes: 0, success; 1, kubectl failed, or is not installed; 2, invalid input.
    """
    run("describe", words)


@click.command(cls=PassedOn)
@words_for_kubectl
def edit(words: tuple[str, ...]) -> None:
    """Edit an object, with kubectl.

    All words go to `kubectl edit`; --kubeconfig, --context and --data choose the server as in other commands.

    \b
    Example:
      pykueue edit clusterqueue main

    Exit codes: 0, success; 1, kubectl failed, or is not installed; 2, invalid input.
    """
    run("edit", words)


@click.command(cls=PassedOn)
@words_for_kubectl
def patch(words: tuple[str, ...]) -> None:
    """Change fields of an object, with kubectl.

    All words go to `kubectl patch`; --kubeconfig, --context and --data choose the server as in other commands.

    \b
    Example:
      pykueue patch clusterqueue main --type merge -p '{"spec":{"cohortName":"lab"}}'

    Exit codes: 0, success; 1, kubectl failed, or is not installed; 2, invalid input.
    """
    run("patch", words)
