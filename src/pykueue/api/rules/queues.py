"""Rules of ClusterQueues, LocalQueues and Cohorts.

A rule is a row of the table at the end: first those that the schema carries as CEL, then those of the webhook. Errors
are reported in this order.
"""

from collections.abc import Iterator
from typing import Final

from pykueue.api.fields import IMMUTABLE, NEGATIVE, FieldError, duplicate, invalid, not_supported
from pykueue.api.labels import label_name_errors, selector_errors
from pykueue.api.rules.rule import Context, Predicate, Rule, cel_rule, webhook_rule
from pykueue.api.trees import Tree, amount, has, items, mapping, mappings, member, text
from pykueue.base.struct import Frozen

FLAVORS_MAX: Final = 256
COVERED_MAX: Final = 256
COMBINATIONS_MAX: Final = 512
CONCURRENT_FLAVORS_MAX: Final = 16
OVER_NOMINAL: Final = "must be less than or equal to the nominalQuota"
OUT_OF_ORDER: Final = "must match the name in coveredResources"
RECLAIM_NEEDED: Final = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
BORROW_ALONE: Final = "borrowingLimit must be nil when cohort is empty"
WEIGHT_TOO_SMALL: Final = "When not 0, weight must be > 10e-9"
ONE_GROUP: Final = "must have exactly one ResourceGroup when ConcurrentAdmissionPolicy is defined"
NOT_STRICT: Final = "StrictFIFO queueing strategy cannot be used when ConcurrentAdmissionPolicy is defined"
RQ: Final = "spec.resourceGroups[].flavors[].resources[]"


class Quota(Frozen):
    """One entry of quota: its path, the covered resource at its position, and the entry."""

    path: str
    covered: object
    entry: Tree


def quotas(tree: Tree) -> Iterator[Quota]:
    """Every entry of quota that has a covered resource at its position, in order."""
    for i, group in mappings(tree, "spec", "resourceGroups"):
        covered = items(group, "coveredResources")
        for j, flavor in mappings(group, "flavors"):
            for k, entry in mappings(flavor, "resources"):
                if k < len(covered):
                    yield Quota(f"spec.resourceGroups[{i}].flavors[{j}].resources[{k}]", covered[k], entry)


def flavor_names(tree: Tree) -> list[str]:
    """The flavors of an object's quotas, in order, without duplicates."""
    groups = mappings(tree, "spec", "resourceGroups")
    named = [text(flavor, "name") for _, group in groups for _, flavor in mappings(group, "flavors")]
    return list(dict.fromkeys(name for name in named if name))


def preference_fits(fungibility: object, before: object = None) -> bool:
    """A preference among flavors requires both searches to continue to the next flavor."""
    both = text(fungibility, "whenCanBorrow"), text(fungibility, "whenCanPreempt")
    return not has(fungibility, "preference") or both == ("TryNextFlavor", "TryNextFlavor")


def preemption_fits(preemption: object, before: object = None) -> bool:
    """Preemption while borrowing requires permission to reclaim."""
    policy = member(preemption, "borrowWithinCohort", "policy")
    return text(preemption, "reclaimWithinCohort") != "Never" or policy is None or policy == "Never"


def no_borrowing_limit(spec: object) -> bool:
    """Whether no entry of quota limits borrowing."""
    return not any(
        has(entry, "borrowingLimit")
        for _, group in mappings(spec, "resourceGroups")
        for _, flavor in mappings(group, "flavors")
        for _, entry in mappings(flavor, "resources")
    )


def flavors_complete(group: object, before: object = None) -> bool:
    """Each flavor of a group has as many resources as the group covers."""
    covered = len(items(group, "coveredResources"))
    return all(len(items(flavor, "resources")) == covered for _, flavor in mappings(group, "flavors"))


