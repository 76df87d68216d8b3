"""Parse the taints and tolerations that `create resourceflavor` takes; the errors are kueuectl's own, byte for byte."""

from collections.abc import Sequence
from typing import Final

from pykueue.api.core import Json, Tree
from pykueue.api.labels import label_value, qualified_name

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class TaintError(Exception):
    """A taint or toleration that cannot be parsed."""


def taints(specs: Sequence[str]) -> list[Json]:
    """The taints of these specifications, each `KEY[=VALUE]:EFFECT`."""
    made: list[Json] = []
    seen: set[tuple[str, str]] = set()
    for spec in specs:
        key, value, effect = parts(spec, "taint")
        if not effect:
            raise TaintError(f"invalid taint spec: {spec}")
        check(spec, "taint", key, value, effect)
        if not key:
            raise TaintError(f"invalid taint spec: {spec}, {'; '.join(qualified_name(key))}")
        if (key, effect) in seen:
            raise TaintError(f"duplicated taints with the same key and effect: {{{key} {value} {effect} <nil>}}")
        seen.add((key, effect))
        taint: Tree = {"key": key, **({"value": value} if value else {}), "effect": effect}
        made.append(taint)
    return made


def tolerations(specs: Sequence[str]) -> list[Json]:
    """The tolerations of these specifications, each `KEY[=VALUE][:EFFECT]` or `:EFFECT`."""
    made: list[Json] = []
    for spec in specs:
        key, value, effect = parts(spec, "toleration")
        if value and not key:
            raise TaintError(f"invalid toleration spec: {spec}")
        check(spec, "toleration", key, value, effect)
        toleration: Tree = {
            **({"key": key} if key else {}),
            "operator": "Equal" if key and value else "Exists",
            **({"value": value} if value else {}),
            **({"effect": effect} if effect else {}),
        }
        made.append(toleration)
    return made


def parts(spec: str, what: str) -> tuple[str, str, str]:
    """Key, value and effect of a specification; absent ones are empty."""
    if not spec:
        raise TaintError(f"invalid {what} spec")
    front, _, effect = spec.partition(":")
    key, _, value = front.partition("=")
    if ":" in effect or "=" in value:
        raise TaintError(f"invalid {what} spec: {spec}")
    return key, value, effect


def check(spec: str, what: str, key: str, value: str, effect: str) -> None:
    """Raise an error if a part has an invalid form."""
    if effect and effect not in EFFECTS:
        raise TaintError(f"invalid taint effect: {effect}, unsupported taint effect")
    for messages in (qualified_name(key) if key else (), label_value(value)):
        if messages:
            raise TaintError(f"invalid {what} spec: {spec}, {'; '.join(messages)}")
