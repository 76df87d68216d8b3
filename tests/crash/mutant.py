"""Would the auditor notice? `python -m tests.crash.mutant NAME manager …` runs our manager, broken in one place.

The product knows nothing of this: what is broken is broken here, before the manager starts.
"""

import sys
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from pykueue.bridge import outbound
from pykueue.checks.provisioning import CheckReview
from pykueue.cli.main import main
from pykueue.controllers import provisioning
from pykueue.engine import pending, quota
from pykueue.jobs import plan
from pykueue.jobs.actions import Actions, Finish, PatchJob, Stopped
from pykueue.jobs.batch import BatchJob, JobView
from pykueue.jobs.seen import admitted


class Mutant(NamedTuple):
    """One way to be wrong, and the rule that the auditor must find broken."""

    rule: str
    says: str
    breaks: Callable[[], None]


def wrapped(module: Any, name: str, around: Callable[[Any], Any]) -> None:
    """Put something around a function of a module or class."""
    setattr(module, name, around(getattr(module, name)))


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
    """One Job in three is started before it is admitted."""

    def around(real: Callable[..., Actions]) -> Callable[..., Actions]:
        def settled(seen: Any, job: Any, workload: Any, now: Any) -> Actions:
            if seen.kind.suspended(job) and not admitted(workload) and unlucky(workload.name, 3):
                return (PatchJob({"spec": {"suspend": False}}),)
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


MUTANTS = {
    "greedy": Mutant("overuse", "believes that each queue has one cpu more than it has", greedy),
    "hasty": Mutant("unadmitted", "starts Jobs before they are admitted", hasty),
    "forgetful": Mutant("stuck", "forgets one workload in six", forgetful),
    "impatient": Mutant("unadmitted", "gives quota back before the pods are gone", impatient),
    "generous": Mutant("uncovered", "gives back the quota of pods that run when one of them is done", generous),
    "silent": Mutant("eviction", "does not count evictions", silent),
    "leaky": Mutant("lost", "does not see one Job in four end", leaky),
    "hopeful": Mutant("capacity", "takes capacity for granted", hopeful),
    "untidy": Mutant("orphan", "leaves the requests of evicted workloads behind", untidy),
    "uncounting": Mutant("attempt", "does not count attempts that came to nothing", uncounting),
}

if __name__ == "__main__":
    MUTANTS[sys.argv.pop(1)].breaks()
    main()
