"""What a Workload needs besides scheduling; the first matching rule decides.

Orphans are finished, finished ones are deleted after their retention time, and the list of checks follows the
ClusterQueue.
"""

from collections.abc import Iterable

from pykueue.api.core import Condition, Json, Tree
from pykueue.api.durations import Micros
from pykueue.api.kueue import ClusterQueue
from pykueue.api.names import Finalizer, Label, WorkloadCondition
from pykueue.api.workload import AdmissionCheckState, Workload, held
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, parse_instant
from pykueue.bridge.outbound import check_tree, open_check, reset_check, slice_of


class Finish(Frozen):
    """Finish it, since its owner is gone."""


class ReleaseFinalizer(Frozen):
    """Remove our finalizer."""


class Expire(Frozen):
    """Delete it, since its retention time is over."""


class SyncChecks(Frozen):
    """Make it list these checks."""

    names: tuple[str, ...]


class LookAgain(Frozen):
    """Nothing to do before this instant."""

    at: Instant


Need = Finish | ReleaseFinalizer | Expire | SyncChecks | LookAgain


class Rules(Frozen):
    """The settings of the Configuration."""

    finish_orphans: bool = True
    """The gate FinishOrphanedWorkloads."""
    keep_finished: Micros | None = None
    """How long finished Workloads are kept; None is forever."""


def need(seen: Workload, queue: ClusterQueue | None, rules: Rules, now: Instant) -> Need | None:
    """What to do about a Workload in this ClusterQueue (None if that does not exist); None if nothing."""
    metadata = seen.metadata
    deleting = metadata.deletion_timestamp is not None
    finished = held(seen, WorkloadCondition.FINISHED)
    if not metadata.owner_references and (
        deleting or (rules.finish_orphans and metadata.labels.get(Label.JOB_UID, ""))
    ):
        if finished is None and not deleting:
            return Finish()
        if Finalizer.RESOURCE_IN_USE in metadata.finalizers:
            return ReleaseFinalizer()
    if finished is not None:
        return after_the_end(seen, finished, rules, now)
    if deleting or queue is None:
        return None
    names = required_checks(seen, queue)
    listed = seen.status.admission_checks
    if tuple(sorted(one.name for one in listed)) != names or any(rejects_without_quota(seen, one) for one in listed):
        return SyncChecks(names)
    return None


def after_the_end(seen: Workload, finished: Condition, rules: Rules, now: Instant) -> Need | None:
    """What to do about a finished Workload."""
    if rules.keep_finished is None or finished.last_transition_time is None:
        return None
    due = Instant(parse_instant(finished.last_transition_time) + rules.keep_finished)
    if now < due:
        return LookAgain(due)
    if seen.metadata.deletion_timestamp is None:
        return Expire()
    return ReleaseFinalizer() if Finalizer.RESOURCE_IN_USE in seen.metadata.finalizers else None


def required_checks(seen: Workload, queue: ClusterQueue) -> tuple[str, ...]:
    """The checks that a Workload must list: those of its flavors, or, before it has any, those for all flavors."""
    strategy = queue.spec.admission_checks_strategy
    if strategy is None:
        return ()
    offered = {flavor.name for group in queue.spec.resource_groups for flavor in group.flavors}
    admission = seen.status.admission
    given = set() if admission is None else {f for one in admission.pod_set_assignments for f in one.flavors.values()}
    counting = {one.name for one in seen.status.admission_checks if one.retry_count and admission is None}
    found: set[str] = set()
    for rule in strategy.admission_checks:
        named = set(rule.on_flavors) or offered
        # A check that counts its attempts continues counting when the workload is back on such a flavor.
        if rule.name in counting or (offered <= named if admission is None else not named.isdisjoint(given)):
            found.add(rule.name)
    return tuple(sorted(found))


def rejects_without_quota(seen: Workload, check: AdmissionCheckState) -> bool:
    """Whether a check rejects a Workload that holds no quota, and would prevent it from ever getting any."""
    return check.state in ("Retry", "Rejected") and held(seen, WorkloadCondition.QUOTA_RESERVED) is None


def with_checks(seen: Workload, names: Iterable[str], now: Instant) -> Tree:
    """The slice of a Workload's status that lists these checks; listed ones stay unchanged."""
    listed = {one.name: one for one in seen.status.admission_checks}
    status = slice_of(seen)
    checks: list[Json] = []
    for name in names:
        known = listed.get(name)
        if known is None:
            checks.append(open_check(name, now))
        elif rejects_without_quota(seen, known):
            checks.append(reset_check(check_tree(known), now))
        else:
            checks.append(check_tree(known))
    status.pop("admissionChecks", None)
    if checks:
        status["admissionChecks"] = checks
    return status
