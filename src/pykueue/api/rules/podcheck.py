"""Validation of pod templates and Jobs: every mistake that Kubernetes or a strict client refuses.

The annotations in `pods` give the shapes; this module checks values, with Kubernetes' messages. Of fields that we do
not read only the names are checked. Nothing here raises, whatever the tree.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from pykueue.api.fields import NEGATIVE, FieldError, forbidden, invalid, not_supported, required
from pykueue.api.labels import NO_OPERATOR, VALUES_NEEDED, VALUES_UNWELCOME, label_name_errors
from pykueue.api.pods import Job, PodTemplate
from pykueue.api.rules.flavors import EFFECTS
from pykueue.api.schema import ERRORS_MAX, advised, mistakes, node_of, unknown_in
from pykueue.api.trees import amount, has, mapping, mappings, member, text, whole

UNREAD_AT_ROOT: Final = ("apiVersion", "kind", "status")
TOLERATION_OPERATORS: Final = ("Equal", "Exists")


def template_problems(tree: object, path: str = "", *, unknown: bool = True) -> tuple[FieldError, ...]:
    """All mistakes of the pod template at this path; on request, without unknown fields."""
    found = [*islice(template_types(tree, path), ERRORS_MAX), *template_values(tree, path)]
    if unknown:
        found += advised(unknown_in(node_of(PodTemplate), tree, path))
    return once(found)


def template_types(tree: object, path: str) -> Iterator[FieldError]:
    """Wrong types, missing fields and malformed quantities of the pod template at this path, in the fields we read."""
    return mistakes(node_of(PodTemplate), tree, path)


def job_problems(tree: object) -> tuple[FieldError, ...]:
    """All mistakes of a batch/v1 Job and its template, except in its own name and labels.

    A restart policy may be missing, although an API server requires one: it changes nothing in a queue.
    """
    node = node_of(Job)
    found = [*islice(mistakes(node, tree, ""), ERRORS_MAX)]
    for name in ("parallelism", "completions"):
        count = whole(tree, "spec", name)
        if count is not None and count < 0:
            found.append(invalid(f"spec.{name}", count, NEGATIVE))
    if has(tree, "spec", "template"):
        found += template_values(member(tree, "spec", "template"), "spec.template")
    if text(tree, "spec", "template", "spec", "restartPolicy"):
        found += restart_errors(mapping(tree, "spec"))
    return once([*found, *advised(unknown_in(node, tree, "", UNREAD_AT_ROOT))])


def restart_errors(spec: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors in the restart policy of a Job."""
    path, policy = "spec.template.spec.restartPolicy", text(spec, "template", "spec", "restartPolicy")
    if policy in ("", "Always"):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(path, policy, ("OnFailure", "Never"))
    elif member(spec, "podFailurePolicy") is not None and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def once(errors: list[FieldError]) -> tuple[FieldError, ...]:
    """The errors without duplicates of the same message and path."""
    return tuple({str(error): error for error in errors}.values())


def template_values(tree: object, path: str) -> Iterator[FieldError]:
    """Errors in values of the right type."""
    at = f"{path}.spec" if path else "spec"
    spec = mapping(tree, "spec")
    containers = member(spec, "containers")
    if containers is None or containers == []:
        yield required(f"{at}.containers")
    for field in ("containers", "initContainers"):
        seen: set[str] = set()
        for i, container in mappings(spec, field):
            place, name = f"{at}.{field}[{i}]", text(container, "name")
            if member(container, "name") == "":
                yield required(f"{place}.name")
            if name and name in seen:
                yield FieldError(f"{place}.name", "Duplicate", name)
            seen.add(name)
            yield from negative_amounts(mapping(container, "resources"), f"{place}.resources")
    yield from negative_amounts(mapping(spec, "resources"), f"{at}.resources")
    yield from negative_amounts(spec, at, fields=("overhead",))
    yield from affinity_values(mapping(spec, "affinity", "nodeAffinity"), f"{at}.affinity.nodeAffinity")
    for i, toleration in mappings(spec, "tolerations"):
        yield from toleration_values(toleration, f"{at}.tolerations[{i}]")


def negative_amounts(
    tree: object, path: str, *, fields: tuple[str, ...] = ("limits", "requests")
) -> Iterator[FieldError]:
    """Amounts are not negative."""
    for field in fields:
        for name, value in mapping(tree, field).items():
            quantity = amount(value)
            if quantity is not None and quantity.nanos < 0:
                yield invalid(f"{path}.{field}[{name}]", str(quantity), NEGATIVE)


def affinity_values(affinity: object, path: str) -> Iterator[FieldError]:
    """Errors in the required and preferred node affinity."""
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    if has(affinity, field):
        terms = mappings(affinity, field, "nodeSelectorTerms")
        if member(affinity, field, "nodeSelectorTerms") == []:
            yield required(f"{path}.{field}.nodeSelectorTerms", "must have at least one node selector term")
        for i, term in terms:
            yield from term_values(term, f"{path}.{field}.nodeSelectorTerms[{i}]")
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    for i, preferred in mappings(affinity, field):
        yield from term_values(member(preferred, "preference"), f"{path}.{field}[{i}].preference")


def term_values(term: object, path: str) -> Iterator[FieldError]:
    """Errors in the requirements of one term."""
    for i, requirement in mappings(term, "matchExpressions"):
        at = f"{path}.matchExpressions[{i}]"
        yield from requirement_values(requirement, at)
        if isinstance(member(requirement, "key"), str):
            yield from label_name_errors(text(requirement, "key"), f"{at}.key")
    for i, requirement in mappings(term, "matchFields"):
        at, operator = f"{path}.matchFields[{i}]", member(requirement, "operator")
        if isinstance(operator, str) and operator not in ("In", "NotIn"):
            yield invalid(f"{at}.operator", operator, NO_OPERATOR)


def requirement_values(requirement: object, path: str) -> Iterator[FieldError]:
    """Errors in one requirement on a node's labels."""
    values = member(requirement, "values")
    count = len(values) if isinstance(values, list) else 0
    match member(requirement, "operator"):
        case "In" | "NotIn":
            if not count:
                yield required(f"{path}.values", VALUES_NEEDED)
        case "Exists" | "DoesNotExist":
            if count:
                yield forbidden(f"{path}.values", VALUES_UNWELCOME)
        case "Gt" | "Lt":
            if count != 1:
                yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case str(other):
            yield invalid(f"{path}.operator", other, NO_OPERATOR)


def toleration_values(toleration: object, path: str) -> Iterator[FieldError]:
    """Errors in a toleration."""
    key, operator, effect = (text(toleration, name) for name in ("key", "operator", "effect"))
    if key:
        yield from label_name_errors(key, f"{path}.key")
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, detail)
    if has(toleration, "tolerationSeconds") and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator == "Exists" and text(toleration, "value"):
        yield invalid(f"{path}.operator", text(toleration, "value"), "value must be empty when `operator` is 'Exists'")
    if operator and operator not in TOLERATION_OPERATORS:
        yield not_supported(f"{path}.operator", operator, TOLERATION_OPERATORS)
    if effect and effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)
