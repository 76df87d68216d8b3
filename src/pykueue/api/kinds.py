"""Kinds of object and how the API serves them, one row per kind."""

from collections.abc import Mapping
from typing import Final, Literal

from pykueue.api.checks import (
    AdmissionCheck,
    MultiKueueCluster,
    MultiKueueConfig,
    ProvisioningRequest,
    ProvisioningRequestConfig,
)
from pykueue.api.core import KubeObject, Namespace
from pykueue.api.kueue import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Topology,
    WorkloadPriorityClass,
)
from pykueue.api.names import GROUP
from pykueue.api.workload import Workload
from pykueue.base.struct import Frozen


class Column(Frozen):
    """A column that kubectl prints; priority 1 only with `-o wide`."""

    name: str
    type: Literal["string", "integer", "date"]
    path: str
    priority: int = 0
    path_v1beta1: str | None = None
    """The path in v1beta1, if it differs."""


class Kind(Frozen):
    """A kind of object, and how the API serves it."""

    view: type[KubeObject]
    plural: str
    scope: Literal["Cluster", "Namespaced"] = "Cluster"
    group: str = GROUP
    versions: tuple[str, ...] = ("v1beta2", "v1beta1")
    """Served versions; the first is stored, and is the one of the views."""
    short_names: tuple[str, ...] = ()
    status: bool = False
    """Whether status is a subresource."""
    columns: tuple[Column, ...] = ()
    deprecated: tuple[str, ...] = ("v1beta1",)
    """Versions that are deprecated, with `DEPRECATED` as the warning."""
    selectable: tuple[str, ...] = ()
    """Fields that field selectors can use, in the stored version."""

    @property
    def kind(self) -> str:
        """Its name."""
        return self.view.__name__

    @property
    def api_versions(self) -> tuple[str, ...]:
        """Served versions as objects name them."""
        return tuple(f"{self.group}/{version}" if self.group else version for version in self.versions)


DEPRECATED: Final = "This version is deprecated. Use v1beta2 instead."
AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")

KINDS: Final[Mapping[str, Kind]] = {
    kind.kind: kind
    for kind in (
        Kind(
            ClusterQueue,
            "clusterqueues",
            short_names=("cq",),
            status=True,
            columns=(
                Column("Cohort", "string", ".spec.cohortName", path_v1beta1=".spec.cohort"),
                Column("Strategy", "string", ".spec.queueingStrategy", 1),
                Column("Pending Workloads", "integer", ".status.pendingWorkloads"),
                Column("Admitted Workloads", "integer", ".status.admittedWorkloads", 1),
            ),
        ),
        Kind(
            LocalQueue,
            "localqueues",
            "Namespaced",
            short_names=("queue", "queues", "lq"),
            status=True,
            columns=(
                Column("ClusterQueue", "string", ".spec.clusterQueue"),
                Column("Pending Workloads", "integer", ".status.pendingWorkloads"),
                Column("Admitted Workloads", "integer", ".status.admittedWorkloads"),
            ),
        ),
        Kind(
            Workload,
            "workloads",
            "Namespaced",
            short_names=("kwl", "kueueworkload", "kueueworkloads"),
            status=True,
            columns=(
                Column("Queue", "string", ".spec.queueName"),
                Column("Reserved in", "string", ".status.admission.clusterQueue"),
                Column("Admitted", "string", ".status.conditions[?(@.type=='Admitted')].status"),
                Column("Finished", "string", ".status.conditions[?(@.type=='Finished')].status"),
                AGE,
            ),
            selectable=(".status.admission.clusterQueue",),
        ),
        Kind(ResourceFlavor, "resourceflavors", short_names=("flavor", "flavors", "rf")),
        Kind(
            WorkloadPriorityClass,
            "workloadpriorityclasses",
            short_names=("wpc",),
            columns=(Column("Value", "integer", ".value"),),
        ),
        Kind(AdmissionCheck, "admissionchecks", short_names=("ac",), status=True),
        Kind(ProvisioningRequestConfig, "provisioningrequestconfigs", short_names=("prc",)),
        Kind(Cohort, "cohorts", short_names=("co",), status=True),
        Kind(Topology, "topologies", short_names=("topo",)),
        Kind(MultiKueueConfig, "multikueueconfigs", short_names=("mkconf",), deprecated=()),
        Kind(
            MultiKueueCluster,
            "multikueueclusters",
            short_names=("mkc",),
            status=True,
            columns=(Column("Connected", "string", ".status.conditions[?(@.type=='Active')].status"), AGE),
        ),
        Kind(
            ProvisioningRequest,
            "provisioningrequests",
            "Namespaced",
            group="autoscaling.x-k8s.io",
            versions=("v1",),
            short_names=("provreq", "provreqs"),
            status=True,
            columns=(AGE,),
            deprecated=(),
        ),
        Kind(Namespace, "namespaces", group="", versions=("v1",), short_names=("ns",), status=True, deprecated=()),
    )
}
