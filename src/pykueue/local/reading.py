"""What is there, and what changes? Gets, lists in pages of one version, and watches."""

import asyncio
import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Final, Literal, TypeAlias, cast

import msgspec

from pykueue.api.core import Tree
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant
from pykueue.local.bodies import json_trouble
from pykueue.local.conversion import bare, body_served
from pykueue.local.selectors import Selection, selection
from pykueue.local.served import Served
from pykueue.local.statuses import StatusError, bad_request, gone, not_found, quoted, too_new
from pykueue.local.store import Change, CompactedError, Held, Key, Store

PAGE_ITEMS: Final = 500
TURN: Final = 100
"""Events that are given in one turn of the loop."""
BOOKMARK_MICROS: Final = 60 * MICROS
"""How often a watcher that asks for it is told how far it is."""
END_OF_LIST: Final = "k8s.io/initial-events-end"
TOKEN_VERSION: Final = "meta.k8s.io/v1"
UNREADABLE: Final = "invalid continue token: continue key is not valid"
ANYWHEN: Final = -1
"""The version in a token whose list need not be of one version."""
LIST_EXPIRED: Final = "The resourceVersion for the provided list is too old."
CONTINUE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)

How: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class Seen(Frozen):
    """One event of a watch."""

    how: How
    body: bytes

    def line(self) -> bytes:
        """The event as a line of JSON, without its end."""
        return b'{"type":"%s","object":%s}' % (self.how.encode(), self.body)


class Listed(Frozen):
    """A list, or a page of one."""

    items: list[bytes]
    version: str
    continue_: str = ""
    remaining: int | None = None

    def body(self, served: Served) -> bytes:
        """The list as an object."""
        metadata: Tree = {"resourceVersion": self.version}
        if self.continue_ or served.custom:
            metadata["continue"] = self.continue_
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        head = msgspec.json.encode({"kind": served.list_kind, "apiVersion": served.api_version, "metadata": metadata})
        return b'%s,"items":[%s]}' % (head[:-1], b",".join(self.items))


class Token(Frozen, rename={"api": "v"}):
    """Where a list goes on."""

    rv: int
    start: str
    api: str = TOKEN_VERSION
    left: int = 0
    """How many items come after the page that it was given with."""

    def __str__(self) -> str:
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @property
    def after(self) -> tuple[str, str]:
        """The object that came last."""
        namespace, _, name = self.start.rstrip("\0").rpartition("/")
        return namespace, name


