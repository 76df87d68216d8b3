"""Defaulting and validation of every kind, as one table of rules.

There are three steps, as in a cluster: `default` is the mutating webhook, the rules on the CEL surface are those of the
schema (422 Invalid), and the rest are those of the validating webhook (403 Forbidden), which checks all rules of
Workloads (`BY_WEBHOOK`). Patterns, lengths and list keys are in the schema, not here.
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
"""Kinds and versions whose schema carries no rules: they are written often, and rules slow each write (ADR 0009)."""


class Rejection(Frozen):
    """A refusal: the HTTP status and reason, the message, and its field errors."""

    code: Literal[403, 422]
    reason: Literal["Forbidden", "Invalid"]
    message: str
    errors: tuple[FieldError, ...]


def rules_of(kind: str, *, version: str = "v1beta2", surface: Surface | None = None) -> Iterator[Rule]:
    """The rules for objects of a kind in a served version, of one surface or of both."""
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
    """All mistakes of an object, in the order of the rules; `old` is the previous state, `None` on creation.

    The webhook sees each object as v1beta2, so for an object written as v1beta1 only the schema's rules are checked:
    convert it and check the result on the webhook's surface.
    """
    context = Context(gates)
    return tuple(
        error for rule in rules_of(kind, version=version, surface=surface) for error in rule.judge(new, old, context)
    )


def schema_rules(kind: str, version: str) -> tuple[Rule, ...]:
    """The rules that the schema of a kind carries in a served version."""
    return () if (kind, version) in BY_WEBHOOK else (*rules_of(kind, version=version, surface="CEL"),)


def check_schema(kind: str, new: Tree, old: Tree | None = None, *, version: str = "v1beta2") -> tuple[FieldError, ...]:
    """The mistakes that the API server finds by the schema's rules."""
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
    """The API server's refusal of this object, or None; the webhook is called only if the schema accepts.

    Defaults must have been filled in. An object written as v1beta1 is checked by the schema of that version, and
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
    """The API server's response to an object that its schema refuses."""
    name = shown(text(tree, "metadata", "name"))
    message = f"{kind}.{KINDS[kind].group} {name} is invalid: {aggregate(errors)}"
    return Rejection(422, "Invalid", message, errors)


def webhook_name(kind: str) -> str:
    """The name of the validating webhook of a kind."""
    return f"v{kind.lower()}.kb.io"


def warnings(kind: str, version: str = "v1beta2") -> tuple[str, ...]:
    """The warnings for writing this kind in this version."""
    return (DEPRECATED,) if version in KINDS[kind].deprecated else ()


def default(kind: str, tree: Tree, gates: Mapping[str, bool] = GATES) -> Tree:
    """The mutating webhook's defaults on creation; those of the schema are not included."""
    if kind in ("ClusterQueue", "ResourceFlavor"):
        return with_finalizer(tree, Finalizer.RESOURCE_IN_USE.value)
    if kind == "Workload" and isinstance(member(tree, "spec", "podSets"), list):
        return with_pod_sets(tree, [*default_pod_sets(items(tree, "spec", "podSets"), Context(gates))])
    return tree


def with_finalizer(tree: Tree, finalizer: str) -> Tree:
    """The object with this finalizer."""
    present = items(tree, "metadata", "finalizers")
    if finalizer in present:
        return tree
    return {**tree, "metadata": {**mapping(tree, "metadata"), "finalizers": [*present, finalizer]}}


def with_pod_sets(tree: Tree, pod_sets: list[object]) -> Tree:
    """The workload with these pod sets."""
    return {**tree, "spec": {**mapping(tree, "spec"), "podSets": pod_sets}}


def default_pod_sets(pod_sets: list[object], context: Context) -> Iterator[object]:
    """A workload's pod sets with defaults: a single one is named main, and without the gate none is partial."""
    partial = context.on("PartialAdmission")
    for pod_set in pod_sets:
        if not isinstance(pod_set, Mapping):
            yield pod_set
            continue
        kept = {key: value for key, value in pod_set.items() if partial or key != "minCount"}
        if len(pod_sets) == 1 and kept.get("name") in (None, ""):
            kept["name"] = DEFAULT_POD_SET
        yield kept
