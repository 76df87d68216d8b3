"""What `pykueue list` shows of each type of object: columns, filters and the words of kueuectl."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pykueue.api.names import Label
from pykueue.api.trees import Tree, items, mapping, mappings, member, text, whole
from pykueue.apiserver.http.columns import human_duration
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, parse_instant
from pykueue.bridge.sentences import condition
from pykueue.cli.formats import Column
from pykueue.cli.kueuectl.writes import reference
from pykueue.kube.port import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
    kueue,
)

TYPE_MAX: Final = 20
"""Longer job types are cut, as kueuectl cuts them."""
STATUSES: Final = ("all", "pending", "quotareserved", "admitted", "finished")
POD_SELECTORS: Final[Mapping[str, str]] = {
    "job.batch": "batch.kubernetes.io/job-name={name}",
    "jobset.jobset.x-k8s.io": "jobset.sigs.k8s.io/jobset-name={name}",
    "trainjob.trainer.kubeflow.org": "jobset.sigs.k8s.io/jobset-name={name}",
    "mpijob.kubeflow.org": "training.kubeflow.org/job-name={name},training.kubeflow.org/operator-name=mpi-operator",
    "raycluster.ray.io": "ray.io/cluster={name}",
    "rayjob.ray.io": "ray.io/cluster={ray}",
    "rayservice.ray.io": "ray.io/cluster={service}",
    "sparkapplication.sparkoperator.k8s.io": "sparkoperator.k8s.io/app-name={name}",
    "pod": "kueue.x-k8s.io/pod-group-name={group}",
} | {
    f"{kind}.kubeflow.org": (
        f"training.kubeflow.org/job-name={{name}},training.kubeflow.org/operator-name={kind}-controller"
    )
    for kind in ("jaxjob", "paddlejob", "pytorchjob", "tfjob", "xgboostjob")
}
"""The labels of a job's pods, by the job's kind and group, as Kueue's integrations know them."""


class Row(Frozen):
    """An object, and what is known about it besides."""

    tree: Tree
    now: Instant
    cluster_queue: str = ""
    """Of a Workload: the ClusterQueue of its LocalQueue."""
    types: tuple[str, ...] = ()
    """Of a Workload: the types of its jobs."""
    position: str = ""
    """Of a pending Workload: its place in its LocalQueue; empty where the server does not tell."""


class Listed(Frozen):
    """A type of object that can be listed."""

    resource: Resource
    columns: tuple[Column[Row], ...]

    def name(self, row: Row) -> str:
        """An object as `-o name` shows it."""
        return reference(self.resource, text(row.tree, "metadata", "name"))

    def shown(self, *, namespaces: bool) -> tuple[Column[Row], ...]:
        """The columns, with the namespace first if several are listed."""
        return (NAMESPACE, *self.columns) if namespaces else self.columns


def field(*keys: str) -> Callable[[Row], str]:
    """The cell of a text field."""
    return lambda row: text(row.tree, *keys)


def count(*keys: str) -> Callable[[Row], str]:
    """The cell of a number; 0 if absent."""
    return lambda row: str(whole(row.tree, *keys) or 0)


def age(row: Row) -> str:
    """How long ago the object was created."""
    created = text(row.tree, "metadata", "creationTimestamp")
    return human_duration(row.now - parse_instant(created)) if created else "<unknown>"


def is_true(tree: Tree, kind: str) -> bool:
    """Whether a condition is True."""
    return text(condition(tree, kind), "status") == "True"


def active(row: Row) -> str:
    """Whether the object is active."""
    return "true" if is_true(row.tree, "Active") else "false"


def status(tree: Tree) -> str:
    """The status of a Workload, one of `STATUSES`."""
    for kind in ("Finished", "Admitted", "QuotaReserved"):
        if is_true(tree, kind):
            return kind.lower()
    return "pending"


def cluster_queue(row: Row) -> str:
    """The ClusterQueue that a Workload is admitted by, or else that of its LocalQueue."""
    return text(row.tree, "status", "admission", "clusterQueue") or row.cluster_queue


def ran(row: Row) -> str:
    """For how long a Workload has run, or ran; empty if it is not admitted."""
    if not is_true(row.tree, "Admitted"):
        return ""
    end = row.now
    if is_true(row.tree, "Finished"):
        end = parse_instant(text(condition(row.tree, "Finished"), "lastTransitionTime"))
    return human_duration(end - parse_instant(text(condition(row.tree, "Admitted"), "lastTransitionTime")))


def owners(tree: Tree) -> list[Tree]:
    """The owner references of an object."""
    return [one for _, one in mappings(tree, "metadata", "ownerReferences")]


def job_names(row: Row) -> str:
    """The names of a Workload's jobs."""
    return ", ".join(dict.fromkeys(text(one, "name") for one in owners(row.tree)))


def job_type(singular: str) -> str:
    """The type of a job, cut as kueuectl cuts it. Its group is missing there too: discovery does not repeat it."""
    return f"{singular[:TYPE_MAX]}..." if len(singular) > TYPE_MAX else singular


def node_labels(row: Row) -> str:
    """The node labels of a ResourceFlavor, sorted."""
    return ", ".join(sorted(f"{key}={value}" for key, value in mapping(row.tree, "spec", "nodeLabels").items()))


