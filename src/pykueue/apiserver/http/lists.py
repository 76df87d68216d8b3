"""List responses as objects, as a Table or as metadata; long ones are sent in chunks and never held as a whole."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.http.queries import Listing, listing
from pykueue.apiserver.http.tables import included, partial, row, table
from pykueue.apiserver.http.yamlwriter import EVENT_MICROS, YamlWriter
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.verbs.reading import Listed
from pykueue.apiserver.verbs.registry import Registry
from pykueue.apiserver.wire.messages import OK, Request, Response
from pykueue.apiserver.wire.negotiation import INDENT, JSON, YAML, Negotiated, is_pretty
from pykueue.apiserver.wire.options import first
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.turns import COPIED, DECODED, ITEM_MICROS, Turns
from pykueue.base.units import Instant

PAGE_ITEMS: Final = 1000
PAGE_BYTES: Final = 1024 * 1024
"""A list without a limit is read in pages of this many items or bytes, whichever comes first."""
LIMITED_BYTES: Final = 8 * 1024 * 1024
"""A page that a client requests ends at this many bytes, whatever its limit."""
PIECE_BYTES: Final = 64 * 1024
"""Chunks are sent from this size on."""
ROW_MICROS: Final = 60
"""The cost of a row of a Table, besides its object's bytes."""
SLOT: Final = b"0"
"""The placeholder for the items in a layout."""


class Form(Frozen):
    """The form of a list response."""

    choice: Negotiated
    include: str
    """The part of each object that a Table includes."""
    pretty: bool

    @property
    def is_plain(self) -> bool:
        """Whether the response is JSON without indentation, as programs request it."""
        return self.choice.media == JSON and not self.pretty

    @property
    def has_objects(self) -> bool:
        """Whether items are whole objects, rather than rows or metadata."""
        return self.choice.form == "object"


class Lists:
    """Serves lists in every form."""

    def __init__(self, registry: Registry, clock: Clock, turns: Turns) -> None:
        self.registry = registry
        self.clock = clock
        self.turns = turns

    async def answer(self, served: Served, namespace: str, choice: Negotiated, request: Request) -> Response:
        """The list response in the requested form."""
        asked, form = listing(request.query, watch=False), form_of(choice, request)
        found = await self.page(served, namespace, asked, asked.limit or PAGE_ITEMS)
        if asked.limit or not found.continue_:
            return await self.items_response(served, found, form)
        rest = Listing(labels=asked.labels, fields=asked.fields)
        about = Listed([], found.version)
        response = self.sent(served, about, form, self.pages(served, namespace, rest, found))
        return msgspec.structs.replace(response, held=PAGE_BYTES)

    async def page(self, served: Served, namespace: str, asked: Listing, limit: int) -> Listed:
        """The response with one page of a list."""
        return await self.registry.list(
            served,
            namespace,
            labels=asked.labels,
            fields=asked.fields,
            limit=limit,
            continue_=asked.continue_,
            version=asked.version,
            match=asked.match,
            most=LIMITED_BYTES if asked.limit else PAGE_BYTES,
            turns=self.turns,
        )

    async def pages(
        self, served: Served, namespace: str, asked: Listing, found: Listed
    ) -> AsyncIterator[Sequence[bytes]]:
        """The items of a list, page by page, all at the version of the first page."""
        yield found.items
        while found.continue_:
            rest = Listing(labels=asked.labels, fields=asked.fields, continue_=found.continue_)
            found = await self.page(served, namespace, rest, PAGE_ITEMS)
            yield found.items

    async def items_response(self, served: Served, found: Listed, form: Form) -> Response:
        """The response for a list whose items are at hand."""
        response = self.sent(served, found, form, in_one(found.items))
        assert not isinstance(response.body, bytes), "what is sent comes in pieces"
        if (held := sum(map(len, found.items))) > PAGE_BYTES:
            return msgspec.structs.replace(response, held=held)
        body = b"".join([piece async for piece in response.body])
        return Response(response.code, body, response.headers)

    def sent(self, served: Served, about: Listed, form: Form, pages: AsyncIterator[Sequence[bytes]]) -> Response:
        """A streamed list response."""
        pieces = self.in_yaml if form.choice.media == YAML else self.in_json
        return Response(OK, pieces(served, about, form, pages), (("Content-Type", form.choice.media),))

    async def in_json(
        self, served: Served, about: Listed, form: Form, pages: AsyncIterator[Sequence[bytes]]
    ) -> AsyncIterator[bytes]:
        """The chunks of a list in JSON."""
        now = self.clock.now()
        begin, end = layout(served, about, form)
        before = begin
        async for items in pages:
            piece: list[bytes] = []
            size = 0
            for item in items:
                await self.turns.take(cost(item, form))
                piece += (before, json_item(served, item, form, now))
                before = b",\n    " if form.pretty else b","
                size += len(piece[-1])
                if size >= PIECE_BYTES:
                    yield b"".join(piece)
                    piece, size = [], 0
            if piece:
                yield b"".join(piece)
        yield (begin.rstrip() + end.lstrip() if before is begin else end) + b"\n"

    async def in_yaml(
        self, served: Served, about: Listed, form: Form, pages: AsyncIterator[Sequence[bytes]]
    ) -> AsyncIterator[bytes]:
        """The chunks of a list in YAML, with its fields sorted by name."""
        now = self.clock.now()
        writer = YamlWriter()
        writer.begin_mapping()
        frame = framed(served, about, form)
        slot = [*frame][-1]
        for name in sorted(frame):
            writer.whole(name)
            if name != slot:
                writer.whole(frame[name])
                continue
            writer.begin_sequence()
            async for items in pages:
                for item in items:
                    await self.turns.take(cost(item, form))
                    for events in writer.steps(shown(served, item, form, now)):
                        if piece := writer.taken():
                            yield piece
                        await self.turns.take(events * EVENT_MICROS)
            writer.end_sequence()
        writer.end_mapping()
        writer.end()
        yield writer.taken()


