"""Features that objects ask for and that are not built yet, one row per kind and path; delete the row when it is built.

Settings of the Configuration are in `api/config/unbuilt.py`.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

from pykueue.api.names import ADMISSION_MODES, USAGE_BASED, Annotation, CheckController, Label
from pykueue.api.trees import OBJECT
from pykueue.base.struct import Frozen

TOPOLOGY: Final = "topology-aware scheduling is not supported yet"
ELASTIC: Final = "elastic jobs are not supported yet"
CONCURRENT: Final = "concurrent admission is not supported yet"
MULTIKUEUE: Final = "sending workloads to other clusters, MultiKueue, is not supported yet"
DEVICES: Final = "dynamic resource allocation is not supported yet; request the device as an extended resource instead"
NUMBER: Final = (int, float)
STEP: Final = re.compile(r"\[\]|\[[^]]+\]|[A-Za-z]+")
"""One step of a path."""


class Row(Frozen):
    """What to tell the user; with `only`, other values of the field ask for nothing."""

    sentence: str
    only: str | None = None


def annotated(key: str) -> str:
    """The path of an annotation."""
    return f"metadata.annotations[{key}]"


TEMPLATE_METADATA: Final[Mapping[str, Row]] = {
    **{
        annotated(key): Row(f"{TOPOLOGY}; remove the annotation")
        for key in (
            Annotation.REQUIRED_TOPOLOGY,
            Annotation.PREFERRED_TOPOLOGY,
            Annotation.UNCONSTRAINED_TOPOLOGY,
            Annotation.SLICE_REQUIRED_TOPOLOGY,
            Annotation.SLICE_SIZE,
            Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
            Annotation.POD_SET_GROUP,
        )
    },
    annotated(Annotation.ELASTIC_JOB): Row(f"{ELASTIC}; remove the annotation", "true"),
}
"""Annotations that have the same meaning on a pod template and on its Workload."""

UNBUILT: Final[Mapping[str, Mapping[str, Row]]] = {
    "ResourceFlavor": {"spec.topologyName": Row(f"{TOPOLOGY}; remove it")},
    "ClusterQueue": {
        "spec.concurrentAdmissionPolicy": Row(f"{CONCURRENT}; remove the policy"),
    },
    "AdmissionCheck": {
        "spec.controllerName": Row(
            f"{MULTIKUEUE}; ClusterQueues that name the check admit nothing", str(CheckController.MULTIKUEUE)
        )
    },
    "Workload": {
        **TEMPLATE_METADATA,
        annotated(Annotation.WORKLOAD_SLICE_REPLACEMENT_FOR): Row(f"{ELASTIC}; remove the annotation"),
        annotated(Annotation.ALLOWED_RESOURCE_FLAVORS): Row(f"{CONCURRENT}; remove the annotation"),
        f"metadata.labels[{Label.CONCURRENT_ADMISSION_PARENT}]": Row(f"{CONCURRENT}; remove the label"),
        # The fields that only say how pods are numbered are not listed: Kueue writes them for every Job.
        **{
            f"spec.podSets[].topologyRequest.{field}": Row(f"{TOPOLOGY}; remove it")
            for field in (
                "required",
                "preferred",
                "unconstrained",
                "podSetGroupName",
                "podSetSliceRequiredTopology",
                "podSetSliceSize",
                "podsetSliceRequiredTopologyConstraints",
            )
        },
        "spec.preemptionGates": Row("preemption gates are not supported yet; remove them"),
        "status.clusterName": Row(MULTIKUEUE),
        "status.nominatedClusterNames": Row(MULTIKUEUE),
        "status.unhealthyNodes": Row(TOPOLOGY),
        "status.admission.podSetAssignments[].topologyAssignment": Row(TOPOLOGY),
        "status.admission.podSetAssignments[].delayedTopologyRequest": Row(TOPOLOGY, "Pending"),
    },
    "PodTemplate": {
        **TEMPLATE_METADATA,
        "spec.resourceClaims": Row(DEVICES),
        "spec.initContainers[].resources.claims": Row(DEVICES),
        "spec.containers[].resources.claims": Row(DEVICES),
    },
    "Job": {
        "spec.managedBy": Row(MULTIKUEUE, str(CheckController.MULTIKUEUE)),
    },
}
"""Fields that prevent the admission of an object, or of what depends on it: each path with its message."""

WEIGHT: Final = "spec.fairSharing.weight"
IDLE_WITHOUT_SHARING: Final[Mapping[str, Mapping[str, Row]]] = {
    kind: {WEIGHT: Row("fair sharing is off, so the weight has no effect; fairSharing in the Configuration enables it")}
    for kind in ("ClusterQueue", "Cohort")
}
"""Fields that have no effect, as in Kueue, while the Configuration has no `fairSharing`, but deserve a note."""
PAST_USE_ALONE: Final = (
    "past use orders the children of a Cohort only with fairSharing and admissionFairSharing in the Configuration"
)
NOT_OF_A_QUEUE: Final = "has no effect on a ClusterQueue; use spec.admissionScope"
SHOWN_MAX: Final = 63
"""How much of an invalid value is shown."""


class Branch(Frozen):
    """Rows with a common beginning of their paths, so that an absent field is looked up once."""

    row: Row | None = None
    branches: tuple[tuple[str, str, "Branch"], ...] = ()
    """By the next step: the name of a field, `[key]` for an entry of a map, `[]` for each item of a list.

    The name of the field or the key stands after the step.
    """


def grown(rows: Mapping[tuple[str, ...], Row]) -> Branch:
    """The rows as a tree by the steps of their paths."""
    below: dict[str, dict[tuple[str, ...], Row]] = {}
    for steps, row in rows.items():
        if steps:
            below.setdefault(steps[0], {})[steps[1:]] = row
    return Branch(rows.get(()), tuple((step, step.strip("[]"), grown(rest)) for step, rest in below.items()))


def branches(table: Mapping[str, Mapping[str, Row]]) -> Mapping[str, Branch]:
    """A tree of rows for each kind of a table."""
    return {
        kind: grown({tuple(step[0] for step in STEP.finditer(path)): row for path, row in rows.items()})
        for kind, rows in table.items()
    }


UNBUILT_BRANCHES: Final = branches(UNBUILT)
NO_ROWS: Final = Branch()
IDLE_BRANCHES: Final = branches(IDLE_WITHOUT_SHARING)


def unbuilt(kind: str, thing: object) -> tuple[str, ...]:
    """A sentence with its path for each unbuilt feature that an object asks for.

    The object may be a view or a JSON tree.
    """
    return tuple(applied(UNBUILT_BRANCHES.get(kind, NO_ROWS), thing))


def idle(kind: str, thing: object, *, fair_sharing: bool, past_use: bool) -> tuple[str, ...]:
    """A sentence with its path for each field that an object sets without effect.

    The Configuration may have `fairSharing`, and `admissionFairSharing`, which counts past use.
    """
    if kind not in IDLE_BRANCHES:
        return ()
    found = () if fair_sharing else tuple(applied(IDLE_BRANCHES[kind], thing))
    mode = member(member(member(thing, "metadata"), "annotations"), Annotation.ADMISSION_MODE)
    if mode is None:
        return found
    note = ""
    if kind == "ClusterQueue":
        note = NOT_OF_A_QUEUE
    elif mode not in ADMISSION_MODES:
        note = f"{str(mode)[:SHOWN_MAX]!r} is not known and has no effect; use {' or '.join(ADMISSION_MODES)}"
    elif mode == USAGE_BASED and not (fair_sharing and past_use):
        note = PAST_USE_ALONE
    return (*found, f"{annotated(Annotation.ADMISSION_MODE)}: {note}") if note else found


def applied(branch: Branch, thing: object, place: str = "") -> list[str]:
    """The sentences of the rows that apply to a value at this path."""
    row = branch.row
    said: list[str] = []
    if row is not None and (row.only is None or thing == row.only):
        said.append(f"{place}: {row.sentence}")
    for step, name, below in branch.branches:
        if not name:
            for index, item in enumerate(thing if isinstance(thing, list | tuple) else ()):
                said += applied(below, item, f"{place}[{index}]")
            continue
        found = member(thing, name)
        # An absent or empty value asks for nothing; a number or a boolean may.
        if found or isinstance(found, NUMBER):
            said += applied(below, found, f"{place}{step}" if step[0] == "[" or not place else f"{place}.{step}")
    return said


def member(thing: object, name: str) -> object:
    """The member of a map or a view with this wire name."""
    if isinstance(thing, msgspec.Struct):
        field = fields_of(type(thing)).get(name)
        return None if field is None else getattr(thing, field)
    return thing.get(name) if isinstance(thing, OBJECT) else None


@cache
def fields_of(view: type[msgspec.Struct]) -> Mapping[str, str]:
    """The wire names of a view's fields, and their attribute names."""
    return dict(zip(view.__struct_encode_fields__, view.__struct_fields__, strict=True))
