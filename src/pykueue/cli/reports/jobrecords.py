"""Jobs of a server as the records of a report: pure functions of what the server lists."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from msgspec.structs import replace

from pykueue.api.core import Tree
from pykueue.api.jobsummary import FinishedJob, JobState, JobSummary
from pykueue.api.trees import text, whole
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, QuantityError, amount_of, parse_instant, parse_quantity
from pykueue.cli.queues.quotas import quotas
from pykueue.kubecontrollers.finishedrecord import Past
from pykueue.reports.records import NO_QUEUE, Holding, Job, Others, Quota, Run

HOLDS: Final = frozenset({JobState.RUNNING, JobState.FAILING, JobState.STOPPING})
STATES: Final = {JobState.PENDING: "waiting", JobState.FAILING: "cannot start"}


class Queues(Frozen):
    """What is known of queues."""

    local: Mapping[tuple[str, str], str] = {}
    """The ClusterQueue of each LocalQueue, by namespace and name."""
    flavors: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    """The flavors of each resource of each ClusterQueue."""
    quotas: tuple[Quota, ...] = ()

    def only(self, names: Iterable[str]) -> "Queues":
        """The same with the quotas of these ClusterQueues alone."""
        kept = frozenset(names)
        return replace(self, quotas=tuple(one for one in self.quotas if one.queue in kept and not one.of_cohort))

    def queue_of(self, namespace: str, local_queue: str) -> str:
        """The ClusterQueue of a job, or its LocalQueue where that is all that is known."""
        if not local_queue:
            return NO_QUEUE
        return self.local.get((namespace, local_queue)) or f"{namespace}/{local_queue}"

    def flavor_of(self, queue: str, resource: str) -> str | None:
        """The flavor of a resource in a queue; None if the queue does not count it, empty if that is not known."""
        known = self.flavors.get(queue)
        if known is None:
            return ""
        found = known.get(resource)
        return None if found is None else found[0] if len(found) == 1 else ""


def queues_of(local: Iterable[Tree], cluster: Sequence[Tree], cohorts: Iterable[Tree]) -> Queues:
    """What these objects tell."""
    flavors: dict[str, dict[str, tuple[str, ...]]] = {}
    found = []
    for trees, of_cohort in ((cluster, False), (cohorts, True)):
        for tree in trees:
            name = text(tree, "metadata", "name")
            for (flavor, resource), nominal in quotas(tree).items():
                found.append(Quota(name, flavor, resource, nominal, of_cohort=of_cohort))
                if not of_cohort:
                    known = flavors.setdefault(name, {})
                    known[resource] = (*known.get(resource, ()), flavor)
    names = {
        (text(one, "metadata", "namespace"), text(one, "metadata", "name")): text(one, "spec", "clusterQueue")
        for one in local
    }
    return Queues(names, flavors, tuple(found))


@cache
def amount(resource: str, quantity: str) -> int:
    """An amount of a resource; 0 if it is malformed."""
    try:
        return max(0, amount_of(resource, parse_quantity(quantity)))
    except QuantityError:
        return 0


def instant(stamp: str) -> Instant | None:
    """A timestamp of a server; None if there is none, or it is malformed."""
    try:
        return parse_instant(stamp) if stamp else None
    except (ValueError, OverflowError):
        return None


def held(
    requests: Mapping[str, str], flavors: Mapping[str, str], queue: str, known: Queues, run: Run
) -> Iterator[Holding]:
    """What a job held during a run."""
    for resource, quantity in requests.items():
        flavor = flavors.get(resource) or known.flavor_of(queue, resource)
        size = amount(resource, quantity)
        if flavor is not None and size:
            yield Holding(queue, flavor, resource, size, run.begin, run.end)


def finished_job(row: FinishedJob, known: Queues) -> tuple[Job, list[Holding]]:
    """A job that has ended, and what it held in its last run."""
    ended = instant(row.ended) or Instant(0)
    submitted = instant(row.submitted) or ended
    queue = row.cluster_queue or known.queue_of(row.namespace, row.queue)
    waited = row.waited_seconds * MICROS
    runs: tuple[Run, ...] = ()
    if row.started and row.ran_seconds:
        runs = (Run(Instant(ended - row.ran_seconds * MICROS), ended),)
    job = Job(
        f"{row.namespace}/{row.name}",
        queue,
        submitted,
        waited,
        row.state.lower(),
        runs[0].begin if runs else None,
        ended,
        "",
        row.preempted,
        row.lost_seconds * MICROS,
        {name: amount(name, quantity) for name, quantity in row.requests.items()} if row.lost_seconds else {},
        runs,
        ((submitted, Instant(submitted + waited)),) if waited else (),
    )
    return job, [one for run in runs for one in held(row.requests, row.flavors, queue, known, run)]


def active_job(row: JobSummary, known: Queues, past: Past, now: Instant) -> tuple[Job, list[Holding]]:
    """A job that runs or waits, and what it holds; `past` is what its Workload tells about its earlier runs."""
    submitted = instant(row.submitted) or now
    since = max(submitted, instant(row.since) or submitted)
    queue = past.cluster_queue or known.queue_of(row.namespace, row.queue)
    holds, pending = row.state in HOLDS, row.state is JobState.PENDING
    lost = past.lost_seconds * MICROS
    # A job that is held is not in line. When earlier runs were is not known, only how long they took.
    waited_until = max(submitted, Instant(since - lost))
    waits = ((submitted, waited_until),) if holds else ((since, now),) if pending else ()
    runs = (Run(since, now),) if holds else ()
    job = Job(
        f"{row.namespace}/{row.name}",
        queue,
        submitted,
        sum(end - begin for begin, end in waits),
        STATES.get(row.state, row.state.lower()),
        since if holds else None,
        None,
        (row.reason or row.message) if pending else "",
        past.preempted,
        lost,
        {name: amount(name, quantity) for name, quantity in row.requests.items()} if lost else {},
        runs=runs,
        waits=tuple(one for one in waits if one[1] > one[0]),
        pending=pending,
        running=holds,
    )
    return job, [one for run in runs for one in held(row.requests, past.flavors, queue, known, run)]


def others_of(cluster: Iterable[Tree], jobs: Iterable[Job]) -> Iterator[Others]:
    """What ClusterQueues count besides these jobs."""
    running: dict[str, int] = {}
    pending: dict[str, int] = {}
    for job in jobs:
        running[job.queue] = running.get(job.queue, 0) + job.running
        pending[job.queue] = pending.get(job.queue, 0) + job.pending
    for tree in cluster:
        name = text(tree, "metadata", "name")
        more = Others(
            name,
            max(0, (whole(tree, "status", "reservingWorkloads") or 0) - running.get(name, 0)),
            max(0, (whole(tree, "status", "pendingWorkloads") or 0) - pending.get(name, 0)),
        )
        if more.running or more.pending:
            yield more
