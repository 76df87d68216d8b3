"""`pykueue create`: make a ClusterQueue, LocalQueue or ResourceFlavor from options, as `kueuectl create` does."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from pykueue.api.core import Tree
from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced, printing_object, trying
from pykueue.cli.kueuectl.typenames import ByType
from pykueue.cli.serverstate import fail


@click.group(cls=ByType)
def create() -> None:
    """Create a ClusterQueue, LocalQueue or ResourceFlavor.

    The options are those of `kueuectl create`. With `--dry-run client -o yaml` the object is only printed.

    \b
    Example:
      pykueue create resourceflavor a100 --node-labels gpu=a100
      pykueue create clusterqueue main --nominal-quota "a100:cpu=9;memory=36Gi"
      pykueue create localqueue main -c main -n team-a

    Exit codes: 0, success; 1, the server rejected the request or does not respond; 2, invalid input.
    """


@create.command()
@click.argument("name")
@click.option("--cohort", default="", metavar="NAME", help="Cohort that the queue belongs to.")
@click.option(
    "--queuing-strategy",
    default="BestEffortFIFO",
    show_default=True,
    metavar="STRATEGY",
    help="StrictFIFO or BestEffortFIFO.",
    shell_complete=completion.one_of("BestEffortFIFO", "StrictFIFO"),
)
@click.option(
    "--namespace-selector",
    multiple=True,
    metavar="KEY=VALUE,…",
    help="Labels of the namespaces that may use the queue; default: all namespaces.",
)
@click.option(
    "--reclaim-within-cohort",
    default="Never",
    show_default=True,
    metavar="POLICY",
    help="Which Workloads of other queues in the cohort a pending Workload may preempt: Never, LowerPriority or Any.",
    shell_complete=completion.one_of("Never", "LowerPriority", "Any"),
)
@click.option(
    "--preemption-within-cluster-queue",
    default="Never",
    show_default=True,
    metavar="POLICY",
    help="Which Workloads of this queue a pending Workload may preempt: Never, LowerPriority or "
    "LowerOrNewerEqualPriority.",
    shell_complete=completion.one_of("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
)
@click.option("--nominal-quota", multiple=True, metavar="QUOTAS", help="Quota of each flavor and resource.")
@click.option("--borrowing-limit", multiple=True, metavar="QUOTAS", help="How much may be borrowed from the cohort.")
@click.option("--lending-limit", multiple=True, metavar="QUOTAS", help="How much may be lent to the cohort.")
@trying
@printing_object
@choosing_server
def clusterqueue(name: str, **given: Any) -> None:
    """Create a ClusterQueue.

    QUOTAS are FLAVOR:RESOURCE=QUANTITY;RESOURCE=QUANTITY, separated by commas. Limits must have the same resources as
    the quota of their flavor. Flavors with the same resources form one resource group, in the order given.

    \b
    Example:
      pykueue create clusterqueue main --cohort lab --nominal-quota "default:cpu=9;memory=36Gi"
      pykueue create cq gpus --nominal-quota "a100:nvidia.com/gpu=8,t4:nvidia.com/gpu=16" \\
        --borrowing-limit "a100:nvidia.com/gpu=4,t4:nvidia.com/gpu=0" --cohort lab

    Exit codes: 0, success; 1, the server rejected the request or does not respond; 2, invalid input.
    """
    from pykueue.cli.kueuectl.quotaspec import FIELDS, QuotaSpecError, resource_groups

    try:
        groups = resource_groups({option: given[option.replace("-", "_")] for option in FIELDS})
    except QuotaSpecError as error:
        fail(str(error))
    labels = pairs(given["namespace_selector"], "namespace-selector")
    spec: Tree = {
        **({"resourceGroups": groups} if groups else {}),
        **({"cohortName": given["cohort"]} if given["cohort"] else {}),
        "queueingStrategy": given["queuing_strategy"],
        "namespaceSelector": {"matchLabels": {**labels}} if labels else {},
        "preemption": {
            "reclaimWithinCohort": given["reclaim_within_cohort"],
            "withinClusterQueue": given["preemption_within_cluster_queue"],
        },
    }
    made("ClusterQueue", name, spec, given)


@create.command()
@click.argument("name")
@click.option(
    "-c",
    "--clusterqueue",
    required=True,
    metavar="NAME",
    help="ClusterQueue of the queue.",
    shell_complete=completion.cluster_queues,
)
@click.option("-i", "--ignore-unknown-cq", is_flag=True, help="Create it even if the ClusterQueue does not exist.")
@namespaced
@trying
@printing_object
@choosing_server
def localqueue(name: str, clusterqueue: str, ignore_unknown_cq: bool, **given: Any) -> None:
    """Create a LocalQueue.

    \b
    Example:
      pykueue create localqueue main -c main -n team-a
      pykueue create lq later -c not-there-yet --ignore-unknown-cq

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or the ClusterQueue does not exist;
    2, invalid input.
    """
    if not clusterqueue:
        fail("clusterqueue must be specified")
    made(
        "LocalQueue", name, {"clusterQueue": clusterqueue}, given, must_exist="" if ignore_unknown_cq else clusterqueue
    )


@create.command()
@click.argument("name")
@click.option("--node-labels", multiple=True, metavar="KEY=VALUE,…", help="Labels of the nodes of this flavor.")
@click.option(
    "--node-taints", multiple=True, metavar="KEY[=VALUE]:EFFECT,…", help="Taints of the nodes of this flavor."
)
@click.option(
    "--tolerations",
    multiple=True,
    metavar="KEY[=VALUE][:EFFECT],…",
    help="Tolerations added to pods in this flavor; `:EFFECT` tolerates all keys.",
)
@trying
@printing_object
@choosing_server
def resourceflavor(name: str, **given: Any) -> None:
    """Create a ResourceFlavor.

    \b
    Example:
      pykueue create resourceflavor default
      pykueue create rf spot --node-labels tier=spot --node-taints spot=true:NoSchedule --tolerations spot=true

    Exit codes: 0, success; 1, the server rejected the request or does not respond; 2, invalid input.
    """
    from pykueue.cli.kueuectl.taints import TaintError, taints, tolerations

    labels = pairs(given["node_labels"], "node-labels")
    try:
        tainted, tolerated = taints(values(given["node_taints"])), tolerations(values(given["tolerations"]))
    except TaintError as error:
        fail(str(error))
    spec: Tree = {
        **({"nodeLabels": {**labels}} if labels else {}),
        **({"nodeTaints": tainted} if tainted else {}),
        **({"tolerations": tolerated} if tolerated else {}),
    }
    made("ResourceFlavor", name, spec, given)


def values(given: Sequence[str]) -> list[str]:
    """The values of an option that takes several, separated by commas."""
    return [one for text in given for one in text.split(",")]


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """The labels of an option."""
    found = {}
    for one in values(given):
        key, equals, value = one.partition("=")
        if not equals:
            fail(f"--{option}: {one} must be formatted as key=value")
        found[key] = value
    return found


def made(kind: str, name: str, spec: Tree, given: dict[str, Any], *, must_exist: str = "") -> None:
    """Create an object and print the line about it; a ClusterQueue of this name must exist."""
    from pykueue.cli.kueuectl.writes import create as created
    from pykueue.cli.kueuectl.writes import report
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.kube.client.http import HttpKube
    from pykueue.kube.port import CLUSTER_QUEUES, DeniedError, kueue

    if not name:
        fail("name must be specified")
    resource, dry_run = kueue(kind), given["dry_run"]
    target = chosen(given["kubeconfig"], given["context"], given["data"])
    namespace = (given.get("namespace") or target.connection.namespace) if resource.namespaced else ""
    metadata: Tree = {"name": name, **({"namespace": namespace} if namespace else {})}
    tree: Tree = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, "spec": spec}

    async def ask(kube: HttpKube) -> Mapping[str, object]:
        if must_exist:
            try:
                await kube.get(CLUSTER_QUEUES, must_exist)
            except DeniedError as error:
                click.echo(f"could not check whether ClusterQueue {must_exist} exists: {error.message}", err=True)
        return await created(kube, resource, tree, namespace, dry_run=dry_run)

    report(asked(target, "create", ask), resource, "created", dry_run=dry_run, output=given["output"])
