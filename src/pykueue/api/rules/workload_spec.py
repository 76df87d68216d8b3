"""The webhook's rules on a Workload's spec and annotations, and how both are read."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pykueue.api.fields import (
    IMMUTABLE,
    NEGATIVE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
)
from pykueue.api.labels import (
    annotations_errors,
    domain_path_errors,
    labels_errors,
    size_bytes,
)
from pykueue.api.names import Annotation
from pykueue.api.rules.rule import Context, Rule, webhook_rule
from pykueue.api.trees import Tree, amount, has, items, mapping, mappings, member, text, whole

AT_GATES: Final = f"metadata.annotations[{Annotation.ADMISSION_GATED_BY}]"
AT_BOOST: Final = f"metadata.annotations[{Annotation.PRIORITY_BOOST}]"
ONE_MIN_COUNT: Final = "at most one podSet can use minCount"
PARTIAL_OR_ELASTIC: Final = "partial admission and elastic job cannot be used together"
RESERVED_KEY: Final = "the key is reserved for internal kueue use"
SIZE_NEEDED: Final = "must be set when podSetSliceRequiredTopology is specified"
SIZE_ALONE: Final = "may not be set when podSetSliceRequiredTopology is not specified"
NOT_POSITIVE: Final = "must be greater than 0"
GATE_EMPTY: Final = "cannot contain empty gate names"
GATE_LATE: Final = "cannot add admission gate after creation"
GATE_ADDED: Final = "can only remove gates, not add new ones"
BOOST_NO_NUMBER: Final = "must be a valid signed integer"
RESERVED_RESOURCE: Final = "pods"
GATE_BYTES_MAX: Final = 63
AMOUNTS: Final = frozenset({"requests", "limits", "overhead", "resourceUsage", "allocatedResources"})
MAPS: Final = AMOUNTS | {"labels", "annotations", "nodeSelector", "matchLabels", "flavors", "metadata", "resources"}
"""Fields in which an empty object equals an absent one."""


def condition_true(tree: object, kind: str) -> bool:
    """Whether the object has this condition, and it is true."""
    conditions = mappings(tree, "status", "conditions")
    return any(text(one, "type") == kind and text(one, "status") == "True" for _, one in conditions)


def reserved(tree: object) -> bool:
    """Whether the workload holds quota."""
    return condition_true(tree, "QuotaReserved")


def annotation(tree: object, key: str) -> str:
    """The value of an annotation; empty where there is none."""
    return text(tree, "metadata", "annotations", key)


def elastic(tree: Tree, context: Context) -> bool:
    """Whether the workload may be resized while it runs."""
    return context.on("ElasticJobsViaWorkloadSlices") and annotation(tree, Annotation.ELASTIC_JOB) == "true"


def pod_sets(tree: object) -> dict[str, Tree]:
    """The pod sets, by name."""
    return {text(pod_set, "name"): pod_set for _, pod_set in mappings(tree, "spec", "podSets")}


def settled(node: object, key: str = "") -> object:
    """A node in normal form: empty entries dropped and quantities in one spelling, so that equal means equal."""
    if isinstance(node, Mapping):
        if key in AMOUNTS:
            return {name: settled_amount(value) for name, value in node.items()}
        inner = {name: settled(value, str(name)) for name, value in node.items()}
        return {name: value for name, value in inner.items() if not hollow(str(name), value)}
    return [settled(value) for value in node] if isinstance(node, list) else node


def settled_amount(value: object) -> object:
    """A quantity in normal form."""
    quantity = amount(value)
    return value if quantity is None else quantity.nanos


def hollow(key: str, value: object) -> bool:
    """Whether an entry equals its absence."""
    return value is None or value == [] or (value == {} and key in MAPS)


def named_apart(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Pod sets have distinct names."""
    seen: set[str] = set()
    for i, pod_set in mappings(new, "spec", "podSets"):
        name = text(pod_set, "name")
        if name in seen:
            yield duplicate(f"spec.podSets[{i}]", {"name": name})
        seen.add(name)