async def in_one(items: Sequence[bytes]) -> AsyncIterator[Sequence[bytes]]:
    """Items at hand as a single page."""
    yield items


def cost(item: bytes, form: Form) -> int:
    """The estimated microseconds to render an item, without encoding it as YAML."""
    if form.is_plain and form.has_objects:
        return len(item) // COPIED
    return len(item) // DECODED + (ITEM_MICROS if form.has_objects else ROW_MICROS)


def shown(served: Served, item: bytes, form: Form, now: Instant) -> Tree:
    """An item of a list in the requested form."""
    tree: Tree = msgspec.json.decode(item)
    if form.has_objects:
        return tree
    if not form.include:
        return partial(tree, form.choice.version)
    if form.include == "Object":
        # Items of a list omit kind and apiVersion; rows of a Table have them.
        named: Tree = {"kind": served.resource.kind, "apiVersion": served.resource.api_version}
        tree = named | tree
    return row(served, tree, now, include=form.include, version=form.choice.version)


def json_item(served: Served, item: bytes, form: Form, now: Instant) -> bytes:
    """An item encoded as JSON."""
    text = item if form.has_objects else msgspec.json.encode(shown(served, item, form, now))
    # Strings in JSON contain no line breaks, so every line break is one of the layout.
    return msgspec.json.format(text, indent=INDENT).replace(b"\n", b"\n    ") if form.pretty else text


def form_of(choice: Negotiated, request: Request) -> Form:
    """The form that a client requests for a list."""
    include = included(first(request.query, "includeObject")) if choice.form == "table" else ""
    return Form(choice, include, is_pretty(choice, first(request.query, "pretty"), request.header("user-agent")))


def framed(served: Served, found: Listed, form: Form) -> Tree:
    """A list without its items; its last field is the empty list of items."""
    about: Tree = {"resourceVersion": found.version}
    if found.continue_ or (served.custom and form.choice.form == "object"):
        about["continue"] = found.continue_
    if found.remaining is not None:
        about["remainingItemCount"] = found.remaining
    version = f"meta.k8s.io/{form.choice.version}"
    match form.choice.form:
        case "table":
            return table(served, [], metadata=about, version=form.choice.version)
        case "metadata":
            return {"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": about, "items": []}
        case _:
            resource = served.resource
            return {"kind": served.list_kind, "apiVersion": resource.api_version, "metadata": about, "items": []}


def layout(served: Served, found: Listed, form: Form) -> tuple[bytes, bytes]:
    """The JSON before and after the items of a list."""
    text = msgspec.json.encode(framed(served, found, form))
    if not form.pretty:
        return text[:-2], text[-2:]
    begin, _, end = msgspec.json.format(text[:-2] + SLOT + text[-2:], indent=INDENT).rpartition(SLOT)
    return begin, end
