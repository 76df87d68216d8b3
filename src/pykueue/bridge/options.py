"""The engine's options, and which jobs are queued, from the Configuration and its gates."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pykueue.api.config.file import Loaded
from pykueue.api.config.types import FRAMEWORKS, AdmissionFairSharing, WaitForPodsReady
from pykueue.api.config.unbuilt import BUILT_FRAMEWORKS
from pykueue.api.core import LabelSelector
from pykueue.api.durations import SECOND, Micros
from pykueue.base.struct import Frozen
from pykueue.base.units import Seconds
from pykueue.bridge.requests import ResourceConfig
from pykueue.engine import model
from pykueue.engine.model import Options, PodsReadyOptions, ShareStrategy, Timestamp

SWITCHES: Final[Mapping[str, str]] = {
    "partial_admission": "PartialAdmission",
    "flavor_fungibility": "FlavorFungibility",
    "preserve_scan": "FlavorFungibilityPreserveScanProgress",
    "priority_sorting": "PrioritySortingWithinCohort",
    "prioritize_preemptors": "PrioritizePreemptorWorkloads",
    "recompute_overlap": "RecomputeAssignmentUponPreemptionTargetsOverlap",
    "equivalence": "SchedulingEquivalenceHashing",
    "reclaimable_pods": "ReclaimablePods",
    "observability": "UnadmittedWorkloadsObservability",
    "explicit_status": "UnadmittedWorkloadsExplicitStatus",
    "priority_boost": "PriorityBoost",
    "admission_gates": "AdmissionGatedBy",
    "reserve_for_preemptor": "ReserveForPreemptor",
    "block_borrowing": "BlockBorrowingWithinCycle",
    "fair_prefers_nonborrowing": "FairSharingPrioritizeNonBorrowing",
    "fair_within_nominal": "FairSharingPreemptWithinNominal",
    "fair_refill": "FairSharingRefill",
    "fair_reevaluates": "FairSharingReevaluatePreemptionCandidates",
    "afs_anchor": "AdmissionFairSharingAnchorAtQuotaReservation",
}
"""The options of the engine that are feature gates."""


def options(loaded: Loaded, seed: int = 0) -> Options:
    """The engine's options under a Configuration; the seed feeds the jitter of backoffs."""
    configuration, gates = loaded.configuration, loaded.gates.values
    ignores = configuration.resources.quota_check_strategy == "IgnoreUndeclared" and gates["QuotaCheckStrategy"]
    waiting, sharing = configuration.wait_for_pods_ready, configuration.fair_sharing
    past_use = configuration.admission_fair_sharing if gates["AdmissionFairSharing"] else None
    switches: dict[str, Any] = {switch: gates[gate] for switch, gate in SWITCHES.items()}
    return Options(
        pods_ready=None if waiting is None else pods_ready(waiting),
        admission_fair_sharing=None if past_use is None else admission_fair_sharing(past_use),
        ignore_undeclared=ignores,
        fair_sharing=() if sharing is None else tuple(map(ShareStrategy, sharing.preemption_strategies)),
        seed=seed,
        **switches,
    )


def admission_fair_sharing(section: AdmissionFairSharing) -> model.AdmissionFairSharing:
    """How the past use of LocalQueues is computed; more samples than one a second would only cost time."""
    return model.AdmissionFairSharing(
        section.usage_half_life_time,
        max(section.usage_sampling_interval, SECOND),
        tuple(sorted(section.resource_weights.items())),
    )


def pods_ready(waiting: WaitForPodsReady) -> PodsReadyOptions:
    """The settings of waitForPodsReady."""
    strategy, recovery = waiting.requeuing_strategy, waiting.recovery_timeout
    return PodsReadyOptions(
        timeout=whole_seconds(waiting.timeout),
        recovery_timeout=whole_seconds(recovery) if recovery else None,
        block_admission=waiting.block_admission,
        timestamp=Timestamp(strategy.timestamp),
        backoff_base=Seconds(strategy.backoff_base_seconds),
        backoff_max=Seconds(strategy.backoff_max_seconds),
        backoff_limit=strategy.backoff_limit_count,
    )


def whole_seconds(duration: Micros) -> Seconds:
    """The duration in seconds, rounded up so that a short one does not become zero."""
    return Seconds(-(-duration // SECOND))


class Intake(Frozen):
    """Which jobs are queued, and how objects are read."""

    resources: ResourceConfig = ResourceConfig()
    boosts: bool = False
    """Whether the priority-boost annotation has an effect."""
    default_class: bool = True
    """Whether the WorkloadPriorityClass `default` applies to jobs that name none."""
    queueless: bool = False
    """Whether jobs that name no queue are suspended too."""
    namespaces: LabelSelector | None = None
    """The namespaces whose jobs are queued."""
    unqueued: Mapping[str, str] = {}
    """Kinds of job that Kueue queues and this version does not, each with its group."""


def intake(loaded: Loaded) -> Intake:
    """Which jobs are queued under a Configuration."""
    configuration, gates = loaded.configuration, loaded.gates.values
    resources = configuration.resources
    return Intake(
        ResourceConfig(tuple(resources.exclude_resource_prefixes), tuple(resources.transformations)),
        gates["PriorityBoost"],
        gates["WorkloadPriorityClassDefaulting"],
        configuration.manage_jobs_without_queue_name,
        configuration.managed_jobs_namespace_selector,
        unqueued_kinds(configuration.integrations.external_frameworks),
    )


def unqueued_kinds(external: Iterable[str]) -> dict[str, str]:
    """The kinds of job that Kueue queues and this version does not, each with its group.

    External frameworks in the Configuration are left to their own controllers.
    """
    names = [one for framework, one in FRAMEWORKS.items() if framework not in BUILT_FRAMEWORKS]
    split = [name.split(".", 2) for name in names if name not in set(external)]
    return {kind: group for kind, _, group in split}
