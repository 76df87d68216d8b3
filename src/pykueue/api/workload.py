"""Wire types of a Workload: kueue.x-k8s.io/v1beta2, with its admission and its pods' placement.

The annotations hold limits and defaults; see `core.about`. Pod templates stay undecoded: `pods` reads them.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec

from pykueue.api.core import (
    LABEL,
    Condition,
    Count,
    FewConditions,
    Int32,
    KubeObject,
    Labels,
    Moment,
    ObjectName,
    Positive,
    Quantities,
    Toleration,
    about,
    holds,
    keyed,
    limited,
)
from pykueue.api.kueue import CheckName
from pykueue.api.pods import PodTemplate
from pykueue.base.struct import Wire

PodSetName: TypeAlias = Annotated[str, limited(maxLength=63, pattern=LABEL)]
LevelLabel: TypeAlias = Annotated[str, limited(maxLength=63)]
GateName: TypeAlias = Annotated[str, limited(minLength=1, maxLength=63)]
CheckStateName: TypeAlias = Literal["Pending", "Ready", "Retry", "Rejected"]


class TopologyConstraint(Wire):
    """How many pods together stay within one domain of a level."""

    topology: Annotated[str, about("Node label of the level.", minLength=1, maxLength=63)]
    size: Annotated[Positive, about("Pods that stay together.")]


class TopologyRequest(Wire):
    """How close together the pods of a pod set must run."""

    required: Annotated[LevelLabel | None, about("Level of which one domain must hold all the pods.")] = None
    preferred: Annotated[LevelLabel | None, about("Level of which one domain should hold all the pods.")] = None
    unconstrained: Annotated[bool | None, about("Whether any placement is acceptable.")] = None
    pod_index_label: Annotated[str | None, about("Pod label with its index.", maxLength=317)] = None
    sub_group_index_label: Annotated[str | None, about("Pod label with its group's index.", maxLength=317)] = None
    sub_group_count: Annotated[Count | None, about("How many groups of pods there are.")] = None
    pod_set_group_name: Annotated[
        str | None, about("Pod sets of the same name here are placed together.", maxLength=256)
    ] = None
    pod_set_slice_required_topology: Annotated[
        LevelLabel | None, about("Level of which one domain must hold each slice.")
    ] = None
    pod_set_slice_size: Annotated[Positive | None, about("Pods in each slice.")] = None
    podset_slice_required_topology_constraints: Annotated[
        tuple[TopologyConstraint, ...],
        about("Slices within slices, the widest first.", maxItems=3, x_kubernetes_list_type="atomic"),
    ] = ()


class PodSet(Wire):
    """A number of pods of one template."""

    template: Annotated[msgspec.Raw, holds(PodTemplate), about("Template of the pods.", type="object")]
    name: Annotated[PodSetName, about("Name within the workload.")] = "main"
    count: Annotated[Count, about("How many pods there are.")] = 1
    min_count: Annotated[Count | None, about("Fewest pods with which it may start.")] = None
    topology_request: Annotated[TopologyRequest | None, about("How close together they must run.")] = None

    def __post_init__(self) -> None:
        # A decoded Raw refers to the whole message, and would keep an entire list response in memory.
        msgspec.structs.force_setattr(self, "template", self.template.copy())


class PriorityClassRef(Wire):
    """The class that gives a workload its priority."""

    group: Annotated[Literal["kueue.x-k8s.io", "scheduling.k8s.io"], about("API group of the class.")]
    kind: Annotated[Literal["WorkloadPriorityClass", "PriorityClass"], about("Kind of the class.")]
    name: Annotated[ObjectName, about("Name of the class.", required=True, minLength=1)] = ""


class PreemptionGate(Wire):
    """Something that may forbid the workload to preempt others."""

    name: Annotated[GateName, about("Name of the gate.")]


class WorkloadSpec(Wire):
    """What a workload asks for."""

    pod_sets: Annotated[
        tuple[PodSet, ...], about("Pod sets, which start together."), keyed("name", minItems=1, maxItems=18)
    ] = ()
    queue_name: Annotated[ObjectName | None, about("LocalQueue in which it waits.")] = None
    priority_class_ref: Annotated[PriorityClassRef | None, about("Where its priority comes from.")] = None
    priority: Annotated[Int32 | None, about("The priority; higher goes first.")] = None
    active: Annotated[bool, about("Whether it may be admitted; if false, it is evicted.")] = True
    maximum_execution_time_seconds: Annotated[
        Positive | None, about("Longest time it may be admitted, after which it is deactivated.")
    ] = None
    preemption_gates: Annotated[
        tuple[PreemptionGate, ...], about("Gates, closed until the status opens them."), keyed("name", maxItems=8)
    ] = ()


class PodCounts(Wire):
    """Pods in each domain of a slice: one number for all, or one for each."""

    universal: Annotated[Positive | None, about("Pods in every domain.")] = None
    individual: Annotated[
        tuple[Positive, ...] | None,
        about("Pods in each domain.", minItems=1, maxItems=100000, x_kubernetes_list_type="atomic"),
    ] = None


class IndividualValues(Wire):
    """Domain names that share their beginning and end."""

    roots: Annotated[
        tuple[LevelLabel, ...],
        about(
            "The part between prefix and suffix, for each domain.",
            minItems=1,
            maxItems=100000,
            x_kubernetes_list_type="atomic",
        ),
    ]
    prefix: Annotated[LevelLabel | None, about("Common prefix.")] = None
    suffix: Annotated[LevelLabel | None, about("Common suffix.")] = None


class LevelValues(Wire):
    """Names of a slice's domains at one level: one for all, or one for each."""

    universal: Annotated[LevelLabel | None, about("Name of every domain.")] = None
    individual: Annotated[IndividualValues | None, about("Name of each domain.")] = None