def few_min_counts(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """At most one pod set may be partial."""
    variable = sum(has(pod_set, "minCount") for _, pod_set in mappings(new, "spec", "podSets"))
    if variable > 1:
        yield invalid("spec.podSets", variable, ONE_MIN_COUNT)


def not_partial_and_elastic(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A workload is either partially admitted or elastic, not both."""
    variable = sum(has(pod_set, "minCount") for _, pod_set in mappings(new, "spec", "podSets"))
    if variable and elastic(new, context):
        yield invalid("spec.podSets", variable, PARTIAL_OR_ELASTIC)


def template_metadata(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Labels and annotations of the pods are valid."""
    for i, pod_set in mappings(new, "spec", "podSets"):
        metadata, path = mapping(pod_set, "template", "metadata"), f"spec.podSets[{i}].template.metadata"
        yield from labels_errors(member(metadata, "labels"), f"{path}.labels")
        yield from annotations_errors(member(metadata, "annotations"), f"{path}.annotations")


def pod_resources(tree: Tree) -> Iterator[tuple[str, str, object]]:
    """Every request and limit of the pods: (path, resource, value)."""
    for i, pod_set in mappings(tree, "spec", "podSets"):
        spec, path = mapping(pod_set, "template", "spec"), f"spec.podSets[{i}].template.spec"
        holders = [
            (f"{path}.{field}[{j}]", container)
            for field in ("initContainers", "containers")
            for j, container in mappings(spec, field)
        ]
        for where, holder in [*holders, (path, spec)]:
            for field in ("requests", "limits"):
                for name, value in sorted(mapping(holder, "resources", field).items()):
                    yield f"{where}.resources.{field}[{name}]", name, value


def pods_not_requested(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """`pods` is a resource that we add, so it may not be requested."""
    for path, name, _ in pod_resources(new):
        if name == RESERVED_RESOURCE:
            yield invalid(path, name, RESERVED_KEY)


def requests_not_negative(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Requests are not negative."""
    for path, _, value in pod_resources(new):
        quantity = amount(value)
        if quantity is not None and quantity.nanos < 0:
            yield invalid(path, str(quantity), NEGATIVE)


def topology_requests(tree: Tree) -> Iterator[tuple[str, Tree]]:
    """The topology request of each pod set, with its path."""
    for i, pod_set in mappings(tree, "spec", "podSets"):
        yield f"spec.podSets[{i}].topologyRequest", mapping(pod_set, "topologyRequest")


def slice_has_size(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A request for slices gives their size."""
    for path, request in topology_requests(new):
        if has(request, "podSetSliceRequiredTopology") and not has(request, "podSetSliceSize"):
            yield required(f"{path}.podSetSliceSize", SIZE_NEEDED)


def size_has_slice(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A slice size requires a request for slices."""
    for path, request in topology_requests(new):
        if has(request, "podSetSliceSize") and not has(request, "podSetSliceRequiredTopology"):
            yield forbidden(f"{path}.podSetSliceSize", SIZE_ALONE)


def slice_sizes(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A slice has at least one pod."""
    for path, request in topology_requests(new):
        sizes = [(f"{path}.podSetSliceSize", whole(request, "podSetSliceSize"))]
        constraints = "podsetSliceRequiredTopologyConstraints"
        sizes += [(f"{path}.{constraints}[{j}].size", whole(one, "size")) for j, one in mappings(request, constraints)]
        yield from (invalid(where, size, NOT_POSITIVE) for where, size in sizes if size is not None and size <= 0)


def gate_names(annotated: str) -> list[str]:
    """The gates that an annotation lists, trimmed."""
    return [name.strip() for name in annotated.split(",")] if annotated else []


def gates_not_empty(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Gate names are not empty."""
    annotated = annotation(new, Annotation.ADMISSION_GATED_BY)
    if "" in gate_names(annotated):
        yield invalid(AT_GATES, annotated, GATE_EMPTY)


def gates_once(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Gate names are unique."""
    annotated = annotation(new, Annotation.ADMISSION_GATED_BY)
    names = gate_names(annotated)
    for index, name in enumerate(names):
        if name and name in names[:index]:
            yield invalid(AT_GATES, annotated, f"duplicate gate name: {name}")


def gates_well_formed(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A gate's name is a short domain-prefixed path."""
    for name in dict.fromkeys(gate_names(annotation(new, Annotation.ADMISSION_GATED_BY))):
        if name:
            yield from domain_path_errors(name, AT_GATES)
            if size_bytes(name) > GATE_BYTES_MAX:
                yield too_long(AT_GATES, GATE_BYTES_MAX)


def gates_not_added_late(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Gates are not added after creation."""
    if annotation(new, Annotation.ADMISSION_GATED_BY) and not annotation(old, Annotation.ADMISSION_GATED_BY):
        yield forbidden(AT_GATES, GATE_LATE)


def gates_only_removed(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Gates are only removed."""
    before, now = (
        gate_names(annotation(old, Annotation.ADMISSION_GATED_BY)),
        gate_names(annotation(new, Annotation.ADMISSION_GATED_BY)),
    )
    if before and any(name not in before for name in now):
        yield forbidden(AT_GATES, GATE_ADDED)


def boost_not_empty(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The boost is not empty; no boost is written as 0."""
    if member(new, "metadata", "annotations", Annotation.PRIORITY_BOOST) == "":
        yield invalid(AT_BOOST, "", BOOST_EMPTY)


def boost_is_number(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The boost is a 32-bit integer."""
    boost = annotation(new, Annotation.PRIORITY_BOOST)
    digits = re.fullmatch(r"[+-]?0*([0-9]{1,10})", boost, re.ASCII)
    if boost and not (digits and -(2**31) <= int(digits[1]) * (-1 if boost[0] == "-" else 1) < 2**31):
        yield invalid(AT_BOOST, boost, BOOST_NO_NUMBER)


def pod_sets_fixed(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Pod sets are immutable while quota is reserved; only an elastic workload may give pods back."""
    if not reserved(old):
        return
    now, before = items(new, "spec", "podSets"), items(old, "spec", "podSets")
    if len(now) != len(before):
        yield invalid("spec.podSets", now, IMMUTABLE)
        return
    for i, (pod_set, was) in enumerate(zip(now, before, strict=True)):
        fewer = (whole(pod_set, "count") or 0) < (whole(was, "count") or 0)
        pinned: object = pod_set
        if fewer and isinstance(pod_set, Mapping) and context.on("ElasticJobsViaWorkloadSlices"):
            pinned = {**pod_set, "count": member(was, "count")}
        if settled(pinned) != settled(was):
            yield invalid(f"spec.podSets.{i}", pod_set, IMMUTABLE)


POD_SETS: Final = "spec.podSets"
TR: Final = "spec.podSets[].topologyRequest"
SLICE_SIZE: Final = f"{TR}.podSetSliceSize"
CONSTRAINT_SIZE: Final = f"{TR}.podsetSliceRequiredTopologyConstraints[].size"
METADATA: Final = ("spec.podSets[].template.metadata.labels", "spec.podSets[].template.metadata.annotations")
RESOURCES: Final = tuple(
    f"spec.podSets[].template.spec.{holder}resources.{field}"
    for holder in ("initContainers[].", "containers[].", "")
    for field in ("requests", "limits")
)
BOOST_EMPTY: Final = 'must be a valid signed integer; use "0" explicitly, empty string is not allowed'
SIZES: Final = "TASValidateWorkloadSliceSize"
GATED: Final = "AdmissionGatedBy"

SPEC: Final[tuple[Rule, ...]] = (
    webhook_rule("WL-1", POD_SETS, ONE_MIN_COUNT, few_min_counts),
    webhook_rule(
        "WL-2",
        POD_SETS,
        PARTIAL_OR_ELASTIC,
        not_partial_and_elastic,
        gate="ElasticJobsViaWorkloadSlices",
    ),
    webhook_rule("WL-3", METADATA, "", template_metadata, gate="WorkloadValidationForPodSetMetadata"),
    webhook_rule("WL-4", RESOURCES, RESERVED_KEY, pods_not_requested),
    webhook_rule("WL-5", RESOURCES, NEGATIVE, requests_not_negative, gate="WorkloadValidateResourcesAreNonNegative"),
    webhook_rule("WL-6", SLICE_SIZE, SIZE_NEEDED, slice_has_size, gate=SIZES),
    webhook_rule(
        "WL-7",
        SLICE_SIZE,
        SIZE_ALONE,
        size_has_slice,
        gate=SIZES,
    ),
    webhook_rule("WL-8", (SLICE_SIZE, CONSTRAINT_SIZE), NOT_POSITIVE, slice_sizes, gate=SIZES),
    webhook_rule("WL-9", AT_GATES, GATE_EMPTY, gates_not_empty, gate=GATED),
    webhook_rule("WL-10", AT_GATES, "duplicate gate name: %s", gates_once, gate=GATED),
    webhook_rule("WL-11", AT_GATES, "", gates_well_formed, gate=GATED),
    webhook_rule(
        "WL-12",
        AT_GATES,
        GATE_LATE,
        gates_not_added_late,
        on=("update",),
        gate=GATED,
    ),
    webhook_rule("WL-13", AT_GATES, GATE_ADDED, gates_only_removed, on=("update",), gate=GATED),
    webhook_rule("WL-14", AT_BOOST, BOOST_EMPTY, boost_not_empty, gate="PriorityBoost"),
    webhook_rule("WL-15", AT_BOOST, BOOST_NO_NUMBER, boost_is_number, gate="PriorityBoost"),
    webhook_rule("WL-16", "spec.podSets[]", IMMUTABLE, pod_sets_fixed, on=("update",)),
    webhook_rule(
        "WL-30", "spec.podSets[].name", "", named_apart, differs="In Kueue the schema sees to it, as a list key."
    ),
)
