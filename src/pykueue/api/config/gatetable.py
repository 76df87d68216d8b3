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
    Gate(
        "AdmissionFairSharing",
        "order LocalQueues of a ClusterQueue by past usage",
        beta("0.15", alpha_since="0.12"),
        status="built",
    ),
    Gate(
        "AdmissionFairSharingAnchorAtQuotaReservation",
        "with admission fair sharing, count usage from the quota reservation on",
        beta("0.20"),
        status="built",
        requires=("AdmissionFairSharing",),
    ),
    Gate(
        "AdmissionGatedBy",
        "hold a job while its admission-gated-by annotation names a gate",
        beta("0.19", alpha_since="0.17"),
        status="built",
    ),
    Gate("AssignQueueLabelsForPods", "label pods with their queue", beta("0.17"), status="built"),
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
    Gate("ConfigurablePreemptions", "select additional victims with a PreemptionConfig", alpha("0.20")),
    Gate("CustomMetricLabels", "add the labels in metrics.customLabels to metrics", alpha("0.17"), status="built"),
    Gate(
        "DeferRayServiceFinalizationForRedisCleanup",
        "keep a RayService's workload until its Redis data is cleaned up",
        (*beta("0.19"), StageChange("0.20", "Deprecated", False)),
    ),
    Gate(
        "DeploymentJobUIDLabel", "label the workload of a Deployment's pod with the UID of the Deployment", beta("0.20")
    ),
    Gate("DisableWaitForPodsReady", "turn off waitForPodsReady", alpha("0.19"), status="built"),
    Gate("DynamicQuotaOrchestration", "derive quotas from the capacity of the cluster", alpha("0.20")),
    Gate(
        "ElasticJobsViaWorkloadSlices",
        "resize running jobs through workload slices, which is not supported; if off, such jobs run like any other",
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
        "request capacity for a resized job incrementally",
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
        "resize jobs that use topology-aware scheduling",
        alpha("0.17"),
        requires=("ElasticJobsViaWorkloadSlices", *TAS),
    ),
    Gate(
        "EnforceProvisioningPodTemplateContents",
        "request capacity only with PodTemplates that match the Workload",
        beta("0.20"),
        status="always",
    ),
    Gate("FailureRecoveryPolicy", "force-delete pods on unreachable nodes if they opt in", alpha("0.15")),
    Gate(
        "FairSharingPreemptWithinNominal",
        "let a preemptor within its nominal quota pass the share test",
        beta("0.17"),
        status="built",
    ),
    Gate(
        "FairSharingPrioritizeNonBorrowing",
        "with fair sharing, admit from subtrees that do not borrow first",
        beta("0.17"),
        status="built",
    ),
    Gate(
        "FairSharingReevaluatePreemptionCandidates",
        "evaluate candidates again after the preemptor's share has dropped",
        alpha("0.20"),
        status="built",
    ),
    Gate(
        "FairSharingRefill",
        "consider the next workload of a queue in the same cycle after one was admitted",
        alpha("0.20"),
        status="built",
    ),
    Gate("FastQuotaReleaseInPodIntegration", "release the quota of a pod as soon as it is terminating", alpha("0.17")),
    Gate(
        "FinalizeTerminatingPodGroups",
        "do not create a workload for a pod group if all its pods are terminating",
        beta("0.20"),
    ),
    Gate("FinishOrphanedWorkloads", "finish workloads whose owner no longer exists", beta("0.18"), status="built"),
    Gate("FlavorFungibility", "apply spec.flavorFungibility of ClusterQueues", beta("0.5"), status="built"),
    Gate(
        "FlavorFungibilityPreserveScanProgress",
        "continue with the flavor after the last one tried in the previous cycle",
        beta("0.20"),
        requires=("FlavorFungibility",),
        status="built",
    ),
    Gate(
        "HighMaxParallelismWithinReconcile",
        "write up to 32 objects concurrently in a reconciliation instead of 8",
        beta("0.20"),
        status="performance",
    ),
    Gate(
        "KueueDRADeviceFeasibility",
        "before admission, check which nodes have the requested devices",
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
        "respect device taints",
        alpha("0.20"),
        requires=("KueueDRADeviceFeasibility",),
    ),
    Gate(
        "KueueDRAIntegrationExtendedResource",
        "count devices that are requested by extended resource name",
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
    Gate("KueueDRARejectWorkloadsWhenDRADisabled", "reject resource claims that no quota counts", beta("0.18")),
    Gate("LWSImmutableGroupSize", "make the group size of a queued LeaderWorkerSet immutable", beta("0.20")),
    Gate("LocalQueueMetrics", "publish metrics of LocalQueues", beta("0.17", alpha_since="0.10"), status="built"),
    Gate(
        "ManagedJobsNamespaceSelectorAlwaysRespected",
        "ignore jobs outside the selected namespaces even if they name a queue",
        (*beta("0.15", alpha_since="0.13"), StageChange("0.19", "GA", True)),
        locked=True,
    ),
    Gate("MetricForWorkloadCreationLatency", "publish the latency of workload creation", beta("0.18"), status="built"),
    Gate("MetricsForCohorts", "publish metrics of cohorts", beta("0.18"), status="built"),
    Gate("MultiKueue", "send workloads to other clusters", beta("0.9", alpha_since="0.6")),
    Gate(
        "MultiKueueAdaptersForCustomJobs",
        "send custom kinds of job to other clusters",
        beta("0.15", alpha_since="0.14"),
    ),
    Gate(
        "MultiKueueBatchJobClearingTTLSecondsAfterFinishedOnWorkerCluster",
        "clear ttlSecondsAfterFinished of the Job in the worker cluster",
        alpha("0.20"),
    ),
    Gate("MultiKueueClusterProfile", "find other clusters through ClusterProfiles", alpha("0.15")),
    Gate("MultiKueueIncrementalDispatcherConfig", "apply multiKueue.incrementalDispatcherConfig", beta("0.19")),
    Gate(
        "MultiKueueIncrementalDispatcherRespectConfigOrder",
        "nominate clusters in the order of the configuration",
        beta("0.19"),
    ),
    Gate(
        "MultiKueueKubeConfigPathValidation",
        "only read kubeconfig files in one directory",
        beta("0.20", alpha_since="0.19"),
    ),
    Gate("MultiKueueManagerQuotaAutomation", "derive the manager's quota from its clusters", alpha("0.18")),
    Gate(
        "MultiKueueOrchestratedPreemption",
        "coordinate preemptions in worker clusters from the manager",
        beta("0.20", alpha_since="0.17"),
    ),
    Gate(
        "MultiKueueRayInTreeAutoscaling",
        "let Ray autoscale in the worker cluster",
        alpha("0.20"),
        requires=("MultiKueue", *ELASTIC),
    ),
    Gate("MultiKueueRemoteSpecSync", "sync changes of a job's spec to its worker cluster", beta("0.20")),
    Gate(
        "MultiKueueReuseClientConnectionConfigForWorkers",
        "apply clientConnection to the connections to other clusters",
        beta("0.20"),
        requires=("MultiKueue",),
    ),
    Gate("PartialAdmission", "admit fewer pods, down to minCount", beta("0.5", alpha_since="0.4"), status="built"),
    Gate("PodGroupSchedulingShapeOrdering", "order the pod sets of a pod group by their requests", beta("0.20")),
    Gate("PodIntegrationCountSucceededPodsAsReady", "count succeeded pods of a group as ready", beta("0.20")),
    Gate("PodIntegrationValidateGroupOwner", "reject pod groups named after a foreign workload", beta("0.18")),
    Gate(
        "PrioritizePreemptorWorkloads",
        "put a workload that waits for its victims to terminate at the head of its queue",
        alpha("0.20"),
        status="built",
    ),
    Gate("PriorityBoost", "add the priority-boost annotation to the priority", alpha("0.17"), status="built"),
    Gate("PrioritySortingWithinCohort", "order heads of a cohort by priority, then age", beta("0.6"), status="built"),
    Gate("QuotaCheckStrategy", "apply resources.quotaCheckStrategy", beta("0.19", alpha_since="0.18"), status="built"),
    Gate(
        "RayServiceValidateUpgradeStrategy",
        "require an elastic job for a RayService that upgrades without downtime",
        beta("0.20"),
    ),
    Gate("ReclaimablePods", "release the quota of finished pods", beta("0.15"), status="built"),
    Gate(
        "RecomputeAssignmentUponPreemptionTargetsOverlap",
        "recompute the assignment when two heads of a cycle select the same victims",
        beta("0.20"),
        status="built",
    ),
    Gate(
        "RejectUpdatesToCQWithInvalidOnFlavors",
        "reject updates with invalid onFlavors even if they were invalid before",
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
        "reject the resource name pods in transformations",
        beta("0.20"),
        status="built",
    ),
    Gate(
        "SchedulerLibraryIntegration",
        "use kube-scheduler's filters in topology-aware scheduling",
        alpha("0.19"),
        requires=TAS,
    ),
    Gate(
        "SchedulingEquivalenceHashing",
        "skip workloads that are equivalent to one that did not fit",
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
        "skip the ancestor check in webhooks for objects that are being deleted",
        beta("0.20"),
        status="built",
    ),
    Gate("SkipChildJobSuspension", "leave the suspension of child jobs to the parent's controller", alpha("0.20")),
    Gate("SkipReassignmentForPodOwnedWorkloads", "never move a single pod to another node", beta("0.19")),
    Gate("SparkApplicationIntegration", "queue SparkApplications", alpha("0.17"), status="validation"),
    Gate("TASAssignmentsEncodingByHostnamePrefix", "use a shorter encoding for topology assignments", beta("0.19")),
    Gate("TASBalancedPlacement", "spread pods evenly over domains", alpha("0.15"), requires=TAS),
    Gate("TASCacheNodeMatchResults", "cache which nodes match", beta("0.19"), status="performance"),
    Gate("TASCacheTopologyTree", "cache the topology tree", beta("0.20"), status="performance"),
    Gate("TASCachingRemainingResources", "cache the free resources of each domain", beta("0.19"), status="performance"),
    Gate("TASFailedNodeReplacement", "replace failed nodes", beta("0.14", alpha_since="0.12"), requires=TAS),
    Gate(
        "TASFailedNodeReplacementFailFast",
        "evict the workload if the first attempt to replace a node fails",
        beta("0.14", alpha_since="0.13"),
        requires=REPLACEMENT,
    ),
    Gate("TASGroupedPodSetSlicing", "allow slices in pod set groups", beta("0.20"), requires=TAS),
    Gate("TASHandleOverlappingFlavors", "share nodes between flavors of one topology", beta("0.18"), requires=TAS),
    Gate("TASLeaderPodSetFeasibility", "check that the leader of a group fits its domain", beta("0.20"), requires=TAS),
    Gate(
        "TASMultiLayerTopology",
        "slice a pod set on several topology levels",
        beta("0.19", alpha_since="0.17"),
        requires=TAS,
        status="validation",
    ),
    Gate(
        "TASNodeFeasibilityForAllLevels",
        "check individual nodes even if the topology has no node level",
        beta("0.20"),
        requires=TAS,
    ),
    Gate("TASPartialSlices", "allow fewer pods in the last slice", beta("0.20"), requires=TAS),
    Gate(
        "TASProfileMixed",
        "select the placement algorithm by the type of request",
        beta("0.15", alpha_since="0.10"),
        requires=TAS,
    ),
    Gate(
        "TASRecomputeAssignmentWithinSchedulingCycle", "recompute placement within a cycle", beta("0.19"), requires=TAS
    ),
    Gate(
        "TASRejectFalseUnconstrainedTopology",
        "reject the value false of the unconstrained topology annotation",
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
        "treat a node as failed after 30 seconds without readiness",
        (StageChange("0.17", "Beta", True), StageChange("0.19", "Deprecated", False)),
        requires=REPLACEMENT,
    ),
    Gate("TASReplaceNodeOnNodeTaints", "treat a node with a new taint as failed", beta("0.17"), requires=TAS),
    Gate(
        "TASReplaceNodeOnPodTermination",
        "treat an unready node as failed once its pods terminate",
        beta("0.14", alpha_since="0.13"),
        requires=REPLACEMENT,
    ),
    Gate("TASRespectNodeAffinityPreferred", "take preferred node affinity into account", alpha("0.18"), requires=TAS),
    Gate("TASTopologySpreading", "spread workloads over domains", alpha("0.20"), requires=TAS),
    Gate("TASValidateWorkloadSliceSize", "validate the slice size of workloads", beta("0.20"), status="built"),
    Gate(
        "TLSOptions",
        "apply the tls section",
        (StageChange("0.16", "Beta", True), StageChange("0.20", "GA", True)),
        locked=True,
    ),
    Gate("TopologyAwareScheduling", "place pods by topology", beta("0.14", alpha_since="0.9"), status="validation"),
    Gate(
        "UnadmittedWorkloadsExplicitStatus",
        "set QuotaReserved=False as soon as a workload is created",
        alpha("0.19"),
        requires=("UnadmittedWorkloadsObservability",),
        status="built",
    ),
    Gate(
        "UnadmittedWorkloadsObservability",
        "report detailed reasons for pending workloads",
        beta("0.20", alpha_since="0.19"),
        status="built",
    ),
    Gate("ValidateRayAndSparkJobUpdates", "reject removing the queue name of a Ray or Spark job", beta("0.18")),
    Gate("VectorizedResourceRequests", "sum resource requests as vectors", beta("0.19"), status="performance"),
    Gate("VisibilityOnDemand", "serve the list of pending workloads", beta("0.9", alpha_since="0.6"), status="built"),
    Gate("WaitForPodsReadyMaxNotReady", "tolerate some unready pods in a pod group", alpha("0.20")),
    Gate("WaitForPodsReadyUnscheduledTimeout", "apply waitForPodsReady.unscheduledTimeout", alpha("0.20")),
    Gate(
        "WorkloadIdentifierAnnotations",
        "use annotations for the names of pod groups and prebuilt workloads",
        beta("0.18"),
        status="built",
    ),
    Gate("WorkloadLevelWaitForPodsReady", "apply the wait-for-pods-ready annotation of workloads", alpha("0.20")),
    Gate(
        "WorkloadPriorityClassDefaulting",
        "use the WorkloadPriorityClass named default for jobs without one",
        beta("0.20", alpha_since="0.18"),
        status="built",
    ),
    Gate("WorkloadRequestUseMergePatch", "update workloads with merge patches", alpha("0.14"), status="built"),
    Gate(
        "WorkloadValidateResourcesAreNonNegative", "reject negative requests in workloads", beta("0.20"), status="built"
    ),
    Gate(
        "WorkloadValidationForPodSetMetadata",
        "validate labels and annotations of pod sets",
        beta("0.20"),
        status="built",
    ),
)

