"""`pykueue list`: the objects of Kueue in tables, as `kueuectl list` shows them."""

from collections.abc import Callable
from typing import Any, Final

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_format, choosing_server, namespaced
from pykueue.cli.kueuectl.typenames import ByType
from pykueue.cli.serverstate import fail

Command = Callable[..., Any]

EXIT_CODES: Final = (
    "Exit codes: 0, success, even if nothing is found; 1, the server rejected the request or does "
    "not respond; 2, invalid input."
)
STATUS_ERROR: Final = 'invalid status value ({}). Must be "all", "pending", "quotareserved", "admitted" or "finished"'

selecting: Final = click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Only objects with these labels, such as team=a,tier!=b."
)
selecting_fields: Final = click.option(
    "--field-selector", default="", metavar="FIELDS", help="Only objects with these fields, such as metadata.name=main."
)
watching: Final = click.option("-w", "--watch", is_flag=True, help="Print each change after the list.")
of_cluster_queue: Final = click.option(
    "-c",
    "--clusterqueue",
    default="",
    metavar="NAME",
    help="Only objects of this ClusterQueue.",
    shell_complete=completion.cluster_queues,
)
everywhere: Final = click.option("-A", "--all-namespaces", is_flag=True, help="List the objects of all namespaces.")


def listing(command: Command) -> Command:
    """Add the options of every list."""
    return choosing_server(choosing_format(watching(selecting_fields(selecting(command)))))


@click.group("list", cls=ByType)
def lists() -> None:
    """List queues, Workloads, flavors and other objects.

    Types and columns are those of `kueuectl list`, and also cohorts, admission checks, topologies and priority classes.
    `pykueue jobs` shows jobs instead of Workloads.

    \b
    Example:
      pykueue list clusterqueue
      pykueue list workload -A --status pending
      pykueue list cq -o json

    Exit codes: 0, success, even if nothing is found; 1, the server rejected the request or does not respond; 2, invalid
    input.
    """


@lists.command()
@click.option(
    "--active", type=click.Choice(("true", "false")), multiple=True, help="Only active or only inactive queues."
)
@listing
def clusterqueue(active: tuple[str, ...], **given: Any) -> None:
    """List ClusterQueues.

    \b
    Example:
      pykueue list clusterqueue
      pykueue list cq --active=false

    ACTIVE is false for a queue that does not admit Workloads: it is stopped, or one of its flavors or checks is
    missing.

    Exit codes: 0, success, even if nothing is found; 1, the server rejected the request or does not respond; 2, invalid
    input.
    """
    if len(active) > 1:
        fail("only one active flag can be provided")
    shown("clusterqueue", given, active=None if not active else active[0] == "true")


@lists.command()
@namespaced
@everywhere
@of_cluster_queue
@listing
def localqueue(clusterqueue: str, **given: Any) -> None:
    """List LocalQueues.

    \b
    Example:
      pykueue list localqueue -n team-a
      pykueue list lq -A -c main

    Exit codes: 0, success, even if nothing is found; 1, the server rejected the request or does not respond; 2, invalid
    input.
    """
    shown("localqueue", given, cluster_queue=clusterqueue)


@lists.command()
@namespaced
@everywhere
@of_cluster_queue
@click.option(
    "-q",
    "--localqueue",
    default="",
    metavar="NAME",
    help="Only Workloads of this LocalQueue.",
    shell_complete=completion.local_queues,
)
@click.option(
    "--status",
    multiple=True,
    metavar="STATUS",
    help="Only Workloads with this status: pending, quotareserved, admitted, finished or all. Repeatable.",
    shell_complete=completion.one_of("all", "pending", "quotareserved", "admitted", "finished"),
)
@click.option("--for", "for_object", default="", metavar="TYPE[.GROUP]/NAME", help="Only Workloads of this job.")
@listing
def workload(clusterqueue: str, localqueue: str, status: tuple[str, ...], for_object: str, **given: Any) -> None:
    """List Workloads.

    POSITION IN QUEUE is the position of a pending Workload in its LocalQueue, starting at 0; it is empty if the server
    has no visibility API, or you have no access to it. --clusterqueue also finds pending Workloads.

    \b
    Example:
      pykueue list workload
      pykueue list workload -A --status pending -c main
      pykueue list workload --for job/train

    Exit codes: 0, success, even if nothing is found; 1, the server rejected the request or does not respond, or the
    object of --for does not exist; 2, invalid input.
    """
    from pykueue.cli.kueuectl.listing import STATUSES

    for one in status:
        if one.lower() not in STATUSES:
            fail(STATUS_ERROR.format(one))
    shown(
        "workload",
        given,
        for_object,
        cluster_queue=clusterqueue,
        local_queue=localqueue,
        statuses=frozenset(one.lower() for one in status),
    )


