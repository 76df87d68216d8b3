"""Rules of provisioning: each attempt once, none missing, none left behind, no admission without one.

They concern the checks of `kueue.x-k8s.io/provisioning-request`. A request's name gives its check and attempt.
"""

import re
from collections.abc import Iterator
from typing import Final

from pykueue.api.checks import ProvisioningRequest
from pykueue.api.names import Annotation, CheckController, Label
from pykueue.api.workload import AdmissionCheckState, Workload
from pykueue.audit.rules.overdue import Overdue, Violation
from pykueue.audit.times import MICROS, Instant
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import controller_uid, holds, key_of, reserving
from pykueue.audit.world import Change, Finding, Settings, World
from pykueue.base.struct import Frozen

RULE: Final = "capacity"
ATTEMPT: Final = "attempt"
ORPHAN: Final = "orphan"

NUMBERED: Final = re.compile(r"(.+-)([0-9]+)", re.DOTALL)
SURE_CHARACTERS: Final = 200
"""A name is unchanged up to this many characters; a longer one may have been cut."""
NOT_NEEDED: Final = "the provisioning request is not needed"
INACTIVE: Final = "the check is not active"
RETRYING: Final = "Retrying after"
UNEXPLAINED: Final = ("Reset to Pending", RETRYING)
"""Beginnings of messages that do not explain why no capacity is requested."""


class Attempt(Frozen):
    """The attempt that a request stands for: the Workload's UID, the check's common prefix of names, and the number."""

    workload: str
    stem: str
    number: int


