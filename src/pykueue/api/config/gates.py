"""Resolve feature gates: the value of every gate, given the user's settings."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from pykueue.api.config.gatetable import OURS, REMOVED, TABLE, Gate, Stage
from pykueue.base.struct import Frozen


class Requested(Frozen):
    """What the text of a flag asks for."""

    values: Mapping[str, bool]
    errors: tuple[str, ...] = ()


class Resolved(Frozen):
    """Every gate with its value, and the warnings and errors about the settings."""

    values: Mapping[str, bool]
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


GATES: Final[Mapping[str, Gate]] = {gate.name: gate for gate in (*TABLE, *REMOVED, *OURS)}
GROUPS: Final[Mapping[str, Stage]] = {"AllAlpha": "Alpha", "AllBeta": "Beta"}
TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
NEWEST: Final = "0.20"
"""The version of Kueue whose gates the table has."""
NAME_MAX: Final = 80
"""An unknown name is compared and shown up to this many characters."""
SUGGESTIONS_MAX: Final = 50
"""After this many unknown names no nearest name is suggested, since the search is slow."""


def defaults() -> Mapping[str, bool]:
    """Every gate with its default value."""
    return {name: gate.default for name, gate in GATES.items()}


def parse_gates(text: str) -> Requested:
    """Parse a flag such as `A=true,B=false`, with every mistake in it."""
    values: dict[str, bool] = {}
    errors: list[str] = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, word = (part.strip() for part in piece.partition("="))
        if not equals:
            errors.append(f"missing bool value for {name[:NAME_MAX]}; write {name[:NAME_MAX]}=true or =false")
        elif word not in TRUE | FALSE:
            errors.append(f"invalid value of {name[:NAME_MAX]}={word[:NAME_MAX]}; write true or false")
        elif name in values:
            errors.append(f"{name[:NAME_MAX]} is given twice; keep one")
        else:
            values[name] = word in TRUE
    return Requested(values, tuple(errors))


def resolve(requested: Mapping[str, bool], *, tolerate_unknown: bool = False) -> Resolved:
    """The value of every gate under these settings, with warnings and errors.

    An unknown gate is an error; with `tolerate_unknown` it is a warning and has no effect.
    """
    values = {**defaults(), **group_values(requested)}
    errors: list[str] = []
    unknown: list[str] = []
    for name, wish in requested.items():
        gate = GATES.get(name)
        if gate is not None and gate.locked and wish != gate.default:
            errors.append(
                f"cannot set feature gate {name} to {spelled(wish)}, feature is locked to {spelled(gate.default)}"
            )
        elif gate is not None:
            values[name] = wish
        elif name not in GROUPS:
            unknown.append(unknown_gate(name, suggest=len(unknown) < SUGGESTIONS_MAX))
    errors += [] if tolerate_unknown else unknown
    said = [*warnings(requested), *turn_off_dependents(values, requested)]
    said += [f"ignoring {sentence}" for sentence in unknown] if tolerate_unknown else []
    errors += unmet(values)
    return Resolved(values, tuple(said), tuple(errors))


def turn_off_dependents(values: dict[str, bool], requested: Mapping[str, bool]) -> list[str]:
    """Turn off gates of the newest Kueue that were not named and whose requirements are off.

    Kueue 0.20 refuses to start in this case. But a Configuration of 0.19 cannot name these gates, so this adds a
    warning that lists them.
    """
    found: list[str] = []
    newest = [gate for gate in TABLE if gate.history[0].since == NEWEST]
    while lacking := [
        gate.name
        for gate in newest
        if values[gate.name] and gate.name not in requested and not all(values[needed] for needed in gate.requires)
    ]:
        found += lacking
        values.update(dict.fromkeys(lacking, False))
    return [f"off because a gate that they require is off: {', '.join(found)}"] if found else []


def group_values(requested: Mapping[str, bool]) -> dict[str, bool]:
    """The values that AllAlpha and AllBeta give to Kueue's gates of their stage; gates of our own are not affected."""
    return {
        gate.name: requested[group]
        for group, stage in GROUPS.items()
        if group in requested
        for gate in TABLE
        if gate.stage == stage
    }


def unmet(values: Mapping[str, bool]) -> list[str]:
    """A sentence for each enabled gate whose requirement is off."""
    return [
        f"{gate.name} requires {needed} to be enabled; turn {gate.name} off too, or {needed} on"
        for gate in GATES.values()
        if values[gate.name]
        for needed in gate.requires
        if not values[needed]
    ]


def warnings(requested: Mapping[str, bool]) -> list[str]:
    """A sentence for each setting that has no effect here, or will lose its effect."""
    said: list[str] = []
    for name, wish in requested.items():
        gate = GATES.get(name)
        if gate is None or (gate.locked and wish != gate.default):
            continue
        if gate.locked:
            said.append(f"{name} is always {spelled(gate.default)}; remove the setting")
        elif gate.status == "inert":
            said.append(f"{name} has no effect: the feature is not supported yet ({gate.effect})")
        elif gate.status == "always" and not wish:
            said.append(f"{name} cannot be turned off ({gate.effect})")
        elif gate.status == "validation":
            said.append(f"{name} only affects validation: the feature itself is not supported yet ({gate.effect})")
        elif gate.stage == "Deprecated" and wish:
            said.append(f"{name} is deprecated but still works ({gate.effect})")
    changed = [
        GATES[name]
        for name, wish in group_values(requested).items()
        if name not in requested and wish != GATES[name].default
    ]
    groups = " and ".join(group for group in GROUPS if group in requested)
    sentences = (
        ("inert", "has no effect on"),
        ("always", "has no effect on"),
        ("validation", "only affects the validation of"),
    )
    for status, effect in sentences:
        idle = sorted(gate.name for gate in changed if gate.status == status)
        if idle:
            said.append(f"{groups} {effect} {', '.join(idle)}")
    return said


def unknown_gate(name: str, *, suggest: bool) -> str:
    """The mistake of an unknown gate, with the nearest known name."""
    if len(name) > NAME_MAX or not suggest:
        return f"unrecognized feature gate: {name if len(name) <= NAME_MAX else f'{name[:NAME_MAX]}...'}"
    folded = {known.lower(): known for known in (*GATES, *GROUPS)}
    near = get_close_matches(name.lower(), folded, n=1)
    advice = f"did you mean {folded[near[0]]}?" if near else "remove it"
    return f"unrecognized feature gate: {name}; {advice}"


def spelled(value: bool) -> str:
    """The value as YAML and flags write it."""
    return "true" if value else "false"
