"""A write that was accepted and is not committed yet."""

import asyncio

from pykueue.apiserver.storage.database import Row
from pykueue.apiserver.storage.records import Change, How, StoredObject


class Write:
    """A pending write."""

    __slots__ = ("before", "future", "held", "how", "lost")

    def __init__(
        self, held: StoredObject, how: How, before: StoredObject | None, future: asyncio.Future[StoredObject]
    ) -> None:
        self.held = held
        self.how = how
        self.before = before
        """The pending write that it is based on."""
        self.future = future
        self.lost = False

    @property
    def after(self) -> StoredObject | None:
        """The object after the write."""
        return None if self.how == "DELETED" else self.held

    def row(self) -> Row:
        """The revision to be stored."""
        held = self.held
        previous = None if self.before is None else self.before.version
        return (
            held.version,
            previous,
            self.how,
            held.key.resource,
            held.key.namespace,
            held.key.name,
            held.uid,
            held.body,
        )

    def change(self) -> Change:
        """The change that watchers see."""
        before = None if self.before is None else self.before.body
        return Change(self.held.version, self.held.key, self.how, self.held.body, before)
