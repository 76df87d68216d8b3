"""Convert trees between v1beta1 and v1beta2.

Only fields that differ between the versions are touched, so unknown fields survive. What the other version cannot
express is dropped silently, as in Kueue; each function names it. A part of the wrong shape is left unchanged for the
schema to report.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Tree
from pykueue.api.fields import FieldError, not_supported
from pykueue.api.names import GROUP
from pykueue.api.topology import AssignmentError, Domain, pack, unpack
from pykueue.api.trees import member, nodes
from pykueue.api.workload import TopologyAssignment

V1BETA1: Final = f"{GROUP}/v1beta1"
V1BETA2: Final = f"{GROUP}/v1beta2"

Change: TypeAlias = Callable[[Tree], None]
"""Alters an object in place. The object is a shallow copy: nested parts must not be altered."""

WORKLOAD_CLASS: Final = "kueue.x-k8s.io/workloadpriorityclass"
SOURCES: Final = {
    WORKLOAD_CLASS: ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
SOURCE_OF: Final = {pair: source for source, pair in SOURCES.items()}


def to_v1beta2(tree: Tree) -> Tree:
    """The object in v1beta2; returned unchanged if it is not in an older version of Kueue's group."""
    return converted(tree, V1BETA1, V1BETA2, UPWARD)


def to_v1beta1(tree: Tree) -> Tree:
    """The object in v1beta1; returned unchanged if it is not in a newer version of Kueue's group."""
    return converted(tree, V1BETA2, V1BETA1, DOWNWARD)


def converted(tree: Tree, source: str, target: str, changes: Mapping[str, Mapping[str, Change]]) -> Tree:
    """The tree with its version replaced and the changes of its kind applied."""
    if tree.get("apiVersion") != source:
        return tree
    result: Tree = {**tree, "apiVersion": target}
    kind = tree.get("kind")
    for path, change in changes.get(kind, {}).items() if isinstance(kind, str) else ():
        result = at(result, path.split("."), change)
    return result


def at(tree: Tree, path: list[str], change: Change) -> Tree:
    """A copy of the tree, changed at this path if it exists; `x[]` means each item of x."""
    copy = dict(tree)
    if not path:
        change(copy)
        return copy
    name, rest = path[0].removesuffix("[]"), path[1:]
    inner = copy.get(name)
    if path[0].endswith("[]"):
        if isinstance(inner, list):
            copy[name] = [at(item, rest, change) if isinstance(item, dict) else item for item in inner]
    elif isinstance(inner, dict):
        copy[name] = at(inner, rest, change)
    return copy


def rename(old: str, new: str) -> Change:
    """Moves a field to another name; an empty text counts as absent."""

    def change(node: Tree) -> None:
        value = node.pop(old, None)
        if value is not None and value != "":
            node[new] = value

    return change


def drop(*names: str) -> Change:
    """Drops fields that the other version does not have."""

    def change(node: Tree) -> None:
        for name in names:
            node.pop(name, None)

    return change


def both(first: Change, second: Change) -> Change:
    """Apply one change after the other."""

    def change(node: Tree) -> None:
        first(node)
        second(node)

    return change


def gather_checks(spec: Tree) -> None:
    """Names under `admissionChecks` replace the strategy, as checks for all flavors."""
    names = spec.pop("admissionChecks", None)
    if isinstance(names, list) and names:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in names]}


def modernize_fungibility(node: Tree) -> None:
    """Replace the old names of `MayStopSearch`; the conversion back does not restore them."""
    for name, old in (("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")):
        if node.get(name) == old:
            node[name] = "MayStopSearch"


def refer_to_class(spec: Tree) -> None:
    """Refer to a class by reference. Without a source the kind is unknown, and the name is lost."""
    name, source = spec.pop("priorityClassName", None), spec.pop("priorityClassSource", None)
    if not isinstance(source, str) or source not in SOURCES:
        return
    group, kind = SOURCES[source]
    ref: Tree = {"group": group, "kind": kind}
    if name:
        ref["name"] = name
    spec["priorityClassRef"] = ref