def levels(row: Row) -> str:
    """The levels of a Topology, from the top."""
    return ", ".join(text(one, "nodeLabel") for _, one in mappings(row.tree, "spec", "levels"))


def priority(row: Row) -> str:
    """The value of a WorkloadPriorityClass."""
    return str(member(row.tree, "value") or 0)


NAMESPACE: Final = Column("NAMESPACE", field("metadata", "namespace"))
NAME: Final = Column("NAME", field("metadata", "name"), shrinks=True)
AGE: Final = Column("AGE", age)
PENDING: Final = Column("PENDING WORKLOADS", count("status", "pendingWorkloads"))
ADMITTED: Final = Column("ADMITTED WORKLOADS", count("status", "admittedWorkloads"))
ACTIVE: Final = Column("ACTIVE", active)

LISTED: Final[Mapping[str, Listed]] = {
    "clusterqueue": Listed(
        CLUSTER_QUEUES,
        (
            NAME,
            Column("COHORT", field("spec", "cohortName")),
            Column("STRATEGY", field("spec", "queueingStrategy"), wide=True),
            PENDING,
            ADMITTED,
            ACTIVE,
            AGE,
        ),
    ),
    "localqueue": Listed(
        LOCAL_QUEUES,
        (NAME, Column("CLUSTERQUEUE", field("spec", "clusterQueue"), shrinks=True), PENDING, ADMITTED, AGE),
    ),
    "workload": Listed(
        WORKLOADS,
        (
            NAME,
            Column("JOB TYPE", lambda row: ", ".join(row.types)),
            Column("JOB NAME", job_names, shrinks=True),
            Column("LOCALQUEUE", field("spec", "queueName"), shrinks=True),
            Column("CLUSTERQUEUE", cluster_queue, shrinks=True),
            Column("STATUS", lambda row: status(row.tree).upper()),
            Column("POSITION IN QUEUE", lambda row: row.position),
            Column("EXEC TIME", ran),
            AGE,
        ),
    ),
    "resourceflavor": Listed(RESOURCE_FLAVORS, (NAME, Column("NODE LABELS", node_labels, shrinks=True), AGE)),
    "cohort": Listed(COHORTS, (NAME, Column("PARENT", field("spec", "parentName")), AGE)),
    "admissioncheck": Listed(
        ADMISSION_CHECKS, (NAME, Column("CONTROLLER", field("spec", "controllerName"), shrinks=True), ACTIVE, AGE)
    ),
    "topology": Listed(kueue("Topology"), (NAME, Column("LEVELS", levels, shrinks=True), AGE)),
    "workloadpriorityclass": Listed(WORKLOAD_PRIORITY_CLASSES, (NAME, Column("VALUE", priority), AGE)),
}
"""The types of object that can be listed, by their names on the command line."""


class Wanted(Frozen):
    """Which objects are listed, of those that the server returns."""

    active: bool | None = None
    cluster_queue: str = ""
    local_queue: str = ""
    statuses: frozenset[str] = frozenset()
    owner: str = ""
    """The uid of the job."""

    def __call__(self, row: Row) -> bool:
        """Whether an object is listed."""
        tree = row.tree
        if self.active is not None and is_true(tree, "Active") is not self.active:
            return False
        named = text(tree, "spec", "clusterQueue") or cluster_queue(row)
        if self.cluster_queue and named != self.cluster_queue:
            return False
        if self.local_queue and text(tree, "spec", "queueName") != self.local_queue:
            return False
        jobs = (text(tree, "metadata", "labels", Label.JOB_UID), *(text(one, "uid") for one in owners(tree)))
        if self.owner and self.owner not in jobs:
            return False
        return not self.statuses or "all" in self.statuses or status(tree) in self.statuses


def pod_selector(kind: str, tree: Tree) -> str | None:
    """The label selector of the pods of a job; None if the kind is not one whose pods are known, or has none yet.

    `kind` is the kind and group, in lower case: `job.batch`.
    """
    pattern = POD_SELECTORS.get(kind)
    if pattern is None:
        return None
    values = {
        "name": text(tree, "metadata", "name"),
        "ray": text(tree, "status", "rayClusterName"),
        "service": text(tree, "status", "activeServiceStatus", "rayClusterName"),
        "group": text(tree, "metadata", "labels", "kueue.x-k8s.io/pod-group-name"),
    }
    made = pattern.format(**values)
    return None if made.endswith("=") else made


def nothing_found(namespace: str) -> str:
    """What kubectl prints if nothing is found, in a namespace or, if that is empty, at all."""
    return f"No resources found in {namespace} namespace." if namespace else "No resources found"


def table_cells(table: Tree, *, wide: bool) -> tuple[list[str], list[list[str]]]:
    """Headers and cells of a Table that the server made."""
    columns = mappings(table, "columnDefinitions")
    chosen = [index for index, one in columns if wide or not whole(one, "priority")]
    headers = [text(columns[index][1], "name").upper() for index in chosen]
    rows: list[list[str]] = []
    for _, row in mappings(table, "rows"):
        cells: Sequence[object] = items(row, "cells")
        rows.append([str(cells[index]) for index in chosen])
    return headers, rows
