"""The types of the store: keys, stored objects, changes and errors."""

from functools import cached_property
from typing import Literal

from pykueue.base.struct import Frozen

How = Literal["ADDED", "MODIFIED", "DELETED"]


class Key(Frozen):
    """Which object: `resource` as in `jobs.batch`; the namespace of a cluster's object is empty."""

    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource} {self.namespace}/{self.name}" if self.namespace else f"{self.resource} {self.name}"


class StoredObject(Frozen):
    """An object as it is stored: its body is JSON, with this version as its `metadata.resourceVersion`."""

    key: Key
    version: int
    uid: str
    body: bytes


class Change(Frozen, dict=True, gc=True):
    """What a write did to an object; `before` is the body that it replaced, None where there was none."""

    version: int
    key: Key
    how: How
    body: bytes
    before: bytes | None

    @cached_property
    def line(self) -> bytes:
        """The event as a watch sends it, with its newline; made once, whoever asks for it."""
        return b'{"type":"%b","object":%b}\n' % (self.how.encode(), self.body)


class StoreError(Exception):
    """The stored data cannot be opened or read; says which file, why, and what to do."""


class FullError(Exception):
    """A write that could not be stored; nothing of it is there."""


class TooLargeError(Exception):
    """A write of more bytes than its caller allows; nothing of it is stored."""


class CompactedError(Exception):
    """The changes after this version are no longer kept; list anew."""
