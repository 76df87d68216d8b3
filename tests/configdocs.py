"""Print docs/configuration.md: every key of the Configuration and every feature gate. `make config-docs` writes it."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import inspect

from pykueue.api.config.decode import type_of
from pykueue.api.config.file import default_configuration
from pykueue.api.config.gates import NEWEST
from pykueue.api.config.gatetable import OURS, REMOVED, TABLE, Gate
from pykueue.api.config.types import Configuration
from pykueue.api.config.unbuilt import UNBUILT
from pykueue.api.core import LabelSelector
from pykueue.api.durations import Micros, format_duration
from pykueue.base.struct import Frozen
from pykueue.base.units import Quantity
from tests.configwords import DEFAULTS, IGNORED, meaning

HEAD = """# Configuration

Reference of all keys of the manager's Configuration (`config.kueue.x-k8s.io/v1beta2`) and of all feature gates. This
page is generated from the code: `make config-docs`.

The manager reads its Configuration from the file given with `--config`. `pykueue manifests --config FILE` installs a
file in the cluster, and `pykueue up --config FILE` reads the same format. Omitted keys have their default values, and
unknown keys are errors. Files in v1beta1 are accepted with a warning and get the defaults of that version.
`pykueue config check FILE` lists all errors and warnings in a file without starting anything.

| support | meaning |
| --- | --- |
| yes | works as described |
| ignored | accepted, but has no effect |
| warning | not supported yet: the manager logs a warning and starts |
| refused | not supported yet, and it would change which jobs are admitted: the manager does not start |

With `pykueue up`, the sections `webhook`, `leaderElection`, `health`, `tls`, `internalCertManagement`,
`clientConnection` and `visibilityServer`, and the key `metrics.bindAddress`, have no effect: a single server handles
all requests on its own address.

Durations are strings such as `90s`, `5m` or `1h30m`. Types in brackets are lists.

## Keys"""
GATE_HEAD = f"""
## Feature gates

Set feature gates either with `featureGates` in the file or with `--feature-gates NAME=true,NAME=false`, but not with
both. The defaults are those of Kueue {NEWEST}. `AllAlpha` and `AllBeta` set all of Kueue's alpha or beta gates that are
not set individually.

| support | meaning |
| --- | --- |
| yes | the gate changes the behaviour of pykueue |
| always | the feature is supported and cannot be turned off |
| validation | the gate changes which objects are accepted; the feature itself is not supported |
| performance | the gate does not change behaviour, neither in pykueue nor in Kueue |
| no | the feature is not supported: the gate has no effect, and setting it causes a warning |
| locked | the gate is locked to its default; do not set it |
"""
SUPPORT: Final = {"built": "yes", "inert": "no"}
LEAVES: Final = (LabelSelector, Quantity)
"""Structs that are values of their own."""


class Key(Frozen):
    """One key of the file."""

    path: str
    type: str
    default: str


def keys(kind: inspect.StructType, above: str, values: object) -> Iterator[Key]:
    """Every key below a path; `values` are the defaults, or None inside of what is absent by default."""
    for field in kind.fields:
        path = f"{above}{field.encode_name}"
        value = getattr(values, field.name) if values is not None else field.default
        inner, is_list = struct_in(field.type)
        if value is msgspec.NODEFAULT:
            value = None
        yield Key(path, type_name(field.type), DEFAULTS.get(path) or shown(value))
        if inner is not None:
            below = value if isinstance(value, inner.cls) else inner.cls()
            yield from keys(inner, f"{path}[]." if is_list else f"{path}.", below)


def struct_in(kind: inspect.Type) -> tuple[inspect.StructType | None, bool]:
    """The section that a type holds, and whether it holds a list of them."""
    match kind:
        case inspect.Metadata():
            return struct_in(kind.type)
        case inspect.UnionType():
            return struct_in(present(kind))
        case inspect.VarTupleType():
            return struct_in(kind.item_type)[0], True
        case inspect.StructType() if kind.cls not in LEAVES:
            return kind, False
        case _:
            return None, False


def present(kind: inspect.UnionType) -> inspect.Type:
    """The type of an optional value that is there."""
    return next(one for one in kind.types if not isinstance(one, inspect.NoneType))


