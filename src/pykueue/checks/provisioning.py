"""What to do about a Workload's ProvisioningRequests: states of its checks, requests to create and to delete.

Everything is derived from the objects each time: an interrupted attempt is continued, and completed steps are not
repeated.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from pykueue.api.checks import ProvisioningRequest, ProvisioningRequestConfigSpec, ProvisioningRetryStrategy
from pykueue.api.core import Condition, Tree
from pykueue.api.kueue import ResourceFlavor
from pykueue.api.names import Annotation, WorkloadCondition
from pykueue.api.workload import AdmissionCheckState, CheckStateName, PodSetUpdate, Workload, held
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, Seconds, after, doubled, format_instant, parse_instant
from pykueue.checks.requestnames import attempt_of, request_name
from pykueue.checks.requestspec import Pods, asked, asks_for, fault, is_needed, parameters, request_tree, template_trees
from pykueue.engine.wording import shortened
from pykueue.jobs.podsets import InjectionError, MissingFlavorError

INACTIVE: Final = "the check is not active"
NOT_NEEDED: Final = "the provisioning request is not needed"
SILENCE_SECONDS: Final = 60
"""An autoscaler that is silent for this long is reported, and again each time the silence doubles."""


class Check(Frozen):
    """A check of ours that a Workload lists."""

    config: ProvisioningRequestConfigSpec | None
    """None while the check is inactive."""
    timeout: Seconds | None = None
    """How long the autoscaler may take; None is forever."""


class Rules(Frozen):
    """The gates that apply."""

    cleans_up: bool = True
    """CleanupProvisioningRequestsOnEviction"""
    keeps_quota: bool = False
    """KeepQuotaForProvReqRetry"""


class CheckInput(Frozen):
    """A Workload and everything that decides what to do about its requests."""

    workload: Workload
    checks: Mapping[str, Check]
    """The checks it lists that are ours, by name."""
    requests: tuple[ProvisioningRequest, ...] = ()
    """Those that belong to it."""
    templates: Mapping[str, str] = {}
    """The existing PodTemplates that they refer to: the UID of each one's owner, by name."""
    flavors: Mapping[str, ResourceFlavor] = {}
    may_run_again: bool = True
    """Whether its job would run again after it was stopped for good; if not, it is left to fail by itself."""
    rules: Rules = Rules()


class Ask(Frozen):
    """A new attempt: the request, and the templates to create before it."""

    check: str
    request: Tree
    templates: tuple[Tree, ...]


class Hindered(Frozen):
    """An attempt that cannot be made, and why."""

    check: str
    why: str


class CheckPlan(Frozen):
    """What to do, in this order."""

    states: tuple[AdmissionCheckState, ...] = ()
    """States of checks that differ from the present ones."""
    deletes: tuple[ProvisioningRequest, ...] = ()
    asks: tuple[Ask, ...] = ()
    hindered: tuple[Hindered, ...] = ()
    hand_over: tuple[tuple[str, ProvisioningRequest], ...] = ()
    """Templates that the Workload still owns, and the request that should own them."""
    again: Instant | None = None
    """When to look again if nothing changes before."""


def plan(seen: CheckInput, now: Instant) -> CheckPlan:
    """What to do for a Workload."""
    workload = seen.workload
    going = tuple(one for one in seen.requests if one.metadata.deletion_timestamp is None)
    if held(workload, WorkloadCondition.FINISHED) is not None:
        return CheckPlan(deletes=going)
    if held(workload, WorkloadCondition.EVICTED) is not None:
        return CheckPlan(deletes=going if seen.rules.cleans_up else ())
    if held(workload, WorkloadCondition.QUOTA_RESERVED) is None or workload.status.admission is None:
        # A workload that waits without quota because its queue is held keeps its request for later.
        return CheckPlan()
    parts = [
        CheckReview(seen, state, seen.checks[state.name], now)
        for state in workload.status.admission_checks
        if state.name in seen.checks
    ]
    kept = {request.name for one in parts for request in one.kept()}
    return CheckPlan(
        states=tuple(one.planned for one in parts if one.planned != one.current),
        deletes=tuple(one for one in going if one.name not in kept),
        asks=tuple(ask for one in parts if (ask := one.ask()) is not None),
        hindered=tuple(
            Hindered(one.current.name, one.hindered) for one in parts if one.hindered and one.planned.state == "Pending"
        ),
        hand_over=tuple(pair for one in parts for pair in one.orphans()),
        again=min((due for one in parts if (due := one.due) is not None), default=None),
    )


