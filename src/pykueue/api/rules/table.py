"""May this object be? Defaulting and validation of every kind, as one table of rules.

An object passes three gates, and so does this module: `default` is the mutating webhook, the rules on the CEL surface
are those of the schema (422 Invalid), and the rest are those of the validating webhook (403 Forbidden), which judges
Workloads by all of them (`BY_WEBHOOK`). What the types alone say, patterns and lengths and list keys, is the schema's
and not here.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from pykueue.api import schema
from pykueue.api.fields import FieldError, aggregate, shown
from pykueue.api.kinds import DEPRECATED, KINDS
from pykueue.api.names import DEFAULT_POD_SET, Finalizer
from pykueue.api.rules.flavors import (
    ADMISSION_CHECK,
    MULTIKUEUE_CLUSTER,
    MULTIKUEUE_CONFIG,
    PROVISIONING_REQUEST,
    RESOURCE_FLAVOR,
    TOPOLOGY,
)
from pykueue.api.rules.queues import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE
from pykueue.api.rules.rule import GATES, Context, Rule, Surface
from pykueue.api.rules.workload import WORKLOAD
from pykueue.api.trees import Tree, items, mapping, member, text
from pykueue.base.struct import Frozen

RULES: Final[tuple[Rule, ...]] = (
    *CLUSTER_QUEUE,
    *LOCAL_QUEUE,
    *COHORT,
    *RESOURCE_FLAVOR,
    *TOPOLOGY,
    *ADMISSION_CHECK,
    *MULTIKUEUE_CLUSTER,
    *MULTIKUEUE_CONFIG,
    *PROVISIONING_REQUEST,
    *WORKLOAD,
)
"""Every rule of every kind; within a kind, errors are reported in this order."""
BY_WEBHOOK: Final = frozenset({("Workload", "v1beta2")})
"""Kinds and versions whose schema carries no rule: they are written often, and rules cost on each write (ADR 0009)."""


class Rejection(Frozen):
    """An answer of no: the HTTP status and reason, the text a user reads, and the mistakes it is made of."""

    code: Literal[403, 422]
    reason: Literal["Forbidden", "Invalid"]
    message: str
    errors: tuple[FieldError, ...]


def rules_of(kind: str, *, version: str = "v1beta2", surface: Surface | None = None) -> Iterator[Rule]:
    """The rules that judge objects of a kind in a served version, of one surface or of both."""
    for rule in RULES:
        if rule.kind == kind and rule.version in ("any", version) and surface in (None, rule.surface):
            yield rule


def check(
    kind: str,
    new: Tree,
    old: Tree | None = None,
    gates: Mapping[str, bool] = GATES,
    *,
    version: str = "v1beta2",
    surface: Surface | None = None,
) -> tuple[FieldError, ...]:
    """Every mistake of an object at once, in the order of the rules; `old` is what it was, `None` at its creation.

    The webhook sees each object as v1beta2, so of an object written as v1beta1 only the schema's rules are checked:
    convert it, and check that on the webhook's surface.
    """
    context = Context(gates)
    return tuple(
        error for rule in rules_of(kind, version=version, surface=surface) for error in rule.judge(new, old, context)
    )


def schema_rules(kind: str, version: str) -> tuple[Rule, ...]:
    """The rules that the schema of a kind carries in a served version."""
    return () if (kind, version) in BY_WEBHOOK else (*rules_of(kind, version=version, surface="CEL"),)


def check_schema(kind: str, new: Tree, old: Tree | None = None, *, version: str = "v1beta2") -> tuple[FieldError, ...]:
    """The mistakes that the API server itself finds by rules."""
    return tuple(error for rule in schema_rules(kind, version) for error in rule.judge(new, old, Context(GATES)))


def check_webhook(
    kind: str, new: Tree, old: Tree | None = None, gates: Mapping[str, bool] = GATES
) -> tuple[FieldError, ...]:
    """The mistakes that the validating webhook finds; it sees each object as v1beta2."""
    return check(kind, new, old, gates, surface=None if (kind, "v1beta2") in BY_WEBHOOK else "webhook")


def reject(
    kind: str,
    new: Tree,
    old: Tree | None = None,
    gates: Mapping[str, bool] = GATES,
    *,
    version: str = "v1beta2",
) -> Rejection | None:
    """What the API server answers if it refuses this object; the webhook is asked only of what the schema accepts.

    Defaults must have been filled in. An object written as v1beta1 is judged by the schema of that version, and is
    converted for the webhook, which sees each object as v1beta2.
    """
    errors = (
        *schema.problems(KINDS[kind].view, new, version),
        *check_schema(kind, new, old, version=version),
    )
    if errors:
        return invalid_object(kind, new, errors)
    stored, before = as_stored(kind, new, version), as_stored(kind, old, version) if old is not None else None
    errors = check_webhook(kind, stored, before, gates)
    if errors:
        message = f'admission webhook "{webhook_name(kind)}" denied the request: {aggregate(errors)}'
        return Rejection(403, "Forbidden", message, errors)
    return None


def as_stored(kind: str, tree: Tree, version: str) -> Tree:
    """The object in the version that the webhook sees."""
    return mapping(schema.as_stored(KINDS[kind].view, tree, version))


def invalid_object(kind: str, tree: Tree, errors: tuple[FieldError, ...]) -> Rejection:
    """What the API server answers to an object that its schema refuses."""
    name = shown(text(tree, "metadata", "name"))
    message = f"{kind}.{KINDS[kind].group} {name} is invalid: {aggregate(errors)}"
    return Rejection(422, "Invalid", message, errors)


def webhook_name(kind: str) -> str:
    """The name of the validating webhook of a kind."""
    return f"v{kind.lower()}.kb.io"


def warnings(kind: str, version: str = "v1beta2") -> tuple[str, ...]:
    """What a user who writes this kind in this version is warned of."""
    return (DEPRECATED,) if version in KINDS[kind].deprecated else ()


def default(kind: str, tree: Tree, gates: Mapping[str, bool] = GATES) -> Tree:
    """The object as the mutating webhook leaves it when it is created; what the schema fills in is not here."""
    if kind in ("ClusterQueue", "ResourceFlavor"):
        return with_finalizer(tree, Finalizer.RESOURCE_IN_USE.value)
    if kind == "Workload" and isinstance(member(tree, "spec", "podSets"), list):
        return with_pod_sets(tree, [*default_pod_sets(items(tree, "spec", "podSets"), Context(gates))])
    return tree


def with_finalizer(tree: Tree, finalizer: str) -> Tree:
    """The object, kept from vanishing until this finalizer is taken off."""
    present = items(tree, "metadata", "finalizers")
    if finalizer in present:
        return tree
    return {**tree, "metadata": {**mapping(tree, "metadata"), "finalizers": [*present, finalizer]}}


def with_pod_sets(tree: Tree, pod_sets: list[object]) -> Tree:
    """The workload with these pod sets."""
    return {**tree, "spec": {**mapping(tree, "spec"), "podSets": pod_sets}}


def default_pod_sets(pod_sets: list[object], context: Context) -> Iterator[object]:
    """The pod sets as a workload starts with them: one alone is called main, and none is partial without the gate."""
    partial = context.on("PartialAdmission")
    for pod_set in pod_sets:
        if not isinstance(pod_set, Mapping):
            yield pod_set
            continue
        kept = {key: value for key, value in pod_set.items() if partial or key != "minCount"}
        if len(pod_sets) == 1 and kept.get("name") in (None, ""):
            kept["name"] = DEFAULT_POD_SET
        yield kept
