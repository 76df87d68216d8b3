"""Converts objects between the stored version and the version of the request."""

from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.apiserver.kinds.served import Served

ENCODER: Final = msgspec.json.Encoder()


def to_stored(served: Served, tree: Tree) -> Tree:
    """The object in the version in which its kind is stored."""
    return tree if served.is_stored else served.strategy.to_stored(tree, served.stored_version)


def to_served(served: Served, tree: Tree) -> Tree:
    """The stored object in the served version."""
    return tree if served.is_stored else served.strategy.to_served(tree, served.api_version)


def body_served(served: Served, body: bytes) -> bytes:
    """The JSON of a stored object in the served version."""
    if served.is_stored:
        return body
    tree: Tree = msgspec.json.decode(body)
    return ENCODER.encode(to_served(served, tree))


def ordered(tree: Tree, kind: str, api_version: str) -> Tree:
    """The object as it is stored: kind, version and metadata first, so that its beginning is known."""
    rest: dict[str, Json] = {
        name: value for name, value in tree.items() if name not in ("kind", "apiVersion", "metadata")
    }
    return {"kind": kind, "apiVersion": api_version, "metadata": tree.get("metadata") or {}, **rest}


def bare(served: Served, body: bytes) -> bytes:
    """An object as an item of a list: built-in kinds are not told again what they are."""
    if served.custom:
        return body
    head = b'{"kind":"%s","apiVersion":"%s",' % (
        served.resource.kind.encode(),
        served.api_version.encode(),
    )
    return b"{" + body[len(head) :] if body.startswith(head) else body
