"""Print docs/fields.md: every field of the kinds of `kueue.x-k8s.io`, from the schemas of their definitions."""

from collections.abc import Iterator
from typing import Any, Final

from pykueue.api.install.crds import crd
from pykueue.api.kinds import KINDS, Kind
from pykueue.api.names import GROUP
from pykueue.api.rules.table import rules_of
from tests.docsite.labelwords import MEANINGS, Key

VERSION: Final = "v1beta2"
HEAD: Final = f"""# Fields

Every field of the kinds of `{GROUP}/{VERSION}`, with its type, its default and what is accepted. This page is
generated from the schemas of the CustomResourceDefinitions: `make docs`. `kubectl explain clusterqueue.spec
--recursive` shows the same for the version that a server has.

A field that is marked with \\* is required where the object around it is present. `[]` stands for each item of a
list, and `*` for each key of a map. A quantity is a number with a unit, such as `500m`, `4` or `64Gi`.
`{GROUP}/v1beta1` is served as well and deprecated; where it has other names for fields, objects are converted.
[configuration.md](configuration.md) has the keys of the manager's Configuration.

## Labels and annotations

What users and administrators set on Jobs and other objects."""
RULES_HEAD: Final = """
An object that breaks a rule is rejected with one of these messages; `%s` and `%d` stand for what depends on it:

| field | message |
| --- | --- |"""
TABLE: Final = ("| field | type | accepted | meaning |", "| --- | --- | --- | --- |")
LIMITS: Final = {
    "minimum": "at least {}",
    "minLength": "length at least {}",
    "maxLength": "length at most {}",
    "minItems": "items at least {}",
    "maxItems": "items at most {}",
    "maxProperties": "keys at most {}",
}
WHOLE: Final = ("apiVersion", "kind", "metadata")
"""Fields that every object has."""
Schema = dict[str, Any]


def kinds() -> list[Kind]:
    """The kinds of the page."""
    return [kind for kind in KINDS.values() if kind.group == GROUP]


def schema_of(kind: Kind) -> Schema:
    """The schema of a kind, as its CustomResourceDefinition has it."""
    definition: Any = crd(kind)
    (found,) = (one for one in definition["spec"]["versions"] if one["name"] == VERSION)
    schema: Schema = found["schema"]["openAPIV3Schema"]
    return schema


def type_of(schema: Schema) -> str:
    """The type of a field, as the page names it."""
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    match schema.get("type"):
        case "array":
            return f"[{type_of(schema['items'])}]"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"map of {type_of(schema['additionalProperties'])}"
        case "string":
            return "time" if schema.get("format") == "date-time" else "text"
        case other:
            return str(other)


def accepted(schema: Schema) -> str:
    """Values, default and limits of a field; patterns are left out, as messages explain them."""
    said = []
    if values := schema.get("enum"):
        said.append(" or ".join(f"`{value}`" for value in values))
    if "default" in schema:
        said.append(f"default {shown(schema['default'])}")
    said += [words.format(schema[name]) for name, words in LIMITS.items() if name in schema]
    return cell("; ".join(said))


def shown(value: object) -> str:
    """A default as YAML has it."""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value not in ({}, []) else "empty"


def cell(text: str) -> str:
    """A text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def rows(schema: Schema, above: str) -> Iterator[str]:
    """A row for each field below a path, with those below it."""
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        if not above and name in WHOLE:
            continue
        path = f"{above}{name}"
        mark = " \\*" if name in required else ""
        described = cell(inner.get("description", ""))
        yield f"| `{path}`{mark} | {type_of(inner)} | {accepted(inner)} | {described} |"
        yield from below(inner, path)


def below(schema: Schema, path: str) -> Iterator[str]:
    """The rows of what a field holds."""
    match schema.get("type"):
        case "array":
            yield from below(schema["items"], f"{path}[]")
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            yield from below(schema["additionalProperties"], f"{path}.*")
        case "object":
            yield from rows(schema, f"{path}.")


def rules(kind: Kind) -> Iterator[str]:
    """A row for each message about an object of a kind; an empty one is Kubernetes' own, about names and labels."""
    said: dict[str, list[str]] = {}
    for rule in rules_of(kind.kind, version=VERSION):
        if rule.message:
            said.setdefault(cell(rule.message), []).extend(rule.fields)
    for message, fields in said.items():
        places = ", ".join(f"`{field}`" for field in dict.fromkeys(fields))
        yield f"| {places} | {message} |"


def section(kind: Kind) -> str:
    """The section of a kind."""
    schema = schema_of(kind)
    names = ", ".join(f"`{name}`" for name in (kind.plural, *kind.short_names))
    columns = ", ".join(column.name for column in kind.columns)
    lines = [f"\n## {kind.kind}\n", f"{schema['description']} Scope: {kind.scope}. Names for kubectl: {names}."]
    lines += [f"\n`kubectl get` shows: {columns}."] if columns else []
    lines += ["", *TABLE, *rows(schema, "")]
    held = list(rules(kind))
    return "\n".join([*lines, *((RULES_HEAD, *held) if held else ())])


def key_row(key: Key) -> str:
    """The row of a label or annotation."""
    return f"| `{key.name}` | {key.sort} | {key.on} | {cell(key.meaning)} |"


def page() -> str:
    """The whole page."""
    keys = ["", "| key | is a | on | meaning |", "| --- | --- | --- | --- |", *map(key_row, MEANINGS)]
    return "\n".join([HEAD, *keys, *map(section, kinds()), ""])


if __name__ == "__main__":
    print(page(), end="")
