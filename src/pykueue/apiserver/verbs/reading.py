"""Gets, lists in pages of one version, and watches."""

import asyncio
import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final, Literal, TypeAlias, cast

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.conversion import bare, body_served
from pykueue.apiserver.kinds.selectors import Selection, selection
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.storage.feed import body_size
from pykueue.apiserver.storage.past import Past, place
from pykueue.apiserver.storage.store import Change, CompactedError, Key, Store, StoredObject
from pykueue.apiserver.verbs.bodies import json_trouble
from pykueue.apiserver.wire.statuserrors import StatusError, bad_request, gone, not_found, quoted, too_new
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.turns import COPIED, DECODED, ITEM_MICROS, Turns
from pykueue.base.units import MICROS, Moment

PIECE_ITEMS: Final = 200
PIECE_BYTES: Final = 128 * 1024
"""Objects read in one step."""
BOOKMARK_MICROS: Final = 60 * MICROS
"""The interval of bookmarks."""
END_OF_LIST: Final = "k8s.io/initial-events-end"
TOKEN_VERSION: Final = "meta.k8s.io/v1"
UNREADABLE: Final = "invalid continue token: continue key is not valid"
ANYWHEN: Final = -1
"""The version in a token whose list need not be consistent."""
LIST_EXPIRED: Final = "The resourceVersion for the provided list is too old."
CONTINUE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)

How: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(Frozen):
    """One event of a watch."""

    how: How
    body: bytes
    version: int = 0
    """The version of the stored change that it shows; 0 for anything else."""

    def line(self) -> bytes:
        """The event as a line of JSON, without its newline."""
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
    """A continue token: where a list resumes."""

    rv: int
    start: str
    api: str = TOKEN_VERSION
    left: int = 0
    """The number of items after the page that the token came with."""

    def __str__(self) -> str:
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @property
    def after(self) -> tuple[str, str]:
        """The last object of the previous page."""
        namespace, _, name = self.start.rstrip("\0").rpartition("/")
        return namespace, name


def token_in(text: str) -> Token:
    """Decode the continue token of a request."""
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
    """The resourceVersion at which a list starts; 0 if unset."""
    trouble = version_trouble(text)
    if trouble:
        raise bad_request(f"invalid resource version: resourceVersion: Invalid value: {quoted(text)}: {trouble}")
    return int(text or 0)


def watched_version(text: str) -> int:
    """The resourceVersion at which a watch starts; 0 if unset."""
    trouble = version_trouble(text)
    if trouble:
        raise StatusError(500, "", f"resourceVersion: Invalid value: {quoted(text)}: {trouble}")
    return int(text or 0)


def version_trouble(text: str) -> str:
    """Why a text is not a resourceVersion; empty if it is one."""
    if not text or (text.isascii() and text.isdigit() and len(text) < 20):
        return ""
    return f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax"


