"""The schema of each kind in v1beta1, derived from v1beta2.

`convert` converts the values; this module describes the same differences as schemas. The limits are those of v1beta2
even where v1beta1 had none, since an object that broke them could be stored but never be changed again.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Final, TypeAlias, cast

from pykueue.api.convert import ASSIGNMENT, PAST_SECONDS, SOURCES
from pykueue.api.core import SUBDOMAIN, Tree

Edit: TypeAlias = Callable[[Tree], None]
"""Alters the schema of one object in place."""

TEXT: Final[Tree] = {"type": "string"}
QUANTITIES: Final[Tree] = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
MOMENT: Final[Tree] = {"type": "string", "format": "date-time"}
PAST_USAGE: Final[Tree] = {
    "description": "Usage of the past; not kept.",
    "type": "object",
    "properties": {"consumedResources": QUANTITIES, "lastUpdate": MOMENT},
}
NO_LONGER_KEPT: Final[Tree] = {
    "description": "No longer kept.",
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
}


def as_v1beta1(kind: str, schema: Tree) -> Tree:
    """The schema of a kind in v1beta1, given that of v1beta2."""
    older = deepcopy(schema)
    for path, edits in EDITS.get(kind, {}).items():
        node = older
        for step in path.split(".") if path else ():
            node = cast("Tree", fields(node)[step.removesuffix("[]")])
            if step.endswith("[]"):
                node = cast("Tree", node["items"])
        for edit in edits:
            edit(node)
    return older


def fields(schema: Tree) -> Tree:
    """The fields of an object, by name."""
    return cast("Tree", schema["properties"])


def add(name: str, **schema: object) -> Edit:
    """Adds a field that v1beta2 no longer has."""

    def edit(node: Tree) -> None:
        fields(node)[name] = deepcopy(cast("Tree", schema))

    return edit


def drop(*names: str) -> Edit:
    """Drops fields that v1beta1 does not have yet."""

    def edit(node: Tree) -> None:
        needed = [name for name in cast("list[str]", node.pop("required", [])) if name not in names]
        if needed:
            node["required"] = [*needed]
        for name in names:
            del fields(node)[name]

    return edit


def rename(new: str, old: str) -> Edit:
    """Gives a field the name that it has in v1beta1."""

    def edit(node: Tree) -> None:
        fields(node)[old] = fields(node).pop(new)

    return edit


def allow(name: str, value: str) -> Edit:
    """Allows one more value of a field."""

    def edit(node: Tree) -> None:
        cast("list[str]", cast("Tree", fields(node)[name])["enum"]).append(value)

    return edit


def scatter_source(spec: Tree) -> None:
    """Moves the ways to reach a cluster under `spec`, where an empty location means none."""
    source = fields(cast("Tree", fields(spec).pop("clusterSource")))
    spec["required"] = ["kubeConfig"]
    fields(spec).update(source)
    location = cast("Tree", fields(cast("Tree", source["kubeConfig"]))["location"])
    del location["minLength"]


def as_set(name: str) -> Edit:
    """Makes a list a set, whose items are owned separately."""

    def edit(node: Tree) -> None:
        cast("Tree", fields(node)[name])["x-kubernetes-list-type"] = "set"

    return edit


DOMAINS: Final[Tree] = {
    "description": "The domains, each with its values from the widest level down.",
    "type": "array",
    "x-kubernetes-list-type": "atomic",
    "items": {
        "type": "object",
        "required": ["count", "values"],
        "properties": {
            "count": {"description": "Pods that go there.", "type": "integer", "format": "int32", "minimum": 1},
            "values": {
                "description": "Value of each level's node label.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "minItems": 1,
                "maxItems": 16,
                "items": TEXT,
            },
        },
    },
}

EDITS: Final[Mapping[str, Mapping[str, tuple[Edit, ...]]]] = {
    "ClusterQueue": {
        "spec": (
            rename("cohortName", "cohort"),
            drop("concurrentAdmissionPolicy"),
            add(
                "admissionChecks",
                description="Checks that its workloads must pass, whatever their flavors.",
                type="array",
                items={"type": "string", "minLength": 1, "maxLength": 316},
            ),
        ),
        "spec.flavorFungibility": (allow("whenCanBorrow", "Borrow"), allow("whenCanPreempt", "Preempt")),
        "status": (add("pendingWorkloadsStatus", **NO_LONGER_KEPT),),
        "status.fairSharing": (add("admissionFairSharingStatus", **PAST_USAGE),),
    },
    "Cohort": {"status.fairSharing": (add("admissionFairSharingStatus", **PAST_USAGE),)},
    "LocalQueue": {
        "status": (
            rename("flavorsUsage", "flavorUsage"),
            add("flavors", type="array", items=NO_LONGER_KEPT),
        )
    },
    "Workload": {
        "spec": (
            drop("priorityClassRef", "preemptionGates"),
            add(
                "priorityClassName",
                description="Name of the class that its priority comes from.",
                type="string",
                maxLength=253,
                pattern=SUBDOMAIN,
            ),
            add(
                "priorityClassSource",
                description="Which kind of class that is.",
                type="string",
                enum=[*SOURCES, ""],
                default="",
            ),
        ),
        "spec.podSets[].topologyRequest": (drop("podsetSliceRequiredTopologyConstraints"),),
        "status": (rename(PAST_SECONDS[1], PAST_SECONDS[0]), drop("preemptionGates")),
        ASSIGNMENT: (drop("slices"), add("domains", **DOMAINS)),
    },
    "MultiKueueCluster": {"spec": (scatter_source,)},
    "MultiKueueConfig": {"spec": (drop("quotaManagement"), as_set("clusters"))},
    "AdmissionCheck": {
        "spec": (add("retryDelayMinutes", description="No longer kept.", type="integer", format="int64"),)
    },
}
"""The differences, by kind and by the path of the object that differs."""