class Capacity:
    """The rules of provisioning."""

    def __init__(self, settings: Settings, uptime: Uptime) -> None:
        self.settings = settings
        self.lag_micros = settings.lag_seconds * MICROS
        self.overdue = Overdue(uptime, settings.lost_seconds)
        self.failed: dict[str, set[Attempt]] = {}
        """Failed attempts, by the Workload's UID, that still exist or belong to its present quota."""
        self.spent: dict[str, set[Attempt]] = {}
        """Those that failed while the Workload was waiting for them."""
        self.found: dict[tuple[str, str], Instant] = {}
        """When a request with capacity was last deleted or failed, by Workload and stem."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Violations by this change."""
        request, workload = change.of(ProvisioningRequest), change.of(Workload)
        if request is not None:
            yield from self.asked(change, world, *request)
        elif workload is not None:
            yield from self.checked(change, world, *workload)

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """What has been wrong for too long."""
        wrong = [*left_behind(world, self.settings), *ownerless_templates(world), *unanswered(world)]
        yield from self.overdue.look(wrong, at, world)

    def asked(
        self, change: Change, world: World, old: ProvisioningRequest | None, new: ProvisioningRequest | None
    ) -> Iterator[Finding]:
        """What is wrong with a new request; also records its result."""
        mine = attempt_of(new or old)
        if mine is None:
            return
        if new is None:
            if old is not None and holds(old, "Provisioned"):
                self.found[mine.workload, mine.stem] = change.at
            return
        workload = world.workload_of(new)
        if old is None and workload is not None and not change.listed:
            about = f"ProvisioningRequest {change.key}"
            yield from (
                change.found(ATTEMPT, about, message) for message in self.misnumbered(mine, new, workload, world)
            )
        if has_failed(new):
            if old is not None and holds(old, "Provisioned") and not has_failed(old):
                # The manager's answer to the capacity may be in flight.
                self.found[mine.workload, mine.stem] = change.at
            self.failed.setdefault(mine.workload, set()).add(mine)
            if waits(workload):
                self.spent.setdefault(mine.workload, set()).add(mine)

    def misnumbered(self, mine: Attempt, new: ProvisioningRequest, workload: Workload, world: World) -> Iterator[str]:
        """Why an attempt should not have begun."""
        state = next((one for one in workload.status.admission_checks if is_of(mine, workload, one.name)), None)
        over = 0 if state is None else state.retry_count or 0
        for other in world.requests_of(workload):
            theirs = attempt_of(other)
            if theirs is None or theirs.stem != mine.stem or other.metadata.uid == new.metadata.uid:
                continue
            if theirs.number == mine.number:
                yield f"is attempt {mine.number}, but {other.name} already is"
            elif not has_failed(other) and not (state is not None and gives_up(world, state.name)):
                yield f"is attempt {mine.number}, started while {other.name} is in progress"
        if mine in self.spent.get(mine.workload, ()):
            yield f"is attempt {mine.number}, which was already made and failed"
        elif mine.number <= over:
            yield f"is attempt {mine.number}, but {over} have already failed"
        elif mine.number > over + 1:
            before = Attempt(mine.workload, mine.stem, mine.number - 1)
            if before not in self.failed.get(mine.workload, ()):
                yield f"is attempt {mine.number}, but only {over} have failed"

    def checked(self, change: Change, world: World, old: Workload | None, new: Workload | None) -> Iterator[Finding]:
        """What is wrong with the present states of checks; also forgets what is no longer needed."""
        if new is None:
            uid = (old.metadata.uid or "") if old is not None else ""
            self.failed.pop(uid, None)
            self.spent.pop(uid, None)
            self.found = {key: at for key, at in self.found.items() if key[0] != uid}
            return
        if old is None or change.listed:
            return
        before = {one.name: one for one in old.status.admission_checks}
        for state in new.status.admission_checks:
            earlier = before.get(state.name)
            if earlier is not None and earlier != state and is_ours(world, state.name):
                about = f"Workload {change.key}"
                yield from (
                    change.found(rule, about, f"check {state.name} {message}")
                    for rule, message in self.turned(change.at, world, new, earlier, state)
                )
        if holds(new, "QuotaReserved") and not holds(old, "QuotaReserved"):
            # An answer that arrived after the Workload left is requested again.
            uid, still = new.metadata.uid or "", {attempt_of(one) for one in world.requests_of(new)}
            self.failed[uid] = {one for one in self.failed.get(uid, ()) if one in still}
            self.spent.pop(uid, None)

    def turned(
        self, at: Instant, world: World, workload: Workload, old: AdmissionCheckState, new: AdmissionCheckState
    ) -> Iterator[tuple[str, str]]:
        """What is wrong with a check's new state: the rule and the message."""
        mine = list(of_check(world, workload, new.name))
        turned = new.state != old.state
        if turned and new.state == "Ready" and new.message != NOT_NEEDED:
            lately = [
                deleted
                for (uid, stem), deleted in self.found.items()
                if uid == workload.metadata.uid and is_of(Attempt(uid, stem, 0), workload, new.name)
            ]
            here = any(holds(one, "Provisioned") and not has_failed(one) for one in mine)
            if not here and not any(at - deleted <= self.lag_micros for deleted in lately):
                yield RULE, "is Ready, but no capacity was found"
        if turned and new.state in ("Retry", "Rejected") and not gives_up(world, new.name):
            failed = [one for one in self.failed.get(workload.metadata.uid or "", ()) if is_of(one, workload, new.name)]
            if not failed and not any(holds(one, "CapacityRevoked") for one in mine):
                yield RULE, f"is {new.state}, but none of its attempts failed"
        counted, before = new.retry_count or 0, old.retry_count or 0
        if old.state == "Retry" and new.state == "Pending" and new.message != INACTIVE:
            if counted != before + 1:
                yield ATTEMPT, f"was in Retry and counts {counted} retries after {before}"
        elif counted > before:
            yield ATTEMPT, f"counts {counted} retries after {before}, but was not in Retry"


def attempt_of(request: ProvisioningRequest | None) -> Attempt | None:
    """The attempt that a request's name stands for; None if it has no number or belongs to no Workload."""
    found = None if request is None else NUMBERED.fullmatch(request.name)
    uid = "" if request is None else controller_uid(request, "Workload")
    return Attempt(uid, found.group(1), int(found.group(2))) if found is not None and uid else None


def is_of(attempt: Attempt, workload: Workload, check: str) -> bool:
    """Whether an attempt of this Workload is one of this check."""
    whole = f"{workload.name}-{check}-"
    return attempt.stem == whole or (
        len(whole) > SURE_CHARACTERS and attempt.stem[:SURE_CHARACTERS] == whole[:SURE_CHARACTERS]
    )


def of_check(world: World, workload: Workload, check: str) -> Iterator[ProvisioningRequest]:
    """The requests of a check of a Workload."""
    for request in world.requests_of(workload):
        found = attempt_of(request)
        if found is not None and is_of(found, workload, check):
            yield request