def token_in(text: str) -> Token:
    """The token that a caller came back with."""
    raw = b""
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=Token)
    except msgspec.ValidationError as error:
        raise bad_request(f"{UNREADABLE}: {error}") from None
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"{UNREADABLE}: {json_trouble(raw, error)}") from None
    if token.api != TOKEN_VERSION:
        raise bad_request(f"{UNREADABLE}: server does not recognize this encoded version {token.api}")
    if not token.rv:
        raise bad_request("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not token.start:
        raise bad_request(f"{UNREADABLE}: encoded start key empty (version meta.k8s.io/v1)")
    return token


def version_in(text: str) -> int:
    """The version that a list begins at; 0 for none."""
    trouble = version_trouble(text)
    if trouble:
        raise bad_request(f"invalid resource version: resourceVersion: Invalid value: {quoted(text)}: {trouble}")
    return int(text or 0)


def watched_version(text: str) -> int:
    """The version that a watch begins at; 0 for none."""
    trouble = version_trouble(text)
    if trouble:
        raise StatusError(500, "", f"resourceVersion: Invalid value: {quoted(text)}: {trouble}")
    return int(text or 0)


def version_trouble(text: str) -> str:
    """Why a text is no version; empty if it is one."""
    if not text or (text.isascii() and text.isdigit() and len(text) < 20):
        return ""
    return f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax"


class Reading:
    """Reads what the store holds, in the versions that callers ask for."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock

    def get(self, served: Served, name: str, namespace: str) -> bytes:
        """A stored object in the version asked for."""
        held = self.store.get(key_of(served, namespace, name))
        if held is None:
            raise not_found(served.resource, name)
        return body_served(served, held.body)

    def list(
        self,
        served: Served,
        namespace: str,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
        version: str = "",
        match: str = "",
    ) -> Listed:
        """A list, or the page of it that the token names; a page is of the version of its first."""
        wanted = selection(served, labels, fields)
        if continue_ and version_in(version):
            raise bad_request("specifying resource version is not allowed when using continue")
        token = token_in(continue_) if continue_ else None
        current, asked = self.store.version, version_in(version)
        if token is not None and token.rv != ANYWHEN:
            current = token.rv
        elif match == "Exact" and asked:
            current = asked
        if max(current, asked) > self.store.version:
            raise too_new(max(current, asked), self.store.version)
        past = self.since(served, namespace, current, token)
        found: list[Held] = []
        more = False
        for held in self.at(served, namespace, past, wanted, after=token.after if token else None, limit=limit):
            if limit and len(found) == limit:
                more = True
                break
            found.append(held)
        items = [bare(served, body_served(served, held.body)) for held in found]
        if not more:
            return Listed(items, str(current))
        left = token.left if token else self.store.count(served.storage, namespace) - created(past)
        last = found[-1].key
        rest = max(1, left - len(found))
        next_ = Token(current, f"{last.namespace}/{last.name}\0", left=rest)
        return Listed(items, str(current), str(next_), None if wanted else rest)

    def since(self, served: Served, namespace: str, version: int, token: Token | None) -> dict[Key, bytes | None]:
        """What objects were at a version that have changed after it; absent ones are None."""
        if version == self.store.version:
            return {}
        past: dict[Key, bytes | None] = {}
        try:
            for change in self.store.changes(served.storage, after=version, namespace=namespace):
                past.setdefault(change.key, change.before)
        except CompactedError:
            if token is None:
                raise gone(LIST_EXPIRED) from None
            raise gone(CONTINUE_EXPIRED, str(Token(ANYWHEN, token.start, left=token.left))) from None
        return past

    def at(
        self,
        served: Served,
        namespace: str,
        past: dict[Key, bytes | None],
        wanted: Selection,
        *,
        after: tuple[str, str] | None,
        limit: int,
    ) -> Iterator[Held]:
        """The selected objects in order, each as it was in the past if it has changed since."""
        lost = sorted(
            (key for key, body in past.items() if body is not None and (after is None or place(key) > after)),
            key=place,
        )
        for held in self.pages(served, namespace, wanted, after=after, limit=limit):
            while lost and place(lost[0]) <= place(held.key):
                yield from selected(as_held(lost.pop(0), past), wanted)
            if held.key not in past:
                yield from selected(held, wanted)
        for key in lost:
            yield from selected(as_held(key, past), wanted)

    def pages(
        self, served: Served, namespace: str, wanted: Selection, *, after: tuple[str, str] | None, limit: int
    ) -> Iterator[Held]:
        """The objects there are, read by pages."""
        if wanted.name and (namespace or not served.resource.namespaced):
            held = self.store.get(key_of(served, namespace, wanted.name))
            if held is not None and (after is None or place(held.key) > after):
                yield held
            return
        size = limit + 1 if limit and not wanted else PAGE_ITEMS if limit else 0
        while True:
            page = self.store.page(served.storage, namespace, after=after, limit=size)
            yield from page
            if not size or len(page) < size:
                return
            after = place(page[-1].key)

    async def watch(
        self,
        served: Served,
        namespace: str,
        *,
        version: str = "",
        labels: str = "",
        fields: str = "",
        bookmarks: bool = False,
        initial: bool | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Seen, None]:
        """Events after a version; without one, or with `initial`, the objects there are come first as ADDED."""
        wanted = selection(served, labels, fields)
        start = watched_version(version)
        if start > self.store.version:
            raise too_new(start, self.store.version)
        known: dict[Key, int] = {}
        if initial or (not start and initial is None):
            start = self.store.version
            for count, seen in enumerate(self.everything(served, namespace, wanted, known, start)):
                if count % TURN == TURN - 1:
                    # A long list must not keep everyone else waiting.
                    await asyncio.sleep(0)
                yield seen
            if initial:
                yield bookmark(served, start, ended=True)
        elif not start:
            start = self.store.version
        ends = None if timeout is None else Instant(self.clock.now() + int(timeout * MICROS))
        try:
            source = self.store.watch(served.storage, after=start, namespace=namespace)
        except CompactedError:
            raise gone(f"too old resource version: {start} ({self.store.compacted})") from None
        stream = timed(source, self.clock, bookmarks=bookmarks, ends=ends)
        try:
            async for batch in stream:
                for change in batch:
                    start = change.version
                    if known and change.version <= known.get(change.key, 0):
                        continue
                    told = told_of(served, change, wanted)
                    if told is not None:
                        yield told
                if not batch and bookmarks:
                    start = max(start, source.reached)
                    yield bookmark(served, start)
        except CompactedError:
            raise gone(f"too old resource version: {start} ({self.store.compacted})") from None
        finally:
            await stream.aclose()

    def everything(
        self, served: Served, namespace: str, wanted: Selection, known: dict[Key, int], start: int
    ) -> Iterator[Seen]:
        """The objects there are, as ADDED; what is newer than the start is remembered, for its change comes too."""
        for held in self.pages(served, namespace, wanted, after=None, limit=PAGE_ITEMS):
            if held.version > start:
                known[held.key] = held.version
            if wanted.meets(held.body):
                yield Seen("ADDED", body_served(served, held.body))


def key_of(served: Served, namespace: str, name: str) -> Key:
    """Where the store keeps an object."""
    return Key(served.storage, namespace if served.resource.namespaced else "", name)


def place(key: Key) -> tuple[str, str]:
    """Where an object stands in a list."""
    return key.namespace, key.name


def selected(held: Held, wanted: Selection) -> Iterator[Held]:
    """The object, if it is wanted."""
    if wanted.meets(held.body):
        yield held


def as_held(key: Key, past: dict[Key, bytes | None]) -> Held:
    """An object as it was."""
    return Held(key, 0, "", past[key] or b"{}")


def created(past: dict[Key, bytes | None]) -> int:
    """How many more objects there are now than there were."""
    return sum(1 for body in past.values() if body is None)


def told_of(served: Served, change: Change, wanted: Selection) -> Seen | None:
    """The event that a change is for somebody who sees only a selection."""
    if not wanted:
        return Seen(change.how, body_served(served, change.body))
    was = change.before is not None and wanted.meets(change.before)
    now = change.how != "DELETED" and wanted.meets(change.body)
    if now:
        return Seen("MODIFIED" if was else "ADDED", body_served(served, change.body))
    if not was:
        return None
    if change.how == "DELETED":
        return Seen("DELETED", body_served(served, change.body))
    # It left the selection: it is shown as it was when it was still in it, at the version at which it left.
    tree: Tree = msgspec.json.decode(cast("bytes", change.before))
    cast("Tree", tree["metadata"])["resourceVersion"] = str(change.version)
    return Seen("DELETED", body_served(served, msgspec.json.encode(tree)))


def bookmark(served: Served, version: int, *, ended: bool = False) -> Seen:
    """How far a watcher is."""
    metadata: Tree = {"resourceVersion": str(version)}
    if ended:
        metadata["annotations"] = {END_OF_LIST: "true"}
    told: Tree = {"kind": served.resource.kind, "apiVersion": served.api_version, "metadata": metadata}
    return Seen("BOOKMARK", msgspec.json.encode(told))


async def timed(
    stream: AsyncIterator[Sequence[Change]], clock: Clock, *, bookmarks: bool, ends: Instant | None
) -> AsyncGenerator[Sequence[Change], None]:
    """The batches of a stream until its time is over; an empty one stands for each time that a bookmark is due."""
    if not bookmarks and ends is None:
        async for batch in stream:
            yield batch
        return
    coming: asyncio.Future[Sequence[Change]] | None = None
    due = Instant(clock.now() + BOOKMARK_MICROS) if bookmarks else None
    try:
        while ends is None or clock.now() < ends:
            wake = min(one for one in (due, ends) if one is not None)
            coming = coming or asyncio.ensure_future(following(stream))
            timer = asyncio.ensure_future(clock.sleep_until(wake))
            try:
                await asyncio.wait((coming, timer), return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
            if coming.done():
                batch, coming = coming.result(), None
                if not batch:
                    return
                yield batch
            elif bookmarks:
                yield ()
                due = Instant(clock.now() + BOOKMARK_MICROS)
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait((coming,))


async def following(stream: AsyncIterator[Sequence[Change]]) -> Sequence[Change]:
    """The next batch of a stream; an empty one when it has ended."""
    async for batch in stream:
        return batch
    return ()
