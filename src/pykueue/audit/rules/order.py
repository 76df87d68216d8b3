"""Workloads do not overtake: those of higher priority get quota first, then those that have waited longer.

An observer does not know what the manager had seen when it decided, so a workload counts as overtaken only after it was
certainly eligible for a while, while one manager ran without interruption. In a StrictFIFO queue, one admission behind
it is enough, if it is still pending a while later. A BestEffortFIFO queue retries what did not fit only when something
changes, so there it takes several admissions over a while, each of at least as much as it requests.
"""

from collections.abc import Iterator
from typing import Final

from pykueue.api.kueue import ClusterQueue
from pykueue.api.names import Annotation
from pykueue.api.workload import Workload
from pykueue.audit.requests import asked
from pykueue.audit.rules.look import Look, single_flavor
from pykueue.audit.rules.overuse import Overuse, reservation
from pykueue.audit.rules.preemption import Preemption, oldest, youngest
from pykueue.audit.times import MICROS, Instant
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import holds, waiting
from pykueue.audit.world import Change, Finding, Settings, World

RULE: Final = "order"
STRICT: Final = "StrictFIFO"
OVERTAKEN_MAX: Final = 2
"""How often a workload of a BestEffortFIFO queue may be overtaken by chance."""


class Order:
    """The rule that no workload is overtaken by one behind it."""

    def __init__(self, settings: Settings, uptime: Uptime, overuse: Overuse, preemption: Preemption) -> None:
        self.settings, self.uptime, self.overuse, self.preemption = settings, uptime, overuse, preemption
        self.lag_micros = settings.lag_seconds * MICROS
        self.eligible_since: dict[str, Instant] = {}
        """Since when each pending workload, by key, could have been admitted as far as its queue is concerned."""
        self.overtaken: dict[str, list[tuple[Instant, str]]] = {}
        """For each of them, when it was overtaken and by whom."""
        self.reported: set[str] = set()

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Nothing at once; records who is overtaken by a new reservation."""
        old, new = change.of(Workload) or (None, None)
        if change.kind != "Workload":
            return
        if new is None or not waiting(new) or (old is not None and old.spec != new.spec):
            self.forget(change.key)
        if new is None or change.listed or old is None or old.spec != new.spec:
            return
        if holds(new, "QuotaReserved") and not holds(old, "QuotaReserved") and new.status.admission is not None:
            # The preemptor of a BestEffortFIFO queue stays ahead of all others until it has what it preempted for.
            uid = new.metadata.uid or ""
            if uid not in self.preemption.preemptors and Annotation.PRIORITY_BOOST not in new.metadata.annotations:
                self.note(change, world, new)
        yield from ()

    def forget(self, key: str) -> None:
        """Forget a workload that is no longer pending, or not as it was."""
        self.eligible_since.pop(key, None)
        self.overtaken.pop(key, None)
        self.reported.discard(key)

    def note(self, change: Change, world: World, admitted: Workload) -> None:
        """Record whom a workload overtakes by its reservation."""
        assert admitted.status.admission is not None, "only a workload with an admission overtakes"
        queue = world.queues.get(admitted.status.admission.cluster_queue or "")
        if queue is None:
            return
        took: dict[str, int] = {}
        for (_, resource), amount in reservation(admitted).items():
            took[resource] = took.get(resource, 0) + amount
        for key, since in self.eligible_since.items():
            workload = world.workloads[key]
            if (
                change.at - since >= self.lag_micros
                and world.queue_name_of(workload) == queue.name
                and is_ahead(workload, admitted)
                and self.takes_no_more(workload, queue, took)
                and self.eligible(Look(self.settings, self.overuse, world, change.at, self.uptime), workload)
            ):
                self.overtaken.setdefault(key, []).append((change.at, change.key))

    def takes_no_more(self, workload: Workload, queue: ClusterQueue, took: dict[str, int]) -> bool:
        """Whether a workload would have fitted instead of one that took this much; in a strict queue, it need not."""
        if queue.spec.queueing_strategy == STRICT:
            return True
        wanted = asked(workload, queue, self.settings)
        return single_flavor(queue) and all(need <= took.get(name, 0) for name, need in (wanted or {"": 1}).items())

    def eligible(self, look: Look, workload: Workload) -> bool:
        """Whether nothing but its queue's order and quota keeps a workload from being admitted."""
        world, at = look.world, look.at
        name = world.queue_name_of(workload)
        queue = world.queues.get(name)
        if queue is None or not waiting(workload) or look.kept_out(workload) or not look.serves(queue, workload):
            return False
        scope = queue.spec.admission_scope
        flavors = [flavor.name for group in queue.spec.resource_groups for flavor in group.flavors]
        quiet = [
            ("LocalQueue", f"{workload.namespace}/{workload.spec.queue_name or ''}"),
            ("ClusterQueue", name),
            ("Namespace", workload.namespace),
            *(("ResourceFlavor", flavor) for flavor in flavors),
        ]
        return (
            (scope is None or scope.admission_mode in ("", "NoAdmissionFairSharing"))
            and bool(asked(workload, queue, self.settings))
            and all(world.quiet(kind, key, at, self.lag_micros) for kind, key in quiet)
        )

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Workloads that were overtaken."""
        look = Look(self.settings, self.overuse, world, at, self.uptime)
        eligible = [key for key, workload in world.workloads.items() if self.eligible(look, workload)]
        self.eligible_since = {key: self.eligible_since.get(key, at) for key in eligible}
        for key in [key for key in self.overtaken if key not in self.eligible_since]:
            self.forget(key)
        for key, times in self.overtaken.items():
            workload = world.workloads[key]
            queue = world.queues[world.queue_name_of(workload)]
            first, last = times[0], times[-1]
            if key in self.reported or not self.uptime.steady(first[0] - self.lag_micros, at):
                continue
            if queue.spec.queueing_strategy == STRICT:
                certain = at - first[0] >= self.lag_micros + self.uptime.notice_micros
            else:
                certain = len(times) > OVERTAKEN_MAX and last[0] - first[0] >= self.lag_micros
            if certain:
                self.reported.add(key)
                message = f"is still pending in ClusterQueue {queue.name}, but {last[1]}, which is behind it, got quota"
                more = f", and {len(times) - 1} others before" if len(times) > 1 else ""
                yield Finding(RULE, f"Workload {key}", message + more, world.version, at)


def is_ahead(one: Workload, other: Workload) -> bool:
    """Whether one workload certainly comes before the other, by any of their timestamps."""
    ours, theirs = one.spec.priority or 0, other.spec.priority or 0
    return ours > theirs or (ours == theirs and youngest(one) < oldest(other))