class Reading:
    """Reads stored objects in the requested versions."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.turns = Turns()
        """The budget of callers in this process."""

    def get(self, served: Served, name: str, namespace: str) -> bytes:
        """A stored object in the requested version."""
        held = self.store.get(key_of(served, namespace, name))
        if held is None:
            raise not_found(served.resource, name)
        return body_served(served, held.body)

    async def list(
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
        most: int = 0,
        turns: Turns | None = None,
    ) -> Listed:
        """A list, or the page that the token names; all pages have the version of the first.

        With a limit and `most`, a page ends with the item that brings it to this many bytes.
        """
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
        past = Past(self.store.feed, served.storage, namespace, current, token.after if token else None)
        items: list[bytes] = []
        size, more = 0, False
        last: Key | None = None
        try:
            async for some in self.pieces(served, namespace, wanted, past, limit=limit, turns=turns or self.turns):
                for held in some:
                    if limit and (len(items) == limit or 0 < most <= size):
                        more = True
                        break
                    items.append(bare(served, body_served(served, held.body)))
                    last, size = held.key, size + len(held.body)
                if more:
                    break
        except CompactedError:
            if token is None:
                raise gone(LIST_EXPIRED) from None
            raise gone(CONTINUE_EXPIRED, str(Token(ANYWHEN, token.start, left=token.left))) from None
        if not more or last is None:
            return Listed(items, str(current))
        left = token.left if token else self.store.count(served.storage, namespace) - past.created
        rest = max(1, left - len(items))
        next_ = Token(current, f"{last.namespace}/{last.name}\0", left=rest)
        return Listed(items, str(current), str(next_), None if wanted else rest)

    async def pieces(
        self,
        served: Served,
        namespace: str,
        wanted: Selection,
        past: Past | None,
        *,
        limit: int = 0,
        turns: Turns,
    ) -> AsyncIterator[Sequence[StoredObject]]:
        """The selected objects in order, past or present; yields to other tasks in between."""
        after = None if past is None else past.after
        count = min(limit + 1, PIECE_ITEMS) if limit and not wanted else PIECE_ITEMS
        while True:
            await turns.take(cost(served, wanted))
            while past is not None and past.behind:
                await turns.take(past.step())
            # Nothing is awaited until the piece is merged, so that both are of the same version.
            if wanted.name and (namespace or not served.resource.namespaced):
                found, end = self.one(key_of(served, namespace, wanted.name), after), None
            else:
                found, end = self.store.piece(served.storage, namespace, after=after, limit=count, most=PIECE_BYTES)
            yield [held for held in (found if past is None else past.merged(found, end)) if wanted.meets(held.body)]
            if end is None:
                return
            after = end

    def one(self, key: Key, after: tuple[str, str] | None) -> Sequence[StoredObject]:
        """The object at a key, if it exists and comes after a position."""
        held = self.store.get(key)
        return [held] if held is not None and (after is None or place(key) > after) else []

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
        turns: Turns | None = None,
    ) -> AsyncGenerator[Sequence[WatchEvent], None]:
        """Batches of events after a version; without one, or with `initial`, present objects come first."""
        turns = turns or self.turns
        wanted = selection(served, labels, fields)
        start = watched_version(version)
        if start > self.store.version:
            raise too_new(start, self.store.version)
        known: dict[Key, int] = {}
        if initial or (not start and initial is None):
            start = self.store.version
            async for some in self.pieces(served, namespace, wanted, None, turns=turns):
                # Objects newer than the start are recorded, because their changes follow.
                known.update((held.key, held.version) for held in some if held.version > start)
                if some:
                    yield [WatchEvent("ADDED", body_served(served, held.body)) for held in some]
            if initial:
                yield [bookmark(served, start, ended=True)]
        elif not start:
            start = self.store.version
        ends = None if timeout is None else Moment(self.clock.moment() + int(timeout * MICROS))
        try:
            source = self.store.watch(served.storage, after=start, namespace=namespace)
        except CompactedError:
            raise gone(f"too old resource version: {start} ({self.store.compacted})") from None
        # A watch without a timer needs no generator in between.
        stream = timed(source, self.clock, bookmarks=bookmarks, ends=ends) if bookmarks or ends is not None else None
        try:
            async for batch in stream or source:
                if not batch and bookmarks:
                    start = max(start, source.reached)
                    yield [bookmark(served, start)]
                    continue
                await turns.take(cost(served, wanted, batch))
                told = [
                    seen
                    for change in batch
                    if change.version > known.get(change.key, 0)
                    and (seen := event_for(served, change, wanted)) is not None
                ]
                start = batch[-1].version
                if told:
                    yield told
        except CompactedError:
            raise gone(f"too old resource version: {start} ({self.store.compacted})") from None
        finally:
            if stream is not None:
                await stream.aclose()


def cost(served: Served, wanted: Selection, changes: Sequence[Change] | None = None) -> int:
    """The estimated microseconds to read and select changes, or a piece of a list."""
    count = PIECE_ITEMS if changes is None else len(changes)
    size = PIECE_BYTES if changes is None else sum(map(body_size, changes))
    terms = len(wanted.labels) + len(wanted.fields)
    speed = DECODED if terms or not served.is_stored else COPIED
    return count * (ITEM_MICROS + terms) + size // speed


def key_of(served: Served, namespace: str, name: str) -> Key:
    """The storage key of an object."""
    return Key(served.storage, namespace if served.resource.namespaced else "", name)


def event_for(served: Served, change: Change, wanted: Selection) -> WatchEvent | None:
    """The event that a change causes for a watcher with this selection."""
    if not wanted:
        return WatchEvent(change.how, body_served(served, change.body), change.version)
    was = change.before is not None and wanted.meets(change.before)
    now = change.how != "DELETED" and wanted.meets(change.body)
    if now:
        return WatchEvent("MODIFIED" if was else "ADDED", body_served(served, change.body), change.version)
    if not was:
        return None
    if change.how == "DELETED":
        return WatchEvent("DELETED", body_served(served, change.body), change.version)
    # It left the selection: show its last selected state at the version at which it left.
    tree: Tree = msgspec.json.decode(cast("bytes", change.before))
    cast("Tree", tree["metadata"])["resourceVersion"] = str(change.version)
    return WatchEvent("DELETED", body_served(served, msgspec.json.encode(tree)))


def bookmark(served: Served, version: int, *, ended: bool = False) -> WatchEvent:
    """A BOOKMARK event at this version."""
    metadata: Tree = {"resourceVersion": str(version)}
    if ended:
        metadata["annotations"] = {END_OF_LIST: "true"}
    told: Tree = {"kind": served.resource.kind, "apiVersion": served.api_version, "metadata": metadata}
    return WatchEvent("BOOKMARK", msgspec.json.encode(told))


async def timed(
    stream: AsyncIterator[Sequence[Change]], clock: Clock, *, bookmarks: bool, ends: Moment | None
) -> AsyncGenerator[Sequence[Change], None]:
    """The batches of a stream until its timeout; an empty batch whenever a bookmark is due."""
    coming: asyncio.Future[Sequence[Change]] | None = None
    due = Moment(clock.moment() + BOOKMARK_MICROS) if bookmarks else None
    try:
        while ends is None or clock.moment() < ends:
            wake = min(one for one in (due, ends) if one is not None)
            coming = coming or asyncio.ensure_future(following(stream))
            timer = asyncio.ensure_future(clock.sleep_to(wake))
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
                due = Moment(clock.moment() + BOOKMARK_MICROS)
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait((coming,))


async def following(stream: AsyncIterator[Sequence[Change]]) -> Sequence[Change]:
    """The next batch of a stream; empty when it has ended."""
    async for batch in stream:
        return batch
    return ()
