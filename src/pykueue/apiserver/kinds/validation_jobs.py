"""Validation of new and changed Jobs, with the messages of kube-apiserver."""

from collections.abc import Iterator, Mapping
from typing import Final, cast

import msgspec

from pykueue.api.core import Tree, matches
from pykueue.api.fields import (
    IMMUTABLE,
    NEGATIVE,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from pykueue.api.labels import domain_path_errors, label_name_errors, selector_errors
from pykueue.api.rules.podcheck import restart_errors
from pykueue.api.trees import items, mapping, mappings, member, text, whole
from pykueue.apiserver.kinds.jobdefaults import CONTROLLER_UID, JOB_NAME, PREFIX
from pykueue.apiserver.kinds.names import dns_label
from pykueue.apiserver.kinds.validation import ErrorWithoutValue, selector_of
from pykueue.apiserver.kinds.validation_pods import template_errors

COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
INDEXED: Final = "Indexed"
NON_INDEXED: Final = "NonIndexed"
MODES: Final = (NON_INDEXED, INDEXED)
MANY: Final = 100_000
"""With more completions, lower limits apply to the parallelism and failed indexes of an Indexed Job."""
FEW: Final = 10_000
RULES_MAX: Final = 20
CODES_MAX: Final = 255
MANAGED_BY_MAX: Final = 63
INDEXES_MAX: Final = 64 * 1024
ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS: Final = ("In", "NotIn")
STATUSES: Final = ("False", "True", "Unknown")
REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
NEEDS_INDEXED: Final = "requires indexed completion mode"
FIXED: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
"""Immutable fields of the spec."""


def create_errors(job: Tree) -> Iterator[FieldError]:
    """Errors of a Job, except in its metadata."""
    spec = mapping(job, "spec")
    if member(spec, "manualSelector") is not True and member(spec, "selector") is not None:
        yield from label_errors(job)
    yield from spec_errors(spec)
    completions = whole(spec, "completions")
    if text(spec, "completionMode") == INDEXED and completions:
        name = text(job, "metadata", "name")
        longest = f"{name}-{completions - 1}"
        if dns_label(longest):
            detail = f"will not able to create pod with invalid DNS label: {longest}"
            yield invalid("metadata.name", name, detail)


def label_errors(job: Tree) -> Iterator[FieldError]:
    """Errors in the labels that identify the Job's pods."""
    name, uid = text(job, "metadata", "name"), text(job, "metadata", "uid")
    path = "spec.template.metadata.labels"
    labels = mapping(job, "spec", "template", "metadata", "labels")
    wanted = {CONTROLLER_UID: uid, JOB_NAME: name, PREFIX + CONTROLLER_UID: uid, PREFIX + JOB_NAME: name}
    for key, value in wanted.items():
        if key not in labels:
            yield required(f"{path}[{key}]", f"must be '{value}'")
        elif labels[key] != value:
            yield invalid(f"{path}[{key}]", labels, f"must be '{value}'")
    selector = member(job, "spec", "selector")
    if not matches(selector_of(selector), wanted):
        yield invalid("spec.selector", selector, "`selector` not auto-generated")


def spec_errors(spec: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors in the spec of a Job."""
    for name in COUNTS:
        count = whole(spec, name)
        if count is not None and count < 0:
            yield invalid(f"spec.{name}", count, NEGATIVE)
        if name == "maxFailedIndexes" and count is not None and whole(spec, "backoffLimitPerIndex") is None:
            yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if member(spec, "managedBy") is not None:
        yield from domain_path_errors(text(spec, "managedBy"), "spec.managedBy")
        if len(text(spec, "managedBy")) > MANAGED_BY_MAX:
            yield too_long("spec.managedBy", MANAGED_BY_MAX)
    yield from mode_errors(spec)
    if member(spec, "podFailurePolicy") is not None:
        yield from failure_policy_errors(spec)
    if member(spec, "successPolicy") is not None:
        yield from success_policy_errors(spec)
    yield from replacement_errors(spec)
    yield from template_errors(mapping(spec, "template"), "spec.template")
    yield from restart_errors(spec)
    selector = member(spec, "selector")
    if selector is None:
        yield required("spec.selector")
    yield from selector_errors(selector, "spec.selector")
    labels = mapping(spec, "template", "metadata", "labels")
    if not matches(selector_of(selector), cast("Mapping[str, str]", labels)):
        shown = labels or msgspec.Raw(b"null")
        yield invalid("spec.template.metadata.labels", shown, "`selector` does not match template `labels`")


def mode_errors(spec: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors for fields that do not fit the completion mode."""
    mode = text(spec, "completionMode") or NON_INDEXED
    if mode not in MODES:
        yield not_supported("spec.completionMode", mode, MODES)
    completions, parallelism = whole(spec, "completions"), whole(spec, "parallelism") or 0
    per_index, most_failed = whole(spec, "backoffLimitPerIndex"), whole(spec, "maxFailedIndexes")
    if mode == NON_INDEXED:
        if per_index is not None:
            yield invalid("spec.backoffLimitPerIndex", per_index, NEEDS_INDEXED)
        if most_failed is not None:
            yield invalid("spec.maxFailedIndexes", most_failed, NEEDS_INDEXED)
    if mode != INDEXED:
        return
    if completions is None:
        yield required("spec.completions", f"when completion mode is {INDEXED}")
    if parallelism > MANY:
        detail = f"must be less than or equal to {MANY} when completion mode is {INDEXED}"
        yield invalid("spec.parallelism", parallelism, detail)
    if completions is not None and most_failed is not None and most_failed > completions:
        yield invalid("spec.maxFailedIndexes", most_failed, "must be less than or equal to completions")
    if most_failed is not None and most_failed > MANY:
        yield invalid("spec.maxFailedIndexes", most_failed, f"must be less than or equal to {MANY}")
    if completions is None or completions <= MANY or per_index is None:
        return
    detail = (
        f"must be less than or equal to {FEW} when completions are above {MANY} and used with backoff limit per index"
    )
    if most_failed is None:
        yield required("spec.maxFailedIndexes", f"must be specified when completions is above {MANY}")
    if parallelism > FEW:
        yield invalid("spec.parallelism", parallelism, detail)
    if most_failed is not None and most_failed > FEW:
        yield invalid("spec.maxFailedIndexes", most_failed, detail)


def failure_policy_errors(spec: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors in a pod failure policy."""
    rules = mappings(spec, "podFailurePolicy", "rules")
    path = "spec.podFailurePolicy.rules"
    if len(rules) > RULES_MAX:
        yield too_many(path, len(rules), RULES_MAX)
    pod = mapping(spec, "template", "spec")
    names = {text(one, "name") for field in ("containers", "initContainers") for _, one in mappings(pod, field)}
    for index, rule in rules:
        yield from rule_errors(spec, rule, f"{path}[{index}]", names)


def rule_errors(
    spec: Mapping[str, object], rule: Mapping[str, object], path: str, names: set[str]
) -> Iterator[FieldError]:
    """Errors in a rule of a pod failure policy."""
    action = text(rule, "action")
    if not action:
        yield required(f"{path}.action", f"valid values: {shown_list(ACTIONS)}")
    elif action == "FailIndex":
        if whole(spec, "backoffLimitPerIndex") is None:
            yield invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    elif action not in ACTIONS:
        yield not_supported(f"{path}.action", action, ACTIONS)
    codes, conditions = member(rule, "onExitCodes"), mappings(rule, "onPodConditions")
    if codes is not None:
        yield from code_errors(mapping(rule, "onExitCodes"), f"{path}.onExitCodes", names)
    if len(conditions) > RULES_MAX:
        yield too_many(f"{path}.onPodConditions", len(conditions), RULES_MAX)
    for index, pattern in conditions:
        at = f"{path}.onPodConditions[{index}]"
        yield from label_name_errors(text(pattern, "type"), f"{at}.type")
        status = text(pattern, "status")
        if not status:
            yield required(f"{at}.status", f"valid values: {shown_list(STATUSES)}")
        elif status not in STATUSES:
            yield not_supported(f"{at}.status", status, STATUSES)
    if codes is not None and conditions:
        yield ErrorWithoutValue(
            path, "Invalid", None, "specifying both OnExitCodes and OnPodConditions is not supported"
        )
    if codes is None and not conditions:
        yield ErrorWithoutValue(path, "Invalid", None, "specifying one of OnExitCodes and OnPodConditions is required")


def shown_list(values: tuple[str, ...]) -> str:
    """A list of texts as Go prints it."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def code_errors(codes: Mapping[str, object], path: str, names: set[str]) -> Iterator[FieldError]:
    """Errors in a requirement on exit codes."""
    operator, container = text(codes, "operator"), member(codes, "containerName")
    if not operator:
        yield required(f"{path}.operator", f"valid values: {shown_list(OPERATORS)}")
    elif operator not in OPERATORS:
        yield not_supported(f"{path}.operator", operator, OPERATORS)
    if isinstance(container, str) and container not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", container, detail)
    values = [value for value in items(codes, "values") if isinstance(value, int)]
    if not values:
        given = member(codes, "values")
        shown = msgspec.Raw(b"null") if given is None else given
        yield invalid(f"{path}.values", shown, "at least one value is required")
    elif len(values) > CODES_MAX:
        yield too_many(f"{path}.values", len(values), CODES_MAX)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(f"{path}.values[{index}]", value)
        seen.add(value)
    if values != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def success_policy_errors(spec: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors in a success policy."""
    if text(spec, "completionMode") != INDEXED:
        printed = [
            {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
            for _, rule in mappings(spec, "successPolicy", "rules")
        ]
        # kube-apiserver prints its internal type here.
        shown = msgspec.Raw(msgspec.json.encode({"Rules": printed or None}))
        yield invalid("spec.successPolicy", shown, NEEDS_INDEXED)
        return
    path = "spec.successPolicy.rules"
    rules = mappings(spec, "successPolicy", "rules")
    if not rules:
        yield required(path, "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > RULES_MAX:
        yield too_many(path, len(rules), RULES_MAX)
    completions = whole(spec, "completions") or 0
    for index, rule in rules:
        yield from success_rule_errors(rule, f"{path}[{index}]", completions)


def success_rule_errors(rule: Mapping[str, object], path: str, completions: int) -> Iterator[FieldError]:
    """Errors in a rule of a success policy."""
    count, indexes = whole(rule, "succeededCount"), member(rule, "succeededIndexes")
    if count is None and indexes is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if isinstance(indexes, str):
        if len(indexes) > INDEXES_MAX:
            yield too_long(f"{path}.succeededIndexes", INDEXES_MAX)
        try:
            total = counted(indexes, completions)
        except ValueError as error:
            yield invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    most = "must be less than or equal to"
    if count < 0:
        yield invalid(f"{path}.succeededCount", count, NEGATIVE)
    if count > completions:
        detail = f"{most} {completions} (the number of specified completions)"
        yield invalid(f"{path}.succeededCount", count, detail)
    if indexes is not None and count > total:
        detail = f"{most} {total} (the number of indexes in the specified succeededIndexes field)"
        yield invalid(f"{path}.succeededCount", count, detail)


def counted(indexes: str, completions: int) -> int:
    """The number of indexes in a text like `1,3-5`; raises `ValueError` with the reason if it is malformed."""
    total, last = 0, -1
    for part in indexes.split(",") if indexes else ():
        limits = part.split("-")
        if len(limits) > 2:
            raise ValueError(
                f'the fragment "{part}" violates the requirement that an index interval can have at most two parts '
                "separated by '-'"
            )
        numbers = []
        for limit in limits:
            if not limit.isascii() or not limit.isdigit():
                raise ValueError(f'cannot convert string to integer for index: "{limit}"')
            if int(limit) >= completions:
                raise ValueError(f'too large index: "{limit}"')
            numbers.append(int(limit))
        for number in numbers:
            if last >= number:
                raise ValueError(f"non-increasing order, previous: {last}, current: {number}")
            last = number
        total += numbers[-1] - numbers[0] + 1
    return total


def replacement_errors(spec: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors in the pod replacement policy."""
    policy = text(spec, "podReplacementPolicy")
    offered = REPLACEMENTS if member(spec, "podFailurePolicy") is None else REPLACEMENTS[:1]
    if policy and policy not in offered:
        yield not_supported("spec.podReplacementPolicy", policy, offered)


def update_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors of a changed Job, except in its metadata."""
    spec, before = mapping(new, "spec"), mapping(old, "spec")
    if spec == before:
        return
    found = [*create_errors(new)]
    yield from found
    if found:
        # kube-apiserver validates the spec as that of a new Job, and then as that of a changed one.
        yield from spec_errors(spec)
    yield from completion_errors(spec, before)
    if member(spec, "selector") != member(before, "selector"):
        yield invalid("spec.selector", member(spec, "selector"), IMMUTABLE)
    yield from template_change_errors(new, old)
    for name in FIXED:
        if member(spec, name) != member(before, name):
            yield invalid(f"spec.{name}", member(spec, name), IMMUTABLE)


def completion_errors(spec: Mapping[str, object], before: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors for a changed number of completions."""
    completions = member(spec, "completions")
    if completions == member(before, "completions"):
        return
    if text(spec, "completionMode") != INDEXED:
        yield invalid("spec.completions", completions, IMMUTABLE)
    elif completions is not None and completions != member(spec, "parallelism"):
        yield invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")


def template_change_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors for a changed template; scheduling directives may change while a Job is suspended and idle."""
    template, before = member(new, "spec", "template"), member(old, "spec", "template")
    if template == before:
        return
    if not idle(old):
        yield invalid("spec.template", template, IMMUTABLE)
        return
    allowed = with_directives(mapping(before), mapping(template))
    spec = with_resources(mapping(allowed, "spec"), mapping(template, "spec"))
    if spec != mapping(template, "spec"):
        yield invalid("spec.template.spec", member(template, "spec"), IMMUTABLE)


def idle(job: Tree) -> bool:
    """Whether a Job is suspended and has no active pods."""
    status = mapping(job, "status")
    suspended = any(
        text(one, "type") == "Suspended" and text(one, "status") == "True" for _, one in mappings(status, "conditions")
    )
    started = member(status, "startTime") is not None
    waits = member(job, "spec", "suspend") is True
    return waits and (not started or suspended) and not whole(status, "active")


def with_directives(before: Mapping[str, object], template: Mapping[str, object]) -> dict[str, object]:
    """A template with the scheduling directives of another."""
    spec, wanted = dict(mapping(before, "spec")), mapping(template, "spec")
    affinity, given = dict(mapping(spec, "affinity")), member(wanted, "affinity")
    affinity.pop("nodeAffinity", None)
    if isinstance(given, Mapping) and "nodeAffinity" in given:
        affinity["nodeAffinity"] = given["nodeAffinity"]
    taken = {name: wanted[name] for name in ("nodeSelector", "tolerations", "schedulingGates") if name in wanted}
    for name in ("affinity", "nodeSelector", "tolerations", "schedulingGates"):
        spec.pop(name, None)
    spec |= taken
    if affinity or given == {}:
        spec["affinity"] = affinity
    return {**before, "metadata": member(template, "metadata"), "spec": spec}


def with_resources(before: Mapping[str, object], wanted: Mapping[str, object]) -> dict[str, object]:
    """A pod spec with the resources of another's containers of the same names."""
    made = dict(before)
    for field in ("containers", "initContainers"):
        old, new = items(before, field), items(wanted, field)
        if len(old) == len(new) and field in made:
            made[field] = [
                {**mapping(one), "resources": member(other, "resources")}
                if text(one, "name") == text(other, "name")
                else one
                for one, other in zip(old, new, strict=True)
            ]
    return made


def warnings(job: Tree) -> Iterator[str]:
    """Warnings for the author of a new Job."""
    messages = dns_label(text(job, "metadata", "name"))
    if messages:
        listed = " ".join(messages)
        yield (
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS "
            f"label is recommended: [{listed}]"
        )
