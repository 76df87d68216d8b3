"""Which features are on? Every gate of Kueue, its default, and what a user's choice comes to."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, Literal

from pykueue.base.struct import Frozen

Stage = Literal["Alpha", "Beta", "GA", "Deprecated"]
Status = Literal["built", "validation", "inert", "performance"]
"""built: changes something we do. validation: changes what we accept, while the feature itself is not built.
inert: Kueue has it, we do not. performance: changes no behaviour, here or there."""


class Step(Frozen):
    """What a gate was from one release of Kueue on."""

    since: str
    stage: Stage
    default: bool


class Gate(Frozen):
    """One switch: its story, what it needs, and what turning it does."""

    name: str
    effect: str
    history: tuple[Step, ...]
    requires: tuple[str, ...] = ()
    locked: bool = False
    status: Status = "inert"

    @property
    def stage(self) -> Stage:
        """How settled the feature is."""
        return self.history[-1].stage

    @property
    def default(self) -> bool:
        """Whether it is on when nobody says otherwise."""
        return self.history[-1].default


class Requested(Frozen):
    """What the text of a flag asks for."""

    values: Mapping[str, bool]
    errors: tuple[str, ...] = ()


class Resolved(Frozen):
    """Every gate with its value, and what to tell the user about the choice."""

    values: Mapping[str, bool]
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def alpha(since: str) -> tuple[Step, ...]:
    """A gate that came as Alpha and is off still."""
    return (Step(since, "Alpha", False),)


def beta(since: str, *, alpha_since: str | None = None) -> tuple[Step, ...]:
    """A gate that is Beta and on, perhaps after a time as Alpha."""
    return (*(alpha(alpha_since) if alpha_since else ()), Step(since, "Beta", True))


TAS: Final = ("TopologyAwareScheduling",)
REPLACEMENT: Final = ("TopologyAwareScheduling", "TASFailedNodeReplacement")
DRA: Final = ("KueueDRAIntegration",)

TABLE: Final = (
    Gate("AdmissionFairSharing", "order LocalQueues of one ClusterQueue by past use", beta("0.15", alpha_since="0.12")),
    Gate(
        "AdmissionGatedBy",
        "hold a job back while its admission-gated-by annotation names a gate",
        beta("0.19", alpha_since="0.17"),
        status="built",
    ),
    Gate("AssignQueueLabelsForPods", "label pods with the queue they came through", beta("0.17"), status="built"),
    Gate(
        "CleanupProvisioningRequestsOnEviction",
        "delete an evicted workload's ProvisioningRequests",
        beta("0.19"),
        status="built",
    ),
    Gate(
        "ConcurrentAdmission",
        "try several flavors for one workload at the same time",
        alpha("0.18"),
        status="validation",
    ),
    Gate("CustomMetricLabels", "add labels of metrics.customLabels to the metrics", alpha("0.17")),
    Gate(
        "DeferRayServiceFinalizationForRedisCleanup",
        "keep a RayService's workload until its Redis data is cleaned up",
        beta("0.19"),
    ),
    Gate("DisableWaitForPodsReady", "turn waitForPodsReady off altogether", alpha("0.19"), status="built"),
    Gate(
        "ElasticJobsViaWorkloadSlices",
        "resize a running job through workload slices",
        beta("0.18", alpha_since="0.13"),
        status="validation",
    ),
    Gate(
        "ElasticJobsViaWorkloadSlicesWithTAS",
        "resize jobs that are placed by topology",
        alpha("0.17"),
        requires=("ElasticJobsViaWorkloadSlices", *TAS),
    ),
    Gate("FailureRecoveryPolicy", "force deletion of consenting pods on unreachable nodes", alpha("0.15")),
    Gate(
        "FairSharingPreemptWithinNominal", "let a preemptor within its nominal quota pass the share test", beta("0.17")
    ),
    Gate(
        "FairSharingPrioritizeNonBorrowing", "admit subtrees that do not borrow first, under fair sharing", beta("0.17")
    ),
    Gate("FastQuotaReleaseInPodIntegration", "count a terminating pod as gone at once", alpha("0.17")),
    Gate("FinishOrphanedWorkloads", "finish a workload whose owner is gone", beta("0.18"), status="built"),
    Gate("FlavorFungibility", "obey spec.flavorFungibility of a ClusterQueue", beta("0.5"), status="built"),
    Gate(
        "FlavorFungibilityPreserveScanProgress",
        "go on from the last flavor tried in the cycle before",
        beta("0.20"),
        requires=("FlavorFungibility",),
        status="built",
    ),
    Gate("KueueDRAIntegration", "count devices of resource claims against quota", beta("0.18")),
    Gate(
        "KueueDRAIntegrationConsumableCapacity",
        "count a device's capacity",
        alpha("0.19"),
        requires=DRA,
        status="validation",
    ),
    Gate(
        "KueueDRAIntegrationExtendedResource",
        "count devices that are asked for by extended resource name",
        beta("0.19", alpha_since="0.18"),
        requires=DRA,
    ),
    Gate(
        "KueueDRAIntegrationPartitionableDevices",
        "count a device's counters",
        beta("0.19", alpha_since="0.18"),
        requires=DRA,
        status="validation",
    ),
    Gate("KueueDRARejectWorkloadsWhenDRADisabled", "refuse resource claims while nothing counts them", beta("0.18")),
    Gate("LWSImmutableGroupSize", "fix the group size of a queued LeaderWorkerSet", beta("0.20")),
    Gate("LocalQueueMetrics", "publish metrics of LocalQueues", beta("0.17", alpha_since="0.10"), status="built"),
    Gate(
        "ManagedJobsNamespaceSelectorAlwaysRespected",
        "leave jobs outside the selected namespaces alone even when they name a queue",
        (*beta("0.15", alpha_since="0.13"), Step("0.19", "GA", True)),
        locked=True,
    ),
    Gate(
        "MetricForWorkloadCreationLatency", "publish how long creating a workload takes", beta("0.18"), status="built"
    ),
    Gate("MetricsForCohorts", "publish metrics of cohorts", beta("0.18"), status="built"),
    Gate("MultiKueue", "send workloads to other clusters", beta("0.9", alpha_since="0.6")),
    Gate(
        "MultiKueueAdaptersForCustomJobs",
        "send custom kinds of job to other clusters",
        beta("0.15", alpha_since="0.14"),
    ),
    Gate("MultiKueueClusterProfile", "find other clusters through ClusterProfiles", alpha("0.15")),
    Gate("MultiKueueIncrementalDispatcherConfig", "obey multiKueue.incrementalDispatcherConfig", beta("0.19")),
    Gate(
        "MultiKueueIncrementalDispatcherRespectConfigOrder",
        "nominate clusters in the order in which they are listed",
        beta("0.19"),
    ),
    Gate(
        "MultiKueueKubeConfigPathValidation",
        "read kubeconfig files below one folder only",
        beta("0.20", alpha_since="0.19"),
    ),
    Gate("MultiKueueManagerQuotaAutomation", "derive the manager's quota from its clusters", alpha("0.18")),
    Gate("MultiKueueOrchestratedPreemption", "let the manager time preemptions in other clusters", alpha("0.17")),
    Gate("MultiKueueRemoteSpecSync", "carry edits of a job over to its cluster", beta("0.20")),
    Gate("PartialAdmission", "admit fewer pods, down to minCount", beta("0.5", alpha_since="0.4"), status="built"),
    Gate("PodIntegrationValidateGroupOwner", "refuse a pod group named like a stranger's workload", beta("0.18")),
    Gate(
        "PrioritizePreemptorWorkloads",
        "put a workload that waits for its own victims first",
        alpha("0.20"),
        status="built",
    ),
    Gate("PriorityBoost", "add the priority-boost annotation to the priority", alpha("0.17"), status="built"),
    Gate("PrioritySortingWithinCohort", "order heads of a cohort by priority before age", beta("0.6"), status="built"),
    Gate("QuotaCheckStrategy", "obey resources.quotaCheckStrategy", beta("0.19", alpha_since="0.18"), status="built"),
    Gate("ReclaimablePods", "free the quota of pods that are done", beta("0.15"), status="built"),
    Gate(
        "RecomputeAssignmentUponPreemptionTargetsOverlap",
        "plan again when two heads of a cycle want the same victims",
        beta("0.20"),
        status="built",
    ),
    Gate(
        "RejectUpdatesToCQWithInvalidOnFlavors",
        "refuse wrong onFlavors on update also where they were there before",
        alpha("0.18"),
        status="built",
    ),
    Gate(
        "RemoveFinalizersWithStrictPatch",
        "check the resource version when removing a finalizer",
        beta("0.17"),
        status="built",
    ),
    Gate("SchedulerLibraryIntegration", "ask the kube-scheduler's own checks when placing by topology", alpha("0.19")),
    Gate(
        "SchedulingEquivalenceHashing",
        "set workloads aside that equal one that did not fit",
        (Step("0.17", "Beta", False), Step("0.18", "Beta", True)),
        status="built",
    ),
    Gate("ShortWorkloadNames", "keep workload names within 63 characters", alpha("0.17"), status="built"),
    Gate(
        "SkipAncestorCheckForDeletedWorkloads",
        "let a webhook pass a deleted object without its owner",
        beta("0.20"),
        status="built",
    ),
    Gate("SkipReassignmentForPodOwnedWorkloads", "never move a single pod to another node", beta("0.19")),
    Gate("SparkApplicationIntegration", "queue SparkApplications", alpha("0.17"), status="validation"),
    Gate("TASAssignmentsEncodingByHostnamePrefix", "write topology assignments shorter", beta("0.19")),
    Gate("TASBalancedPlacement", "spread pods evenly over domains", alpha("0.15"), requires=TAS),
    Gate("TASCacheNodeMatchResults", "remember which nodes match", beta("0.19"), status="performance"),
    Gate("TASCacheTopologyTree", "remember the topology's tree", beta("0.20"), status="performance"),
    Gate("TASCachingRemainingResources", "remember what is free in a domain", beta("0.19"), status="performance"),
    Gate("TASFailedNodeReplacement", "replace a failed node", beta("0.14", alpha_since="0.12"), requires=TAS),
    Gate(
        "TASFailedNodeReplacementFailFast",
        "evict when the first search for another node fails",
        beta("0.14", alpha_since="0.13"),
        requires=REPLACEMENT,
    ),
    Gate("TASHandleOverlappingFlavors", "share nodes between flavors of one topology", beta("0.18"), requires=TAS),
    Gate(
        "TASMultiLayerTopology",
        "slice a pod set over several levels",
        beta("0.19", alpha_since="0.17"),
        requires=TAS,
        status="validation",
    ),
    Gate(
        "TASProfileMixed", "choose the placement by the kind of request", beta("0.15", alpha_since="0.10"), requires=TAS
    ),
    Gate("TASRecomputeAssignmentWithinSchedulingCycle", "place again within a cycle", beta("0.19"), requires=TAS),
    Gate(
        "TASReplaceNodeDueToNotReadyOverFixedTime",
        "take a node for failed after half a minute without readiness",
        (Step("0.17", "Beta", True), Step("0.19", "Deprecated", False)),
        requires=REPLACEMENT,
    ),
    Gate("TASReplaceNodeOnNodeTaints", "take a node with a new taint for failed", beta("0.17"), requires=TAS),
    Gate(
        "TASReplaceNodeOnPodTermination",
        "take an unready node for failed once its pods end",
        beta("0.14", alpha_since="0.13"),
        requires=REPLACEMENT,
    ),
    Gate("TASRespectNodeAffinityPreferred", "weigh preferred node affinity", alpha("0.18"), requires=TAS),
    Gate("TASValidateWorkloadSliceSize", "check the slice size of a workload", beta("0.20"), status="built"),
    Gate("TLSOptions", "obey the tls section", (Step("0.16", "Beta", True), Step("0.20", "GA", True)), locked=True),
    Gate("TopologyAwareScheduling", "place pods by topology", beta("0.14", alpha_since="0.9"), status="validation"),
    Gate(
        "UnadmittedWorkloadsExplicitStatus",
        "write QuotaReserved=False as soon as a workload is seen",
        (Step("0.19", "Beta", False),),
        requires=("UnadmittedWorkloadsObservability",),
        status="built",
    ),
    Gate("UnadmittedWorkloadsObservability", "say in detail why a workload waits", beta("0.19"), status="built"),
    Gate("ValidateRayAndSparkJobUpdates", "refuse to take the queue off a Ray or Spark job", beta("0.18")),
    Gate("VectorizedResourceRequests", "add up requests as vectors", beta("0.19"), status="performance"),
    Gate("VisibilityOnDemand", "serve the list of pending workloads", beta("0.9", alpha_since="0.6")),
    Gate(
        "WorkloadIdentifierAnnotations",
        "name groups and prebuilt workloads in annotations",
        beta("0.18"),
        status="built",
    ),
    Gate(
        "WorkloadPriorityClassDefaulting",
        "use the WorkloadPriorityClass named default for jobs that name none",
        beta("0.20", alpha_since="0.18"),
        status="built",
    ),
    Gate("WorkloadRequestUseMergePatch", "write workloads by merge patch", alpha("0.14"), status="built"),
    Gate(
        "WorkloadValidateResourcesAreNonNegative",
        "refuse negative requests in a workload",
        beta("0.20"),
        status="built",
    ),
    Gate(
        "WorkloadValidationForPodSetMetadata", "check labels and annotations of pod sets", beta("0.20"), status="built"
    ),
)

OURS: Final = (
    Gate(
        "KeepQuotaForProvReqRetry",
        "keep the quota of a workload whose ProvisioningRequest is tried again",
        (Step("0.9", "Deprecated", False),),
        status="built",
    ),
    Gate(
        "ReserveForPreemptor",
        "keep the room that preempted workloads give for the workload they were preempted for",
        (Step("pykueue 0.1", "Beta", True),),
        status="built",
    ),
    Gate(
        "BlockBorrowingWithinCycle",
        "let nobody in a cohort borrow in a cycle once a workload within its own quota was considered (KEP-83)",
        (Step("pykueue 0.1", "Alpha", False),),
        status="built",
    ),
)
"""Gates that Kueue had once and has no more, and gates of our own."""

GATES: Final[Mapping[str, Gate]] = {gate.name: gate for gate in (*TABLE, *OURS)}
GROUPS: Final[Mapping[str, Stage]] = {"AllAlpha": "Alpha", "AllBeta": "Beta"}
TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
NAME_MAX: Final = 80
"""Characters of an unknown name that are compared and shown."""
SUGGESTIONS_MAX: Final = 50
"""Unknown names after which the nearest known one is looked for no more, as that is slow."""


def defaults() -> Mapping[str, bool]:
    """Every gate as it is when nobody says otherwise."""
    return {name: gate.default for name, gate in GATES.items()}


def parse_gates(text: str) -> Requested:
    """What a flag like `A=true,B=false` asks for, with every mistake in it."""
    values: dict[str, bool] = {}
    errors: list[str] = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, word = (part.strip() for part in piece.partition("="))
        if not equals:
            errors.append(f"missing bool value for {name[:NAME_MAX]}; write {name[:NAME_MAX]}=true or =false")
        elif word not in TRUE | FALSE:
            errors.append(f"invalid value of {name[:NAME_MAX]}={word[:NAME_MAX]}; write true or false")
        elif name in values:
            errors.append(f"{name[:NAME_MAX]} is given twice; keep one")
        else:
            values[name] = word in TRUE
    return Requested(values, tuple(errors))


def resolve(requested: Mapping[str, bool]) -> Resolved:
    """The value of every gate under these wishes, with warnings and errors."""
    values = {**defaults(), **group_values(requested)}
    errors: list[str] = []
    for name, wish in requested.items():
        gate = GATES.get(name)
        if gate is not None and gate.locked and wish != gate.default:
            errors.append(
                f"cannot set feature gate {name} to {spelled(wish)}, feature is locked to {spelled(gate.default)}"
            )
        elif gate is not None:
            values[name] = wish
        elif name not in GROUPS:
            errors.append(unknown_gate(name, suggest=len(errors) < SUGGESTIONS_MAX))
    errors += unmet(values)
    return Resolved(values, tuple(warnings(requested)), tuple(errors))


def group_values(requested: Mapping[str, bool]) -> dict[str, bool]:
    """What AllAlpha and AllBeta make of the gates of their stage: of Kueue's alone, for they are Kueue's words."""
    return {
        gate.name: requested[group]
        for group, stage in GROUPS.items()
        if group in requested
        for gate in TABLE
        if gate.stage == stage
    }


def unmet(values: Mapping[str, bool]) -> list[str]:
    """A sentence for each gate that is on while one that it needs is off."""
    return [
        f"{gate.name} requires {needed} to be enabled; turn {gate.name} off too, or {needed} on"
        for gate in GATES.values()
        if values[gate.name]
        for needed in gate.requires
        if not values[needed]
    ]


def warnings(requested: Mapping[str, bool]) -> list[str]:
    """A sentence for each wish that comes to nothing here, or will one day."""
    said: list[str] = []
    for name, wish in requested.items():
        gate = GATES.get(name)
        if gate is None or (gate.locked and wish != gate.default):
            continue
        if gate.locked:
            said.append(f"{name} is always {spelled(gate.default)}; leave it out")
        elif gate.status == "inert":
            said.append(f"{name} has no effect here: pykueue has nothing yet that it would switch ({gate.effect})")
        elif gate.status == "validation":
            said.append(f"{name} only changes validation here; the feature itself is not built yet ({gate.effect})")
        elif gate.stage == "Deprecated" and wish:
            said.append(f"{name} is deprecated and works for now ({gate.effect})")
    changed = [
        GATES[name]
        for name, wish in group_values(requested).items()
        if name not in requested and wish != GATES[name].default
    ]
    groups = " and ".join(group for group in GROUPS if group in requested)
    for status, effect in (("inert", "has no effect here on"), ("validation", "only changes the validation here of")):
        idle = sorted(gate.name for gate in changed if gate.status == status)
        if idle:
            said.append(f"{groups} {effect} {', '.join(idle)}")
    return said


def unknown_gate(name: str, *, suggest: bool) -> str:
    """The sentence for a name that no gate has, with the nearest that one has."""
    if len(name) > NAME_MAX or not suggest:
        return f"unrecognized feature gate: {name if len(name) <= NAME_MAX else f'{name[:NAME_MAX]}...'}"
    folded = {known.lower(): known for known in (*GATES, *GROUPS)}
    near = get_close_matches(name.lower(), folded, n=1)
    advice = f"did you mean {folded[near[0]]}?" if near else "remove it"
    return f"unrecognized feature gate: {name}; {advice}"


def spelled(value: bool) -> str:
    """The value as YAML and flags write it."""
    return "true" if value else "false"
