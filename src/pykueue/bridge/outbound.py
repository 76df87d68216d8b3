"""Decisions as the status of a Workload. Next: `decisionevents`, for Events.

The field manager `kueue-admission` owns one slice of a Workload's status and always applies all of it: the server drops
what it leaves out. The PodsReady condition and the reclaimable pods have other owners.
"""

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

import msgspec

from pykueue.api.core import Json, Tree, condition_tree
from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import AdmissionCheckState, Workload
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, amount_text, format_instant, parse_instant
from pykueue.engine import model
from pykueue.engine.assume import after, past_run
from pykueue.engine.decisions import (
    Admit,
    Deactivate,
    DeactivationCause,
    Decision,
    Evict,
    EvictionReason,
    Requeue,
    RequeueReason,
    Reserve,
    Unreserve,
    Wait,
)
from pykueue.engine.items import effective_counts
from pykueue.engine.wording import check_reset, message, shortened

OWNED: Final = (
    WorkloadCondition.QUOTA_RESERVED,
    WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES,
    WorkloadCondition.EVICTED,
    WorkloadCondition.ADMITTED,
    WorkloadCondition.PREEMPTED,
    WorkloadCondition.REQUEUED,
    WorkloadCondition.DEACTIVATION_TARGET,
    WorkloadCondition.FINISHED,
)
"""The conditions of the slice."""
RESET: Final = (
    WorkloadCondition.EVICTED,
    WorkloadCondition.PREEMPTED,
    WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES,
)
"""Conditions that a new reservation resets."""
REQUEUED: Final[Mapping[RequeueReason, str]] = {
    RequeueReason.BACKOFF_FINISHED: "The workload backoff was finished",
    RequeueReason.REACTIVATED: "The workload was reactivated",
    RequeueReason.QUEUE_RESTARTED: "The ClusterQueue was restarted after being stopped",
    RequeueReason.LOCAL_QUEUE_RESTARTED: "The LocalQueue was restarted after being stopped",
}


def slice_of(seen: Workload) -> Tree:
    """The part of a Workload's present status that `kueue-admission` owns."""
    status = seen.status
    found: Tree = {}
    conditions: list[Json] = [condition_tree(c) for c in status.conditions if c.type in OWNED]
    if conditions:
        found["conditions"] = conditions
    if status.admission is not None:
        found["admission"] = {
            "clusterQueue": status.admission.cluster_queue or "",
            "podSetAssignments": [{"name": one.name, **plain(one)} for one in status.admission.pod_set_assignments],
        }
    state = status.requeue_state
    if state is not None and (state.count is not None or state.requeue_at is not None):
        found["requeueState"] = plain(state)
    if status.resource_requests and status.admission is None:
        found["resourceRequests"] = [plain(one) for one in status.resource_requests]
    if status.accumulated_past_execution_time_seconds is not None:
        found["accumulatedPastExecutionTimeSeconds"] = status.accumulated_past_execution_time_seconds
    if status.scheduling_stats is not None and status.scheduling_stats.evictions:
        found["schedulingStats"] = {
            "evictions": [
                {"reason": one.reason, "underlyingCause": one.underlying_cause, "count": one.count}
                for one in status.scheduling_stats.evictions
            ]
        }
    if status.cluster_name is not None:
        found["clusterName"] = status.cluster_name
    if status.nominated_cluster_names:
        found["nominatedClusterNames"] = list(status.nominated_cluster_names)
    if status.unhealthy_nodes:
        found["unhealthyNodes"] = [plain(one) for one in status.unhealthy_nodes]
    if status.preemption_gates:
        found["preemptionGates"] = [plain(one) for one in status.preemption_gates]
    if status.admission_checks:
        found["admissionChecks"] = [check_tree(one) for one in status.admission_checks]
    return found


def plain(seen: msgspec.Struct) -> Tree:
    """A part of an object as JSON, without what is absent."""
    found: Tree = msgspec.to_builtins(seen)
    return found


def pending_condition(wait: Wait) -> Tree:
    """The condition that explains why a Workload is pending, as it will be written."""
    return {
        "type": WorkloadCondition.QUOTA_RESERVED.value,
        "status": "False",
        "reason": str(wait.reason),
        "message": message(wait.why),
        "lastTransitionTime": format_instant(wait.at),
    }