def name_class(spec: Tree) -> None:
    """Name a class and its source. A reference to anything but the two kinds of class is lost."""
    ref = spec.pop("priorityClassRef", None)
    if not isinstance(ref, dict):
        return
    group, kind, name = ref.get("group"), ref.get("kind"), ref.get("name")
    source = SOURCE_OF.get((group, kind)) if isinstance(group, str) and isinstance(kind, str) else None
    if source is None:
        return
    spec["priorityClassSource"] = source
    if name:
        spec["priorityClassName"] = name


def pack_domains(assignment: Tree) -> None:
    """Pack domains into slices."""
    try:
        levels = msgspec.convert(assignment.get("levels"), tuple[str, ...])
        domains = msgspec.convert(assignment.get("domains"), tuple[Domain, ...])
        packed = pack(levels, domains)
    except (msgspec.ValidationError, AssignmentError):
        return
    del assignment["domains"]
    assignment["slices"] = msgspec.json.decode(msgspec.json.encode(packed.slices))


def unpack_slices(assignment: Tree) -> None:
    """Unpack slices into domains; the division into slices is lost."""
    try:
        domains = unpack(msgspec.convert(assignment, TopologyAssignment))
    except (msgspec.ValidationError, AssignmentError):
        return
    del assignment["slices"]
    assignment["domains"] = [{"values": list(domain.values), "count": domain.count} for domain in domains]


def gather_source(spec: Tree) -> None:
    """Move the ways to reach a cluster under `clusterSource`; a kubeconfig without a location counts as absent."""
    if "kubeConfig" not in spec and "clusterProfileRef" not in spec:
        return
    kept = spec.get("clusterSource")
    source: Tree = dict(kept) if isinstance(kept, dict) else {}
    config, profile = spec.pop("kubeConfig", None), spec.pop("clusterProfileRef", None)
    if config is not None and (not isinstance(config, dict) or config.get("location", "") != ""):
        source["kubeConfig"] = config
    if profile is not None:
        source["clusterProfileRef"] = profile
    spec["clusterSource"] = source


def scatter_source(spec: Tree) -> None:
    """Move the ways to reach a cluster under `spec`, where a kubeconfig is required, empty if necessary."""
    source = spec.get("clusterSource")
    if not isinstance(source, dict):
        return
    left = dict(source)
    spec["kubeConfig"] = left.pop("kubeConfig", None) or {"location": ""}
    profile = left.pop("clusterProfileRef", None)
    if profile is not None:
        spec["clusterProfileRef"] = profile
    if left:
        spec["clusterSource"] = left
    else:
        del spec["clusterSource"]


