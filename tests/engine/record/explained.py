"""What do tests of explanations share? An engine that has settled, what is remembered of it, and its explanations."""

from typing import Any

from pykueue.base.steps import at_once
from pykueue.base.units import MICROS, Instant
from pykueue.engine.decisions import Decision
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Stopped, Synced, Written
from pykueue.engine.model import (
    ClusterQueue,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    Policy,
    Preemption,
    Quota,
    ResourceGroup,
    Selector,
    Thing,
    Workload,
)
from pykueue.engine.record.causes import QueueCauses, WorkloadCauses
from pykueue.engine.record.causetree import tree_of_queue, tree_of_workload
from pykueue.engine.record.nodes import Node
from pykueue.engine.record.queuecauses import of_local_queue, of_queue
from pykueue.engine.record.recent import Recent
from pykueue.engine.record.workloadcauses import of_workload

RECLAIM = Preemption(within_queue=Policy.LOWER, reclaim=Policy.ANY)


def queue(
    name: str, cpu: int, *, limit: int | None = None, flavors: tuple[str, ...] = ("default",), **spec: Any
) -> Any:
    """A ClusterQueue with this many cpu in each flavor."""
    return ClusterQueue(
        name,
        groups=(ResourceGroup(("cpu",), flavors),),
        quotas=tuple(Quota(one, "cpu", cpu * 1000, None if limit is None else limit * 1000) for one in flavors),
        **{"namespaces": Selector(), "preemption": RECLAIM, **spec},
    )


def lines(node: Node, depth: int = 0) -> list[str]:
    """A tree as it is printed."""
    return ["  " * depth + node.text, *(line for one in node.children for line in lines(one, depth + 1))]


class System:
    """An engine under a clock, whose decisions are carried out at once; evicted pods stop when told."""

    def __init__(self, *things: Thing, options: Options | None = None) -> None:
        self.engine = Engine(options)
        self.recent = Recent()
        self.now = Instant(1_800_000_000 * MICROS)
        self.see(Namespace("lab"), Flavor("default"), *things)
        for thing in things:
            if isinstance(thing, ClusterQueue):
                self.see(LocalQueue(f"lab/{thing.name}", thing.name))
        self.engine.observe(Synced())
        self.settle()

    def see(self, *things: Thing) -> None:
        for thing in things:
            self.engine.observe(Seen(thing))

    def settle(self) -> list[Decision]:
        """Decide until nothing is left to decide now."""
        decided: list[Decision] = []
        wake = self.engine.next_wake()
        while wake is not None and wake <= self.now:
            decided += self.decide()
            wake = self.engine.next_wake()
        return decided

    def decide(self) -> list[Decision]:
        """One round of decisions, carried out."""
        some = self.engine.decide(self.now)
        self.recent.note(self.engine, some)
        for one in some:
            self.engine.observe(Written(one.workload))
        return some

    def advance(self, seconds: int) -> None:
        self.now = Instant(self.now + seconds * MICROS)
        self.settle()

    def submit(self, name: str, queue: str, cpu: int = 1, *, pods: int = 1, pod: Any = None, **fields: Any) -> Workload:
        """A workload, a second after the one before."""
        self.advance(1)
        pod_set = PodSet("main", pods, (("cpu", cpu * 1000),), **(pod or {}))
        key = name if "/" in name else f"lab/{name}"
        made = Workload(
            key, f"uid-{name.rpartition('/')[2]}", f"lab/{queue}", self.now, **{"pod_sets": (pod_set,), **fields}
        )
        self.see(made)
        self.settle()
        return made

    def stop(self, name: str) -> None:
        """The pods of an evicted workload are gone."""
        self.engine.observe(Stopped(f"lab/{name}"))
        self.settle()

    def why(self, name: str) -> WorkloadCauses:
        found = at_once(of_workload(self.engine, f"lab/{name}", self.recent))
        assert found is not None
        return found

    def text(self, name: str) -> str:
        return "\n".join(lines(tree_of_workload(self.why(name))))

    def queue(self, name: str) -> QueueCauses:
        found = at_once(of_queue(self.engine, name))
        assert found is not None
        return found

    def local_queue(self, name: str) -> QueueCauses:
        found = at_once(of_local_queue(self.engine, f"lab/{name}"))
        assert found is not None
        return found

    def queue_text(self, name: str) -> str:
        return "\n".join(lines(tree_of_queue(self.queue(name))))
