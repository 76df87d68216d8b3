"""Who belongs to whom? Objects by the owners that they name, and which of them are worth a look after a change.

Only objects that have an owner are remembered, by their key alone and by a hash of that owner's uid, for there may be
hundreds of thousands of them. What is remembered may be out of date, or of another owner with the same hash; whoever
looks at an object reads it anew.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import OwnerReference
from pykueue.api.names import Finalizer
from pykueue.api.pods import read_with
from pykueue.base.struct import Wire

ALIVE_MAX: Final = 20_000
FEW: Final = 8

Keys: TypeAlias = str | tuple[str, ...] | dict[str, None]
"""Keys of objects: one, a few, or many."""


class Metadata(Wire):
    """What of an object's metadata matters here."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it is being deleted, and goes after what belongs to it."""
        return self.deletion_timestamp is not None and Finalizer.FOREGROUND in self.finalizers

    @property
    def orphans(self) -> bool:
        """Whether it is being deleted, and leaves what belongs to it."""
        return self.deletion_timestamp is not None and Finalizer.ORPHAN in self.finalizers


class Thing(Wire):
    """Any object."""

    metadata: Metadata = Metadata()


THING: Final = msgspec.json.Decoder(Thing)


def read_metadata(raw: bytes | msgspec.Raw) -> Metadata:
    """The metadata of the object in these bytes."""
    return read_with(THING, raw).metadata


class Ownership:
    """The objects that have owners. `seen` and `gone` answer with the keys of those that are worth a look."""

    def __init__(self) -> None:
        self.dependents: dict[int, Keys] = {}
        """By the hash of an owner's uid."""
        self.owners: dict[str, int | tuple[int, ...]] = {}
        """By key of an object that has owners: the hashes of their uids, so that it can be told which it has lost."""
        self.alive: dict[int, None] = {}
        """Hashes of uids of objects that are there, the latest last; not all of them once everything is listed.

        They are many for a moment; and two of the same hash would only keep something that could go.
        """
        self.waiting: dict[str, str] = {}
        """Keys by uid of owners that go after what belongs to them."""
        self.complete = False
        """Whether everything has been listed, so that an owner we do not know is perhaps absent."""

    def completed(self) -> list[str]:
        """Everything has been listed: owners that wait, their dependents, and those of owners that were in no list."""
        self.complete = True
        waiting = {hash(uid) for uid in self.waiting}
        lost = [mark for mark in self.dependents if mark not in self.alive or mark in waiting]
        found = [*self.waiting.values(), *(key for mark in lost for key in each(self.dependents[mark]))]
        self.alive = dict.fromkeys(list(self.alive)[-ALIVE_MAX:])
        return found

    def doubt(self) -> None:
        """Something may have gone unseen: nobody is taken to be there before everything is listed again."""
        self.complete = False
        self.alive = {}

    def is_alive(self, uid: str) -> bool:
        """Whether an object of this uid is known to be there."""
        return hash(uid) in self.alive

    def of(self, uid: str) -> tuple[str, ...]:
        """The keys of what belongs to an owner."""
        return each(self.dependents.get(hash(uid), ()))

    def seen(self, key: str, metadata: Metadata) -> Iterator[str]:
        """An object is there, or has changed."""
        self.remember(metadata.uid)
        owners = [reference.uid for reference in metadata.owner_references]
        marks = dict.fromkeys(map(hash, owners))
        lost = {mark for mark in self.owners_of(key) if mark not in marks}
        for mark in lost:
            self.discard(mark, key)
        dependents = self.dependents
        for mark in marks:
            # Most owners have one dependent; an object can name tens of thousands of owners.
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
        """An object is no longer there."""
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
        """An object of this uid is there."""
        self.alive.pop(hash(uid), None)
        self.alive[hash(uid)] = None
        if self.complete and len(self.alive) > ALIVE_MAX:
            del self.alive[next(iter(self.alive))]

    def owners_of(self, key: str) -> tuple[int, ...]:
        """The hashes of the uids of an object's owners, as it was last seen."""
        held = self.owners.get(key, ())
        return (held,) if isinstance(held, int) else held

    def note(self, key: str, marks: tuple[int, ...]) -> None:
        """An object has these owners now."""
        if not marks:
            self.owners.pop(key, None)
        elif marks != self.owners_of(key):
            self.owners[key] = marks[0] if len(marks) == 1 else marks

    def belongs(self, mark: int, key: str) -> bool:
        """Whether an object is taken to belong to an owner."""
        held = self.dependents.get(mark, ())
        return held == key if isinstance(held, str) else key in held

    def add(self, mark: int, key: str) -> None:
        """An object belongs to an owner."""
        if self.belongs(mark, key):
            return
        held = self.dependents.get(mark, ())
        if isinstance(held, dict):
            held[key] = None
        else:
            self.dependents[mark] = packed((*each(held), key))

    def discard(self, mark: int, key: str) -> None:
        """An object does not belong to an owner."""
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
    """Keys in as little room as they need: most owners have one or two, and a dict is large."""
    if len(keys) == 1:
        return keys[0]
    return keys if len(keys) <= FEW else dict.fromkeys(keys)


def each(held: Keys) -> tuple[str, ...]:
    """The keys in what is kept for an owner."""
    return (held,) if isinstance(held, str) else tuple(held)


def without(references: Iterable[OwnerReference], uids: Iterable[str]) -> tuple[OwnerReference, ...]:
    """The references but for those to some owners."""
    left_out = set(uids)
    return tuple(one for one in references if one.uid not in left_out)
