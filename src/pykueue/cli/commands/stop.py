"""`pykueue stop` and `pykueue resume`: hold a queue or a Workload, and let it go on, as kueuectl does."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from pykueue.api.core import Tree
from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced, printing_object, trying
from pykueue.cli.kueuectl.typenames import ByType

if TYPE_CHECKING:
    from pykueue.kube.client.http import HttpKube

keeping: Final = click.option(
    "--keep-already-running", is_flag=True, help="Let admitted Workloads finish; without it they are evicted."
)


@click.group(cls=ByType)
def stop() -> None:
    """Stop a queue or a Workload.

    A stopped queue does not admit Workloads, and a stopped Workload is not admitted, until `pykueue resume`.
    `pykueue down` stops the local server.

    \b
    Example:
      pykueue stop clusterqueue main --keep-already-running
      pykueue stop workload job-train-1a2b3 -n team-a

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or the object does not exist; 2,
    invalid input.
    """


@click.group(cls=ByType)
def resume() -> None:
    """Resume a stopped queue or Workload.

    \b
    Example:
      pykueue resume clusterqueue main
      pykueue resume workload job-train-1a2b3 -n team-a

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or the object does not exist; 2,
    invalid input.
    """


@stop.command("clusterqueue")
@click.argument("name", shell_complete=completion.running_cluster_queues)
@keeping
@trying
@printing_object
@choosing_server
def stop_cluster_queue(name: str, keep_already_running: bool, **given: Any) -> None:
    """Stop a ClusterQueue: evict its Workloads, and stop admission.

    \b
    Example:
      pykueue stop clusterqueue main
      pykueue stop cq main --keep-already-running

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or the queue does not exist; 2,
    invalid input.
    """
    changed("ClusterQueue", name, policy(keep_already_running), given)


@stop.command("localqueue")
@click.argument("name", shell_complete=completion.running_local_queues)
@keeping
@namespaced
@trying
@printing_object
@choosing_server
def stop_local_queue(name: str, keep_already_running: bool, **given: Any) -> None:
    """Stop a LocalQueue: evict its Workloads, and stop admission.

    \b
    Example:
      pykueue stop localqueue main -n team-a
      pykueue stop lq main --keep-already-running

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or the queue does not exist; 2,
    invalid input.
    """
    changed("LocalQueue", name, policy(keep_already_running), given)


@stop.command("workload")
@click.argument("name", shell_complete=completion.active_workloads)
@namespaced
@trying
@printing_object
@choosing_server
def stop_workload(name: str, **given: Any) -> None:
    """Stop a Workload: it is evicted if it is running, and not admitted until it is resumed.

    \b
    Example:
      pykueue stop workload job-train-1a2b3

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or the Workload does not exist; 2,
    invalid input.
    """
    changed("Workload", name, {"active": False}, given, verb="stopped")


@resume.command("clusterqueue")
@click.argument("name", shell_complete=completion.stopped_cluster_queues)
@trying
@printing_object
@choosing_server
def resume_cluster_queue(name: str, **given: Any) -> None:
    """Resume a stopped ClusterQueue.

    \b
    Example:
      pykueue resume clusterqueue main

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or the queue does not exist; 2,
    invalid input.
    """
    changed("ClusterQueue", name, {"stopPolicy": "None"}, given)


@resume.command("localqueue")
@click.argument("name", shell_complete=completion.stopped_local_queues)
@namespaced
@trying
@printing_object
@choosing_server
def resume_local_queue(name: str, **given: Any) -> None:
    """Resume a stopped LocalQueue.

    \b
    Example:
      pykueue resume localqueue main -n team-a

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or the queue does not exist; 2,
    invalid input.
    """
    changed("LocalQueue", name, {"stopPolicy": "None"}, given)


@resume.command("workload")
@click.argument("name", shell_complete=completion.inactive_workloads)
@namespaced
@trying
@printing_object
@choosing_server
def resume_workload(name: str, **given: Any) -> None:
    """Resume a stopped Workload.

    If the owner of a job holds it, use `pykueue release` instead.

    \b
    Example:
      pykueue resume workload job-train-1a2b3

    Exit codes: 0, success; 1, the server rejected the request or does not respond, the Workload does not exist, or its
    job is held; 2, invalid input.
    """
    changed("Workload", name, {"active": True}, given, verb="resumed", refused=why_held)


def why_held(workload: Mapping[str, object]) -> str:
    """Why a Workload cannot be resumed: the job controller would stop it again; empty if it can."""
    from pykueue.api.names import Annotation
    from pykueue.api.trees import mappings, member, text

    metadata = workload.get("metadata")
    if (
        member(workload, "spec", "active") is not False
        or text(metadata, "annotations", Annotation.DEACTIVATED_BY) != "hold"
    ):
        return ""
    owner = next((text(one, "name") for _, one in mappings(metadata, "ownerReferences")), "JOB")
    release = f"pykueue release {owner} -n {text(metadata, 'namespace')}"
    return f"workload {text(metadata, 'name')}: its job is held by its owner; use `{release}`"


def policy(keep_already_running: bool) -> Tree:
    """The change that stops a queue."""
    return {"stopPolicy": "Hold" if keep_already_running else "HoldAndDrain"}


def changed(
    kind: str,
    name: str,
    change: Tree,
    given: dict[str, Any],
    *,
    verb: str = "",
    refused: Callable[[Mapping[str, object]], str] | None = None,
) -> None:
    """Change the spec of an object and print the line about it; kueuectl has no verb in that of a queue.

    Exits with what `refused` says about the object, if it says something.
    """
    from pykueue.cli.kueuectl.writes import decoded, merge, report
    from pykueue.cli.serverstate import fail
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.kube.port import kueue

    resource, dry_run = kueue(kind), given["dry_run"]
    target = chosen(given["kubeconfig"], given["context"], given["data"])
    namespace = (given.get("namespace") or target.connection.namespace) if resource.namespaced else ""

    async def written(kube: "HttpKube") -> Mapping[str, object]:
        if refused is not None and (why := refused(decoded(await kube.get(resource, name, namespace)))):
            fail(why, 1)
        return await merge(kube, resource, name, change, namespace, dry_run=dry_run)

    tree = asked(target, "stop", written)
    report(tree, resource, verb, dry_run=dry_run, output=given["output"])
