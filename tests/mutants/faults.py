"""What may be wrong with a manager? One fault each, made by replacing functions of the product by name.

The product knows nothing of this: what is broken is broken here, and mended here.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from pykueue.bridge import inbound, outbound
from pykueue.checks.provisioning import CheckReview
from pykueue.controllers import provisioning
from pykueue.engine import cycle, flavors, forest, lifecycle, pending, preempt, quota
from pykueue.engine.candidates import Candidate, Level
from pykueue.engine.decisions import PreemptionReason
from pykueue.engine.flavors import Planner
from pykueue.engine.model import Policy, Strategy
from pykueue.engine.preempt import Search, Selection, Victim
from pykueue.engine.world import World
from pykueue.jobs import plan
from pykueue.jobs.actions import NOTHING, Actions, Finish, PatchJob, Stopped
from pykueue.jobs.batch import BatchJob, JobView
from pykueue.jobs.seen import admitted
from pykueue.jobs.workloadsync import deleted

Function = Callable[..., Any]
ORIGINALS: list[tuple[Any, str, Any]] = []
"""What was replaced, and by what name."""


class Mutant(NamedTuple):
    """One way to be wrong, and the rule that the auditor must find broken."""

    rule: str
    says: str
    breaks: Callable[[], None]


def wrapped(module: Any, name: str, around: Callable[[Any], Any]) -> None:
    """Put something around a function of a module or class."""
    original = getattr(module, name)
    ORIGINALS.append((module, name, original))
    setattr(module, name, around(original))


def always(module: Any, name: str, value: object) -> None:
    """Let a function return the same value each time."""
    wrapped(module, name, lambda real: lambda *told, **more: value)


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """The product with one fault, until the block ends."""
    mutant.breaks()
    try:
        yield
    finally:
        while ORIGINALS:
            module, name, original = ORIGINALS.pop()
            setattr(module, name, original)


def unlucky(key: str, of: int) -> bool:
    """One in so many, the same ones each time."""
    return zlib.crc32(key.encode()) % of == 0


def greedy() -> None:
    """Every ClusterQueue is taken to have one cpu more than it has."""

    def around(real: Callable[..., None]) -> Callable[..., None]:
        def set_quotas(node: quota.QuotaNode, quotas: Any, flavors: Any) -> None:
            more = [
                msgspec.structs.replace(one, nominal=one.nominal + 1000) if one.resource == "cpu" else one
                for one in quotas
            ]
            real(node, tuple(more), flavors)

        return set_quotas

    wrapped(quota.QuotaNode, "set_quotas", around)


def hasty() -> None:
    """One Job in three is started before it is admitted, and not stopped for that."""

    def around(real: Callable[..., Actions]) -> Callable[..., Actions]:
        def settled(seen: Any, job: Any, workload: Any, now: Any) -> Actions:
            if not admitted(workload) and unlucky(workload.name, 3):
                return (PatchJob({"spec": {"suspend": False}}),) if seen.kind.suspended(job) else NOTHING
            return real(seen, job, workload, now)

        return settled

    wrapped(plan, "settled", around)


def forgetful() -> None:
    """One workload in six never gets into its queue."""

    def around(real: Callable[..., None]) -> Callable[..., None]:
        def insert(queue: Any, item: Any, now: Any) -> None:
            real(queue, item, now)
            if unlucky(item.key, 6):
                queue.take_out(item)

        return insert

    wrapped(pending.PendingQueue, "insert", around)


def impatient() -> None:
    """Quota is given back before the pods are gone."""

    def around(real: Callable[..., Actions]) -> Callable[..., Actions]:
        def stop_evicted(seen: Any, job: Any, workload: Any, *rest: Any) -> Actions:
            return (Stopped(workload), *real(seen, job, workload, *rest))

        return stop_evicted

    wrapped(plan, "stop_evicted", around)


def generous() -> None:
    """As soon as one pod of a Job is done, the quota of all but one of the rest is given back too."""

    def around(real: Callable[..., dict[str, int]]) -> Callable[..., dict[str, int]]:
        def reclaimable(kind: BatchJob, job: JobView) -> dict[str, int]:
            return {name: kind.count(job) - 1 for name in real(kind, job)}

        return reclaimable

    wrapped(BatchJob, "reclaimable", around)


def silent() -> None:
    """Evictions are not counted."""
    wrapped(outbound.StatusBuilder, "count_eviction", lambda real: lambda *_: None)


def leaky() -> None:
    """One workload in four is not told that its Job has ended."""

    def around(real: Callable[..., Actions]) -> Callable[..., Actions]:
        def settled(seen: Any, job: Any, workload: Any, now: Any) -> Actions:
            actions = real(seen, job, workload, now)
            return tuple(one for one in actions if not (isinstance(one, Finish) and unlucky(workload.name, 4)))

        return settled

    wrapped(plan, "settled", around)


def hopeful() -> None:
    """One workload in two is taken to have its capacity before anyone has said so."""

    def around(real: Callable[..., None]) -> Callable[..., None]:
        def judge(review: CheckReview, *rest: Any) -> None:
            real(review, *rest)
            if review.planned.state == "Pending" and unlucky(review.workload.name, 2):
                review.set_state("Ready", "it will come")

        return judge

    wrapped(CheckReview, "judge", around)


def untidy() -> None:
    """Requests of which nothing more is wanted are not deleted."""

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *told: msgspec.structs.replace(real(*told), deletes=())

    wrapped(provisioning, "plan", around)


def uncounting() -> None:
    """Attempts that came to nothing are not counted."""

    def around(real: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        return lambda *told: {key: value for key, value in real(*told).items() if key != "retryCount"}

    wrapped(outbound, "reset_check", around)


# Quota.


def boundless(limit: str) -> Callable[[], None]:
    """A limit of quotas is overlooked."""

    def breaks() -> None:
        def around(real: Function) -> Function:
            return lambda node, quotas, names: real(
                node, tuple(msgspec.structs.replace(one, **{limit: None}) for one in quotas), names
            )

        wrapped(quota.QuotaNode, "set_quotas", around)

    return breaks


def stubborn() -> None:
    """Quotas are read once; edits are overlooked."""

    def around(real: Function) -> Function:
        return lambda node, quotas, names: None if node.nominal else real(node, quotas, names)

    wrapped(quota.QuotaNode, "set_quotas", around)


def double() -> None:
    """What was admitted does not count as used."""
    always(forest, "book", None)


def separate() -> None:
    """What a queue borrows does not count as used in its cohort."""

    def around(_real: Function) -> Function:
        def take(node: quota.QuotaNode, fr: int, amount: int) -> None:
            node.usage[fr] = node.usage.get(fr, 0) + amount

        return take

    wrapped(quota, "take", around)
    wrapped(quota, "give", lambda _: lambda node, fr, amount: node.usage.update({fr: node.usage.get(fr, 0) - amount}))


def miserly() -> None:
    """Quota that was released still counts as used."""
    always(forest, "unbook", None)


def cheap() -> None:
    """A pod is charged half of what it requests."""

    def around(real: Function) -> Function:
        return lambda *told: {name: amount // 2 for name, amount in real(*told).items()}

    wrapped(inbound, "counted", around)


# Preemption.


def jealous() -> None:
    """Workloads of equal priority are preempted under LowerPriority."""

    def around(real: Function) -> Function:
        return lambda policy, preemptor, candidate: (
            real(policy, preemptor, candidate) or (policy is Policy.LOWER and preemptor.priority == candidate.priority)
        )

    wrapped(preempt, "policy_allows", around)
    wrapped(preempt, "hopeless", lambda _: lambda policy, preemptor, queue: policy is Policy.NEVER)


def upside_down() -> None:
    """Whoever may preempt preempts workloads of higher priority too."""
    wrapped(preempt, "policy_allows", lambda _: lambda policy, preemptor, candidate: policy is not Policy.NEVER)
    wrapped(preempt, "hopeless", lambda _: lambda policy, preemptor, queue: policy is Policy.NEVER)


def ruthless() -> None:
    """The policy Never within a queue is read as LowerPriority."""

    def around(real: Function) -> Function:
        def cluster_queue(seen: Any) -> Any:
            found = real(seen)
            if found.preemption.within_queue is not Policy.NEVER:
                return found
            policies = msgspec.structs.replace(found.preemption, within_queue=Policy.LOWER)
            return msgspec.structs.replace(found, preemption=policies)

        return cluster_queue

    wrapped(inbound, "cluster_queue", around)


def needless() -> None:
    """One of lower priority is preempted although there is room."""

    def around(real: Function) -> Function:
        def best(planner: Planner) -> Any:
            found, selection = real(planner)
            lower = [one for one in planner.queue.holders.values() if one.priority < planner.item.priority]
            if found.fits and lower and planner.item.claim is None:
                return found, Selection((Victim(lower[0], PreemptionReason.IN_QUEUE),))
            return found, selection

        return best

    wrapped(Planner, "best", around)


def lavish() -> None:
    """All who may be preempted in a queue are preempted, not only as many as it takes."""

    def around(real: Function) -> Function:
        def attempt(search: Search, levels: Any, requests: Any, frs: frozenset[int], **more: Any) -> Any:
            found = real(search, levels, requests, frs, **more)
            own = tuple(Victim(one.item, one.reason) for one in search.own_candidates(frs))
            return Selection(own) if own and found.victims else found

        return attempt

    wrapped(Search, "attempt", around)


def grabbing() -> None:
    """Queues that borrow nothing are reclaimed from."""

    def around(_real: Function) -> Function:
        def over_users(level: Level, _frs: Any) -> Iterator[quota.QuotaNode]:
            return (child for child in level.cohort.children if child is not level.below and child.is_queue)

        return over_users

    wrapped(preempt, "over_users", around)
    always(Search, "is_protected", False)


def selfish() -> None:
    """Others are reclaimed from by a workload that would borrow itself."""

    def around(real: Function) -> Function:
        def init(candidate: Candidate, *told: Any, may_borrow: bool, **more: Any) -> None:
            real(candidate, *told, may_borrow=True, **more)

        return init

    wrapped(Candidate, "__init__", around)
    always(Search, "is_strict", False)


def reckless() -> None:
    """The threshold of borrowWithinCohort is overlooked."""
    wrapped(Search, "below_threshold", lambda _: lambda search, candidate: candidate.priority < search.item.priority)


def mute() -> None:
    """A preemption does not say for whom."""
    always(cycle, "preempted", "Preempted to accommodate a workload")


# Order.


def backward() -> None:
    """The youngest goes first."""
    wrapped(pending, "pending_key", lambda _: lambda item: (-item.priority, -item.stamp, item.uid))


def levelling() -> None:
    """Priorities do not matter for the order."""
    wrapped(pending, "pending_key", lambda _: lambda item: (0, item.stamp, item.uid))


def pushing() -> None:
    """Workloads of a StrictFIFO queue go past one that does not fit."""
    wrapped(
        pending.PendingQueue, "set_strategy", lambda real: lambda queue, strategy: real(queue, Strategy.BEST_EFFORT)
    )


def hurried() -> None:
    """The backoff after an eviction is overlooked."""
    always(pending, "backoff_over", True)


# Eligibility.


def open_house() -> None:
    """The namespaceSelector is overlooked."""
    always(World, "serves", True)


def unstoppable() -> None:
    """A stopped ClusterQueue admits."""

    def around(real: Function) -> Function:
        return lambda world, queue: tuple(one for one in real(world, queue) if one[0] != "Stopped")

    wrapped(World, "inactive_because", around)


def anywhere() -> None:
    """A flavor is assigned on whose nodes the pods cannot run."""
    always(flavors, "eligibility", None)


def trusting() -> None:
    """The AdmissionChecks of a queue are overlooked."""
    always(World, "has_passed", True)


# Decisions that are not carried out.


def clinging() -> None:
    """A queue that is to be drained keeps its workloads."""
    always(lifecycle, "by_queues", None)


def undying() -> None:
    """A deactivated workload is not evicted."""
    always(lifecycle, "when_inactive", None)


def ignoring() -> None:
    """The Job of an evicted workload is not stopped."""
    always(plan, "stop_evicted", NOTHING)


def lazy() -> None:
    """The Job of an admitted workload is not started."""
    always(plan, "started", NOTHING)


# Workloads.


def careless() -> None:
    """One Job in six gets no Workload."""
    wrapped(
        plan, "created", lambda real: lambda seen, job: NOTHING if unlucky(job.metadata.name, 6) else real(seen, job)
    )


def destructive() -> None:
    """The Workload of one running Job in six is deleted, once."""
    done: set[str] = set()

    def around(real: Function) -> Function:
        def settled(seen: Any, job: Any, workload: Any, now: Any) -> Actions:
            if (
                admitted(workload)
                and not seen.kind.suspended(job)
                and unlucky(job.metadata.name, 6)
                and job.metadata.name not in done
            ):
                done.add(job.metadata.name)
                return (deleted(workload),)
            return real(seen, job, workload, now)  # type: ignore[no-any-return]  # it is the original

        return settled

    wrapped(plan, "settled", around)


def premature() -> None:
    """One workload in six is finished while its Job runs."""

    def around(real: Function) -> Function:
        def settled(seen: Any, job: Any, workload: Any, now: Any) -> Actions:
            if admitted(workload) and not seen.kind.suspended(job) and unlucky(workload.name, 6):
                return (Finish(workload, "Succeeded", "it will be"),)
            return real(seen, job, workload, now)  # type: ignore[no-any-return]  # it is the original

        return settled

    wrapped(plan, "settled", around)