def covered_well_formed(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A covered resource is a valid label key."""
    for i, group in mappings(new, "spec", "resourceGroups"):
        for j, name in enumerate(items(group, "coveredResources")):
            if isinstance(name, str):
                yield from label_name_errors(name, f"spec.resourceGroups[{i}].coveredResources[{j}]")


def covered_once(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A resource is covered once across all groups."""
    seen: set[str] = set()
    for i, group in mappings(new, "spec", "resourceGroups"):
        for j, name in enumerate(items(group, "coveredResources")):
            if isinstance(name, str):
                if name in seen:
                    yield duplicate(f"spec.resourceGroups[{i}].coveredResources[{j}]", name)
                seen.add(name)


def flavors_once(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A flavor is named once across all groups."""
    seen: set[str] = set()
    for i, group in mappings(new, "spec", "resourceGroups"):
        for j, flavor in mappings(group, "flavors"):
            name = text(flavor, "name")
            if name in seen:
                yield duplicate(f"spec.resourceGroups[{i}].flavors[{j}].name", name)
            seen.update([name] if name else [])


def resources_in_order(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A flavor lists its resources in the order in which the group covers them."""
    for quota in quotas(new):
        name = member(quota.entry, "name")
        if isinstance(name, str) and name != quota.covered:
            yield invalid(f"{quota.path}.name", name, OUT_OF_ORDER)


def quantities_not_negative(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Quotas and limits are not negative."""
    for quota in quotas(new):
        for name in ("nominalQuota", "borrowingLimit", "lendingLimit"):
            value = amount(member(quota.entry, name))
            if value is not None and value.nanos < 0:
                yield invalid(f"{quota.path}.{name}", str(value), NEGATIVE)


def no_limits_without(parent_field: str, parent: str) -> Predicate:
    """The rule that borrowing and lending limits require a parent in this field."""

    def predicate(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
        if text(new, "spec", parent_field):
            return
        for quota in quotas(new):
            for name in ("borrowingLimit", "lendingLimit"):
                value = amount(member(quota.entry, name))
                if value is not None:
                    yield invalid(f"{quota.path}.{name}", str(value), f"must be nil when {parent} is empty")

    return predicate


def lends_what_it_has(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A queue lends at most its nominal quota."""
    for quota in quotas(new):
        lent, nominal = amount(member(quota.entry, "lendingLimit")), amount(member(quota.entry, "nominalQuota"))
        if lent is not None and nominal is not None and lent.nanos > nominal.nanos:
            yield invalid(f"{quota.path}.lendingLimit", str(lent), OVER_NOMINAL)


def flavors_in_total(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """All groups together have at most this many flavors."""
    total = sum(len(items(group, "flavors")) for _, group in mappings(new, "spec", "resourceGroups"))
    if total > FLAVORS_MAX:
        detail = f"total number of flavors across all resourceGroups must be ≤ {FLAVORS_MAX}, got {total}"
        yield invalid("spec.resourceGroups", total, detail)


def covered_in_total(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """All groups together cover at most this many resources."""
    total = sum(len(items(group, "coveredResources")) for _, group in mappings(new, "spec", "resourceGroups"))
    if total > COVERED_MAX:
        detail = f"total number of covered resources across all resourceGroups must be ≤ {COVERED_MAX}, got {total}"
        yield invalid("spec.resourceGroups", total, detail)


def combinations_in_group(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """One group has at most this many entries of quota."""
    for i, group in mappings(new, "spec", "resourceGroups"):
        total = sum(len(items(flavor, "resources")) for _, flavor in mappings(group, "flavors"))
        if total > COMBINATIONS_MAX:
            detail = (
                f"number of flavor-resource combinations in a resourceGroup must be ≤ {COMBINATIONS_MAX}, got {total}"
            )
            yield invalid(f"spec.resourceGroups[{i}]", total, detail)


def namespaces_selected(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The namespace selector is valid."""
    return selector_errors(member(new, "spec", "namespaceSelector"), "spec.namespaceSelector")


def preemption_checked(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The webhook's check of the schema's rule on preemption."""
    preemption = mapping(new, "spec", "preemption")
    if not preemption_fits(preemption):
        yield invalid("spec.preemption", preemption, RECLAIM_NEEDED)


def preference_checked(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The webhook's check of the schema's rule on the preference among flavors."""
    fungibility = mapping(new, "spec", "flavorFungibility")
    preference = text(fungibility, "preference")
    if preference and not preference_fits(fungibility):
        detail = f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
        yield invalid("spec.flavorFungibility.preference", preference, detail)


def weight_not_negative(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A weight is not negative."""
    weight = amount(member(new, "spec", "fairSharing", "weight"))
    if weight is not None and weight.nanos < 0:
        yield invalid("spec.fairSharing", str(weight), NEGATIVE)


def weight_counts(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A weight is either zero or large enough to divide by."""
    weight = amount(member(new, "spec", "fairSharing", "weight"))
    if weight is not None and weight.nanos == 1:
        yield invalid("spec.fairSharing", str(weight), WEIGHT_TOO_SMALL)


def check_flavors(tree: Tree) -> dict[str, frozenset[str]]:
    """By check, the flavors that it is limited to."""
    checks = mappings(tree, "spec", "admissionChecksStrategy", "admissionChecks")
    return {
        text(check, "name"): frozenset(name for name in items(check, "onFlavors") if isinstance(name, str))
        for _, check in checks
    }


def checks_on_flavors(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A check is limited to flavors of this queue; violations in the old object may stay."""
    flavors = flavor_names(new)
    tolerated: dict[str, frozenset[str]] = {}
    lenient = not context.on("RejectUpdatesToCQWithInvalidOnFlavors")
    if old is not None and lenient and set(flavor_names(old)) == set(flavors):
        tolerated = check_flavors(old)
    now = check_flavors(new)
    for i, check in mappings(new, "spec", "admissionChecksStrategy", "admissionChecks"):
        if tolerated.get(text(check, "name")) == now[text(check, "name")]:
            continue
        for j, name in enumerate(items(check, "onFlavors")):
            if isinstance(name, str) and name not in flavors:
                path = f"spec.admissionChecksStrategy.admissionChecks[{i}].onFlavors[{j}]"
                yield not_supported(path, name, sorted(flavors))


def concurrency_fixed(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The policy of concurrent admission is immutable."""
    policy = member(new, "spec", "concurrentAdmissionPolicy")
    if policy != member(old, "spec", "concurrentAdmissionPolicy"):
        yield invalid("spec.concurrentAdmissionPolicy", policy, IMMUTABLE)


def concurrent_one_group(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Concurrent admission needs one resource group."""
    groups = len(items(new, "spec", "resourceGroups"))
    if has(new, "spec", "concurrentAdmissionPolicy") and groups != 1:
        yield invalid("spec.resourceGroups", groups, ONE_GROUP)


def concurrent_few_flavors(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Concurrent admission creates a variant for each flavor, so their number is limited."""
    groups = items(new, "spec", "resourceGroups")
    flavors = len(items(groups[0], "flavors")) if len(groups) == 1 else 0
    if has(new, "spec", "concurrentAdmissionPolicy") and flavors > CONCURRENT_FLAVORS_MAX:
        detail = (
            f"cannot have more than {CONCURRENT_FLAVORS_MAX} resource flavors in the ResourceGroup "
            "when ConcurrentAdmissionPolicy is defined"
        )
        yield invalid("spec.resourceGroups[0].flavors", flavors, detail)


def concurrent_constraints(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Migration constraints require a mode that migrates."""
    migration = mapping(new, "spec", "concurrentAdmissionPolicy", "migration")
    mode = text(migration, "mode")
    if has(migration, "constraints") and mode not in ("", "TryPreferredFlavors"):
        path = "spec.concurrentAdmissionPolicy.migration.constraints"
        detail = f'may only be set when migration.mode is "TryPreferredFlavors" (got "{mode}")'
        yield invalid(path, member(migration, "constraints"), detail)


def concurrent_last_flavor(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The last acceptable flavor is one of this queue's."""
    constraints = mapping(new, "spec", "concurrentAdmissionPolicy", "migration", "constraints")
    name = text(constraints, "lastAcceptableFlavorName")
    flavors = flavor_names(new)
    if name and name not in flavors:
        path = "spec.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName"
        yield invalid(path, name, f"must be one of the flavors defined in the ClusterQueue: [{' '.join(flavors)}]")


def concurrent_not_strict(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """Variants overtake each other, so the strategy cannot be StrictFIFO."""
    if has(new, "spec", "concurrentAdmissionPolicy") and text(new, "spec", "queueingStrategy") == "StrictFIFO":
        yield invalid("spec.queueingStrategy", "StrictFIFO", NOT_STRICT)


NO_BORROWING: Final = "self.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))"
COMPLETE: Final = "self.flavors.all(f, size(f.resources) == size(self.coveredResources))"
COMPLETE_SAYS: Final = "flavors must have the same number of resources as the coveredResources"
COVERED: Final = "spec.resourceGroups[].coveredResources[]"
FLAVOR_NAME: Final = "spec.resourceGroups[].flavors[].name"
LIMITS: Final = (f"{RQ}.borrowingLimit", f"{RQ}.lendingLimit")
CONCURRENT: Final = "spec.concurrentAdmissionPolicy"
WEIGHT: Final = "spec.fairSharing.weight"
WEIGHT_SAYS: Final = WEIGHT_TOO_SMALL


def group_rules(kind: str, parent_field: str, parent: str) -> tuple[Rule, ...]:
    """The rules that ClusterQueues and Cohorts share, on resource groups and weights, numbered 1 to 8."""
    return (
        webhook_rule(f"{kind}-1", COVERED, "", covered_well_formed),
        webhook_rule(f"{kind}-2", COVERED, "", covered_once),
        webhook_rule(f"{kind}-3", FLAVOR_NAME, "", flavors_once),
        webhook_rule(f"{kind}-4", f"{RQ}.name", OUT_OF_ORDER, resources_in_order),
        webhook_rule(f"{kind}-5", (f"{RQ}.nominalQuota", *LIMITS), NEGATIVE, quantities_not_negative),
        webhook_rule(
            f"{kind}-6", LIMITS, f"must be nil when {parent} is empty", no_limits_without(parent_field, parent)
        ),
        webhook_rule(f"{kind}-7", WEIGHT, NEGATIVE, weight_not_negative),
        webhook_rule(f"{kind}-8", WEIGHT, WEIGHT_SAYS, weight_counts),
    )


CLUSTER_QUEUE: Final[tuple[Rule, ...]] = (
    cel_rule(
        "CQ-CEL-1",
        "spec",
        BORROW_ALONE,
        f"!has(self.resourceGroups) || has(self.cohortName) || {NO_BORROWING}",
        lambda spec, _: has(spec, "cohortName") or no_borrowing_limit(spec),
        version="v1beta2",
    ),
    cel_rule(
        "CQ-CEL-2",
        "spec",
        BORROW_ALONE,
        f"!has(self.resourceGroups) || has(self.cohort) || {NO_BORROWING}",
        lambda spec, _: has(spec, "cohort") or no_borrowing_limit(spec),
        version="v1beta1",
    ),
    cel_rule(
        "CQ-CEL-3",
        "spec.flavorFungibility",
        "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor",
        "!has(self.preference) || (has(self.whenCanBorrow) && self.whenCanBorrow == 'TryNextFlavor'"
        " && has(self.whenCanPreempt) && self.whenCanPreempt == 'TryNextFlavor')",
        preference_fits,
    ),
    cel_rule(
        "CQ-CEL-4",
        "spec.preemption",
        RECLAIM_NEEDED,
        "!has(self.reclaimWithinCohort) || self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort)"
        " || !has(self.borrowWithinCohort.policy) || self.borrowWithinCohort.policy == 'Never'",
        preemption_fits,
    ),
    cel_rule("CQ-CEL-5", "spec.resourceGroups[]", COMPLETE_SAYS, COMPLETE, flavors_complete),
    *group_rules("CQ", "cohortName", "cohort"),
    webhook_rule("CQ-9", f"{RQ}.lendingLimit", OVER_NOMINAL, lends_what_it_has),
    webhook_rule(
        "CQ-10",
        "spec.resourceGroups",
        "total number of flavors across all resourceGroups must be ≤ 256, got %d",
        flavors_in_total,
    ),
    webhook_rule(
        "CQ-11",
        "spec.resourceGroups",
        "total number of covered resources across all resourceGroups must be ≤ 256, got %d",
        covered_in_total,
    ),
    webhook_rule(
        "CQ-12",
        "spec.resourceGroups[]",
        "number of flavor-resource combinations in a resourceGroup must be ≤ 512, got %d",
        combinations_in_group,
    ),
    webhook_rule("CQ-13", "spec.namespaceSelector", "", namespaces_selected),
    webhook_rule(
        "CQ-14",
        "spec.preemption",
        RECLAIM_NEEDED,
        preemption_checked,
    ),
    webhook_rule(
        "CQ-15",
        "spec.flavorFungibility.preference",
        'preference "%s" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor',
        preference_checked,
    ),
    webhook_rule(
        "CQ-16",
        "spec.admissionChecksStrategy.admissionChecks[].onFlavors[]",
        "supported values: %s",
        checks_on_flavors,
        differs="The flavors on offer are listed in alphabetical order; Kueue lists them in another order each time.",
    ),
    webhook_rule("CQ-17", CONCURRENT, IMMUTABLE, concurrency_fixed, on=("update",)),
    webhook_rule(
        "CQ-18",
        "spec.resourceGroups",
        ONE_GROUP,
        concurrent_one_group,
        gate="ConcurrentAdmission",
    ),
    webhook_rule(
        "CQ-19",
        "spec.resourceGroups[].flavors",
        "cannot have more than 16 resource flavors in the ResourceGroup when ConcurrentAdmissionPolicy is defined",
        concurrent_few_flavors,
        gate="ConcurrentAdmission",
    ),
    webhook_rule(
        "CQ-20",
        f"{CONCURRENT}.migration.constraints",
        'may only be set when migration.mode is "TryPreferredFlavors" (got "%s")',
        concurrent_constraints,
        gate="ConcurrentAdmission",
    ),
    webhook_rule(
        "CQ-21",
        f"{CONCURRENT}.migration.constraints.lastAcceptableFlavorName",
        "must be one of the flavors defined in the ClusterQueue: %s",
        concurrent_last_flavor,
        gate="ConcurrentAdmission",
    ),
    webhook_rule(
        "CQ-22",
        "spec.queueingStrategy",
        NOT_STRICT,
        concurrent_not_strict,
        gate="ConcurrentAdmission",
    ),
)

LOCAL_QUEUE: Final[tuple[Rule, ...]] = (
    cel_rule("LQ-CEL-1", "spec.clusterQueue", IMMUTABLE, "self == oldSelf", lambda queue, before: queue == before),
)

COHORT: Final[tuple[Rule, ...]] = (
    cel_rule("CO-CEL-1", "spec.resourceGroups[]", COMPLETE_SAYS, COMPLETE, flavors_complete),
    *group_rules("CO", "parentName", "parent"),
)
