"""Finds duplicate keys in a JSON body, which decoders silently resolve to the last value."""

import json
from collections.abc import Iterator
from itertools import islice

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.schema.schemas import unknown_fields
from pykueue.apiserver.wire.statuserrors import ERRORS_MAX, bad_request
from pykueue.apiserver.wire.writeterms import Terms


class Pairs(list[tuple[str, object]]):
    """The fields of an object in the order of the text."""


class Watcher:
    """Detects during decoding whether any object has a duplicate key."""

    def __init__(self) -> None:
        self.seen = False

    def take(self, pairs: list[tuple[str, Json]]) -> None:
        """Check the fields of one object."""
        if not self.seen and len({name for name, _ in pairs}) != len(pairs):
            self.seen = True


def duplicates(body: bytes) -> list[str]:
    """The paths of the first duplicate keys in a JSON text."""
    watcher = Watcher()
    try:
        json.loads(body, object_pairs_hook=watcher.take)
        if not watcher.seen:
            return []
        found = twice(json.loads(body, object_pairs_hook=Pairs), "")
        return list(dict.fromkeys(islice(found, ERRORS_MAX)))
    except (ValueError, RecursionError):
        # The decoder reports what is wrong.
        return []


def twice(value: object, path: str) -> Iterator[str]:
    """The paths of duplicate keys below a path."""
    if isinstance(value, Pairs):
        known: set[str] = set()
        for name, inner in value:
            below = f"{path}.{name}" if path else name
            if name in known:
                yield below
            known.add(name)
            yield from twice(inner, below)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from twice(inner, f"{path}[{index}]")


def check_duplicates(body: bytes, tree: Tree, served: Served, terms: Terms) -> None:
    """Warn about duplicate keys, or raise `StatusError`, as the terms say; `tree` is the decoded body."""
    if terms.validation == "Ignore" or (tree and len(msgspec.json.encode(tree)) == len(body.rstrip())):
        # Decoding loses duplicate keys: a text that encodes to its full length had none.
        return
    found = [f'duplicate field "{path}"' for path in duplicates(body)]
    if found and terms.validation == "Strict":
        kind, version = served.resource.kind, served.resource.version
        schema = served.schema
        # Report all errors of the fields together.
        unknown = unknown_fields(schema, tree) if schema is not None else []
        found = [*(f'unknown field "{path}"' for path in unknown), *found]
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {", ".join(found)}'
        )
    for text in found:
        terms.warn(text)