def check_tree(seen: AdmissionCheckState) -> Tree:
    """The state of a check with all fields that the API requires."""
    return {**plain(seen), "message": seen.message, "lastTransitionTime": seen.last_transition_time}


def conditions_of(status: Tree) -> list[Json]:
    """The list of conditions in a status, created if necessary."""
    found = status.setdefault("conditions", [])
    assert isinstance(found, list), "a slice is made by slice_of"
    return found


def condition_in(status: Tree, kind: str) -> Tree | None:
    """A condition of a status."""
    return next((c for c in conditions_of(status) if isinstance(c, dict) and c["type"] == kind), None)


def is_true(status: Tree, kind: str) -> bool:
    """Whether a condition of a status is true."""
    found = condition_in(status, kind)
    return found is not None and found["status"] == "True"


def set_condition(
    status: Tree, kind: str, holds: bool, reason: str, text: str, now: Instant, generation: int | None
) -> None:
    """Set a condition; its lastTransitionTime changes only with its status. Without a generation it observes none."""
    found = condition_in(status, kind)
    word = "True" if holds else "False"
    if found is None:
        found = {"type": kind, "status": "", "reason": "", "message": "", "lastTransitionTime": None}
        conditions_of(status).append(found)
    if found["status"] != word:
        found["lastTransitionTime"] = format_instant(now)
    found["status"], found["reason"], found["message"] = word, reason, shortened(text)
    found.pop("observedGeneration", None)
    if generation is not None:
        found["observedGeneration"] = generation


def drop_condition(status: Tree, kind: str) -> None:
    """Remove a condition."""
    status["conditions"] = [c for c in conditions_of(status) if isinstance(c, dict) and c["type"] != kind]


def finished(seen: Workload, reason: str, text: str, now: Instant) -> Tree:
    """The slice of a finished Workload."""
    status = slice_of(seen)
    set_condition(status, WorkloadCondition.FINISHED, True, reason, text, now, seen.metadata.generation)
    return status


class StatusWrite(Frozen):
    """One write: the status slice, or, when that is None, `spec.active: false`."""

    status: Tree | None


