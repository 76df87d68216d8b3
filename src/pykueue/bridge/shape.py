"""Where may the pods of a template run, which templates does the scheduler find alike, and what is not built yet?"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Toleration
from pykueue.api.names import Annotation
from pykueue.api.pods import Container, PodSpec, PodTemplate
from pykueue.base.struct import Frozen
from pykueue.base.units import Quantity, canonical

Requirement: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A label's key, an operator, and the values it compares with."""
Term: TypeAlias = tuple[Requirement, ...]
Tolerated: TypeAlias = tuple[str, str, str, str]
"""The key, operator, value and effect of a toleration."""

DIGITS: Final = 16
TOPOLOGY_ANNOTATIONS: Final = (
    Annotation.REQUIRED_TOPOLOGY,
    Annotation.PREFERRED_TOPOLOGY,
    Annotation.UNCONSTRAINED_TOPOLOGY,
    Annotation.SLICE_REQUIRED_TOPOLOGY,
    Annotation.SLICE_SIZE,
    Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
    Annotation.POD_SET_GROUP,
)


class Selection(Frozen):
    """What the pods require of their nodes, in plain tuples."""

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] = ()
    tolerations: tuple[Tolerated, ...] = ()


def selection(spec: PodSpec) -> Selection:
    """What the pods require of their nodes: labels, terms of which one must hold, and the taints they put up with.

    Preferences and conditions on the fields of a node do not choose a flavor, so they are left out. A term that held
    nothing else is kept, empty: it requires nothing.
    """
    return Selection(
        node_selector=tuple(sorted(spec.node_selector.items())),
        affinity=required_terms(spec),
        tolerations=tuple(tolerated(one) for one in spec.tolerations),
    )


def tolerated(toleration: Toleration) -> Tolerated:
    """The toleration with the operator that Kubernetes assumes where none is given, and empty texts for the rest."""
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
    """A short text that two pod specs share if the scheduler cannot tell their pods apart."""
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
    """The quantities in their one spelling."""
    return {name: canonical(quantity) for name, quantity in quantities.items()}


def unsupported(template: PodTemplate) -> tuple[str, ...]:
    """A sentence for each thing the template asks for that is not built yet, with its path."""
    return (*unsupported_annotations(template.metadata.annotations, "template.metadata.annotations"), *claims(template))


def unsupported_annotations(annotations: Mapping[str, str], path: str) -> tuple[str, ...]:
    """A sentence for each of these annotations, of a template, a Workload or a job, that asks for what is not built."""
    topology = tuple(
        f"{path}[{name}]: topology-aware scheduling is not supported yet; remove the annotation"
        for name in TOPOLOGY_ANNOTATIONS
        if name in annotations
    )
    if annotations.get(Annotation.ELASTIC_JOB) != "true":
        return topology
    return (*topology, f"{path}[{Annotation.ELASTIC_JOB}]: elastic jobs are not supported yet; remove the annotation")


def claims(template: PodTemplate) -> Iterator[str]:
    """A sentence for each place in the template that claims devices by dynamic resource allocation."""
    advice = "dynamic resource allocation is not supported yet; request the device as an extended resource instead"
    if template.spec.resource_claims:
        yield f"template.spec.resourceClaims: {advice}"
    for kind, containers in (
        ("initContainers", template.spec.init_containers),
        ("containers", template.spec.containers),
    ):
        for index, container in enumerate(containers):
            if container.resources.claims:
                yield f"template.spec.{kind}[{index}].resources.claims: {advice}"
