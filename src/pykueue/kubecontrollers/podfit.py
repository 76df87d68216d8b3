"""Whether a pod fits on a node: requests, placement and free resources, with the scheduler's messages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykueue.api.core import ObjectMeta, Taint, Toleration
from pykueue.api.pods import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    ResourceList,
    Resources,
    read_special,
    read_with,
)
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import amount_of
from pykueue.kubecontrollers.indexes import read_number

UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "NoSchedule", "")
KEEPS_OUT: Final = ("NoSchedule", "NoExecute")
POD_LEVEL: Final = ("cpu", "memory")
"""Resources that a pod as a whole may request, besides huge pages."""


class Blocked(Frozen):
    """Why a pod does not fit on a node."""

    reasons: tuple[str, ...]
    hopeless: bool = True
    """Whether it would not fit on the empty node either."""


class NodeSpec(Wire):
    """The part of a node's spec that is used here."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(Wire):
    """The resources of a node."""

    allocatable: ResourceList = msgspec.field(default_factory=ResourceList)
    capacity: ResourceList = msgspec.field(default_factory=ResourceList)


class NodeBody(Wire):
    """A Node in wire format."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Node(Frozen):
    """A node as the scheduler sees it."""

    name: str
    version: int = 0
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    amounts: Mapping[str, int] = {}
    """Its allocatable resources, including `pods`."""

    @property
    def metadata(self) -> ObjectMeta:
        """The part of its metadata that caches need."""
        return ObjectMeta(name=self.name, resource_version=str(self.version))


NODE: Final = msgspec.json.Decoder(NodeBody, dec_hook=read_special)


def read_node(raw: bytes) -> Node:
    """Decode a node."""
    body = read_with(NODE, raw)
    metadata, spec, status = body.metadata, body.spec, body.status
    given = status.allocatable or status.capacity
    return Node(
        metadata.name or "",
        int(metadata.resource_version or 0),
        metadata.labels,
        spec.taints,
        spec.unschedulable,
        {name: amount_of(name, quantity) for name, quantity in given.items()},
    )


def requested(spec: PodSpec) -> dict[str, int]:
    """What a pod requests: all containers together, or the peak during initialization, plus overhead."""
    running: dict[str, int] = {}
    for container in spec.containers:
        add(running, asked(container.resources))
    beside: dict[str, int] = {}
    """Requests of the sidecars started so far."""
    largest: dict[str, int] = {}
    for container in spec.init_containers:
        moment = dict(asked(container.resources))
        add(moment, beside)
        if container.is_sidecar():
            beside = moment
        for name, amount in moment.items():
            largest[name] = max(largest.get(name, 0), amount)
    add(running, beside)
    for name, amount in largest.items():
        running[name] = max(running.get(name, 0), amount)
    if spec.resources is not None:
        whole = asked(spec.resources)
        running |= {name: whole[name] for name in whole if name in POD_LEVEL or name.startswith("hugepages-")}
    add(running, {name: amount_of(name, quantity) for name, quantity in spec.overhead.items()})
    return {name: amount for name, amount in running.items() if amount}


def asked(resources: Resources) -> dict[str, int]:
    """The requests; a limit stands in for a missing request."""
    return {name: amount_of(name, quantity) for name, quantity in {**resources.limits, **resources.requests}.items()}


def add(total: dict[str, int], more: Mapping[str, int]) -> None:
    """Add amounts to others."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def blocked(spec: PodSpec, wanted: Mapping[str, int], node: Node, used: Mapping[str, int], pods: int) -> Blocked | None:
    """Why a pod does not fit on a node with this usage and number of pods; None if it fits."""
    if node.unschedulable and not tolerated(spec.tolerations, UNSCHEDULABLE):
        return Blocked(("node(s) were unschedulable",))
    if any(taint.effect in KEEPS_OUT and not tolerated(spec.tolerations, taint) for taint in node.taints):
        return Blocked(("node(s) had untolerated taint(s)",))
    if not wanted_there(spec, node):
        return Blocked(("node(s) didn't match Pod's node affinity/selector",))
    short = list(shortages(wanted, node, used, pods))
    if not short:
        return None
    return Blocked(tuple(reason for reason, _ in short), any(hopeless for _, hopeless in short))


def shortages(wanted: Mapping[str, int], node: Node, used: Mapping[str, int], pods: int) -> Iterator[tuple[str, bool]]:
    """Insufficient resources, and whether each would be insufficient on the empty node."""
    if pods + 1 > node.amounts.get("pods", 0):
        yield "Too many pods", False
    for name in sorted(wanted, key=resource_order):
        given = node.amounts.get(name, 0)
        if wanted[name] > given - used.get(name, 0):
            yield f"Insufficient {name}", wanted[name] > given


def resource_order(name: str) -> tuple[int, str]:
    """The order in which shortages are found."""
    first = ("cpu", "memory", "ephemeral-storage")
    return (first.index(name), name) if name in first else (len(first), name)


def tolerated(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether a taint is tolerated."""
    return any(tolerates(one, taint) for one in tolerations)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration matches a taint."""
    if toleration.effect not in (None, "", taint.effect) or toleration.key not in (None, "", taint.key):
        return False
    match toleration.operator:
        case None | "" | "Equal":
            return (toleration.value or "") == (taint.value or "")
        case "Exists":
            return True
        case _:
            return False


def wanted_there(spec: PodSpec, node: Node) -> bool:
    """Whether a pod's selector and required affinity allow a node."""
    if any(node.labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or any(term_holds(term, node) for term in required.node_selector_terms)


def term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether all requirements of a term hold; a term without any never holds."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(requirement_holds(one, node.labels) for one in term.match_expressions) and all(
        requirement_holds(one, fields) for one in term.match_fields
    )


def requirement_holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Whether labels, or fields, meet a requirement."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return compares(requirement, value)
        case _:
            return False


def compares(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    """Whether a label is an integer above, or below, the given one."""
    number = read_number(value or "")
    bound = read_number(requirement.values[0]) if len(requirement.values) == 1 else None
    if number is None or bound is None:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def message(found: Sequence[Blocked]) -> str:
    """Why a pod fits on none of the nodes, in the scheduler's words."""
    if not found:
        return "no nodes available to schedule pods"
    none = f"0/{len(found)} nodes are available:"
    counts = counted(reason for one in found for reason in one.reasons)
    victims = counted(
        "Preemption is not helpful for scheduling" if one.hopeless else "No preemption victims found for incoming pod"
        for one in found
    )
    return f"{none} {counts}. no new claims to deallocate, preemption: {none} {victims}."


def counted(reasons: Iterable[str]) -> str:
    """Reasons with their counts, in alphabetical order."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
