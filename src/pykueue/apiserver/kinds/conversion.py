"""How does a stored object look in the version that a caller asks for, and the other way round?"""

from collections.abc import Mapping
from typing import Final

import msgspec

from pykueue.api.convert import to_v1beta1, to_v1beta2
from pykueue.api.core import Json, Tree
from pykueue.api.names import GROUP
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
"""What events.k8s.io calls the fields of the events that are stored."""
STORED_NAMES: Final = {new: old for old, new in EVENT_NAMES.items()}
REPORTERS: Final = ("reportingController", "reportingInstance")
ENCODER: Final = msgspec.json.Encoder()


def to_stored(served: Served, tree: Tree) -> Tree:
    """The object in the version in which its kind is kept."""
    if served.is_stored:
        return tree
    if served.storage == "events":
        return renamed(tree, EVENT_NAMES, served.stored_version)
    if served.resource.group == GROUP:
        return to_v1beta2(tree)
    return {**tree, "apiVersion": served.stored_version}


def to_served(served: Served, tree: Tree) -> Tree:
    """The stored object in the version that is asked for."""
    if served.is_stored:
        return tree
    if served.storage == "events":
        named = renamed(tree, STORED_NAMES, served.api_version)
        # The newer kind does not show who reports where nobody does.
        return {name: value for name, value in named.items() if value or name not in REPORTERS}
    if served.resource.group == GROUP:
        return to_v1beta1(tree)
    return {**tree, "apiVersion": served.api_version}


def body_served(served: Served, body: bytes) -> bytes:
    """The bytes of a stored object in the version that is asked for."""
    if served.is_stored:
        return body
    tree: Tree = msgspec.json.decode(body)
    return ENCODER.encode(to_served(served, tree))


def renamed(tree: Tree, names: Mapping[str, str], api_version: str) -> Tree:
    """The object with fields called differently."""
    made: Tree = {names.get(name, name): value for name, value in tree.items()}
    made["apiVersion"] = api_version
    return made


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
