"""Rules of Workloads: those of Kueue's schema, followed by those of its webhook.

Our webhook checks both (`table.BY_WEBHOOK`); the CEL is kept as the exact definition, and tests compare the Python with
it. The rules at the root forbid changes while quota is reserved; their CEL first checks whether anything changed. The
webhook's own rules are in `workload_spec` and `workload_status`.
"""

from collections.abc import Mapping
from typing import Final

from pykueue.api.convert import ASSIGNMENT, WORKLOAD_CLASS
from pykueue.api.rules.flavors import toleration_rules
from pykueue.api.rules.rule import Rule, cel_rule
from pykueue.api.rules.workload_spec import SPEC, condition_true, reserved
from pykueue.api.rules.workload_status import STATUS
from pykueue.api.trees import has, items, mappings, member, text, whole

ROOTLESS: Final = "The message has no path; Kubernetes prefixes it with the path `<nil>`, which says nothing."


def says(who: str, condition: str) -> str:
    """CEL for: this object (`self` or `oldSelf`) has this condition, and it is true."""
    exists = f"{who}.status.conditions.exists(c, c.type == '{condition}' && c.status == 'True')"
    return f"(has({who}.status) && has({who}.status.conditions) && {exists})"


def holds_field(who: str, field: str) -> str:
    """CEL for: this object has this field in its spec."""
    return f"(has({who}.spec) && has({who}.spec.{field}))"


def value_or(who: str, field: str, default: str) -> str:
    """CEL for: this field of the spec, or else the default."""
    return f"({holds_field(who, field)} ? {who}.spec.{field} : {default})"


def count_of(field: str) -> str:
    """CEL for: the length of a list, zero if absent; the field is given from `self`, with its parent."""
    parent = field.rpartition(".")[0]
    return f"(has(self.{parent}) && has(self.{field}) ? size(self.{field}) : 0)"


BEFORE: Final = says("oldSelf", "QuotaReserved")
NOW: Final = says("self", "QuotaReserved")
EMPTY: Final = "''"
REF: Final = "priorityClassRef"
REF_BOTH: Final = f"{holds_field('self', REF)} && {holds_field('oldSelf', REF)}"


def unchanged(field: str) -> str:
    """CEL for: a part of the priority class reference is unchanged, if it exists before and after."""
    return f"!({REF_BOTH}) || self.spec.{REF}.{field} == oldSelf.spec.{REF}.{field}"


def same_ref_part(new: object, old: object, part: str) -> bool:
    """Whether a part of the priority class reference is unchanged, if it exists before and after."""
    both = has(new, "spec", REF) and has(old, "spec", REF)
    return not both or member(new, "spec", REF, part) == member(old, "spec", REF, part)


def assignments_complete(new: object, old: object = None) -> bool:
    """With quota reserved, there is an assignment for each pod set."""
    if not reserved(new) or not has(new, "status", "admission"):
        return True
    return len(items(new, "status", "admission", "podSetAssignments")) == len(items(new, "spec", "podSets"))


def ref_kept(new: object, old: object) -> bool:
    """With quota reserved, no priority class reference is added or removed."""
    return not reserved(old) or has(new, "spec", REF) == has(old, "spec", REF)


def ref_name_kept(new: object, old: object) -> bool:
    """With quota reserved, a pod priority class stays; a workload priority class may be replaced."""
    before = member(old, "spec", REF)
    pods = text(before, "group") == "scheduling.k8s.io" and text(before, "kind") == "PriorityClass"
    return not reserved(old) or not pods or same_ref_part(new, old, "name")


def queue_kept(new: object, old: object) -> bool:
    """With quota reserved before and after, the queue stays."""
    kept = member(new, "spec", "queueName") == member(old, "spec", "queueName")
    return not (reserved(old) and reserved(new)) or kept


def run_time_kept(new: object, old: object) -> bool:
    """While admitted, the maximum execution time stays; absent equals zero."""
    limits = [whole(tree, "spec", "maximumExecutionTimeSeconds") or 0 for tree in (new, old)]
    return not (condition_true(old, "Admitted") and condition_true(new, "Admitted")) or limits[0] == limits[1]


def min_count_fits(pod_set: object, before: object = None) -> bool:
    """A pod set's minimum count does not exceed its count."""
    least, count = whole(pod_set, "minCount"), whole(pod_set, "count")
    return least is None or least <= (1 if count is None else count)


