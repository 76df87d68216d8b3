"""Rules of a Workload's conditions, at every revision and for each change between two."""

import re
from collections.abc import Iterator
from typing import Final

from pykueue.api.workload import Admission, Workload
from pykueue.audit.nodes import refuses
from pykueue.audit.quantities import amount, amount_text
from pykueue.audit.requests import covered_by, each_pod
from pykueue.audit.selectors import selects
from pykueue.audit.templates import pod_spec
from pykueue.audit.times import MICROS, Instant, parse_instant
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import condition, finished, holds
from pykueue.audit.world import Change, Finding, Settings, World

RULE: Final = "conditions"
EVICTION: Final = "eviction"
RESERVATION: Final = "reservation"
FINISH: Final = "finish"

EVICTION_REASONS: Final = frozenset(
    {
        "Preempted",
        "PodsReadyTimeout",
        "AdmissionCheck",
        "ClusterQueueStopped",
        "LocalQueueStopped",
        "NodeFailures",
        "Deactivated",
        "FlavorMigration",
        "EvictedOnManagerCluster",
    }
)
DEACTIVATED: Final = "DeactivatedDueTo"
PREEMPTION_REASONS: Final = frozenset(
    {"InClusterQueue", "InCohortReclamation", "InCohortFairSharing", "InCohortReclaimWhileBorrowing"}
)
PREEMPTOR: Final = re.compile(r"\(UID: ([^,)]+), JobUID: ")
CLOCK_MICROS: Final = 2 * MICROS
"""Timestamps have whole seconds, and clocks differ."""


