"""Does the store do what a plain dictionary and a list would, whatever is written, lost, forgotten and reopened?

The model follows the acknowledgements: what they say is committed, in their order, and nothing else is. Beside it stand
watches that begin anywhere and are read at any time.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pykueue.api.core import Tree
from pykueue.apiserver.storage.database import Row
from pykueue.apiserver.storage.store import Change, CompactedError, FullError, How, Key, Store, StoredObject, Watch
from pykueue.base.clock import ManualClock
from pykueue.base.struct import Frozen

RESOURCES = ("jobs.batch", "pods")
NAMESPACES = ("blue", "red")
KEYS = tuple(Key(resource, space, name) for resource in RESOURCES for space in NAMESPACES for name in ("a", "b"))
KEY = st.sampled_from(KEYS)


class Flight(Frozen):
    """A write that is on its way."""

    key: Key
    drops: bool
    future: asyncio.Future[StoredObject]


class Watcher:
    """A watch, and what it has told so far."""

    def __init__(self, watch: Watch, after: int) -> None:
        self.watch = watch
        self.after = after
        self.told: list[Change] = []

    @property
    def position(self) -> int:
        return self.told[-1].version if self.told else self.after


class StoreMachine(RuleBasedStateMachine):
    """A store in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = TemporaryDirectory()
        self.store = self.opened()
        self.failing: set[Key] = set()
        """Objects that cannot be written at present."""
        self.failed: set[Key] = set()
        """Objects that could not be written at some time since the last rest."""
        self.guard()
        self.flights: list[Flight] = []
        self.held: dict[Key, StoredObject] = {}
        self.log: list[Change] = []
        self.compacted = 0
        self.values = 0
        self.given: set[int] = set()
        self.watchers: list[Watcher] = []
        self.start = self.store.version

    def opened(self) -> Store:
        return Store.open(None, ManualClock())

    def guard(self) -> None:
        """Let the disk refuse the objects in `failing`."""
        insert = self.store.database.insert

        def refusing(rows: Sequence[Row]) -> None:
            if any(Key(*row[3:6]) in self.failing for row in rows):
                raise sqlite3.OperationalError("database or disk is full")
            insert(rows)

        self.store.database.insert = refusing  # type: ignore[method-assign]  # a disk that is full for some

    def step(self) -> None:
        """One turn of the event loop."""
        self.loop.run_until_complete(asyncio.sleep(0))
        self.absorb()

    def rest(self) -> None:
        """Turns until nothing is on its way."""

        async def resting() -> None:
            futures = [flight.future for flight in self.flights]
            await asyncio.gather(*futures, return_exceptions=True)
            while self.store.busy or self.store.queue or self.store.called:
                await asyncio.sleep(0)

        self.loop.run_until_complete(resting())
        self.absorb()
        assert not self.flights
        self.failed = set(self.failing)

    def absorb(self) -> None:
        """Let the model know what was acknowledged, and what was refused."""
        lost: set[Key] = set()
        waiting = []
        for flight in self.flights:
            if not flight.future.done():
                assert flight.key not in lost, f"{flight} was built upon a write that failed"
                waiting.append(flight)
            elif isinstance(flight.future.exception(), FullError):
                assert flight.key in self.failed
                lost.add(flight.key)
            else:
                assert flight.key not in lost, f"{flight} was built upon a write that failed"
                self.commit(flight, flight.future.result())
        self.flights = waiting

    def commit(self, flight: Flight, held: StoredObject) -> None:
        assert held.version not in self.given, "a version was given twice"
        assert held.version > max(self.given, default=self.start)
        self.given.add(held.version)
        before = self.held.get(flight.key)
        how: How = "DELETED" if flight.drops else "ADDED" if before is None else "MODIFIED"
        self.log.append(Change(held.version, held.key, how, held.body, None if before is None else before.body))
        if flight.drops:
            del self.held[flight.key]
        else:
            self.held[flight.key] = held

    def send(self, key: Key, *, drops: bool) -> None:
        self.values += 1
        tree: Tree = {"metadata": {"name": key.name}, "value": self.values}

        async def sending() -> asyncio.Future[StoredObject]:
            wait = self.store.drop(key, tree) if drops else self.store.put(key, tree, uid="u")
            assert isinstance(wait, asyncio.Future)
            return wait

        future = self.loop.run_until_complete(sending())
        # What was settled in the same turn comes first: this write was not built upon it.
        self.absorb()
        self.flights.append(Flight(key, drops, future))
        self.absorb()

    @rule(key=KEY)
    def put(self, key: Key) -> None:
        self.send(key, drops=False)

    @rule(keys=st.lists(KEY, min_size=2, max_size=9))
    def put_many(self, keys: list[Key]) -> None:
        for key in keys:
            self.send(key, drops=False)

    @rule(key=KEY)
    def drop(self, key: Key) -> None:
        if self.store.latest(key) is not None:
            self.send(key, drops=True)

    @rule(turns=st.integers(1, 4))
    def some_turns(self, turns: int) -> None:
        for _ in range(turns):
            self.step()

    @rule()
    def all_is_written(self) -> None:
        self.rest()

    @rule(keys=st.sets(KEY, max_size=3))
    def the_disk_refuses(self, keys: set[Key]) -> None:
        self.failing = keys
        self.failed |= keys

    @rule(keep=st.integers(0, 6))
    def compact(self, keep: int) -> None:
        async def compacting() -> None:
            self.store.compact(keep)
            self.compacted = max(self.compacted, self.store.version - keep)

        self.loop.run_until_complete(compacting())
        self.absorb()

    @rule(resource=st.sampled_from(RESOURCES), namespace=st.sampled_from(("", *NAMESPACES)), back=st.integers(0, 12))
    def watch(self, resource: str, namespace: str, back: int) -> None:
        after = max(self.start, self.store.version - back)
        try:
            watch = self.store.watch(resource, after=after, namespace=namespace)
        except CompactedError:
            assert after < self.compacted
        else:
            assert after >= self.compacted
            self.watchers.append(Watcher(watch, after))

    @rule(which=st.integers(0, 5))
    def read(self, which: int) -> None:
        """Read a watch to its end, and it has told all there was."""
        # How many there are depends on the writer's thread, so that the choice is not left to Hypothesis.
        if not self.watchers:
            return
        watcher = self.watchers[which % len(self.watchers)]
        told: list[Change] = []
        try:
            while len(told) < len(self.expected(watcher)):
                told += self.loop.run_until_complete(anext(watcher.watch))
                self.absorb()
        except CompactedError:
            self.absorb()
            assert watcher.watch.position < self.compacted
            self.watchers.remove(watcher)
        assert told == self.expected(watcher)[: len(told)]
        watcher.told += told

    def expected(self, watcher: Watcher) -> list[Change]:
        """What a watch has to tell."""
        watch = watcher.watch
        return [
            change
            for change in self.log
            if change.version > watcher.position
            and change.key.resource == watch.resource
            and watch.namespace in ("", change.key.namespace)
        ]

    @invariant()
    def what_is_committed_is_what_was_acknowledged(self) -> None:
        assert self.store.version == max(self.given, default=self.start)
        assert self.store.compacted == self.compacted
        for key in KEYS:
            assert self.store.get(key) == self.held.get(key)
        for resource in RESOURCES:
            for namespace in ("", *NAMESPACES):
                expected = [
                    self.held[key]
                    for key in KEYS
                    if key in self.held and key.resource == resource and namespace in ("", key.namespace)
                ]
                assert self.store.page(resource, namespace) == expected
                assert self.store.count(resource, namespace) == len(expected)
                assert self.paged(resource, namespace) == expected

    def paged(self, resource: str, namespace: str) -> list[StoredObject]:
        """A list, in pages of two."""
        found: list[StoredObject] = []
        after = None
        while page := self.store.page(resource, namespace, after=after, limit=2):
            found += page
            after = page[-1].key.namespace, page[-1].key.name
            if len(page) < 2:
                break
        return found

    @invariant()
    def what_is_latest_is_what_was_sent_last(self) -> None:
        sent = {flight.key: flight for flight in self.flights}
        for key in KEYS:
            if key not in sent:
                assert self.store.latest(key) == self.held.get(key)
            else:
                assert (self.store.latest(key) is None) == sent[key].drops

    @invariant()
    def the_log_is_whole(self) -> None:
        for resource in RESOURCES:
            after = max(self.compacted, self.start)
            expected = [change for change in self.log if change.version > after and change.key.resource == resource]
            assert self.store.changes(resource, after=after) == expected

    def teardown(self) -> None:
        self.failing = set()
        self.rest()
        self.loop.run_until_complete(self.store.close())
        self.loop.close()
        self.folder.cleanup()


class FileMachine(StoreMachine):
    """A store in a file, which is closed and opened again."""

    def opened(self) -> Store:
        return Store.open(Path(self.folder.name) / "store.db", ManualClock())

    @rule()
    def reopen(self) -> None:
        self.rest()
        self.loop.run_until_complete(self.store.close())
        self.store = self.opened()
        self.guard()
        # The file follows the log in memory; what it had not forgotten when it was closed, it has again.
        assert self.store.compacted <= self.compacted
        self.compacted = self.store.compacted
        positions = [(watcher.watch, watcher.position) for watcher in self.watchers]
        self.watchers = [
            Watcher(self.store.watch(watch.resource, after=position, namespace=watch.namespace), position)
            for watch, position in positions
            if position >= self.compacted
        ]


TestStoreInMemory = StoreMachine.TestCase
TestStoreInFile = FileMachine.TestCase