def type_name(kind: inspect.Type) -> str:
    """A type as the page names it."""
    match kind:
        case inspect.Metadata():
            reads = (kind.extra or {}).get("reads")
            return {"duration": "duration", "nanoseconds": "nanoseconds"}.get(str(reads)) or type_name(kind.type)
        case inspect.UnionType():
            return type_name(present(kind))
        case inspect.VarTupleType():
            return f"[{type_name(kind.item_type)}]"
        case inspect.DictType():
            return f"map of {type_name(kind.value_type)}"
        case inspect.StructType() if kind.cls in LEAVES:
            return {LabelSelector: "label selector", Quantity: "quantity"}[kind.cls]
        case inspect.StructType():
            return "section"
        case inspect.LiteralType():
            return " or ".join(f"`{value}`" for value in sorted(map(str, kind.values)))
        case inspect.BoolType():
            return "boolean"
        case inspect.IntType():
            return "integer"
        case inspect.FloatType():
            return "number"
        case inspect.StrType():
            return "string"
        case _:
            raise AssertionError(f"no name for a {type(kind).__name__}; add one here")


def shown(value: object) -> str:
    """A default, as the file would have it."""
    if value is None or isinstance(value, msgspec.Struct) or value in ("", (), {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value}`"


def support(path: str) -> str:
    """What becomes of a key."""
    outer = [path[:place] for place, letter in enumerate(path) if letter in ".["]
    for one in (path, *reversed(outer)):
        if one in IGNORED:
            return "ignored"
        if one in UNBUILT and one != "integrations.frameworks":
            return "refused" if UNBUILT[one].changes_decisions else "warning"
    return "yes"


def durations(kind: inspect.StructType, above: str) -> Iterator[str]:
    """The paths of all durations."""
    for field in kind.fields:
        path = f"{above}{field.encode_name}"
        if type_name(field.type) == "duration":
            yield path
        inner, is_list = struct_in(field.type)
        if inner is not None:
            yield from durations(inner, f"{path}[]." if is_list else f"{path}.")


def key_rows() -> Iterator[tuple[Key, str]]:
    """Every key, and its default with units."""
    whole = type_of(Configuration)
    timed = set(durations(whole, ""))
    for key in keys(whole, "", default_configuration().configuration):
        default = key.default
        if key.path in timed and default and key.path not in DEFAULTS:
            default = f"`{format_duration(Micros(int(default.strip('`'))))}`"
        yield key, default


def key_sections() -> Iterator[str]:
    """A table of the single keys of the first level, and one for each section."""
    tables: dict[str, list[str]] = {"": []}
    for key, default in key_rows():
        section = key.path.partition(".")[0]
        if key.type == "section" and key.path == section:
            tables[section] = []
        table = tables.get(section, tables[""])
        table.append(f"| `{key.path}` | {key.type} | {default} | {support(key.path)} | {meaning(key.path)} |")
    for section, rows in tables.items():
        yield f"\n### {f'`{section}`' if section else 'Top-level keys'}\n"
        yield "\n".join(["| key | type | default | support | meaning |", "| --- | --- | --- | --- | --- |", *rows])


def gate_row(gate: Gate) -> str:
    """The row of a gate."""
    stage = f"{gate.stage} since {gate.history[-1].since}"
    needs = ", ".join(f"`{name}`" for name in gate.requires)
    value = f"`{str(gate.default).lower()}`"
    status = "locked" if gate.locked else SUPPORT.get(gate.status, gate.status)
    return f"| `{gate.name}` | {value} | {stage} | {status} | {gate.effect} | {needs} |"


def gate_table(gates: tuple[Gate, ...]) -> str:
    """A table of gates, by name."""
    head = ["| gate | default | stage | support | when it is on | requires |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *(gate_row(gate) for gate in sorted(gates, key=lambda one: one.name))])


def page() -> str:
    """The whole page."""
    parts = [HEAD, *key_sections(), GATE_HEAD, gate_table(TABLE)]
    parts += ["\n### Gates that only pykueue has\n", gate_table(OURS)]
    parts += [
        f"\n### Gates removed in Kueue {NEWEST}\n",
        "They are still accepted in a Configuration written for Kueue 0.19.\n",
    ]
    return "\n".join([*parts, gate_table(REMOVED), ""])


if __name__ == "__main__":
    print(page(), end="")
