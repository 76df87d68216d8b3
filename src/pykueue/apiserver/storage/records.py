"""The types of the store: keys, stored objects, changes and errors."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import msgspec

from pykueue.api.core import Tree
from pykueue.base.struct import Frozen

How = Literal["ADDED", "MODIFIED", "DELETED"]


class Key(Frozen):
    """The key of an object: a resource such as `jobs.batch`, the namespace (empty if cluster-scoped) and the name."""

    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource} {self.namespace}/{self.name}" if self.namespace else f"{self.resource} {self.name}"


class StoredObject(Frozen):
    """A stored object: its body is JSON with this version as `metadata.resourceVersion`."""

    key: Key
    version: int
    uid: str
    body: bytes


class Change(Frozen, dict=True, gc=True):
    """One write of an object; `before` is the body that it replaced, None if there was none."""

    version: int
    key: Key
    how: How
    body: bytes
    before: bytes | None

    @cached_property
    def line(self) -> bytes:
        """The watch event as a line of JSON, encoded once for all watchers."""
        return b'{"type":"%b","object":%b}\n' % (self.how.encode(), self.body)


class StoreError(Exception):
    """The stored data cannot be opened or read; says which file, why, and what to do."""


class FullError(Exception):
    """A write that failed; nothing of it is stored."""


class TooLargeError(Exception):
    """A write that exceeds the caller's size limit; nothing of it is stored."""


class CompactedError(Exception):
    """The changes after this version were compacted; list again."""


def stamped(tree: Tree, version: int) -> Tree:
    """An object with this version."""
    metadata = tree.get("metadata")
    assert isinstance(metadata, dict), "an object without metadata cannot be stored"
    return {**tree, "metadata": {**metadata, "resourceVersion": str(version)}}


def encoded(tree: Tree, version: int) -> bytes:
    """The JSON of an object with this version."""
    return msgspec.json.encode(stamped(tree, version))


def place(held: StoredObject) -> tuple[str, str]:
    """The position of an object in a list."""
    return held.key.namespace, held.key.name


def cut(found: Sequence[StoredObject], most: int) -> bool:
    """Whether a page ended because of its size in bytes."""
    return bool(most) and sum(len(one.body) for one in found) >= most
