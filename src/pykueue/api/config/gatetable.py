"""The feature gates of Kueue 0.20.0, one row each: stages, requirements, and the effect here."""

from typing import Final, Literal

from pykueue.base.struct import Frozen

Stage = Literal["Alpha", "Beta", "GA", "Deprecated"]
Status = Literal["built", "always", "validation", "inert", "performance"]
"""How a gate is supported.

built: changes our behaviour. always: we have the feature, and it cannot be turned off. validation: changes what we
accept, while the feature itself is not built. inert: Kueue has it, we do not. performance: changes no behaviour
anywhere.
"""


class StageChange(Frozen):
    """The stage and default of a gate from one release of Kueue on."""

    since: str
    stage: Stage
    default: bool


class Gate(Frozen):
    """One feature gate: its history, requirements and effect."""

    name: str
    effect: str
    history: tuple[StageChange, ...]
    requires: tuple[str, ...] = ()
    locked: bool = False
    status: Status = "inert"

    @property
    def stage(self) -> Stage:
        """The present stage of the feature."""
        return self.history[-1].stage

    @property
    def default(self) -> bool:
        """Whether it is on by default."""
        return self.history[-1].default


def alpha(since: str) -> tuple[StageChange, ...]:
    """A gate that is Alpha and off."""
    return (StageChange(since, "Alpha", False),)


def beta(since: str, *, alpha_since: str | None = None) -> tuple[StageChange, ...]:
    """A gate that is Beta and on, perhaps after releases as Alpha."""
    return (*(alpha(alpha_since) if alpha_since else ()), StageChange(since, "Beta", True))


TAS: Final = ("TopologyAwareScheduling",)
REPLACEMENT: Final = ("TopologyAwareScheduling", "TASFailedNodeReplacement")
DRA: Final = ("KueueDRAIntegration",)
ELASTIC: Final = ("ElasticJobsViaWorkloadSlices",)

