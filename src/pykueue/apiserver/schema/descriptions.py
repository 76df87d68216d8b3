"""The descriptions of built-in kinds and their fields, for `kubectl explain`.

They were recorded with the schemas, into `descriptions/`; nothing else needs them, so they are read on first use.
"""

from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree

FOLDER: Final = files("pykueue.apiserver.schema") / "descriptions"
DECODER: Final = msgspec.json.Decoder(dict[str, dict[str, str]])
ITSELF: Final = ""
"""The key of the description of a definition, beside those of its properties."""


@cache
def recorded(package: str) -> dict[str, dict[str, str]]:
    """The descriptions of a package: of each definition, and of each of its properties."""
    file = FOLDER / f"{package}.json"
    return DECODER.decode(file.read_bytes()) if file.is_file() else {}


def described(schemas: Tree) -> Tree:
    """The definitions of built-in kinds with their descriptions."""
    return {name: with_descriptions(name, schema) for name, schema in schemas.items()}


def with_descriptions(name: str, schema: Json) -> Json:
    """One definition with its descriptions."""
    package, _, short = name.rpartition(".")
    words = recorded(package).get(short, {})
    if not isinstance(schema, dict) or not words:
        return schema
    made = {**schema, "description": words[ITSELF]} if ITSELF in words else dict(schema)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        made["properties"] = {
            field: {**held, "description": words[field]} if isinstance(held, dict) and field in words else held
            for field, held in properties.items()
        }
    return made