class TopologySlice(Wire):
    """Some domains of an assignment."""

    domain_count: Annotated[Positive, about("How many domains there are.")]
    pod_counts: Annotated[PodCounts, about("Number of pods in each.")]
    values_per_level: Annotated[
        tuple[LevelValues, ...],
        about("Their names, level by level.", minItems=1, maxItems=16, x_kubernetes_list_type="atomic"),
    ]


class TopologyAssignment(Wire):
    """Where the pods of a pod set go. `topology` packs and unpacks it."""

    levels: Annotated[
        tuple[Annotated[str, limited(maxLength=317)], ...],
        about("Node labels of the levels, the widest first.", minItems=1, maxItems=16, x_kubernetes_list_type="atomic"),
    ]
    slices: Annotated[
        tuple[TopologySlice, ...], about("The domains, in slices.", maxItems=1000, x_kubernetes_list_type="atomic")
    ]


class PodSetAssignment(Wire):
    """What one pod set was given."""

    name: Annotated[PodSetName, about("Name of the pod set.")] = "main"
    flavors: Annotated[Mapping[str, ObjectName], about("Flavor of each resource.")] = msgspec.field(
        default_factory=dict
    )
    resource_usage: Annotated[Quantities, about("Amount of each resource, for all its pods.")] = msgspec.field(
        default_factory=dict
    )
    count: Annotated[Count | None, about("Pods that were admitted; without it, all of them.")] = None
    topology_assignment: Annotated[TopologyAssignment | None, about("Where the pods go.")] = None
    delayed_topology_request: Annotated[
        Literal["Pending", "Ready"] | None, about("Whether the placement is pending.", maxLength=7)
    ] = None


class Admission(Wire):
    """The quota that a workload holds."""

    cluster_queue: Annotated[ObjectName | None, about("ClusterQueue whose quota it is.")] = None
    pod_set_assignments: Annotated[
        tuple[PodSetAssignment, ...], about("Assignment of each pod set."), keyed("name", maxItems=18)
    ] = ()


class PodSetUpdate(Wire):
    """What a check adds to the pods of one pod set."""

    name: Annotated[PodSetName, about("Name of the pod set.")]
    labels: Annotated[Labels, about("Labels to add.")] = msgspec.field(default_factory=dict)
    annotations: Annotated[Labels, about("Annotations to add.")] = msgspec.field(default_factory=dict)
    node_selector: Annotated[Labels, about("Node labels to select.")] = msgspec.field(default_factory=dict)
    tolerations: Annotated[
        tuple[Toleration, ...], about("Tolerations to add.", maxItems=8, x_kubernetes_list_type="atomic")
    ] = ()


class AdmissionCheckState(Wire):
    """The state of one check."""

    name: Annotated[CheckName, about("Name of the AdmissionCheck.")]
    state: Annotated[CheckStateName, about("State of the check.")]
    message: Annotated[str, about("Message for users.", required=True, maxLength=32768)] = ""
    last_transition_time: Annotated[Moment | None, about("When the state last changed.", required=True)] = None
    pod_set_updates: Annotated[
        tuple[PodSetUpdate, ...],
        about("What it adds to the pods.", maxItems=18, x_kubernetes_list_type="atomic"),
    ] = ()
    requeue_after_seconds: Annotated[Count | None, about("How long to wait before the next attempt.")] = None
    retry_count: Annotated[Count | None, about("Number of retries.")] = None