def one_of(node: object, before: object = None) -> bool:
    """Either one value for all, or one for each."""
    return not isinstance(node, Mapping) or has(node, "universal") != has(node, "individual")


def slices_have_levels(assignment: object, before: object = None) -> bool:
    """Every slice has values for each level."""
    levels = len(items(assignment, "levels"))
    return all(len(items(part, "valuesPerLevel")) == levels for _, part in mappings(assignment, "slices"))


def counts_per_domain(part: object, before: object = None) -> bool:
    """Individual counts have one entry per domain."""
    counts = member(part, "podCounts", "individual")
    return counts is None or len(items(part, "podCounts", "individual")) == whole(part, "domainCount")


def roots_per_domain(part: object, before: object = None) -> bool:
    """Individual names have one entry per domain."""
    return all(
        len(items(values, "individual", "roots")) == whole(part, "domainCount")
        for _, values in mappings(part, "valuesPerLevel")
        if has(values, "individual")
    )


def source_kept(new: object, old: object) -> bool:
    """With quota reserved, the source of the priority stays (v1beta1)."""
    return not reserved(old) or text(new, "spec", "priorityClassSource") == text(old, "spec", "priorityClassSource")


def class_name_kept(new: object, old: object) -> bool:
    """With quota reserved, the priority class stays, unless it is a WorkloadPriorityClass (v1beta1)."""
    kept = text(new, "spec", "priorityClassName") == text(old, "spec", "priorityClassName")
    return not reserved(old) or text(old, "spec", "priorityClassSource") == WORKLOAD_CLASS or kept


