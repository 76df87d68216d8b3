"""What does a workload ask for? Only where that is beyond doubt: plain templates, counted once more."""

from collections.abc import Iterable, Iterator

from pykueue.api.kueue import ClusterQueue
from pykueue.api.pods import Container, PodTemplate, TemplateError, decode_template
from pykueue.api.workload import PodSet, TopologyRequest, Workload
from pykueue.audit.tree import Slot, amount
from pykueue.base.units import amount_of


def asked(workload: Workload, queue: ClusterQueue) -> dict[str, int] | None:
    """The amount of each resource that all pod sets ask for, or None where it depends on more than their templates."""
    covered = covered_by(queue)
    done = {pods.name: pods.count for pods in workload.status.reclaimable_pods}
    wanted: dict[str, int] = {}
    for pod_set in workload.spec.pod_sets:
        each = each_pod(pod_set)
        if each is None or not each.keys() <= covered:
            return None
        count = pod_set.count - min(done.get(pod_set.name, 0), pod_set.count)
        if "pods" in covered:
            each["pods"] = 1
        for name, one in each.items():
            wanted[name] = wanted.get(name, 0) + one * count
    return wanted if said(workload) in ({}, without(wanted, "pods")) else None


def said(workload: Workload) -> dict[str, int]:
    """What the manager says the workload asks for; nothing where it has not said so."""
    total: dict[str, int] = {}
    for request in workload.status.resource_requests:
        for name, quantity in request.resources.items():
            total[name] = total.get(name, 0) + amount(name, quantity)
    return without(total, "pods")


def without(amounts: dict[str, int], resource: str) -> dict[str, int]:
    """The amounts that are not zero, but for one resource."""
    return {name: each for name, each in amounts.items() if name != resource and each}


def covered_by(queue: ClusterQueue) -> set[str]:
    """The resources for which a ClusterQueue has quota."""
    return {name for group in queue.spec.resource_groups for name in group.covered_resources}


def each_pod(pod_set: PodSet) -> dict[str, int] | None:
    """What one pod asks for, if nothing but its containers decides how much room it takes and where it may run."""
    try:
        template = decode_template(pod_set.template)
    except TemplateError:
        return None
    spec = template.spec
    odd = (
        spec.overhead
        or spec.runtime_class_name
        or spec.resources
        or spec.resource_claims
        or spec.node_selector
        or spec.affinity
        or any(container.restart_policy for container in spec.init_containers)
        or placed(pod_set.topology_request)
    )
    return None if odd else per_pod(template)


def placed(request: TopologyRequest | None) -> bool:
    """Whether it matters where the pods run; that they have an index, which Jobs of Kueue always say, does not."""
    return request is not None and bool(
        request.required
        or request.preferred
        or request.unconstrained
        or request.pod_set_group_name
        or request.pod_set_slice_required_topology
        or request.podset_slice_required_topology_constraints
    )


def per_pod(template: PodTemplate) -> dict[str, int]:
    """What one pod asks for: its containers together, or its largest init container where that is more."""
    together: dict[str, int] = {}
    for name, one in requests(template.spec.containers):
        together[name] = together.get(name, 0) + one
    for name, one in requests(template.spec.init_containers):
        together[name] = max(together.get(name, 0), one)
    return {name: each for name, each in together.items() if each}


def requests(containers: Iterable[Container]) -> Iterator[tuple[str, int]]:
    """Each container's requests; where it has only a limit, that is its request."""
    for container in containers:
        merged = {**container.resources.limits, **container.resources.requests}
        yield from ((name, max(0, amount_of(name, quantity))) for name, quantity in merged.items())


def first_slots(queue: ClusterQueue, wanted: dict[str, int]) -> dict[Slot, int]:
    """What these amounts take if each comes from the first flavor that the queue has for it."""
    return {
        (group.flavors[0].name, name): wanted[name]
        for group in queue.spec.resource_groups
        for name in group.covered_resources
        if wanted.get(name) and group.flavors
    }


def any_slots(queue: ClusterQueue, wanted: dict[str, int]) -> dict[Slot, int]:
    """What these amounts would take if each came from every flavor that the queue has for it."""
    return {
        (flavor.name, name): wanted[name]
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for name in group.covered_resources
        if wanted.get(name)
    }