class PreemptionGateState(Wire):
    """Whether one gate lets the workload preempt."""

    name: Annotated[GateName, about("Name of the gate.")]
    position: Annotated[Literal["Closed", "Open"], about("Whether it lets the workload preempt.")]
    last_transition_time: Annotated[Moment | None, about("When its position last changed.", required=True)] = None


class ReclaimablePod(Wire):
    """Pods of one pod set that no longer need their quota."""

    name: Annotated[PodSetName, about("Name of the pod set.")]
    count: Annotated[Count, about("How many of its pods are done.")]


class RequeueState(Wire):
    """When, and how many times, a workload was put back in its queue."""

    count: Annotated[Count | None, about("How many times it was requeued.")] = None
    requeue_at: Annotated[Moment | None, about("When it may be tried again.")] = None


class PodSetRequest(Wire):
    """What one pod set asks for, as it is counted."""

    name: Annotated[PodSetName, about("Name of the pod set.")]
    resources: Annotated[Quantities, about("Amount of each resource, for all its pods.")] = msgspec.field(
        default_factory=dict
    )


class EvictionCount(Wire):
    """How many times a workload was evicted for one reason."""

    reason: Annotated[str, about("Why it was evicted.", maxLength=316)]
    count: Annotated[Count, about("How many times.")]
    underlying_cause: Annotated[str, about("Underlying cause; may be empty.", required=True, maxLength=316)] = ""


class SchedulingStats(Wire):
    """Counters of past events of a workload."""

    evictions: Annotated[
        tuple[EvictionCount, ...], about("Evictions, by reason."), keyed("reason", "underlyingCause", maxItems=256)
    ] = ()


class UnhealthyNode(Wire):
    """A node on which the workload's pods can no longer run."""

    name: Annotated[str, about("Name of the node.", maxLength=63)]


class WorkloadStatus(Wire):
    """The state of a workload."""

    conditions: Annotated[FewConditions, about("Reserved, admitted, evicted, finished.")] = ()
    admission: Annotated[Admission | None, about("The quota that it holds.")] = None
    requeue_state: Annotated[RequeueState | None, about("When it may be tried again.")] = None
    reclaimable_pods: Annotated[
        tuple[ReclaimablePod, ...], about("Pods that no longer need their quota."), keyed("name", maxItems=18)
    ] = ()
    admission_checks: Annotated[
        tuple[AdmissionCheckState, ...], about("Checks it must pass."), keyed("name", maxItems=8)
    ] = ()
    resource_requests: Annotated[
        tuple[PodSetRequest, ...], about("What it requests while pending."), keyed("name", maxItems=18)
    ] = ()
    accumulated_past_execution_time_seconds: Annotated[
        Int32 | None, about("Time for which it was admitted earlier.")
    ] = None
    scheduling_stats: Annotated[SchedulingStats | None, about("Counters of past events.")] = None
    nominated_cluster_names: Annotated[
        tuple[Annotated[str, limited(maxLength=256)], ...],
        about("Clusters that may take it.", maxItems=20, x_kubernetes_list_type="atomic"),
    ] = ()
    cluster_name: Annotated[str | None, about("Cluster that took it.", maxLength=256)] = None
    unhealthy_nodes: Annotated[
        tuple[UnhealthyNode, ...], about("Nodes to be replaced."), keyed("name", maxItems=8)
    ] = ()
    preemption_gates: Annotated[
        tuple[PreemptionGateState, ...], about("Positions of the gates."), keyed("name", maxItems=8)
    ] = ()


class Workload(KubeObject):
    """One job's request for quota."""

    spec: Annotated[WorkloadSpec, about("What it requests.")] = WorkloadSpec()
    status: Annotated[WorkloadStatus, about("Its present state.")] = WorkloadStatus()


def condition(seen: Workload, kind: str) -> Condition | None:
    """A condition of a Workload, of any status; None if absent."""
    for one in seen.status.conditions:
        if one.type == kind:
            return one
    return None


def held(seen: Workload, kind: str) -> Condition | None:
    """A condition of a Workload if it is true, otherwise None."""
    # Written out, like `condition`: every change of a job asks for a dozen of them.
    for one in seen.status.conditions:
        if one.type == kind:
            return one if one.status == "True" else None
    return None