GONE_ON: Final = (
    ("HierarchicalCohorts", "let cohorts have parents", "0.17"),
    ("MultiKueueRedoAdmissionOnEvictionInWorker", "redo admission after an eviction in the worker cluster", "0.18"),
    ("MultiKueueWaitForWorkloadAdmitted", "wait until a worker cluster has admitted the workload", "0.18"),
    ("ObjectRetentionPolicies", "apply objectRetentionPolicies", "0.17"),
    ("PropagateBatchJobLabelsToWorkload", "copy the labels of a Job to its workload", "0.17"),
    ("SkipFinalizersForPodsSuspendedByParent", "do not add finalizers to pods of a suspended parent", "0.18"),
)
REMOVED: Final = (
    *(Gate(name, effect, (StageChange(since, "GA", True),), locked=True) for name, effect, since in GONE_ON),
    Gate("SchedulerLongRequeueInterval", "use a longer interval before a workload is considered again", alpha("0.17")),
    Gate("SchedulerTimestampPreemptionBuffer", "do not preempt equals created shortly after", alpha("0.17")),
)
"""Gates of Kueue 0.19 that 0.20 removed: a Configuration of 0.19 may name them."""

OURS: Final = (
    Gate(
        "KeepQuotaForProvReqRetry",
        "keep the quota of a workload while its ProvisioningRequest is retried",
        (StageChange("0.9", "Deprecated", False),),
        status="built",
    ),
    Gate(
        "ReserveForPreemptor",
        "reserve the capacity freed by preemption for the preemptor",
        (StageChange("pykueue 0.1", "Beta", True),),
        status="built",
    ),
    Gate(
        "BlockBorrowingWithinCycle",
        "stop borrowing in a cohort for the rest of a cycle after a workload within its quota was considered (KEP-83)",
        (StageChange("pykueue 0.1", "Alpha", False),),
        status="built",
    ),
)
"""Gates that Kueue removed earlier, and gates of our own."""