@lists.command()
@namespaced
@everywhere
@click.option("--for", "for_object", required=True, metavar="TYPE[.GROUP]/NAME", help="The job, or a pod of a group.")
@selecting
@selecting_fields
@choosing_format
@choosing_server
def pods(for_object: str, **given: Any) -> None:
    """List the pods of a job.

    Supported are Jobs (batch) and the other kinds of job that Kueue supports. With `--for pod/NAME` the pods of the
    same pod group are listed.

    \b
    Example:
      pykueue list pods --for job/train
      pykueue list po --for jobset.jobset.x-k8s.io/train -o wide

    Exit codes: 0, success, even if nothing is found; 1, the server rejected the request or does not respond, the job
    does not exist, or its kind is unknown; 2, invalid input.
    """
    from pykueue.cli.kueuectl.podlist import show_pods
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    target = chosen(given["kubeconfig"], given["context"], given["data"])
    namespace = given["namespace"] or target.connection.namespace
    asked(
        target,
        "list",
        lambda kube: show_pods(
            kube,
            for_object,
            namespace,
            everywhere=given["all_namespaces"],
            labels=given["selector"],
            fields=given["field_selector"],
            output=given["output"],
            no_headers=given["no_headers"],
        ),
    )


def plain(name: str, summary: str, more: str = "") -> None:
    """Add the list of a type that has no options of its own."""

    @listing
    def command(**given: Any) -> None:
        shown(name, given)

    command.__doc__ = (
        f"{summary}\n\n\b\nExample:\n  pykueue list {name}\n  pykueue list {name} -o yaml\n\n{more}{EXIT_CODES}"
    )
    lists.command(name)(command)


plain("resourceflavor", "List ResourceFlavors.")
plain("cohort", "List Cohorts.", "Cohorts that queues refer to without a Cohort object are not listed.\n\n")
plain("admissioncheck", "List AdmissionChecks.")
plain("topology", "List Topologies.")
plain("workloadpriorityclass", "List WorkloadPriorityClasses.")


def shown(name: str, given: dict[str, Any], for_object: str = "", **wanted: Any) -> None:
    """Print a list; `wanted` are the fields of `listing.Wanted`."""
    from pykueue.api.trees import text
    from pykueue.cli.kueuectl.discovery import ForError, object_called
    from pykueue.cli.kueuectl.listing import LISTED, Wanted
    from pykueue.cli.kueuectl.lists import Question, show
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.kube.client.http import HttpKube

    target = chosen(given["kubeconfig"], given["context"], given["data"])
    listed = LISTED[name]
    own = given.get("namespace") or target.connection.namespace
    namespace = "" if given.get("all_namespaces") or not listed.resource.namespaced else own

    async def ask(kube: HttpKube) -> None:
        owner = ""
        if for_object:
            try:
                owner = text((await object_called(kube, for_object, own))[1], "metadata", "uid")
            except ForError as error:
                fail(str(error), 1)
        question = Question(
            listed, namespace, given["selector"], given["field_selector"], Wanted(owner=owner, **wanted), own
        )
        await show(kube, question, output=given["output"], no_headers=given["no_headers"], watch=given["watch"])

    asked(target, "list", ask)


list: Final = lists
"""Named as the command, for the table of commands."""