ASSIGNMENT: Final = "status.admission.podSetAssignments[].topologyAssignment"
PAST_SECONDS: Final = ("accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
"""The first is the spelling in v1beta1."""

UPWARD: Final[Mapping[str, Mapping[str, Change]]] = {
    "ClusterQueue": {
        "spec": both(rename("cohort", "cohortName"), gather_checks),
        "spec.flavorFungibility": modernize_fungibility,
        "status": drop("pendingWorkloadsStatus"),
        "status.fairSharing": drop("admissionFairSharingStatus"),
    },
    "Cohort": {"status.fairSharing": drop("admissionFairSharingStatus")},
    "LocalQueue": {"status": both(rename("flavorUsage", "flavorsUsage"), drop("flavors"))},
    "Workload": {
        "spec": refer_to_class,
        "status": rename(PAST_SECONDS[0], PAST_SECONDS[1]),
        ASSIGNMENT: pack_domains,
    },
    "MultiKueueCluster": {"spec": gather_source},
    "AdmissionCheck": {"spec": drop("retryDelayMinutes")},
}
DOWNWARD: Final[Mapping[str, Mapping[str, Change]]] = {
    "ClusterQueue": {"spec": both(rename("cohortName", "cohort"), drop("concurrentAdmissionPolicy"))},
    "LocalQueue": {"status": rename("flavorsUsage", "flavorUsage")},
    "Workload": {
        "spec": both(name_class, drop("preemptionGates")),
        "spec.podSets[].topologyRequest": drop("podsetSliceRequiredTopologyConstraints"),
        "status": both(rename(PAST_SECONDS[1], PAST_SECONDS[0]), drop("preemptionGates")),
        ASSIGNMENT: unpack_slices,
    },
    "MultiKueueCluster": {"spec": scatter_source},
    "MultiKueueConfig": {"spec": drop("quotaManagement")},
}

NEWER: Final[Mapping[str, tuple[str, ...]]] = {
    "ClusterQueue": ("spec.cohortName", "spec.concurrentAdmissionPolicy"),
    "LocalQueue": ("status.flavorsUsage",),
    "Workload": (
        "spec.priorityClassRef",
        "spec.preemptionGates",
        "spec.podSets[].topologyRequest.podsetSliceRequiredTopologyConstraints",
        f"status.{PAST_SECONDS[1]}",
        "status.preemptionGates",
        f"{ASSIGNMENT}.slices",
    ),
    "MultiKueueCluster": ("spec.clusterSource",),
    "MultiKueueConfig": ("spec.quotaManagement",),
}
"""Fields that only v1beta2 has, by kind."""
OLDER: Final[Mapping[str, tuple[str, ...]]] = {"Workload": (f"{ASSIGNMENT}.domains",)}
"""Fields of v1beta1 that are not converted while their value is malformed."""
OLDER_NAMES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "ClusterQueue": ((r"spec\.cohortName", "spec.cohort"),),
    "LocalQueue": ((r"status\.flavorsUsage", "status.flavorUsage"),),
    "Workload": (
        (r"spec\.priorityClassRef\.(?:group|kind)", "spec.priorityClassSource"),
        (r"spec\.priorityClassRef(?:\.name)?", "spec.priorityClassName"),
        (rf"status\.{PAST_SECONDS[1]}", f"status.{PAST_SECONDS[0]}"),
        (r"(status\.admission\.podSetAssignments\[\d+\]\.topologyAssignment)\.slices(?:\W.*)?", r"\1.domains"),
    ),
    "MultiKueueCluster": (
        (r"spec\.clusterSource\.(kubeConfig|clusterProfileRef)", r"spec.\1"),
        (r"spec\.clusterSource", "spec.kubeConfig"),
    ),
}
"""Names in v1beta1 of fields in v1beta2, by kind, as patterns of paths; the first match counts."""
CHECK_NAME: Final = (r"spec\.admissionChecksStrategy\.admissionChecks(\[\d+\])\.name", r"spec.admissionChecks\1")
"""The name of a check, where the strategy replaces v1beta1's list of names."""


def older_path(kind: str, path: str, tree: Mapping[str, object]) -> str:
    """The path in v1beta1 of a v1beta2 field of this object, which is written in v1beta1."""
    spec = tree.get("spec")
    listed = kind == "ClusterQueue" and isinstance(spec, Mapping) and spec.get("admissionChecks")
    for pattern, older in (*OLDER_NAMES.get(kind, ()), *((CHECK_NAME,) if listed else ())):
        found = re.match(rf"{pattern}(?!\w)", path)
        if found is not None:
            return found.expand(older) + path[found.end() :]
    return path


def without_indexes(path: str) -> str:
    """The path with `[]` for each index, as the tables have it."""
    return re.sub(r"\[\d+\]", "[]", path)


def is_newer(kind: str, path: str) -> bool:
    """Whether only v1beta2 has the field at this path."""
    return without_indexes(path) in NEWER.get(kind, ())


def is_older(kind: str, path: str) -> bool:
    """Whether only v1beta1 has the field at this path."""
    return without_indexes(path) in OLDER.get(kind, ())


def newer_fields(kind: str, tree: Mapping[str, object]) -> Iterator[FieldError]:
    """Fields of v1beta2 in an object written as v1beta1."""
    for table in NEWER.get(kind, ()):
        for path, _, _ in nodes(table, tree):
            name, older = path.rpartition(".")[2], older_path(kind, path, tree).rpartition(".")[2]
            advice = f"did you mean {older}?" if older != name else "write the object in v1beta2, or remove the field"
            yield FieldError(path, "Unknown", None, advice)


def older_mistakes(kind: str, tree: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors in fields of v1beta1 that conversion would lose if malformed."""
    source = member(tree, "spec", "priorityClassSource")
    if kind == "Workload" and source is not None and source not in ("", *SOURCES):
        yield not_supported("spec.priorityClassSource", source, (*SOURCES, ""))
