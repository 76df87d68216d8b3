"""What a workload requests, recounted from its templates; None wherever that is not certain.

It counts in fractions, and shares no code with the manager.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from math import prod
from typing import Final

from pykueue.api.kueue import ClusterQueue
from pykueue.api.workload import PodSet, TopologyRequest, Workload
from pykueue.audit.quantities import amount, number, whole
from pykueue.audit.templates import Container, PodSpec, pod_spec
from pykueue.audit.tree import Slot
from pykueue.audit.world import Settings

PLACEMENTS_MAX: Final = 64
"""How many ways to choose flavors are looked at."""


def asked(workload: Workload, queue: ClusterQueue, settings: Settings) -> dict[str, int] | None:
    """The amount of each resource that all pod sets request, or None if it depends on more than their templates."""
    covered = covered_by(queue)
    done = {pods.name: pods.count for pods in workload.status.reclaimable_pods}
    wanted: dict[str, int] = {}
    for pod_set in workload.spec.pod_sets:
        each = None if is_choosy(pod_set) else each_pod(pod_set, settings)
        if each is None or not each.keys() <= covered:
            return None
        count = pod_set.count - min(done.get(pod_set.name, 0), pod_set.count)
        if "pods" in covered:
            each["pods"] = 1
        for name, one in each.items():
            wanted[name] = wanted.get(name, 0) + one * count
    return wanted if listed(workload) in ({}, without(wanted, "pods")) else None


def listed(workload: Workload) -> dict[str, int]:
    """What the status says that the workload requests; empty if it does not."""
    total: dict[str, int] = {}
    for request in workload.status.resource_requests:
        for name, quantity in request.resources.items():
            total[name] = total.get(name, 0) + amount(name, quantity)
    return without(total, "pods")


def without(amounts: dict[str, int], resource: str) -> dict[str, int]:
    """The amounts that are not zero, without one resource."""
    return {name: each for name, each in amounts.items() if name != resource and each}


def covered_by(queue: ClusterQueue) -> set[str]:
    """The resources for which a ClusterQueue has quota."""
    return {name for group in queue.spec.resource_groups for name in group.covered_resources}


def each_pod(pod_set: PodSet, settings: Settings) -> dict[str, int] | None:
    """What one pod requests, or None if its template and the settings do not determine it."""
    spec = pod_spec(pod_set.template)
    if spec is None or spec.runtime_class_name or spec.resource_claims or spec.resources.limits:
        return None
    try:
        asked = charged(whole_pod(spec), settings)
    except NotAQuantityError:
        return None
    return {name: amount for name, amount in asked.items() if amount}


def is_choosy(pod_set: PodSet) -> bool:
    """Whether the pods may run only on some nodes, as far as their template can be read."""
    spec = pod_spec(pod_set.template)
    return spec is None or bool(spec.node_selector or spec.affinity) or placed(pod_set.topology_request)


def placed(request: TopologyRequest | None) -> bool:
    """Whether the placement of the pods matters; a pod index, which Jobs of Kueue always have, does not."""
    return request is not None and bool(
        request.required
        or request.preferred
        or request.unconstrained
        or request.pod_set_group_name
        or request.pod_set_slice_required_topology
        or request.podset_slice_required_topology_constraints
    )


def whole_pod(spec: PodSpec) -> dict[str, Fraction]:
    """The most that a pod requests at any moment of its life.

    That is each init container alone with the sidecars before it, then all containers with all sidecars; or the
    pod-level request, if that is more; and its overhead.
    """
    moments: list[list[Container]] = []
    sidecars: list[Container] = []
    for container in spec.init_containers:
        moments.append([*sidecars, container])
        if container.restart_policy == "Always":
            sidecars.append(container)
    moments.append([*sidecars, *spec.containers])
    most: dict[str, Fraction] = {}
    for together in moments:
        for name, total in totals(requests(together)).items():
            most[name] = max(total, most.get(name, total))
    for name, quantity in spec.resources.requests.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            most[name] = max(exact(quantity), most.get(name, exact(quantity)))
    return totals([*most.items(), *((name, exact(quantity)) for name, quantity in spec.overhead.items())])


def requests(containers: Iterable[Container]) -> Iterator[tuple[str, Fraction]]:
    """Each container's requests; a limit without a request is the request."""
    for container in containers:
        merged = {**container.resources.limits, **container.resources.requests}
        yield from ((name, exact(quantity)) for name, quantity in merged.items())


def totals(parts: Iterable[tuple[str, Fraction]]) -> dict[str, Fraction]:
    """The sum for each name."""
    found: dict[str, Fraction] = {}
    for name, part in parts:
        found[name] = found.get(name, Fraction(0)) + part
    return found


class NotAQuantityError(ValueError):
    """A request is not a quantity."""


def exact(quantity: str | int | float) -> Fraction:
    """A quantity as a number; raises `NotAQuantityError`."""
    found = number(str(quantity))
    if found is None:
        raise NotAQuantityError(f"{quantity!r} is not a quantity")
    return found


def charged(asked: dict[str, Fraction], settings: Settings) -> dict[str, int]:
    """What is charged for these requests: transformed, then without excluded resources."""
    rules = {rule.input: rule for rule in settings.transformations}
    direct = {name: one for name, one in asked.items() if name not in rules or rules[name].strategy == "Retain"}
    made = totals(
        (output, one * asked.get(rules[name].multiply_by, Fraction(1)) * exact(factor))
        for name, one in asked.items()
        if name in rules
        for output, factor in rules[name].outputs.items()
    )
    sums = totals([*direct.items(), *((name, max(Fraction(0), one)) for name, one in made.items())])
    return {
        name: max(0, whole(name, one))
        for name, one in sums.items()
        if not any(name.startswith(prefix) for prefix in settings.exclude_prefixes)
    }


def first_slots(queue: ClusterQueue, wanted: dict[str, int]) -> dict[Slot, int]:
    """What these amounts take if each comes from the queue's first flavor for it."""
    return {
        (group.flavors[0].name, name): wanted[name]
        for group in queue.spec.resource_groups
        for name in group.covered_resources
        if wanted.get(name) and group.flavors
    }


def any_slots(queue: ClusterQueue, wanted: dict[str, int]) -> dict[Slot, int]:
    """What these amounts take if each comes from all of the queue's flavors for it."""
    return {
        (flavor.name, name): wanted[name]
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for name in group.covered_resources
        if wanted.get(name)
    }


def placements(queue: ClusterQueue, wanted: dict[str, int], pod_sets: int) -> list[dict[Slot, int]]:
    """All that these amounts may take, one flavor for each resource group; empty if there are too many ways.

    With several flavors, several pod sets may get different ones, which are too many ways as well.
    """
    groups = [
        (group.flavors, [name for name in group.covered_resources if wanted.get(name)])
        for group in queue.spec.resource_groups
    ]
    used = [(flavors, names) for flavors, names in groups if names and flavors]
    ways = prod(len(flavors) for flavors, _ in used)
    if ways > PLACEMENTS_MAX or (ways > 1 and pod_sets > 1):
        return []
    return [
        {(flavor.name, name): wanted[name] for flavor, (_, names) in zip(chosen, used, strict=True) for name in names}
        for chosen in product(*(flavors for flavors, _ in used))
    ]
