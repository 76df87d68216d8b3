"""Rules of ResourceFlavors, Topologies, checks and the clusters behind them.

A rule is a row of the tables at the end: first those that the schema carries as CEL, then those of the webhook. Errors
are reported in this order.
"""

from collections.abc import Iterator
from typing import Final

from pykueue.api.fields import IMMUTABLE, FieldError, invalid
from pykueue.api.labels import label_name_errors, label_value, labels_errors
from pykueue.api.names import HOSTNAME_LABEL
from pykueue.api.rules.rule import Context, Holds, Rule, cel_rule, webhook_rule
from pykueue.api.trees import Tree, has, items, mapping, mappings, member, text

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
EFFECT_LIST: Final = str(list(EFFECTS))
EFFECT_SAYS: Final = f"supported taint effect values: {EFFECT_LIST[1:-1]}"
TAINTS_ONCE: Final = "taints must be unique by key and effect pair"
SAME: Final = "self == oldSelf"
UNIQUE: Final = "must be unique"
LAST_LEVEL: Final = f"self[size(self) - 1].nodeLabel == '{HOSTNAME_LABEL}'"
LAST_LEVEL_BEFORE: Final = f"oldSelf[size(oldSelf) - 1].nodeLabel == '{HOSTNAME_LABEL}'"


def same(node: object, before: object) -> bool:
    """The node is unchanged."""
    return node == before


def unique(nodes: object, *keys: str) -> bool:
    """Whether no two items of a list are equal, or equal in the values under these keys."""
    seen = [member(node, *keys) for node in nodes] if isinstance(nodes, list) else []
    return all(node not in seen[:index] for index, node in enumerate(seen))


def lowest(levels: object) -> str:
    """The label of the last level of a topology."""
    listed = items({"levels": levels}, "levels")
    return text(listed[-1], "nodeLabel") if listed else ""


def toleration_rules(kind: str, at: str, start: int) -> tuple[Rule, ...]:
    """The five rules of a list of tolerations, numbered from `start`."""

    def each(node: object) -> list[Tree]:
        return [toleration for _, toleration in mappings({"": node}, "")]

    rows: tuple[tuple[str, str, Holds], ...] = (
        (
            "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
            "has(t.key) || (has(t.operator) && t.operator == 'Exists')",
            lambda node, _: all(has(t, "key") or member(t, "operator") == "Exists" for t in each(node)),
        ),
        (
            "effect must be 'NoExecute' when 'tolerationSeconds' is set",
            "!has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute')",
            lambda node, _: all(
                not has(t, "tolerationSeconds") or member(t, "effect") == "NoExecute" for t in each(node)
            ),
        ),
        (
            "supported toleration values: 'Equal'(default), 'Exists'",
            "!has(t.operator) || t.operator in ['Equal', 'Exists']",
            lambda node, _: all(member(t, "operator") in (None, "Equal", "Exists") for t in each(node)),
        ),
        (
            "a value must be empty when 'operator' is 'Exists'",
            "!has(t.operator) || t.operator != 'Exists' || !has(t.value)",
            lambda node, _: all(member(t, "operator") != "Exists" or not has(t, "value") for t in each(node)),
        ),
        (
            EFFECT_SAYS,
            f"!has(t.effect) || t.effect in {EFFECT_LIST}",
            lambda node, _: all(member(t, "effect") in (None, *EFFECTS) for t in each(node)),
        ),
    )
    return tuple(
        cel_rule(f"{kind}-CEL-{start + index}", at, message, f"self.all(t, {cel})", holds)
        for index, (message, cel, holds) in enumerate(rows)
    )