SCHEMA: Final[tuple[Rule, ...]] = (
    cel_rule(
        "WL-CEL-1",
        "",
        "podSetAssignments must have the same number of podSets as the spec",
        "!has(self.status) || !has(self.status.admission)"
        f" || {count_of('status.admission.podSetAssignments')} == {count_of('spec.podSets')} || !{NOW}",
        assignments_complete,
        differs=ROOTLESS,
    ),
    cel_rule(
        "WL-CEL-2",
        "",
        "priorityClassRef is immutable while workload quota reserved",
        f"{holds_field('self', REF)} == {holds_field('oldSelf', REF)} || !{BEFORE}",
        ref_kept,
        version="v1beta2",
        differs=ROOTLESS,
    ),
    cel_rule(
        "WL-CEL-3",
        "",
        "priorityClassRef.group is immutable while workload quota reserved",
        f"{unchanged('group')} || !{BEFORE}",
        lambda new, old: not reserved(old) or same_ref_part(new, old, "group"),
        version="v1beta2",
        differs=ROOTLESS,
    ),
    cel_rule(
        "WL-CEL-4",
        "",
        "priorityClassRef.kind is immutable while workload quota reserved",
        f"{unchanged('kind')} || !{BEFORE}",
        lambda new, old: not reserved(old) or same_ref_part(new, old, "kind"),
        version="v1beta2",
        differs=ROOTLESS,
    ),
    cel_rule(
        "WL-CEL-5",
        "",
        "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved",
        f"{unchanged('name')} || oldSelf.spec.{REF}.group != 'scheduling.k8s.io'"
        f" || oldSelf.spec.{REF}.kind != 'PriorityClass' || !{BEFORE}",
        ref_name_kept,
        version="v1beta2",
        differs=ROOTLESS,
    ),
    cel_rule(
        "WL-CEL-6",
        "",
        "queueName is immutable while workload quota reserved",
        f"({holds_field('self', 'queueName')} == {holds_field('oldSelf', 'queueName')}"
        f" && (!{holds_field('self', 'queueName')} || self.spec.queueName == oldSelf.spec.queueName))"
        f" || !({BEFORE} && {NOW})",
        queue_kept,
        differs=ROOTLESS,
    ),
    cel_rule(
        "WL-CEL-7",
        "",
        "maximumExecutionTimeSeconds is immutable while workload quota reserved",
        f"{value_or('self', 'maximumExecutionTimeSeconds', '0')}"
        f" == {value_or('oldSelf', 'maximumExecutionTimeSeconds', '0')}"
        f" || !({says('oldSelf', 'Admitted')} && {says('self', 'Admitted')})",
        run_time_kept,
        differs=ROOTLESS,
    ),
    cel_rule(
        "WL-CEL-8",
        "spec",
        "priority should not be nil when priorityClassRef is set",
        "!has(self.priorityClassRef) || has(self.priority)",
        lambda spec, _: not has(spec, REF) or has(spec, "priority"),
        version="v1beta2",
    ),
    cel_rule(
        "WL-CEL-9",
        "spec.podSets[]",
        "minCount should be positive and less or equal to count",
        "!has(self.minCount) || self.minCount <= (has(self.count) ? self.count : 1)",
        min_count_fits,
    ),
    cel_rule(
        "WL-CEL-10",
        "spec.priorityClassRef",
        "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
        "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
        lambda ref, _: text(ref, "group") != "scheduling.k8s.io" or text(ref, "kind") == "PriorityClass",
        version="v1beta2",
    ),
    cel_rule(
        "WL-CEL-11",
        "spec.priorityClassRef",
        "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
        "self.group != 'kueue.x-k8s.io' || self.kind == 'WorkloadPriorityClass'",
        lambda ref, _: text(ref, "group") != "kueue.x-k8s.io" or text(ref, "kind") == "WorkloadPriorityClass",
        version="v1beta2",
    ),
    cel_rule(
        "WL-CEL-12",
        "status",
        "clusterName is immutable once set",
        "!has(oldSelf.clusterName) || !has(self.clusterName) || self.clusterName == oldSelf.clusterName",
        lambda status, before: (
            not (has(before, "clusterName") and has(status, "clusterName"))
            or member(status, "clusterName") == member(before, "clusterName")
        ),
    ),
    cel_rule(
        "WL-CEL-13",
        "status",
        "clusterName and nominatedClusterNames are mutually exclusive",
        "!has(self.clusterName) || !has(self.nominatedClusterNames) || size(self.nominatedClusterNames) == 0",
        lambda status, _: not has(status, "clusterName") or not items(status, "nominatedClusterNames"),
    ),
    cel_rule(
        "WL-CEL-14",
        ASSIGNMENT,
        "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
        "self.slices.all(s, size(s.valuesPerLevel) == size(self.levels))",
        slices_have_levels,
        version="v1beta2",
    ),
    cel_rule(
        "WL-CEL-15",
        f"{ASSIGNMENT}.slices[]",
        "podCounts.individual must have length equal to domainCount",
        "!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
        counts_per_domain,
        version="v1beta2",
    ),
    cel_rule(
        "WL-CEL-16",
        f"{ASSIGNMENT}.slices[]",
        "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this "
        "TopologyAssignmentSlice",
        "self.valuesPerLevel.all(v, !has(v.individual) || size(v.individual.roots) == self.domainCount)",
        roots_per_domain,
        version="v1beta2",
    ),
    *(
        cel_rule(
            rule,
            f"{ASSIGNMENT}.slices[].{field}",
            "exactly one of the fields in [universal individual] must be set",
            "has(self.universal) != has(self.individual)",
            one_of,
            version="v1beta2",
        )
        for rule, field in (("WL-CEL-17", "podCounts"), ("WL-CEL-18", "valuesPerLevel[]"))
    ),
    *toleration_rules("WL", "status.admissionChecks[].podSetUpdates[].tolerations", 19),
    cel_rule(
        "WL-CEL-24",
        "",
        "priorityClassSource is immutable while workload quota reserved",
        f"{value_or('self', 'priorityClassSource', EMPTY)}"
        f" == {value_or('oldSelf', 'priorityClassSource', EMPTY)} || !{BEFORE}",
        source_kept,
        version="v1beta1",
        differs=ROOTLESS,
    ),
    cel_rule(
        "WL-CEL-25",
        "",
        "priorityClassName is immutable while workload quota reserved and priorityClassSource is not equal to "
        + WORKLOAD_CLASS,
        f"{value_or('self', 'priorityClassName', EMPTY)} == {value_or('oldSelf', 'priorityClassName', EMPTY)}"
        f" || {value_or('oldSelf', 'priorityClassSource', EMPTY)} == '{WORKLOAD_CLASS}' || !{BEFORE}",
        class_name_kept,
        version="v1beta1",
        differs=ROOTLESS,
    ),
    cel_rule(
        "WL-CEL-26",
        "spec",
        "priority should not be nil when priorityClassName is set",
        "!has(self.priorityClassName) || has(self.priority)",
        lambda spec, _: not has(spec, "priorityClassName") or has(spec, "priority"),
        version="v1beta1",
    ),
)

WORKLOAD: Final[tuple[Rule, ...]] = (*SCHEMA, *SPEC, *STATUS)
