"""What pods require of their nodes, and which templates are equivalent to the scheduler."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Toleration
from pykueue.api.pods import Container, PodSpec
from pykueue.base.struct import Frozen
from pykueue.base.units import Quantity, canonical

Requirement: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A label's key, an operator, and its values."""
Term: TypeAlias = tuple[Requirement, ...]
Tolerated: TypeAlias = tuple[str, str, str, str]
"""The key, operator, value and effect of a toleration."""

DIGITS: Final = 16


class Selection(Frozen):
    """What the pods require of their nodes, as plain tuples."""

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] = ()
    tolerations: tuple[Tolerated, ...] = ()


def selection(spec: PodSpec) -> Selection:
    """What the pods require of their nodes: labels, terms of which one must hold, and tolerated taints.

    Preferences and requirements on fields of a node do not choose a flavor, so they are left out. A term that holds
    nothing else is kept, empty: it requires nothing.
    """
    return Selection(
        node_selector=tuple(sorted(spec.node_selector.items())),
        affinity=required_terms(spec),
        tolerations=tuple(tolerated(one) for one in spec.tolerations),
    )


def tolerated(toleration: Toleration) -> Tolerated:
    """The toleration with Kubernetes' default operator, and empty texts for other absent fields."""
    operator = toleration.operator or "Equal"
    return (toleration.key or "", operator, toleration.value or "", toleration.effect or "")


def required_terms(spec: PodSpec) -> tuple[Term, ...]:
    """The terms of the required node affinity."""
    node_affinity = spec.affinity and spec.affinity.node_affinity
    required = node_affinity and node_affinity.required_during_scheduling_ignored_during_execution
    if not required:
        return ()
    return tuple(
        tuple((one.key, one.operator, one.values) for one in term.match_expressions)
        for term in required.node_selector_terms
    )


def shape_key(spec: PodSpec) -> str:
    """A short text that two pod specs share if the scheduler cannot distinguish their pods."""
    text = msgspec.json.encode(shape(spec), order="deterministic")
    return sha256(text).hexdigest()[:DIGITS]


def shape(spec: PodSpec) -> Mapping[str, object]:
    """The parts of a pod spec that a scheduler reads, as plain JSON values."""
    parts: dict[str, object] = {
        "initContainers": [container_shape(container) for container in spec.init_containers],
        "containers": [container_shape(container) for container in spec.containers],
        "nodeSelector": spec.node_selector,
        "affinity": spec.affinity,
        "tolerations": spec.tolerations,
        "runtimeClassName": spec.runtime_class_name,
        "priority": spec.priority,
        "topologySpreadConstraints": spec.topology_spread_constraints,
        "overhead": texts(spec.overhead),
        "resourceClaims": spec.resource_claims,
    }
    if spec.resources is not None:
        parts["resources"] = texts(spec.resources.requests)
    return parts


def container_shape(container: Container) -> Mapping[str, object]:
    """The parts of a container that a scheduler reads."""
    return {"requests": texts(container.resources.requests), "ports": container.ports}


def texts(quantities: Mapping[str, Quantity]) -> Mapping[str, str]:
    """The quantities in canonical spelling."""
    return {name: canonical(quantity) for name, quantity in quantities.items()}
