"""How long jobs run, learned from those that have finished: the latest of each queue and of each total request.

Small on purpose: a few recent run times of each kind of job are enough to draw from, and old ones mislead.
"""

from collections.abc import Iterable, Mapping
from heapq import heappush, heappushpop
from typing import Final, NamedTuple

from pykueue.api.core import controller_of
from pykueue.api.jobsummary import FinishedJob, JobState
from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload, held
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, UNLIMITED, Instant, amount_of, parse_instant, parse_quantity
from pykueue.bridge.jobtotals import workload_totals
from pykueue.engine import model

KINDS_MAX: Final = 512
"""How many kinds of jobs are remembered; the one that was learned about least recently is forgotten first."""
SAMPLES_MAX: Final = 32
"""How many run times are remembered of each kind, the latest."""
POOLED_MAX: Final = 256
"""How many run times are used of all kinds of a queue, or of all queues."""
SUCCEEDED: Final = "Succeeded"
"""The reason of Kueue for a Workload that has finished as it should."""
DAY_SECONDS: Final = 24 * 3600


class JobKind(Frozen):
    """Jobs that are expected to run equally long: those of a LocalQueue that ask for the same."""

    queue: str
    """Namespace and name of the LocalQueue."""
    requests: tuple[tuple[str, int], ...]
    """In total, by resource."""


class LearnedKind(Frozen):
    """What is known of a kind of job."""

    kind: JobKind
    seconds: tuple[int, ...]
    """How long the latest ran."""
    per_day: float
    """How many finish in a day, and so about how many arrive."""


class Learned(Frozen):
    """Everything that is known."""

    kinds: tuple[LearnedKind, ...] = ()


class Sample(NamedTuple):
    """One job that has finished."""

    ended: int
    """The second."""
    seconds: int
    identity: int
    """Recognizes the same job if it is read again."""


class RunTimes:
    """Remembers run times, within bounds."""

    def __init__(self) -> None:
        self.kinds: dict[JobKind, list[Sample]] = {}
        """As heaps, the first to forget first; the kind that was learned about last is last."""

    def learn(self, seen: Workload) -> None:
        """Remember a Workload that succeeded; one that is not known as a whole is left out.

        One that failed, was cancelled or reached its limit says nothing about how long such jobs run.
        """
        finished, admitted = (held(seen, one) for one in (WorkloadCondition.FINISHED, WorkloadCondition.ADMITTED))
        if finished is None or finished.reason != SUCCEEDED or admitted is None or not seen.spec.pod_sets:
            return
        if not finished.last_transition_time or not admitted.last_transition_time:
            return
        ended, began = parse_instant(finished.last_transition_time), parse_instant(admitted.last_transition_time)
        owner = controller_of(seen.metadata)
        uid = (seen.metadata.uid or "") if owner is None else owner.uid
        kind = kind_of_texts(f"{seen.metadata.namespace}/{seen.spec.queue_name}", workload_totals(seen))
        self.add(kind, ended, uid, (ended - began) // MICROS)

    def learn_job(self, job: FinishedJob) -> None:
        """Remember a Job that succeeded, by its record."""
        if job.state is JobState.COMPLETED and job.started and job.ended and job.queue and not job.requests_left_out:
            kind = kind_of_texts(f"{job.namespace}/{job.queue}", job.requests)
            self.add(kind, parse_instant(job.ended), job.uid, job.ran_seconds)

    def add(self, kind: JobKind, ended: Instant, uid: str, seconds: int) -> None:
        """Remember one run time."""
        known = self.kinds.pop(kind, None)
        if known is None:
            known = []
            if len(self.kinds) >= KINDS_MAX:
                del self.kinds[next(iter(self.kinds))]
        self.kinds[kind] = known
        sample = Sample(ended // MICROS, max(0, seconds), hash(uid))
        if any(one.identity == sample.identity for one in known):
            return
        if len(known) < SAMPLES_MAX:
            heappush(known, sample)
        else:
            heappushpop(known, sample)

    def learned(self, now: Instant) -> Learned:
        """What is known by now."""
        return Learned(
            tuple(
                LearnedKind(kind, tuple(one.seconds for one in sorted(samples)), per_day(samples, now // MICROS))
                for kind, samples in self.kinds.items()
            )
        )

    def forget_queue(self, key: str) -> None:
        """Forget the kinds of a LocalQueue that is deleted."""
        for kind in [kind for kind in self.kinds if kind.queue == key]:
            del self.kinds[kind]


def per_day(samples: Iterable[Sample], now: int) -> float:
    """How many jobs finish in a day, by those that are remembered."""
    ends = sorted(one.ended for one in samples)
    return (len(ends) - 1) * DAY_SECONDS / max(60, now - ends[0]) if len(ends) > 1 else 0.0


def kind_of_texts(queue: str, requests: Mapping[str, str]) -> JobKind:
    """The kind of a job whose requests are texts."""
    amounts = []
    for resource, text in requests.items():
        try:
            amounts.append((resource, amount_of(resource, parse_quantity(text))))
        except ValueError:
            continue
    return JobKind(queue, tuple(sorted(amounts)))


def kind_of(workload: model.Workload) -> JobKind:
    """The kind of a job by its workload."""
    totals: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        for resource, amount in pod_set.requests:
            if resource != "pods":
                totals[resource] = min(UNLIMITED, totals.get(resource, 0) + amount * pod_set.count)
    return JobKind(workload.local_queue, tuple(sorted(totals.items())))


class Known(NamedTuple):
    """The run times to draw from, and of what jobs they are."""

    seconds: tuple[int, ...]
    like: str
    """`kind`, `queue`, `all`, or empty if nothing is known."""


class RunTimesTable:
    """Finds the run times to expect of a job: of its kind, else of its queue, else of all."""

    def __init__(self, learned: Learned, least: int = 1) -> None:
        self.least = least
        """How many run times of a kind are enough not to look further."""
        self.kinds = {one.kind: one.seconds for one in learned.kinds}
        self.queues: dict[str, tuple[int, ...]] = {}
        for one in learned.kinds:
            self.queues[one.kind.queue] = (*self.queues.get(one.kind.queue, ()), *one.seconds)[-POOLED_MAX:]
        self.all = tuple(second for one in learned.kinds for second in one.seconds[-4:])[-POOLED_MAX:]

    def find(self, kind: JobKind) -> Known:
        """The run times of jobs like this one."""
        for like, found in (("kind", self.kinds.get(kind)), ("queue", self.queues.get(kind.queue)), ("all", self.all)):
            if found and len(found) >= self.least:
                return Known(found, like)
        return Known((), "")