class Conditions:
    """The rule that a Workload's conditions are consistent, and change only with a reason."""

    def __init__(self, settings: Settings, uptime: Uptime) -> None:
        self.settings, self.uptime = settings, uptime
        self.lag_micros = settings.lag_seconds * MICROS
        self.uids: set[str] = set()
        """UIDs of all Workloads that ever were."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Violations by this change."""
        old, new = change.of(Workload) or (None, None)
        if new is None:
            return
        self.uids.add(new.metadata.uid or "")
        about = f"Workload {change.key}"
        yield from (change.found(RULE, about, message) for message in contradictions(new))
        if change.listed:
            return
        yield from (change.found(EVICTION, about, message) for message in self.eviction(old, new))
        if old is not None:
            yield from (change.found(EVICTION, about, message) for message in losses(old, new))
            yield from (change.found(RULE, about, message) for message in backward(old, new))
        if holds(new, "Finished") and not (old is not None and holds(old, "Finished")):
            yield from (change.found(FINISH, about, message) for message in finish(new, world))
        if holds(new, "QuotaReserved") and not (old is not None and holds(old, "QuotaReserved")):
            yield from (
                change.found(RESERVATION, about, message) for message in self.reserved(change.at, old, new, world)
            )
        if holds(new, "Admitted") and not (old is not None and holds(old, "Admitted")):
            # A Workload that is evicted again at once may show both in one write, in which its checks are reset.
            again = old is not None and holds(new, "Evicted") and not holds(old, "Evicted")
            judged = old if old is not None and again else new
            yield from (change.found(RULE, about, message) for message in self.unchecked(change.at, new, judged, world))
            unready = [check.name for check in judged.status.admission_checks if check.state != "Ready"]
            if unready:
                yield change.found(RULE, about, f"was admitted while checks are not ready: {', '.join(unready)}")

    def unchecked(self, at: Instant, new: Workload, judged: Workload, world: World) -> Iterator[str]:
        """The checks of its queue that an admitted workload does not list."""
        admission = new.status.admission
        queue = world.queues.get((admission.cluster_queue or "") if admission is not None else "")
        if admission is None or queue is None or not world.quiet("ClusterQueue", queue.name, at, self.lag_micros):
            return
        strategy = queue.spec.admission_checks_strategy
        flavors = {flavor for given in admission.pod_set_assignments for flavor in given.flavors.values()}
        listed = {check.name for check in judged.status.admission_checks}
        for rule in strategy.admission_checks if strategy is not None else ():
            if rule.name not in listed and (not rule.on_flavors or flavors & set(rule.on_flavors)):
                yield f"was admitted without check {rule.name}"

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Nothing: conditions are right or wrong at once."""
        yield from ()

    def eviction(self, old: Workload | None, new: Workload) -> Iterator[str]:
        """What is wrong with an eviction that has just begun."""
        evicted = condition(new, "Evicted")
        if evicted is None or evicted.status != "True" or (old is not None and holds(old, "Evicted")):
            return
        if evicted.reason not in EVICTION_REASONS and not evicted.reason.startswith(DEACTIVATED):
            yield f"was evicted for {evicted.reason or 'no reason'}, which is not an eviction reason"
        if not evicted.message:
            yield f"was evicted for {evicted.reason} without a message"
        if evictions(new) <= (evictions(old) if old is not None else 0):
            yield f"was evicted for {evicted.reason}, but the eviction was not counted"
        if evicted.reason != "Preempted":
            return
        preempted = condition(new, "Preempted")
        if preempted is None or preempted.status != "True" or preempted.reason not in PREEMPTION_REASONS:
            yield "was evicted as preempted, but its Preempted condition has no valid reason"
        found = PREEMPTOR.search(evicted.message)
        if found is None:
            yield "was preempted, but the message names no preemptor"
        elif found.group(1) not in self.uids:
            yield f"was preempted for the workload with UID {found.group(1)}, which never existed"

    def reserved(self, at: Instant, old: Workload | None, new: Workload, world: World) -> Iterator[str]:
        """What is wrong with a new reservation."""
        if not new.spec.active:
            yield "got quota although it is not active"
        if holds(new, "Finished"):
            yield "got quota although it is finished"
        # A Workload that is evicted again at once may show both in one write; then the eviction is counted.
        if holds(new, "Evicted") and evictions(new) <= (evictions(old) if old is not None else 0):
            yield "got quota but is still marked as evicted"
        state, latest = new.status.requeue_state, self.uptime.latest(at) + CLOCK_MICROS
        if state is not None and state.requeue_at and parse_instant(state.requeue_at) > latest:
            yield f"got quota although it had to wait until {state.requeue_at}"
        if new.status.admission is not None:
            yield from misassigned(new, new.status.admission)
            yield from self.misplaced(at, new, new.status.admission, world)
            queue = world.queues.get(new.status.admission.cluster_queue or "")
            if self.settings.plain_resources and queue is not None and new.namespace not in world.limited:
                yield from miscounted(new, new.status.admission, covered_by(queue), self.settings)
        yield from self.queue_refuses(at, new, world)

    def misplaced(self, at: Instant, new: Workload, admission: Admission, world: World) -> Iterator[str]:
        """Pod sets that were assigned a flavor on whose nodes their pods cannot run."""
        templates = {pod_set.name: pod_set.template for pod_set in new.spec.pod_sets}
        for given in admission.pod_set_assignments:
            spec = pod_spec(templates[given.name]) if given.name in templates else None
            for name in sorted(set(given.flavors.values())) if spec is not None else ():
                flavor = world.flavors.get(name)
                known = flavor is not None and world.quiet("ResourceFlavor", name, at, self.lag_micros)
                reason = refuses(flavor, spec) if flavor is not None and spec is not None and known else ""
                if reason:
                    yield f"got flavor {name} for pod set {given.name}, {reason}"

    def queue_refuses(self, at: Instant, new: Workload, world: World) -> Iterator[str]:
        """Why its queues should not have given it quota; recent edits are ignored."""
        local_key, name = f"{new.namespace}/{new.spec.queue_name or ''}", world.queue_name_of(new)
        if not world.quiet("LocalQueue", local_key, at, self.lag_micros):
            return
        local = world.local_queues.get(local_key)
        if local is None:
            yield f"got quota although there is no LocalQueue {new.spec.queue_name}"
            return
        if local.spec.stop_policy != "None":
            yield f"got quota although LocalQueue {local.name} is stopped"
        given = new.status.admission.cluster_queue if new.status.admission is not None else None
        if given and given != name:
            yield f"got quota of ClusterQueue {given}, but its LocalQueue points to {name}"
        queue = world.queues.get(name)
        if not world.quiet("ClusterQueue", name, at, self.lag_micros):
            return
        if queue is None:
            yield f"got quota although there is no ClusterQueue {name}"
            return
        if queue.spec.stop_policy != "None":
            yield f"got quota although ClusterQueue {name} is stopped"
        namespace = world.namespaces.get(new.namespace)
        if (
            namespace is not None
            and world.quiet("Namespace", new.namespace, at, self.lag_micros)
            and not selects(queue.spec.namespace_selector, namespace.metadata.labels)
        ):
            yield f"got quota although ClusterQueue {name} does not select namespace {new.namespace}"


def evictions(workload: Workload) -> int:
    """How many evictions the status counts."""
    stats = workload.status.scheduling_stats
    return sum(counted.count for counted in stats.evictions) if stats is not None else 0


def contradictions(workload: Workload) -> Iterator[str]:
    """Conditions that exclude each other."""
    reserved, admitted = holds(workload, "QuotaReserved"), holds(workload, "Admitted")
    if admitted and not reserved:
        yield "is admitted but has no quota reserved"
    if reserved and workload.status.admission is None:
        yield "has quota reserved but no admission"
    if not reserved and workload.status.admission is not None:
        yield "has an admission but no quota reserved"
    evicted = condition(workload, "Evicted")
    if evicted is not None and evicted.status == "True" and not evicted.reason:
        yield "is evicted without a reason"


def losses(old: Workload, new: Workload) -> Iterator[str]:
    """Admissions lost without an eviction."""
    if holds(old, "Admitted") and not holds(new, "Admitted") and not holds(new, "Evicted"):
        yield "lost its admission without an eviction"


def backward(old: Workload, new: Workload) -> Iterator[str]:
    """Changes that undo what is final."""
    if holds(old, "Finished") and not holds(new, "Finished"):
        yield "was finished but no longer is"
    before, now = old.status.admission, new.status.admission
    if before is not None and now is not None and holds(old, "QuotaReserved") and holds(new, "QuotaReserved"):
        if before.cluster_queue != now.cluster_queue:
            yield f"moved from ClusterQueue {before.cluster_queue} to {now.cluster_queue} without losing its quota"
        if [given.flavors for given in before.pod_set_assignments] != [
            given.flavors for given in now.pod_set_assignments
        ]:
            yield "changed its flavors without losing its quota"


def finish(new: Workload, world: World) -> Iterator[str]:
    """Why a workload should not have been finished."""
    found, job = condition(new, "Finished"), world.job_of(new)
    reason = found.reason if found is not None else ""
    if reason in ("Succeeded", "Failed") and job is not None and not finished(job):
        yield f"is finished as {reason}, but its Job is not finished"
    if reason == "OwnerNotFound" and job is not None and job.metadata.deletion_timestamp is None:
        yield "is finished because its owner was deleted, but its Job exists"


def miscounted(workload: Workload, admission: Admission, covered: set[str], settings: Settings) -> Iterator[str]:
    """Pod sets that are charged something other than their pods request."""
    wanted = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets}
    for given in admission.pod_set_assignments:
        pod_set = wanted.get(given.name)
        each = each_pod(pod_set, settings) if pod_set is not None else None
        if pod_set is None or each is None:
            continue
        count = given.count if given.count is not None else pod_set.count
        for resource in sorted(each.keys() & covered):
            charged = amount(resource, given.resource_usage.get(resource, 0))
            if charged != each[resource] * count:
                asks, takes = amount_text(resource, each[resource] * count), amount_text(resource, charged)
                yield f"takes {takes} {resource} for pod set {given.name}, whose {count} pods request {asks}"


def misassigned(workload: Workload, admission: Admission) -> Iterator[str]:
    """Pod sets that were assigned something other than they requested."""
    given = {assigned.name: assigned for assigned in admission.pod_set_assignments}
    wanted = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets}
    if given.keys() != wanted.keys():
        yield f"requested pod sets {', '.join(sorted(wanted))} but got {', '.join(sorted(given)) or 'none'}"
        return
    for name, pod_set in wanted.items():
        count = given[name].count
        least = pod_set.min_count if pod_set.min_count is not None else pod_set.count
        done = sum(pods.count for pods in workload.status.reclaimable_pods if pods.name == name)
        if count is not None and not max(0, least - done) <= count <= pod_set.count:
            yield f"got {count} pods for pod set {name}, which requested {least} to {pod_set.count}"
        missing = sorted(given[name].resource_usage.keys() - given[name].flavors.keys())
        if missing:
            yield f"takes {', '.join(missing)} for pod set {name} without a flavor"
