"""Converts objects between the stored version and the version of the request."""

from collections.abc import Mapping
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.apiserver.kinds.served import Served

EVENT_NAMES: Final[Mapping[str, str]] = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
"""Names of fields in events.k8s.io, with those in the core group."""
STORED_NAMES: Final = {new: old for old, new in EVENT_NAMES.items()}
REPORTERS: Final = ("reportingController", "reportingInstance")
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


def event_to_stored(tree: Tree, api_version: str) -> Tree:
    """An Event of events.k8s.io as one of the core group."""
    return renamed(tree, EVENT_NAMES, api_version)


def event_to_served(tree: Tree, api_version: str) -> Tree:
    """An Event of the core group as one of events.k8s.io."""
    named = renamed(tree, STORED_NAMES, api_version)
    # Events of events.k8s.io leave out an empty reporter.
    return {name: value for name, value in named.items() if value or name not in REPORTERS}


def stored_event_field(field: str) -> str:
    """The core group's name of a field that clients of events.k8s.io select by."""
    return field.replace("regarding.", "involvedObject.").replace("reportingController", "reportingComponent")


def renamed(tree: Tree, names: Mapping[str, str], api_version: str) -> Tree:
    """The object with renamed fields and another `apiVersion`."""
    made: Tree = {names.get(name, name): value for name, value in tree.items()}
    made["apiVersion"] = api_version
    return made


def ordered(tree: Tree, kind: str, api_version: str) -> Tree:
    """The object as it is stored: kind, version and metadata first, so that its prefix is known."""
    rest: dict[str, Json] = {
        name: value for name, value in tree.items() if name not in ("kind", "apiVersion", "metadata")
    }
    return {"kind": kind, "apiVersion": api_version, "metadata": tree.get("metadata") or {}, **rest}


def bare(served: Served, body: bytes) -> bytes:
    """An object as an item of a list; items of built-in kinds omit kind and apiVersion."""
    if served.custom:
        return body
    head = b'{"kind":"%s","apiVersion":"%s",' % (
        served.resource.kind.encode(),
        served.api_version.encode(),
    )
    return b"{" + body[len(head) :] if body.startswith(head) else body