def node_labels(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """A flavor's node labels are valid labels."""
    return labels_errors(member(new, "spec", "nodeLabels"), "spec.nodeLabels")


def taint_keys(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The key of a taint is a valid label key."""
    for i, taint in mappings(new, "spec", "nodeTaints"):
        key = member(taint, "key")
        if isinstance(key, str):
            yield from label_name_errors(key, f"spec.nodeTaints[{i}].key")


def taint_values(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The value of a taint is a valid label value."""
    for i, taint in mappings(new, "spec", "nodeTaints"):
        messages = label_value(text(taint, "value"))
        if messages:
            yield invalid(f"spec.nodeTaints[{i}].value", text(taint, "value"), ";".join(messages))


def taints_once(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """No two taints have the same key and effect."""
    seen: set[tuple[str, str]] = set()
    for i, taint in mappings(new, "spec", "nodeTaints"):
        pair = text(taint, "key"), text(taint, "effect")
        if pair in seen:
            yield FieldError(f"spec.nodeTaints[{i}]", "Duplicate", taint, TAINTS_ONCE)
        seen.add(pair)


def toleration_keys(tolerations: object, path: str) -> Iterator[FieldError]:
    """The key of a toleration is a valid label key, or absent."""
    for i, toleration in mappings({"": tolerations}, ""):
        key = text(toleration, "key")
        if key:
            yield from label_name_errors(key, f"{path}[{i}].key")


def flavor_tolerations(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
    """The keys of a flavor's tolerations are valid label keys."""
    return toleration_keys(member(new, "spec", "tolerations"), "spec.tolerations")


def topology_kept(spec: object, before: object) -> bool:
    """Once a flavor has a topology, it keeps it."""
    return not has(before, "topologyName") or member(spec, "topologyName") == member(before, "topologyName")


def levels_kept(levels: object, before: object) -> bool:
    """Levels change only above a lowest level that was, and stays, the single node."""
    return levels == before or (lowest(levels) == HOSTNAME_LABEL and lowest(before) == HOSTNAME_LABEL)


def hostname_lowest(levels: object, before: object = None) -> bool:
    """If the single node is a level, it is the lowest."""
    named = any(text(level, "nodeLabel") == HOSTNAME_LABEL for _, level in mappings({"": levels}, ""))
    return not named or lowest(levels) == HOSTNAME_LABEL


RESOURCE_FLAVOR: Final[tuple[Rule, ...]] = (
    cel_rule(
        "RF-CEL-1",
        "spec",
        "at least one nodeLabel is required when topology is set",
        "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) >= 1)",
        lambda spec, _: not has(spec, "topologyName") or bool(mapping(spec, "nodeLabels")),
    ),
    cel_rule(
        "RF-CEL-2",
        "spec",
        "topologyName is immutable when topologyName is set",
        "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
        topology_kept,
    ),
    cel_rule(
        "RF-CEL-3",
        "spec.nodeTaints",
        EFFECT_SAYS,
        f"self.all(t, t.effect in {EFFECT_LIST})",
        lambda taints, _: all(member(taint, "effect") in EFFECTS for _, taint in mappings({"": taints}, "")),
    ),
    *toleration_rules("RF", "spec.tolerations", 4),
    webhook_rule("RF-1", "spec.nodeLabels", "", node_labels),
    webhook_rule("RF-2", "spec.nodeTaints[].key", "", taint_keys),
    webhook_rule("RF-3", "spec.nodeTaints[].value", "", taint_values),
    webhook_rule("RF-4", "spec.nodeTaints[]", TAINTS_ONCE, taints_once),
    webhook_rule("RF-5", "spec.tolerations[].key", "", flavor_tolerations),
)

TOPOLOGY: Final[tuple[Rule, ...]] = (
    cel_rule(
        "TO-CEL-1",
        "spec.levels",
        "levels are mutable only when kubernetes.io/hostname is the lowest level both before and after the change",
        f"{SAME} || (size(self) > 0 && size(oldSelf) > 0 && {LAST_LEVEL} && {LAST_LEVEL_BEFORE})",
        levels_kept,
        version="v1beta2",
    ),
    cel_rule("TO-CEL-2", "spec.levels", IMMUTABLE, SAME, same, version="v1beta1"),
    cel_rule(
        "TO-CEL-3",
        "spec.levels",
        UNIQUE,
        "self.all(a, self.exists_one(b, a.nodeLabel == b.nodeLabel))",
        lambda levels, _: unique(levels, "nodeLabel"),
    ),
    cel_rule(
        "TO-CEL-4",
        "spec.levels",
        "the kubernetes.io/hostname label can only be used at the lowest level of topology",
        f"!self.exists(l, l.nodeLabel == '{HOSTNAME_LABEL}') || {LAST_LEVEL}",
        hostname_lowest,
    ),
)

ADMISSION_CHECK: Final[tuple[Rule, ...]] = (cel_rule("AC-CEL-1", "spec.controllerName", IMMUTABLE, SAME, same),)

MULTIKUEUE_CLUSTER: Final[tuple[Rule, ...]] = (
    cel_rule(
        "MKC-CEL-1",
        "spec.clusterSource",
        "exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
        "has(self.kubeConfig) != has(self.clusterProfileRef)",
        lambda source, _: has(source, "kubeConfig") != has(source, "clusterProfileRef"),
        version="v1beta2",
    ),
)

MULTIKUEUE_CONFIG: Final[tuple[Rule, ...]] = (
    cel_rule(
        "MKF-CEL-1",
        "spec.clusters",
        UNIQUE,
        "self.all(a, self.exists_one(b, a == b))",
        lambda clusters, _: unique(clusters),
        version="v1beta2",
    ),
)

PROVISIONING_REQUEST: Final[tuple[Rule, ...]] = (
    cel_rule("PR-CEL-1", "spec.podSets", "Value is immutable", SAME, same),
    cel_rule("PR-CEL-2", "spec.provisioningClassName", "Value is immutable", SAME, same),
    cel_rule("PR-CEL-3", "spec.parameters", "Value is immutable", SAME, same),
)
