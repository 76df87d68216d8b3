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
    """An object's fields as they came."""


class Watcher:
    """Notices while a text is decoded whether any object has a field twice."""

    def __init__(self) -> None:
        self.seen = False

    def take(self, pairs: list[tuple[str, Json]]) -> None:
        """Look at an object's fields."""
        if not self.seen and len({name for name, _ in pairs}) != len(pairs):
            self.seen = True


def duplicates(body: bytes) -> list[str]:
    """The paths of the first fields that a JSON text has more than once."""
    watcher = Watcher()
    try:
        json.loads(body, object_pairs_hook=watcher.take)
        if not watcher.seen:
            return []
        found = twice(json.loads(body, object_pairs_hook=Pairs), "")
        return list(dict.fromkeys(islice(found, ERRORS_MAX)))
    except (ValueError, RecursionError):
        # Whoever decodes it says what is wrong.
        return []


def twice(value: object, path: str) -> Iterator[str]:
    """The paths below one at which a field comes again."""
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
    """Warn of fields that are there twice, or raise a `StatusError`, as the terms have it (`tree` is what was read)."""
    if terms.validation == "Ignore" or (tree and len(msgspec.json.encode(tree)) == len(body.rstrip())):
        # A field that is there twice is lost in decoding: a text that comes back at its full length had none.
        return
    found = [f'duplicate field "{path}"' for path in duplicates(body)]
    if found and terms.validation == "Strict":
        kind, version = served.resource.kind, served.resource.version
        schema = served.schema
        # All that is wrong with the fields is said at once.
        strangers = unknown_fields(schema, tree) if schema is not None else []
        found = [*(f'unknown field "{path}"' for path in strangers), *found]
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {", ".join(found)}'
        )
    for text in found:
        terms.warn(text)
