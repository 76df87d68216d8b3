"""The webhook's rules on a Workload's status, and on its changes."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pykueue.api.core import REASON
from pykueue.api.fields import (
    IMMUTABLE,
    FieldError,
    duplicate,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
)
from pykueue.api.labels import (
    annotations_errors,
    ill_formed,
    label_name_errors,
    labels_errors,
    size_bytes,
)
from pykueue.api.names import Annotation
from pykueue.api.rules.flavors import toleration_keys
from pykueue.api.rules.rule import Context, Rule, webhook_rule
from pykueue.api.rules.workload_spec import annotation, elastic, pod_sets, reserved, settled
from pykueue.api.trees import NOTHING, Tree, amount, has, items, mapping, mappings, member, text, whole
from pykueue.base.units import amount_of

REASON_BYTES_MAX: Final = 1024
MESSAGE_BYTES_MAX: Final = 32768
REASON_FORM: Final = REASON.removeprefix("^").removesuffix("$")
REASON_SAYS: Final = ill_formed(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'",
    REASON_FORM,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)
NOT_NOMINATED: Final = "when setting clusterName it must be one of the nominatedClusterNames"
ADMISSION_NEEDED: Final = "must be set while the QuotaReserved condition is true"
STATUSES: Final = ("False", "True", "Unknown")


def reservation_has_admission(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A quota reservation has an admission.

    A workload that already lacks one is accepted, so that it can be repaired.
    """
    lacking = [reserved(tree) and not has(tree, "status", "admission") for tree in (new, old)]
    if lacking == [True, False]:
        yield required("status.admission", ADMISSION_NEEDED)


def assignments(tree: Tree) -> Iterator[tuple[str, Tree]]:
    """The assignment of each pod set, with its path; empty while no quota is reserved."""
    if reserved(tree):
        for i, assignment in mappings(tree, "status", "admission", "podSetAssignments"):
            yield f"status.admission.podSetAssignments[{i}]", assignment