class StatusBuilder:
    """Applies decisions on one Workload to its status, in order."""

    def __init__(self, seen: Workload, level: model.Workload, options: model.Options) -> None:
        self.seen = seen
        self.level = level
        """The engine's state before the first decision."""
        self.options = options
        self.status = slice_of(seen)
        self.generation = seen.metadata.generation
        self.active = seen.spec.active
        self.steps: list[StatusWrite] = []
        self.open = False
        """Whether the status has changes that no write carries yet."""

    def write(self, decision: Decision) -> None:
        """Apply one decision."""
        if not isinstance(decision, Deactivate):
            self.open = True
        match decision:
            case Reserve():
                self.reserve(decision.admission, decision.at)
                self.note_checks(decision.checks, decision.at)
            case Admit():
                if not decision.reserved_before:
                    self.reserve(decision.admission, decision.at)
                self.set(WorkloadCondition.ADMITTED, True, "Admitted", "The workload is admitted", decision.at)
            case Evict():
                self.evict(decision)
            case Unreserve():
                self.unreserve(decision)
            case Requeue():
                self.set(WorkloadCondition.REQUEUED, True, decision.reason, REQUEUED[decision.reason], decision.at)
                self.requeue_state(self.level.requeue_count, None)
            case Deactivate():
                self.deactivate(decision)
            case Wait():
                self.wait(decision)
            case _:
                assert_never(decision)
        self.level = after(self.level, decision)

    def finish(self) -> list[StatusWrite]:
        """The writes that carry out all decisions."""
        if self.open:
            self.steps.append(StatusWrite(self.status))
            self.open = False
        return self.steps

    def save(self) -> None:
        """End a write here; later changes apply to a copy."""
        self.steps.append(StatusWrite(self.status))
        self.status = msgspec.json.decode(msgspec.json.encode(self.status))
        self.open = False

    def set(self, kind: str, holds: bool, reason: str, text: str, at: Instant) -> None:
        """Set a condition; as in Kueue, Preempted observes a generation only when it turns False."""
        generation = None if kind == WorkloadCondition.PREEMPTED and holds else self.generation
        set_condition(self.status, kind, holds, reason, text, at, generation)

    def reserve(self, admission: model.Admission, at: Instant) -> None:
        """Reserve quota, and reset what an earlier eviction left."""
        self.status["admission"] = admission_tree(admission)
        self.status.pop("resourceRequests", None)
        self.set(
            WorkloadCondition.QUOTA_RESERVED,
            True,
            "QuotaReserved",
            f"Quota reserved in ClusterQueue {admission.queue}",
            at,
        )
        for kind in RESET:
            found = condition_in(self.status, kind)
            if found is not None and found["status"] == "True":
                self.set(kind, False, "QuotaReserved", f"Previously: {found['message']}", at)

    def note_checks(self, names: tuple[str, ...], at: Instant) -> None:
        """List these checks as pending."""
        known = self.status.get("admissionChecks")
        states = {check["name"]: check for check in known if isinstance(check, dict)} if isinstance(known, list) else {}
        self.status["admissionChecks"] = [states.get(name) or open_check(name, at) for name in names]
        if self.options.observability:
            text = "The workload has not all checks ready"
            self.set(WorkloadCondition.ADMITTED, False, "UnsatisfiedAdmissionChecks", text, at)

    def evict(self, decision: Evict) -> None:
        """Mark the workload as evicted; it keeps its quota until its job has stopped."""
        at = decision.at
        ended = decision.reason is EvictionReason.DEACTIVATED
        reason = f"{decision.reason}DueTo{decision.cause}" if ended and decision.cause else decision.reason
        self.set(WorkloadCondition.EVICTED, True, reason, decision.message, at)
        if decision.preemption is not None:
            self.set(WorkloadCondition.PREEMPTED, True, decision.preemption, decision.message, at)
        if is_true(self.status, WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES):
            self.set(WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES, False, reason, decision.message, at)
        if decision.reason in (EvictionReason.PODS_READY_TIMEOUT, EvictionReason.ADMISSION_CHECK):
            self.requeue_state(decision.requeue_count, decision.requeue_at)
        elif ended:
            drop_condition(self.status, WorkloadCondition.DEACTIVATION_TARGET)
            self.status.pop("requeueState", None)
        for gone in ("clusterName", "nominatedClusterNames", "unhealthyNodes"):
            self.status.pop(gone, None)
        checks = self.status.get("admissionChecks")
        if isinstance(checks, list):
            self.status["admissionChecks"] = [reset_check(c, at) for c in checks if isinstance(c, dict)]
        gates = self.status.get("preemptionGates")
        for gate in gates if isinstance(gates, list) else ():
            if isinstance(gate, dict) and gate["position"] != "Closed":
                gate.update(position="Closed", lastTransitionTime=format_instant(at))
        self.count_eviction(decision)

    def count_eviction(self, decision: Evict) -> None:
        """Count one more eviction for this reason and cause."""
        stats = self.status.setdefault("schedulingStats", {"evictions": []})
        assert isinstance(stats, dict), "a slice is made by slice_of"
        counts = stats["evictions"]
        assert isinstance(counts, list), "a slice is made by slice_of"
        for one in counts:
            if isinstance(one, dict) and (one["reason"], one["underlyingCause"]) == (decision.reason, decision.cause):
                had = one["count"]
                one["count"] = (had if isinstance(had, int) else 0) + 1
                return
        counts.append({"reason": decision.reason, "underlyingCause": decision.cause, "count": 1})

    def unreserve(self, decision: Unreserve) -> None:
        """Release the quota."""
        at = decision.at
        spent = past_run(self.level, at)
        self.status.pop("admission", None)
        if spent:
            self.status["accumulatedPastExecutionTimeSeconds"] = spent
        else:
            self.status.pop("accumulatedPastExecutionTimeSeconds", None)
        self.set(WorkloadCondition.QUOTA_RESERVED, False, decision.reason, message(decision.why), at)
        self.not_admitted(at)
        if decision.requeued is not None:
            evicted = condition_in(self.status, WorkloadCondition.EVICTED)
            text = "" if evicted is None else str(evicted["message"])
            self.set(WorkloadCondition.REQUEUED, decision.requeued, decision.requeued_reason, text, at)

    def not_admitted(self, at: Instant) -> None:
        """Set Admitted to false, if it was true or the option `observability` is on."""
        if not (self.options.observability or is_true(self.status, WorkloadCondition.ADMITTED)):
            return
        reason, text = "NoReservation", "The workload has no reservation"
        if not self.options.observability and any(check.state != "Ready" for check in self.level.checks):
            reason += "UnsatisfiedChecks"
            text += " and not all checks ready"
        self.set(WorkloadCondition.ADMITTED, False, reason, text, at)

    def requeue_state(self, count: int, at: Instant | None) -> None:
        """When a workload may be tried again, and how often it was requeued."""
        state: Tree = {}
        if count:
            state["count"] = count
        if at is not None:
            # The wire format has whole seconds; a wait may end up to a second early.
            state["requeueAt"] = format_instant(at)
        if state:
            self.status["requeueState"] = state
        else:
            self.status.pop("requeueState", None)

    def deactivate(self, decision: Deactivate) -> None:
        """Deactivate the workload; the reason is written first, so that it survives a crash."""
        if not self.active:
            drop_condition(self.status, WorkloadCondition.DEACTIVATION_TARGET)
            self.status.pop("requeueState", None)
            self.open = True
            return
        if decision.cause is not None:
            self.set(WorkloadCondition.DEACTIVATION_TARGET, True, decision.cause, decision.message, decision.at)
            if decision.cause is DeactivationCause.MAX_RUN:
                self.status.pop("accumulatedPastExecutionTimeSeconds", None)
            self.open = True
        if self.open:
            self.save()
        self.steps.append(StatusWrite(None))
        self.active = False

    def wait(self, decision: Wait) -> None:
        """Set why the workload stays pending."""
        self.set(WorkloadCondition.QUOTA_RESERVED, False, decision.reason, message(decision.why), decision.at)
        self.status.pop("admission", None)
        self.not_admitted(decision.at)
        self.status["resourceRequests"] = requests_tree(self.level, self.options)


