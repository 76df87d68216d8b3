"""Dependents by owner, and which objects to examine after a change.

Only objects with an owner are recorded, by their key and by a hash of the owner's uid, since there may be hundreds of
thousands of them. An entry may be out of date, or of another owner with the same hash; so callers read an object again
before they act.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import OwnerReference
from pykueue.api.names import KubernetesFinalizer
from pykueue.api.pods import read_with
from pykueue.base.struct import Wire

ALIVE_MAX: Final = 20_000
FEW: Final = 8

Keys: TypeAlias = str | tuple[str, ...] | dict[str, None]
"""Keys of objects: one, a few, or many."""


class Metadata(Wire):
    """The part of an object's metadata that is used here."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it is in foreground deletion."""
        return self.deletion_timestamp is not None and KubernetesFinalizer.FOREGROUND in self.finalizers

    @property
    def orphans(self) -> bool:
        """Whether it is in orphan deletion."""
        return self.deletion_timestamp is not None and KubernetesFinalizer.ORPHAN in self.finalizers


class PartialObject(Wire):
    """Any object."""

    metadata: Metadata = Metadata()


PARTIAL: Final = msgspec.json.Decoder(PartialObject)


def read_metadata(raw: bytes | msgspec.Raw) -> Metadata:
    """Decode the metadata of an object."""
    return read_with(PARTIAL, raw).metadata


class Ownership:
    """The objects that have owners. `seen` and `gone` return the keys of objects to examine."""

    def __init__(self) -> None:
        self.dependents: dict[int, Keys] = {}
        """By the hash of an owner's uid."""
        self.owners: dict[str, int | tuple[int, ...]] = {}
        """By key of an object with owners: the hashes of their uids, so that lost owners are noticed."""
        self.alive: dict[int, None] = {}
        """Hashes of uids of existing objects, the latest last; incomplete once everything is listed.

        They are many for a short time; a collision only keeps an object that could be deleted.
        """
        self.waiting: dict[str, str] = {}
        """Keys by uid of owners in foreground deletion."""
        self.complete = False
        """Whether everything is listed, so that an unknown owner may be absent."""

    def completed(self) -> list[str]:
        """Everything is listed: returns waiting owners, their dependents, and dependents of unlisted owners."""
        self.complete = True
        waiting = {hash(uid) for uid in self.waiting}
        lost = [mark for mark in self.dependents if mark not in self.alive or mark in waiting]
        found = [*self.waiting.values(), *(key for mark in lost for key in each(self.dependents[mark]))]
        self.alive = dict.fromkeys(list(self.alive)[-ALIVE_MAX:])
        return found

    def doubt(self) -> None:
        """Changes may have been missed: assume nothing exists until everything is listed again."""
        self.complete = False
        self.alive = {}

    def is_alive(self, uid: str) -> bool:
        """Whether an object of this uid is known to exist."""
        return hash(uid) in self.alive

    def of(self, uid: str) -> tuple[str, ...]:
        """The keys of an owner's dependents."""
        return each(self.dependents.get(hash(uid), ()))

    def seen(self, key: str, metadata: Metadata) -> Iterator[str]:
        """Record that an object exists or has changed."""
        self.remember(metadata.uid)
        owners = [reference.uid for reference in metadata.owner_references]
        marks = dict.fromkeys(map(hash, owners))
        lost = {mark for mark in self.owners_of(key) if mark not in marks}
        for mark in lost:
            self.discard(mark, key)
        dependents = self.dependents
        for mark in marks:
            # Most owners have one dependent, but an object can name tens of thousands of owners.
            if mark not in dependents:
                dependents[mark] = key
            else:
                self.add(mark, key)
        self.note(key, tuple(marks))
        if self.complete and any(not self.is_alive(uid) or uid in self.waiting for uid in owners):
            yield key
        if lost:
            yield from [owner for uid, owner in self.waiting.items() if hash(uid) in lost]
        if metadata.waits:
            if metadata.uid not in self.waiting:
                self.waiting[metadata.uid] = key
                yield from self.of(metadata.uid)
            yield key
        elif metadata.orphans:
            yield key

    def gone(self, key: str, metadata: Metadata) -> Iterator[str]:
        """Record that an object no longer exists."""
        self.alive.pop(hash(metadata.uid), None)
        self.waiting.pop(metadata.uid, None)
        for mark in self.owners_of(key):
            self.discard(mark, key)
        self.note(key, ())
        for reference in metadata.owner_references:
            if reference.uid in self.waiting:
                yield self.waiting[reference.uid]
        yield from each(self.dependents.pop(hash(metadata.uid), ()))

    def remember(self, uid: str) -> None:
        """Record that an object of this uid exists."""
        self.alive.pop(hash(uid), None)
        self.alive[hash(uid)] = None
        if self.complete and len(self.alive) > ALIVE_MAX:
            del self.alive[next(iter(self.alive))]

    def owners_of(self, key: str) -> tuple[int, ...]:
        """The hashes of the uids of an object's owners, as it was last seen."""
        held = self.owners.get(key, ())
        return (held,) if isinstance(held, int) else held

    def note(self, key: str, marks: tuple[int, ...]) -> None:
        """Record the present owners of an object."""
        if not marks:
            self.owners.pop(key, None)
        elif marks != self.owners_of(key):
            self.owners[key] = marks[0] if len(marks) == 1 else marks

    def belongs(self, mark: int, key: str) -> bool:
        """Whether an object is recorded as a dependent of an owner."""
        held = self.dependents.get(mark, ())
        return held == key if isinstance(held, str) else key in held

    def add(self, mark: int, key: str) -> None:
        """Add a dependent."""
        if self.belongs(mark, key):
            return
        held = self.dependents.get(mark, ())
        if isinstance(held, dict):
            held[key] = None
        else:
            self.dependents[mark] = packed((*each(held), key))

    def discard(self, mark: int, key: str) -> None:
        """Remove a dependent."""
        held = self.dependents.get(mark, ())
        if isinstance(held, dict) and len(held) > FEW:
            held.pop(key, None)
        elif self.belongs(mark, key):
            left = tuple(other for other in each(held) if other != key)
            if left:
                self.dependents[mark] = packed(left)
            else:
                del self.dependents[mark]


def packed(keys: tuple[str, ...]) -> Keys:
    """Keys in compact form: most owners have one or two dependents, and a dict is large."""
    if len(keys) == 1:
        return keys[0]
    return keys if len(keys) <= FEW else dict.fromkeys(keys)


def each(held: Keys) -> tuple[str, ...]:
    """The keys in a compact form."""
    return (held,) if isinstance(held, str) else tuple(held)


def without(references: Iterable[OwnerReference], uids: Iterable[str]) -> tuple[OwnerReference, ...]:
    """The references except those to some owners."""
    left_out = set(uids)
    return tuple(one for one in references if one.uid not in left_out)