def assignments_named(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """An assignment names an existing pod set."""
    known = pod_sets(new)
    for path, assignment in assignments(new):
        name = text(assignment, "name")
        if name not in known:
            yield not_found(f"{path}.name", name)


def usage_divides(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The usage of a pod set divides evenly by its pods."""
    for path, assignment in assignments(new):
        count = whole(assignment, "count") or 0
        for name, value in sorted(mapping(assignment, "resourceUsage").items()):
            quantity = amount(value)
            if count > 0 and quantity is not None and amount_of(name, quantity) % count:
                yield invalid(f"{path}.resourceUsage[{name}]", str(quantity), f"is not a multiple of {count}")


def conditions_well_formed(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Conditions are valid as in Kubernetes, each type once."""
    seen: set[str] = set()
    for i, condition in mappings(new, "status", "conditions"):
        path, kind = f"status.conditions[{i}]", text(condition, "type")
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        seen.add(kind)
        yield from label_name_errors(kind, f"{path}.type")
        if text(condition, "status") not in STATUSES:
            yield not_supported(f"{path}.status", text(condition, "status"), STATUSES)
        generation = whole(condition, "observedGeneration")
        if generation is not None and generation < 0:
            yield invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero")
        if not text(condition, "lastTransitionTime"):
            yield required(f"{path}.lastTransitionTime", "must be set")
        yield from reason_errors(text(condition, "reason"), f"{path}.reason")
        if size_bytes(text(condition, "message")) > MESSAGE_BYTES_MAX:
            yield too_long(f"{path}.message", MESSAGE_BYTES_MAX)


def reason_errors(reason: str, path: str) -> Iterator[FieldError]:
    """Errors in the reason of a condition."""
    if not reason:
        yield required(path, "must be set")
        return
    if not re.fullmatch(REASON_FORM, reason):
        yield invalid(path, reason, REASON_SAYS)
    if size_bytes(reason) > REASON_BYTES_MAX:
        yield too_long(path, REASON_BYTES_MAX)


def reclaimable(tree: object) -> dict[str, int]:
    """Reclaimable pods by name of pod set."""
    return {text(one, "name"): whole(one, "count") or 0 for _, one in mappings(tree, "status", "reclaimablePods")}


def reclaimable_named(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Reclaimable pods name an existing pod set."""
    known = pod_sets(new)
    for name in reclaimable(new):
        if name not in known:
            yield not_supported(f"status.reclaimablePods[{name}].name", name, known)


def reclaimable_within(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """No more pods are reclaimable than exist; a resized workload may keep an earlier entry."""
    known, stale = pod_sets(new), reclaimable(old) if elastic(new, context) else {}
    for name, count in reclaimable(new).items():
        most = whole(known.get(name, NOTHING), "count")
        if most is not None and count > most and stale.get(name) != count:
            yield invalid(f"status.reclaimablePods[{name}].count", count, f"should be less or equal to {most}")


def updates(tree: Tree) -> Iterator[tuple[str, Tree]]:
    """The pod set updates of checks, with their paths."""
    for i, check in mappings(tree, "status", "admissionChecks"):
        for j, update in mappings(check, "podSetUpdates"):
            yield f"status.admissionChecks[{i}].podSetUpdates[{j}]", update


def updates_named(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A check updates an existing pod set."""
    known = pod_sets(new)
    for path, update in updates(new):
        if text(update, "name") not in known:
            yield not_supported(f"{path}.name", text(update, "name"), sorted(known))


def updates_well_formed(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A check adds valid tolerations, annotations, labels and node selectors."""
    for path, update in updates(new):
        yield from toleration_keys(member(update, "tolerations"), f"{path}.tolerations")
        yield from annotations_errors(member(update, "annotations"), f"{path}.annotations")
        yield from labels_errors(member(update, "nodeSelector"), f"{path}.nodeSelector")
        yield from labels_errors(member(update, "labels"), f"{path}.labels")


def reclaimable_bound(new: Tree, old: Tree | None, context: Context) -> dict[str, int]:
    """Counts of reclaimable pods that may not decrease; empty unless quota stays reserved."""
    if not (reserved(new) and reserved(old)):
        return {}
    given = {
        text(one, "name"): whole(one, "count") for _, one in mappings(new, "status", "admission", "podSetAssignments")
    }
    shrunk = {
        name
        for name, pod_set in pod_sets(new).items()
        if elastic(new, context) and (whole(pod_set, "count") or 0) < (given.get(name) or 0)
    }
    return {name: count for name, count in reclaimable(old).items() if name not in shrunk}


def reclaimable_not_less(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Counts of reclaimable pods do not decrease."""
    bound = reclaimable_bound(new, old, context)
    for name, count in reclaimable(new).items():
        if count < bound.get(name, 0):
            yield invalid(f"status.reclaimablePods[{name}].count", count, f"cannot be less than {bound[name]}")


def reclaimable_not_removed(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A pod set with reclaimable pods stays listed."""
    now = reclaimable(new)
    for name in reclaimable_bound(new, old, context):
        if name not in now:
            yield required(f"status.reclaimablePods[{name}]", "cannot be removed")


def admission_core(admission: object, context: Context) -> object:
    """An admission without the fields that may still be filled in: topology assignments."""
    if not isinstance(admission, Mapping) or not context.on("TopologyAwareScheduling"):
        return settled(admission)
    late = ("topologyAssignment", "delayedTopologyRequest")
    rest = [
        {key: value for key, value in one.items() if key not in late} if isinstance(one, Mapping) else one
        for one in items(admission, "podSetAssignments")
    ]
    return settled({**admission, "podSetAssignments": rest})


def admission_fixed(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """An admission is immutable: it is removed and set again."""
    now, before = member(new, "status", "admission"), member(old, "status", "admission")
    if now is not None and before is not None and admission_core(now, context) != admission_core(before, context):
        yield invalid("status.admission", now, IMMUTABLE)


def updates_fixed(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The pod set updates of a check are immutable once it is ready."""
    now = {text(check, "name"): check for _, check in mappings(new, "status", "admissionChecks")}
    for i, was in mappings(old, "status", "admissionChecks"):
        check = now.get(text(was, "name"), NOTHING)
        ready = text(was, "state") == "Ready" and text(check, "state") == "Ready"
        if ready and settled(items(check, "podSetUpdates")) != settled(items(was, "podSetUpdates")):
            yield invalid(f"status.admissionChecks[{i}].podSetUpdates", items(check, "podSetUpdates"), IMMUTABLE)


def cluster_nominated(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The cluster is one of the nominated ones; a slice uses that of the slice it replaces."""
    name = member(new, "status", "clusterName")
    if name is None or has(old, "status", "clusterName") or annotation(new, Annotation.WORKLOAD_SLICE_REPLACEMENT_FOR):
        return
    if name not in items(old, "status", "nominatedClusterNames"):
        yield invalid("status.clusterName", name, NOT_NOMINATED)


ADMISSION: Final = "status.admission"
PSA: Final = f"{ADMISSION}.podSetAssignments[]"
PSU: Final = "status.admissionChecks[].podSetUpdates[]"
RECLAIMABLE: Final = "status.reclaimablePods[]"

STATUS: Final[tuple[Rule, ...]] = (
    webhook_rule(
        "WL-17",
        ADMISSION,
        ADMISSION_NEEDED,
        reservation_has_admission,
    ),
    webhook_rule("WL-18", f"{PSA}.name", "", assignments_named),
    webhook_rule(
        "WL-19",
        f"{PSA}.resourceUsage",
        "is not a multiple of %d",
        usage_divides,
        differs="The message gives the number of pods; Kueue prints an address in memory there.",
    ),
    webhook_rule("WL-20", "status.conditions[]", "", conditions_well_formed),
    webhook_rule("WL-21", f"{RECLAIMABLE}.name", "supported values: %s", reclaimable_named),
    webhook_rule("WL-22", f"{RECLAIMABLE}.count", "should be less or equal to %d", reclaimable_within),
    webhook_rule("WL-23", f"{RECLAIMABLE}.count", "cannot be less than %d", reclaimable_not_less, on=("update",)),
    webhook_rule("WL-24", RECLAIMABLE, "cannot be removed", reclaimable_not_removed, on=("update",)),
    webhook_rule("WL-25", f"{PSU}.name", "supported values: %s", updates_named),
    webhook_rule(
        "WL-26",
        tuple(f"{PSU}.{field}" for field in ("tolerations[].key", "annotations", "nodeSelector", "labels")),
        "",
        updates_well_formed,
    ),
    webhook_rule("WL-27", ADMISSION, IMMUTABLE, admission_fixed, on=("update",)),
    webhook_rule("WL-28", PSU.removesuffix("[]"), IMMUTABLE, updates_fixed, on=("update",)),
    webhook_rule(
        "WL-29",
        "status.clusterName",
        NOT_NOMINATED,
        cluster_nominated,
        on=("update",),
    ),
)