def is_ours(world: World, check: str) -> bool:
    """Whether a check requests capacity."""
    found = world.checks.get(check)
    return found is not None and found.spec.controller_name == CheckController.PROVISIONING


def gives_up(world: World, check: str) -> bool:
    """Whether a check has a timeout."""
    found = world.checks.get(check)
    return found is not None and Annotation.CHECK_TIMEOUT in found.metadata.annotations


def has_failed(request: ProvisioningRequest) -> bool:
    """Whether a request was answered and brings no capacity to a Workload that has not started."""
    return holds(request, "Failed") or holds(request, "BookingExpired")


def left_behind(world: World, settings: Settings) -> Iterator[Violation]:
    """Requests that their Workload no longer needs."""
    for key, request in world.requests.items():
        about = f"ProvisioningRequest {key}"
        if not controller_uid(request, "Workload"):
            if Label.MANAGED in request.metadata.labels:
                yield Violation(ORPHAN, about, "belongs to no Workload")
            continue
        workload = world.workload_of(request)
        if workload is None:
            yield Violation(ORPHAN, about, "belongs to a Workload that no longer exists")
        elif holds(workload, "Finished"):
            yield Violation(ORPHAN, about, f"still exists although Workload {workload.name} is finished")
        elif holds(workload, "Evicted") and settings.cleans_up:
            yield Violation(ORPHAN, about, f"still exists although Workload {workload.name} was evicted")


def ownerless_templates(world: World) -> Iterator[Violation]:
    """PodTemplates whose owner is gone, or is not the request that refers to them."""
    wanted = {
        f"{request.namespace}/{one.pod_template_ref.name}": request
        for request in world.requests.values()
        for one in request.spec.pod_sets
    }
    for key, template in world.templates.items():
        if Label.MANAGED not in template.metadata.labels:
            continue
        about, request = f"PodTemplate {key}", wanted.get(key)
        of_request, of_workload = (controller_uid(template, kind) for kind in ("ProvisioningRequest", "Workload"))
        if not of_request and not of_workload:
            yield Violation(ORPHAN, about, "has no owner")
        elif of_request and of_request not in world.uids["ProvisioningRequest"]:
            yield Violation(ORPHAN, about, "belongs to a ProvisioningRequest that no longer exists")
        elif of_workload and of_workload not in world.uids["Workload"]:
            yield Violation(ORPHAN, about, "belongs to a Workload that no longer exists")
        elif of_workload and request is not None and waits(world.workload_of(request)):
            yield Violation(ORPHAN, about, f"does not belong to {request.name}, which refers to it")


def unanswered(world: World) -> Iterator[Violation]:
    """Checks that wait without a request, or without an answer; several requests where there should be one."""
    for key, workload in world.workloads.items():
        if not waits(workload):
            continue
        for state in workload.status.admission_checks:
            if is_ours(world, state.name):
                about, mine = f"Workload {key}", sorted(of_check(world, workload, state.name), key=key_of)
                if len(mine) > 1:
                    names = " and ".join(one.name for one in mine)
                    yield Violation(ATTEMPT, about, f"check {state.name} has several requests: {names}")
                elif state.state == "Pending" and holds(world.checks[state.name], "Active"):
                    yield from pending_without_cause(about, state, mine)


def pending_without_cause(
    about: str, state: AdmissionCheckState, mine: list[ProvisioningRequest]
) -> Iterator[Violation]:
    """What is wrong with a Pending check that has this request or none."""
    if not mine and (not state.message or state.message.startswith(UNEXPLAINED)):
        yield Violation(RULE, about, f"holds quota and check {state.name} is Pending, but no capacity was requested")
    for request in mine:
        if has_failed(request):
            if not state.message.startswith(RETRYING):
                yield Violation(RULE, about, f"check {state.name} is Pending, but {request.name} has failed")
        elif holds(request, "Provisioned") and not holds(request, "CapacityRevoked"):
            yield Violation(RULE, about, f"check {state.name} is Pending, but {request.name} is provisioned")


def waits(workload: Workload | None) -> bool:
    """Whether a Workload holds quota and waits for its checks."""
    return (
        workload is not None
        and reserving(workload)
        and not holds(workload, "Evicted")
        and not holds(workload, "Admitted")
        and workload.metadata.deletion_timestamp is None
    )