def admission_tree(admission: model.Admission) -> Tree:
    """A reservation of quota as the API has it."""
    return {
        "clusterQueue": admission.queue,
        "podSetAssignments": [
            {
                "name": one.pod_set,
                "flavors": dict(one.flavors),
                "resourceUsage": quantities(one.usage),
                "count": one.count,
            }
            for one in admission.assignments
        ],
    }


def requests_tree(level: model.Workload, options: model.Options) -> list[Json]:
    """What a pending workload requests, per pod set."""
    counts = effective_counts(level, options)
    return [
        {"name": one.name, "resources": quantities((name, amount * count) for name, amount in one.requests)}
        for one, count in zip(level.pod_sets, counts, strict=True)
    ]


def quantities(amounts: Iterable[tuple[str, int]]) -> Tree:
    """Amounts in human-readable form."""
    return {resource: amount_text(resource, amount) for resource, amount in amounts}


def open_check(name: str, at: Instant) -> Tree:
    """A check without a result yet."""
    return {"name": name, "state": "Pending", "message": "", "lastTransitionTime": format_instant(at)}


def reset_check(check: Tree, at: Instant) -> Tree:
    """A check after an eviction: a result is reset, without its pod set updates; a rejection keeps its count."""
    state = check["state"]
    if state == "Pending":
        return check
    found: Tree = {
        "name": check["name"],
        "state": "Pending",
        "message": check_reset(str(state)),
        "lastTransitionTime": format_instant(at),
    }
    if "requeueAfterSeconds" in check:
        found["requeueAfterSeconds"] = check["requeueAfterSeconds"]
    tries = check.get("retryCount")
    if state == "Retry":
        found["retryCount"] = (tries if isinstance(tries, int) else 0) + 1
    elif state == "Rejected" and tries is not None:
        found["retryCount"] = tries
    return found


def queued_since(seen: Workload) -> Instant:
    """Since when a workload has waited: since it was requeued, or else since it was created."""
    for condition in seen.status.conditions:
        if condition.type == WorkloadCondition.REQUEUED and condition.last_transition_time is not None:
            return parse_instant(condition.last_transition_time)
    created = seen.metadata.creation_timestamp
    return Instant(0) if created is None else parse_instant(created)
