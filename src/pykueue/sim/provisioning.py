"""Provisioning checks in a simulation: the rules of a cluster (`checks`) on simulated requests.

A scripted class (`checks.scripted`) follows its script. For any other, capacity is found at once, since there are no
nodes here.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from pykueue.api.checks import ProvisioningRequest
from pykueue.api.codec import decode_as
from pykueue.api.core import Condition, Tree
from pykueue.api.kueue import ResourceFlavor
from pykueue.api.names import WorkloadCondition
from pykueue.api.trees import text
from pykueue.api.workload import Admission, AdmissionCheckState, PodSetAssignment, Workload, WorkloadStatus
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, Seconds, after, format_instant
from pykueue.bridge import inbound
from pykueue.checks.autoscaler import by_room
from pykueue.checks.provisioning import Ask, Check, CheckInput, Rules, plan
from pykueue.checks.requeststatus import Answer
from pykueue.checks.scripted import SCRIPTED, as_scripted
from pykueue.engine import model

ROUNDS_MAX: Final = 100
"""Far more rounds than a check and an autoscaler need to settle at one instant."""
ATTEMPTS_MIN: Final = ROUNDS_MAX // 4
"""With this many attempts at one instant, it is retries without a backoff that do not settle."""


class Provisioned(Frozen):
    """The provisioning checks by name, and everything that they use."""

    checks: Mapping[str, Check] = {}
    flavors: Mapping[str, ResourceFlavor] = {}
    rules: Rules = Rules()


class Provisioner:
    """The requests of all workloads, and their answers."""

    def __init__(self, known: Provisioned) -> None:
        self.known = known
        self.requests: dict[str, dict[str, ProvisioningRequest]] = {}
        """By workload and name."""

    def concerns(self, level: model.Workload) -> bool:
        """Whether a workload has provisioning checks to handle."""
        listed = any(one.name in self.known.checks for one in level.checks)
        return listed or bool(self.requests.get(level.key))

    def turn(
        self, view: Workload, level: model.Workload, now: Instant, *, may_run_again: bool
    ) -> tuple[tuple[model.CheckState, ...], Instant | None]:
        """The states of a workload's checks now, and when to look again if nothing changes before."""
        requests = self.requests.setdefault(level.key, {})
        states = level.checks
        attempts = 0
        for _ in range(ROUNDS_MAX):
            templates = {
                pods.pod_template_ref.name: one.metadata.uid or ""
                for one in requests.values()
                for pods in one.spec.pod_sets
            }
            seen = CheckInput(
                as_stored(view, replace(level, checks=states)),
                self.known.checks,
                tuple(requests.values()),
                templates,
                self.known.flavors,
                may_run_again,
                self.known.rules,
            )
            found = plan(seen, now)
            new = {one.name: inbound.check_state(one) for one in found.states}
            states = tuple(new.get(one.name, one) for one in states)
            for gone in found.deletes:
                requests.pop(gone.name, None)
            attempts += len(found.asks)
            for ask in found.asks:
                made = as_made(ask, now)
                requests[made.name] = made
            answers = {name: answered(one, now) for name, one in requests.items()}
            news = [name for name, one in answers.items() if one.status != requests[name].status]
            for name in news:
                requests[name] = replace(requests[name], status=answers[name].status)
            if not (news or found.asks or new or found.deletes):
                due = [one for one in (found.again, *(one.again for one in answers.values())) if one is not None]
                return states, min(due, default=None)
        # Without a backoff every attempt fails at the same instant. On a cluster each would take some time.
        if attempts >= ATTEMPTS_MIN:
            return states, after(now, Seconds(1))
        raise AssertionError(f"{level.key}: its checks and their requests do not settle after {ROUNDS_MAX} rounds")


def as_made(ask: Ask, now: Instant) -> ProvisioningRequest:
    """A request as an API server would return it."""
    metadata = ask.request["metadata"]
    assert isinstance(metadata, dict), "a request is made with metadata"
    given: Tree = {**metadata, "uid": text(metadata, "name"), "creationTimestamp": format_instant(now)}
    return decode_as(ProvisioningRequest, {**ask.request, "metadata": given})


def answered(request: ProvisioningRequest, now: Instant) -> Answer:
    """A request with the autoscaler's answer."""
    if request.spec.provisioning_class_name == SCRIPTED:
        return as_scripted(request, now)
    return by_room(request, lambda: True, now)


def as_stored(view: Workload, level: model.Workload) -> Workload:
    """A workload as it would be stored, as far as provisioning needs."""
    conditions = tuple(
        Condition(kind, "True", kind, "", None if at is None else format_instant(at))
        for kind, holds, at in (
            (WorkloadCondition.QUOTA_RESERVED.value, level.admission is not None, level.reserved_at),
            (WorkloadCondition.ADMITTED.value, level.admitted_at is not None, level.admitted_at),
            (WorkloadCondition.EVICTED.value, level.evicted is not None, None),
            (WorkloadCondition.FINISHED.value, level.finished, None),
        )
        if holds
    )
    admission = None
    if level.admission is not None:
        given = level.admission.assignments
        parts = tuple(PodSetAssignment(one.pod_set, dict(one.flavors), count=one.count) for one in given)
        admission = Admission(level.admission.queue, parts)
    checks = tuple(
        AdmissionCheckState(
            one.name,
            one.state,  # type: ignore[arg-type]  # one of the four, as it was read or said
            one.message,
            format_instant(one.at),
            requeue_after_seconds=one.requeue_after,
            retry_count=one.retries or None,
        )
        for one in level.checks
    )
    return replace(
        view,
        spec=replace(view.spec, active=level.active),
        status=WorkloadStatus(conditions=conditions, admission=admission, admission_checks=checks),
    )
