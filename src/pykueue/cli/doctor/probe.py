"""Ask the engine what-if questions about queues without workloads: how much can one have, could this one ever start?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from msgspec.structs import replace

from pykueue.base.units import UNLIMITED, Instant
from pykueue.engine import model
from pykueue.engine.decisions import OverCapacity, Unassigned, Wait, WaitReason, Why
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Gone, Seen, Synced

NOW: Final = Instant(1)
PLACE: Final = "pykueue-doctor"
"""The namespace of probes, and of their LocalQueues."""


def engine_of(things: Iterable[model.Thing], options: model.Options | None = None) -> Engine:
    """An engine that has seen these things."""
    engine = Engine(options)
    for thing in things:
        engine.observe(Seen(thing))
    engine.observe(Synced())
    return engine


def wait_of(engine: Engine, workload: model.Workload) -> tuple[WaitReason, Why] | None:
    """Why this workload waits if it is alone in the cluster; None if it starts or nothing is decided."""
    engine.observe(Seen(workload))
    decisions = engine.decide(NOW)
    engine.observe(Gone("Workload", workload.key))
    engine.decide(NOW)
    found = [one for one in decisions if isinstance(one, Wait) and one.workload == workload.key]
    return (found[-1].reason, found[-1].why) if found else None


def capacities(things: Sequence[model.Thing]) -> dict[tuple[str, str, str], int]:
    """The most of each flavor and resource that each ClusterQueue can ever have, its own or borrowed.

    Stopped queues, checks and selectors do not count: only quotas, limits and cohorts do.
    """
    queues = [
        replace(one, stop=model.StopPolicy.NONE, checks=(), namespaces=model.Selector(), unbuilt="", terminating=False)
        for one in things
        if isinstance(one, model.ClusterQueue)
    ]
    flavors = {flavor for queue in queues for group in queue.groups for flavor in group.flavors}
    engine = engine_of(
        (
            model.Namespace(PLACE),
            *(model.Flavor(name) for name in sorted(flavors)),
            *(one for one in things if isinstance(one, model.Cohort)),
            *queues,
            *(model.LocalQueue(f"{PLACE}/{one.name}", one.name) for one in queues),
        )
    )
    found = {
        (queue.name, flavor, resource): UNLIMITED
        for queue in queues
        for group in queue.groups
        for flavor in group.flavors
        for resource in group.resources
    }
    covered = {queue.name: [name for group in queue.groups for name in group.resources] for queue in queues}
    # One cycle answers for one resource of every queue.
    for asked in zip_longest(*covered.values()):
        for queue, one in over_capacity(engine, dict(zip(covered, asked, strict=True))):
            found[queue, one.flavor, one.resource] = one.capacity
    return found


def over_capacity(engine: Engine, asked: Mapping[str, str | None]) -> Iterator[tuple[str, OverCapacity]]:
    """Why a request for more of a resource than there can be does not fit into its queue, flavor by flavor."""
    probes = {f"{PLACE}/{queue}": (queue, resource) for queue, resource in asked.items() if resource is not None}
    for key, (queue, resource) in probes.items():
        pods = model.PodSet("main", 1, ((resource, UNLIMITED),))
        engine.observe(Seen(model.Workload(key, key, f"{PLACE}/{queue}", NOW, (pods,))))
    decisions = engine.decide(NOW)
    for key in probes:
        engine.observe(Gone("Workload", key))
    engine.decide(NOW)
    for decision in decisions:
        if isinstance(decision, Wait) and isinstance(decision.why, Unassigned):
            queue, resource = probes[decision.workload]
            for pod_set in decision.why.pod_sets:
                for one in pod_set.obstacles:
                    if isinstance(one, OverCapacity) and one.resource == resource:
                        yield queue, one
