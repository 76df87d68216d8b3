"""Formats objects as a `meta.k8s.io` Table: column definitions, and a row of cells for each object."""

from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.trees import member, text
from pykueue.apiserver.http.columns import LAYOUTS, NAME, OTHERS, Head, human_duration, name_of
from pykueue.apiserver.http.jsonpaths import found
from pykueue.apiserver.kinds.served import PrinterColumn, Served
from pykueue.apiserver.wire.statuserrors import bad_request, quoted
from pykueue.base.units import Instant, parse_instant

DEFAULT_COLUMN: Final = PrinterColumn("Age", "date", ".metadata.creationTimestamp")
INCLUDED: Final = ("", "None", "Metadata", "Object")
POD_ENDS: Final[dict[str, str]] = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def included(wanted: str) -> str:
    """The part of each object to include in a Table, from the query; raises `StatusError` if invalid."""
    if wanted not in INCLUDED:
        raise bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {quoted(wanted)}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return wanted or "Metadata"


def table(served: Served, rows: list[Json], *, metadata: Tree, version: str = "v1", heads: bool = True) -> Tree:
    """The Table of these rows."""
    made: Tree = {"kind": "Table", "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata}
    shown: list[Json] | None = [head_tree(*head) for head in heads_of(served)] if heads else None
    return made | {"columnDefinitions": shown, "rows": rows}


def table_of(
    served: Served, tree: Tree, now: Instant, *, include: str = "Metadata", version: str = "v1", heads: bool = True
) -> Tree:
    """One object as a Table."""
    about: Tree = {"resourceVersion": text(tree, "metadata", "resourceVersion")}
    rows: list[Json] = [row(served, tree, now, include=include, version=version)]
    return table(served, rows, metadata=about, version=version, heads=heads)


def heads_of(served: Served) -> list[tuple[Head, str]]:
    """The column headers of a kind, with descriptions."""
    if not served.custom:
        return [(head, "") for head in LAYOUTS.get(str(served.resource), OTHERS).heads]
    columns = [
        (
            Head(column.name, column.type, column.format, column.priority),
            column.description or f"Custom resource definition column (in JSONPath format): {column.path}",
        )
        for column in columns_of(served)
    ]
    return [(NAME, ""), *columns]


def columns_of(served: Served) -> tuple[PrinterColumn, ...]:
    """The additional printer columns of a custom kind."""
    return served.columns or (DEFAULT_COLUMN,)


def head_tree(head: Head, description: str) -> Tree:
    """The wire form of a column header."""
    return {
        "name": head.name,
        "type": head.type,
        "format": head.format,
        "description": description,
        "priority": head.priority,
    }


def row(served: Served, tree: Tree, now: Instant, *, include: str, version: str) -> Tree:
    """An object's row."""
    made: Tree = {"cells": cells_of(served, tree, now)}
    phase = text(tree, "status", "phase") if str(served.resource) == "pods" else ""
    if phase in POD_ENDS:
        ended: Tree = {"type": "Completed", "status": "True", "reason": phase, "message": POD_ENDS[phase]}
        made["conditions"] = [ended]
    match include:
        case "Metadata":
            made["object"] = partial(tree, version)
        case "Object":
            made["object"] = tree
        case _:
            made["object"] = None
    return made


def cells_of(served: Served, tree: Tree, now: Instant) -> list[Json]:
    """The cells of an object."""
    if not served.custom:
        return LAYOUTS.get(str(served.resource), OTHERS).cells(tree, now)
    return [name_of(tree), *(cell(tree, column, now) for column in columns_of(served))]


def cell(tree: Tree, column: PrinterColumn, now: Instant) -> Json:
    """The cell of a printer column."""
    values = found(tree, column.path)
    if not values:
        return None
    value = values[0]
    match column.type, value:
        case "string", str():
            return value
        case "string", None:
            return "<nil>"
        case "string", _:
            return msgspec.json.encode(value).decode()
        case "integer", bool():
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float() if not isinstance(value, bool):
            return value
        case "boolean", bool():
            return value
        case "date", str():
            return human_date(value, now)
        case _:
            return None


def human_date(moment: str, now: Instant) -> str:
    """How long ago a timestamp was."""
    try:
        return human_duration(now - parse_instant(moment))
    except ValueError:
        return "<invalid>"


def partial(tree: Tree, version: str = "v1") -> Tree:
    """The metadata of an object as a PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": member(tree, "metadata") or {},
    }