TABLE: Final = (
    Gate("AdmissionFairSharing", "order LocalQueues of one ClusterQueue by past use", beta("0.15", alpha_since="0.12")),
    Gate(
        "AdmissionFairSharingAnchorAtQuotaReservation",
        "count use from the quota reservation on, under admission fair sharing",
        beta("0.20"),
        requires=("AdmissionFairSharing",),
    ),
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
    Gate("ConfigurablePreemptions", "choose further victims by a PreemptionConfig", alpha("0.20")),
    Gate("CustomMetricLabels", "add labels of metrics.customLabels to the metrics", alpha("0.17"), status="built"),
    Gate(
        "DeferRayServiceFinalizationForRedisCleanup",
        "keep a RayService's workload until its Redis data is cleaned up",
        (*beta("0.19"), StageChange("0.20", "Deprecated", False)),
    ),
    Gate(
        "DeploymentJobUIDLabel", "label the workload of a Deployment's pod with the UID of the Deployment", beta("0.20")
    ),
    Gate("DisableWaitForPodsReady", "turn waitForPodsReady off altogether", alpha("0.19"), status="built"),
    Gate("DynamicQuotaOrchestration", "derive quotas from the capacity that is found", alpha("0.20")),
    Gate(
        "ElasticJobsViaWorkloadSlices",
        "resize a running job through workload slices, which is not built; off, such jobs run as others do",
        beta("0.18", alpha_since="0.13"),
        status="built",
    ),
    Gate(
        "ElasticJobsViaWorkloadSlicesFlavorChangeFromZero",
        "let a resized job change the flavor of a pod set that had no pods",
        alpha("0.20"),
        requires=ELASTIC,
    ),
    Gate(
        "ElasticJobsViaWorkloadSlicesForProvisioningRequests",
        "request capacity for a resized job step by step",
        alpha("0.20"),
        requires=ELASTIC,
    ),
    Gate(
        "ElasticJobsViaWorkloadSlicesWithPartialReplicaScaleUp",
        "grow an elastic job by as many replicas as fit",
        alpha("0.20"),
    ),
    Gate(
        "ElasticJobsViaWorkloadSlicesWithTAS",
        "resize jobs that are placed by topology",
        alpha("0.17"),
        requires=("ElasticJobsViaWorkloadSlices", *TAS),
    ),
    Gate(
        "EnforceProvisioningPodTemplateContents",
        "request capacity only by PodTemplates that agree with the Workload",
        beta("0.20"),
        status="always",
    ),
    Gate("FailureRecoveryPolicy", "force deletion of consenting pods on unreachable nodes", alpha("0.15")),
    Gate(
        "FairSharingPreemptWithinNominal", "let a preemptor within its nominal quota pass the share test", beta("0.17")
    ),
    Gate(
        "FairSharingPrioritizeNonBorrowing", "admit subtrees that do not borrow first, under fair sharing", beta("0.17")
    ),
    Gate(
        "FairSharingReevaluatePreemptionCandidates",
        "try candidates again once the preemptor's share has dropped",
        alpha("0.20"),
    ),
    Gate(
        "FairSharingRefill", "let a queue that admitted a workload send its next one into the same cycle", alpha("0.20")
    ),
    Gate("FastQuotaReleaseInPodIntegration", "count a terminating pod as gone at once", alpha("0.17")),
    Gate(
        "FinalizeTerminatingPodGroups",
        "create no workload for a pod group whose pods are all terminating",
        beta("0.20"),
    ),
    Gate("FinishOrphanedWorkloads", "finish a workload whose owner is gone", beta("0.18"), status="built"),
    Gate("FlavorFungibility", "obey spec.flavorFungibility of a ClusterQueue", beta("0.5"), status="built"),
    Gate(
        "FlavorFungibilityPreserveScanProgress",
        "go on from the last flavor tried in the cycle before",
        beta("0.20"),
        requires=("FlavorFungibility",),
        status="built",
    ),
    Gate(
        "HighMaxParallelismWithinReconcile",
        "write 32 objects at a time in one reconciliation, not 8",
        beta("0.20"),
        status="performance",
    ),
    Gate(
        "KueueDRADeviceFeasibility",
        "check which nodes have the devices before admission",
        alpha("0.20"),
        requires=(*DRA, *TAS, "TASNodeFeasibilityForAllLevels"),
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
        "KueueDRAIntegrationDeviceTaints",
        "respect taints of devices",
        alpha("0.20"),
        requires=("KueueDRADeviceFeasibility",),
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
    Gate("KueueDRAIntegrationPrioritizedList", "count device requests with alternatives", alpha("0.20"), requires=DRA),
    Gate("KueueDRARejectWorkloadsWhenDRADisabled", "refuse resource claims while nothing counts them", beta("0.18")),
    Gate("LWSImmutableGroupSize", "fix the group size of a queued LeaderWorkerSet", beta("0.20")),
    Gate("LocalQueueMetrics", "publish metrics of LocalQueues", beta("0.17", alpha_since="0.10"), status="built"),
    Gate(
        "ManagedJobsNamespaceSelectorAlwaysRespected",
        "leave jobs outside the selected namespaces alone even when they name a queue",
        (*beta("0.15", alpha_since="0.13"), StageChange("0.19", "GA", True)),
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
    Gate(
        "MultiKueueBatchJobClearingTTLSecondsAfterFinishedOnWorkerCluster",
        "leave ttlSecondsAfterFinished out of the Job in the other cluster",
        alpha("0.20"),
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
    Gate(
        "MultiKueueOrchestratedPreemption",
        "let the manager time preemptions in other clusters",
        beta("0.20", alpha_since="0.17"),
    ),
    Gate(
        "MultiKueueRayInTreeAutoscaling",
        "let Ray autoscale in the other cluster",
        alpha("0.20"),
        requires=("MultiKueue", *ELASTIC),
    ),
    Gate("MultiKueueRemoteSpecSync", "carry edits of a job over to its cluster", beta("0.20")),
    Gate(
        "MultiKueueReuseClientConnectionConfigForWorkers",
        "apply clientConnection to the connections to other clusters",
        beta("0.20"),
        requires=("MultiKueue",),
    ),
    Gate("PartialAdmission", "admit fewer pods, down to minCount", beta("0.5", alpha_since="0.4"), status="built"),
    Gate("PodGroupSchedulingShapeOrdering", "order the pod sets of a pod group by what they request", beta("0.20")),
    Gate("PodIntegrationCountSucceededPodsAsReady", "count succeeded pods of a group as ready", beta("0.20")),
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
    Gate(
        "RayServiceValidateUpgradeStrategy",
        "require an elastic job for a RayService that upgrades without downtime",
        beta("0.20"),
    ),
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
        beta("0.20", alpha_since="0.18"),
        status="built",
    ),
    Gate(
        "RemoveFinalizersWithStrictPatch",
        "check the resource version when removing a finalizer",
        beta("0.17"),
        status="built",
    ),
    Gate(
        "ReservedResourceNameValidation",
        "refuse the resource name pods in a transformation",
        beta("0.20"),
        status="built",
    ),
    Gate(
        "SchedulerLibraryIntegration",
        "ask the kube-scheduler's own checks when placing by topology",
        alpha("0.19"),
        requires=TAS,
    ),
    Gate(
        "SchedulingEquivalenceHashing",
        "set workloads aside that equal one that did not fit",
        (StageChange("0.17", "Beta", False), StageChange("0.18", "Beta", True)),
        status="built",
    ),
    Gate(
        "SchedulingEquivalenceHashingIgnorePodSetName",
        "treat workloads that differ only in the names of pod sets as equal",
        beta("0.20"),
        requires=("SchedulingEquivalenceHashing",),
        status="always",
    ),
    Gate("ShortWorkloadNames", "keep workload names within 63 characters", alpha("0.17"), status="built"),
    Gate(
        "SkipAncestorCheckForDeletedWorkloads",
        "let a webhook pass a deleted object without its owner",
        beta("0.20"),
        status="built",
    ),
    Gate("SkipChildJobSuspension", "leave suspending a child job to the controller of its parent", alpha("0.20")),
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
    Gate("TASGroupedPodSetSlicing", "slice pod sets of a group", beta("0.20"), requires=TAS),
    Gate("TASHandleOverlappingFlavors", "share nodes between flavors of one topology", beta("0.18"), requires=TAS),
    Gate("TASLeaderPodSetFeasibility", "check that the leader of a group fits its domain", beta("0.20"), requires=TAS),
    Gate(
        "TASMultiLayerTopology",
        "slice a pod set over several levels",
        beta("0.19", alpha_since="0.17"),
        requires=TAS,
        status="validation",
    ),
    Gate(
        "TASNodeFeasibilityForAllLevels",
        "check each node even where the topology ends above nodes",
        beta("0.20"),
        requires=TAS,
    ),
    Gate("TASPartialSlices", "place a last slice with fewer pods", beta("0.20"), requires=TAS),
    Gate(
        "TASProfileMixed", "choose the placement by the kind of request", beta("0.15", alpha_since="0.10"), requires=TAS
    ),
    Gate("TASRecomputeAssignmentWithinSchedulingCycle", "place again within a cycle", beta("0.19"), requires=TAS),
    Gate(
        "TASRejectFalseUnconstrainedTopology",
        "refuse the unconstrained topology annotation with the value false",
        alpha("0.20"),
        requires=TAS,
    ),
    Gate(
        "TASReplaceMultipleFailedNodes",
        "replace several failed nodes one after the other",
        alpha("0.20"),
        requires=REPLACEMENT,
    ),
    Gate(
        "TASReplaceNodeDueToNotReadyOverFixedTime",
        "take a node for failed after half a minute without readiness",
        (StageChange("0.17", "Beta", True), StageChange("0.19", "Deprecated", False)),
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
    Gate("TASTopologySpreading", "spread workloads over domains", alpha("0.20"), requires=TAS),
    Gate("TASValidateWorkloadSliceSize", "check the slice size of a workload", beta("0.20"), status="built"),
    Gate(
        "TLSOptions",
        "obey the tls section",
        (StageChange("0.16", "Beta", True), StageChange("0.20", "GA", True)),
        locked=True,
    ),
    Gate("TopologyAwareScheduling", "place pods by topology", beta("0.14", alpha_since="0.9"), status="validation"),
    Gate(
        "UnadmittedWorkloadsExplicitStatus",
        "write QuotaReserved=False as soon as a workload is seen",
        alpha("0.19"),
        requires=("UnadmittedWorkloadsObservability",),
        status="built",
    ),
    Gate(
        "UnadmittedWorkloadsObservability",
        "say in detail why a workload waits",
        beta("0.20", alpha_since="0.19"),
        status="built",
    ),
    Gate("ValidateRayAndSparkJobUpdates", "refuse to take the queue off a Ray or Spark job", beta("0.18")),
    Gate("VectorizedResourceRequests", "add up requests as vectors", beta("0.19"), status="performance"),
    Gate("VisibilityOnDemand", "serve the list of pending workloads", beta("0.9", alpha_since="0.6"), status="built"),
    Gate("WaitForPodsReadyMaxNotReady", "tolerate some unready pods of a pod group", alpha("0.20")),
    Gate("WaitForPodsReadyUnscheduledTimeout", "obey waitForPodsReady.unscheduledTimeout", alpha("0.20")),
    Gate(
        "WorkloadIdentifierAnnotations",
        "name groups and prebuilt workloads in annotations",
        beta("0.18"),
        status="built",
    ),
    Gate("WorkloadLevelWaitForPodsReady", "obey the wait-for-pods-ready annotation of a workload", alpha("0.20")),
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

GONE_ON: Final = (
    ("HierarchicalCohorts", "let cohorts have parents", "0.17"),
    ("MultiKueueRedoAdmissionOnEvictionInWorker", "admit again what another cluster evicted", "0.18"),
    ("MultiKueueWaitForWorkloadAdmitted", "wait until another cluster has admitted a workload", "0.18"),
    ("ObjectRetentionPolicies", "obey objectRetentionPolicies", "0.17"),
    ("PropagateBatchJobLabelsToWorkload", "copy labels of a Job to its workload", "0.17"),
    ("SkipFinalizersForPodsSuspendedByParent", "put no finalizer on pods of a suspended parent", "0.18"),
)
REMOVED: Final = (
    *(Gate(name, effect, (StageChange(since, "GA", True),), locked=True) for name, effect, since in GONE_ON),
    Gate("SchedulerLongRequeueInterval", "wait longer before a workload is tried again", alpha("0.17")),
    Gate("SchedulerTimestampPreemptionBuffer", "spare equal workloads that came shortly after", alpha("0.17")),
)
"""Gates of Kueue 0.19 that 0.20 removed: a Configuration of 0.19 may name them."""

OURS: Final = (
    Gate(
        "KeepQuotaForProvReqRetry",
        "keep the quota of a workload whose ProvisioningRequest is tried again",
        (StageChange("0.9", "Deprecated", False),),
        status="built",
    ),
    Gate(
        "ReserveForPreemptor",
        "keep the room that preempted workloads give for the workload they were preempted for",
        (StageChange("pykueue 0.1", "Beta", True),),
        status="built",
    ),
    Gate(
        "BlockBorrowingWithinCycle",
        "stop borrowing in a cohort for the rest of a cycle once a workload within its quota was considered (KEP-83)",
        (StageChange("pykueue 0.1", "Alpha", False),),
        status="built",
    ),
)
"""Gates that Kueue removed earlier, and gates of our own."""