class CheckReview:
    """One check of one Workload at one moment."""

    def __init__(self, seen: CheckInput, current: AdmissionCheckState, check: Check, now: Instant) -> None:
        self.seen = seen
        self.workload = seen.workload
        self.current = current
        self.planned = current
        self.check = check
        self.now = now
        self.admitted = held(seen.workload, WorkloadCondition.ADMITTED) is not None
        self.due: Instant | None = None
        self.pods: tuple[Pods, ...] = ()
        self.request: ProvisioningRequest | None = None
        """The latest attempt, if it still asks for the right things."""
        self.attempt = (current.retry_count or 0) + 1
        self.wanted = False
        """Whether to make a new attempt."""
        self.hindered = ""
        if check.config is None:
            self.report_inactive()
        elif not is_needed(seen.workload, check.config):
            if current.state != "Ready":
                self.set_state("Ready", NOT_NEEDED)
        else:
            self.look(check.config)

    def report_inactive(self) -> None:
        """Report that the check is inactive, unless it has passed already."""
        if not self.settled():
            self.set_state("Pending", INACTIVE)

    def settled(self) -> bool:
        """Whether the check has passed and has nothing more to decide."""
        return self.admitted and self.current.state == "Ready"

    def kept(self) -> Iterable[ProvisioningRequest]:
        """The requests of this check that stay."""
        if self.request is not None:
            return (self.request,)
        # A running workload uses what was provisioned for it, whatever the configuration says now.
        return self.attempts()[-1:] if self.settled() else ()

    def attempts(self) -> list[ProvisioningRequest]:
        """The requests of this check, the latest attempt last."""
        there = (one for one in self.seen.requests if one.metadata.deletion_timestamp is None)
        return sorted((one for one in there if self.number(one)), key=self.number)

    def number(self, request: ProvisioningRequest) -> int:
        """The attempt number of a request; 0 for one of another check."""
        return attempt_of(request.name, self.workload.name, self.current.name) or 0

    def look(self, config: ProvisioningRequestConfigSpec) -> None:
        """Find the latest attempt and its result."""
        try:
            self.pods = asked(self.workload, config, self.seen.flavors)
            self.hindered = fault(parameters(self.workload, config))
        except InjectionError as error:
            self.hindered = str(error)
        except MissingFlavorError as error:
            self.hindered = f'ResourceFlavor "{error}" is not found'
        ready = self.current.state == "Ready"
        if self.hindered and not ready:
            self.run_out(self.waiting_since(), config)
            return
        # Provisioned capacity is kept for its pods, even if the request would differ now.
        fitting = [one for one in self.attempts() if ready or asks_for(one, self.workload, config, self.pods)]
        self.request = fitting[-1] if fitting else None
        if self.request is None:
            self.wanted = self.current.state == "Pending"
            if not self.attempts():
                self.run_out(self.waiting_since(), config)
            return
        self.attempt = self.number(self.request)
        self.judge(self.request, config)

    def judge(self, request: ProvisioningRequest, config: ProvisioningRequestConfigSpec) -> None:
        """Set the check's state from the first decisive condition of the autoscaler."""
        if failed := true(request, "Failed"):
            self.fail("Retrying after failure", failed.message, since(failed, self.now), config)
        elif revoked := true(request, "CapacityRevoked"):
            if self.workload.spec.active and (self.seen.may_run_again or not self.admitted):
                self.set_state("Rejected", revoked.message)
        elif expired := true(request, "BookingExpired"):
            if not self.admitted:
                self.fail("Retrying after booking expired", expired.message, since(expired, self.now), config)
        elif provisioned := true(request, "Provisioned"):
            if self.current.state != "Ready":
                self.set_state("Ready", provisioned.message, updates(request, config, self.pods))
        else:
            self.wait(request, config)

    def wait(self, request: ProvisioningRequest, config: ProvisioningRequestConfigSpec) -> None:
        """Nothing is decided yet: report the estimated time, or how long the autoscaler has been silent."""
        if self.settled() or self.current.state in ("Retry", "Rejected"):
            # A decision after the timeout stands until the Workload has left.
            return
        if self.lost_templates(request):
            # Without them the request cannot be answered. It is created again under the same name.
            self.request = None
            self.wanted = self.current.state == "Pending"
            return
        asked_at = made_at(request, self.now)
        progress = condition(request, "Provisioned")
        if true(request, "Accepted") is not None:
            self.set_state("Pending", "" if progress is None else progress.message)
        else:
            self.set_state("Pending", self.silence(request, asked_at))
        self.run_out(asked_at, config)

    def lost_templates(self, request: ProvisioningRequest) -> bool:
        """Whether a template that a request refers to does not exist."""
        return any(one.pod_template_ref.name not in self.seen.templates for one in request.spec.pod_sets)

    def silence(self, request: ProvisioningRequest, began: Instant) -> str:
        """How long a request has had no answer, in growing steps; empty at first."""
        step = SILENCE_SECONDS
        if self.now < after(began, Seconds(step)):
            self.look_again(after(began, Seconds(step)))
            return ""
        while self.now >= after(began, Seconds(step * 2)):
            step *= 2
        self.look_again(after(began, Seconds(step * 2)))
        kind = request.spec.provisioning_class_name
        return f'No answer from the autoscaler for {step // 60} min; does it serve the class "{kind}"?'

    def run_out(self, began: Instant, config: ProvisioningRequestConfigSpec) -> None:
        """Retry when the check's own timeout has passed."""
        timeout = self.check.timeout
        if timeout is None or self.current.state != "Pending" or (self.hindered and self.seen.rules.keeps_quota):
            return
        if self.now < after(began, timeout):
            self.look_again(after(began, timeout))
            return
        self.wanted = False
        self.fail("Retrying after timeout", f"no capacity within {timeout} s", after(began, timeout), config)

    def waiting_since(self) -> Instant:
        """Since when the Workload has held quota and the check has been pending."""
        opened = self.current.last_transition_time
        reserved = since(held(self.workload, WorkloadCondition.QUOTA_RESERVED), self.now)
        return reserved if opened is None else max(reserved, parse_instant(opened))

    def fail(self, prefix: str, why: str, at: Instant, config: ProvisioningRequestConfigSpec) -> None:
        """Handle an attempt that failed at this instant: retry later, or reject."""
        retries = config.retry_strategy
        if self.attempt > retries.backoff_limit_count:
            self.set_state("Rejected", why)
            return
        message, retried = f"{prefix}: {why}", self.current.retry_count or 0
        if self.seen.rules.keeps_quota:
            self.retry_with_quota(message, at, retries)
        elif self.attempt <= retried:
            # This failure was handled: the Workload was evicted and has come back.
            self.next_attempt(message)
        else:
            delay = doubled(retries.backoff_base_seconds, retries.backoff_max_seconds, retried + 1)
            self.set_state("Retry", message)
            self.planned = replace(self.planned, requeue_after_seconds=int(delay))

    def retry_with_quota(self, message: str, at: Instant, retries: ProvisioningRetryStrategy) -> None:
        """Count an attempt that failed at this instant, and make the next one after a delay, with the same quota."""
        delay = doubled(retries.backoff_base_seconds, retries.backoff_max_seconds, self.attempt)
        counted = max(self.attempt, self.current.retry_count or 0)
        if self.now < after(at, delay):
            self.set_state("Pending", message)
            self.look_again(after(at, delay))
        else:
            self.next_attempt(message)
        if self.request is not None:
            self.planned = replace(self.planned, retry_count=counted)

    def next_attempt(self, message: str) -> None:
        """Make another attempt if the check is still pending; otherwise only update its message."""
        if self.current.state != "Pending":
            self.set_state(self.current.state, message)
            return
        # The message stays: it may say why this attempt could not be made before.
        self.attempt += 1
        self.wanted = True

    def set_state(self, state: CheckStateName, message: str, given: tuple[PodSetUpdate, ...] | None = None) -> None:
        """Set the check's state and message."""
        changed = state != self.current.state
        self.planned = replace(
            self.current,
            state=state,
            message=shortened(message),
            last_transition_time=format_instant(self.now) if changed else self.current.last_transition_time,
            pod_set_updates=given if given is not None else self.current.pod_set_updates if state == "Ready" else (),
        )

    def look_again(self, at: Instant) -> None:
        """Look again at this instant at the latest."""
        self.due = at if self.due is None else min(self.due, at)

    def ask(self) -> Ask | None:
        """The attempt to make now."""
        config = self.check.config
        if not self.wanted or config is None or self.hindered:
            return None
        name = request_name(self.workload.name, self.current.name, self.attempt)
        return Ask(
            self.current.name,
            request_tree(name, self.workload, config, self.pods),
            template_trees(name, self.workload, self.pods),
        )

    def orphans(self) -> Iterable[tuple[str, ProvisioningRequest]]:
        """Templates of the request that it does not own yet."""
        request = self.request
        if request is None:
            return ()
        return tuple(
            (one.pod_template_ref.name, request)
            for one in request.spec.pod_sets
            if self.seen.templates.get(one.pod_template_ref.name) == self.workload.metadata.uid
        )


