"""Conversion between the stored Events of the core group and those of events.k8s.io."""

from collections.abc import Mapping
from typing import Final

from pykueue.api.core import Tree

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


def event_to_stored(tree: Tree, api_version: str) -> Tree:
    """An Event of events.k8s.io as one of the core group."""
    return renamed(tree, EVENT_NAMES, api_version)


def event_to_served(tree: Tree, api_version: str) -> Tree:
    """An Event of the core group as one of events.k8s.io."""
    named = renamed(tree, STORED_NAMES, api_version)
    # Events of events.k8s.io leave out an empty reporter.
    return {name: value for name, value in named.items() if value or name not in REPORTERS}


def stored_event_field(field: str) -> str:
    """The core group's name of a field that callers of events.k8s.io select by."""
    return field.replace("regarding.", "involvedObject.").replace("reportingController", "reportingComponent")


def renamed(tree: Tree, names: Mapping[str, str], api_version: str) -> Tree:
    """The object with renamed fields and another `apiVersion`."""
    made: Tree = {names.get(name, name): value for name, value in tree.items()}
    made["apiVersion"] = api_version
    return made