def condition(request: ProvisioningRequest, kind: str) -> Condition | None:
    """A condition that the autoscaler set; None if absent."""
    return next((one for one in request.status.conditions if one.type == kind), None)


def true(request: ProvisioningRequest, kind: str) -> Condition | None:
    """A condition that is true; None otherwise."""
    found = condition(request, kind)
    return found if found is not None and found.status == "True" else None


def made_at(request: ProvisioningRequest, now: Instant) -> Instant:
    """When a request was made."""
    made = request.metadata.creation_timestamp
    return now if made is None else parse_instant(made)


def since(seen: Condition | None, now: Instant) -> Instant:
    """The time of a condition's last transition; now if it has none."""
    return now if seen is None or seen.last_transition_time is None else parse_instant(seen.last_transition_time)


def updates(
    request: ProvisioningRequest, config: ProvisioningRequestConfigSpec, pods: tuple[Pods, ...]
) -> tuple[PodSetUpdate, ...]:
    """Updates that let the pods find their capacity; the same for all pod sets of one request."""
    details = request.status.provisioning_class_details
    chosen = () if config.pod_set_updates is None else config.pod_set_updates.node_selector
    selector = {
        one.key: details[one.value_from_provisioning_class_detail]
        for one in chosen
        if one.value_from_provisioning_class_detail in details
    }
    annotations = {
        Annotation.CONSUME_PROVISIONING_REQUEST.value: request.name,
        Annotation.PROVISIONING_CLASS.value: request.spec.provisioning_class_name or "",
    }
    return tuple(
        PodSetUpdate(name, annotations=annotations, node_selector=selector) for one in pods for name in one.pod_sets
    )
