"""How is a list told? As objects, as a Table or as metadata; a long one page by page, without holding all of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.local.exchange import OK, Request, Response, raw, told
from pykueue.local.negotiation import JSON, Wanted, is_pretty
from pykueue.local.options import first
from pykueue.local.queries import Listing, listing
from pykueue.local.reading import Listed
from pykueue.local.registry import Registry
from pykueue.local.served import Served
from pykueue.local.tables import included, partial, row, table

PAGE_ITEMS: Final = 1000
"""Of a list without a limit, so many items are read at once."""
TURN_ITEMS: Final = 200
"""After so many rows others have their turn."""


class Form(Frozen):
    """In which form a list is told."""

    choice: Wanted
    include: str
    """What of each object a Table carries."""
    pretty: bool

    @property
    def is_plain(self) -> bool:
        """Whether it is JSON without a layout, as programs want it."""
        return self.choice.media == JSON and not self.pretty


class Lists:
    """Lists, in every form."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self.registry = registry
        self.clock = clock

    async def answer(self, served: Served, namespace: str, choice: Wanted, request: Request) -> Response:
        """A list, in the form in which it is wanted."""
        asked, form = listing(request.query, watch=False), form_of(choice, request)
        if not form.is_plain:
            return await self.whole(served, await self.page(served, namespace, asked, asked.limit), form)
        found = await self.page(served, namespace, asked, asked.limit or PAGE_ITEMS)
        if asked.limit or not found.continue_:
            return await self.whole(served, found, form)
        return Response(OK, self.pieces(served, namespace, asked, found, form), (("Content-Type", JSON),))

    async def page(self, served: Served, namespace: str, asked: Listing, limit: int) -> Listed:
        """A page of a list."""
        return await self.registry.list(
            served,
            namespace,
            labels=asked.labels,
            fields=asked.fields,
            limit=limit,
            continue_=asked.continue_,
            version=asked.version,
            match=asked.match,
        )

    async def whole(self, served: Served, found: Listed, form: Form) -> Response:
        """A list that is there at once."""
        begin, end = frame(served, form, found)
        body = begin + b",".join(await self.shown(served, found.items, form)) + end
        if form.is_plain:
            return raw(OK, body)
        return told(OK, msgspec.json.decode(body), media=form.choice.media, pretty=form.pretty)

    async def pieces(
        self, served: Served, namespace: str, asked: Listing, found: Listed, form: Form
    ) -> AsyncIterator[bytes]:
        """A long list; all of it is of the version of its first page."""
        begin, end = frame(served, form, Listed([], found.version))
        yield begin + b",".join(await self.shown(served, found.items, form))
        while found.continue_:
            rest = Listing(labels=asked.labels, fields=asked.fields, continue_=found.continue_)
            found = await self.page(served, namespace, rest, PAGE_ITEMS)
            for item in await self.shown(served, found.items, form):
                yield b"," + item
        yield end + b"\n"

    async def shown(self, served: Served, items: Sequence[bytes], form: Form) -> Sequence[bytes]:
        """The items of a list, in the form in which they are wanted."""
        if form.choice.form == "object":
            return items
        made: list[bytes] = []
        now, version = self.clock.now(), form.choice.version
        for index, body in enumerate(items):
            tree: Tree = msgspec.json.decode(body)
            if form.include == "Object":
                # Items of a list do not say what they are; rows of a Table do.
                named: Tree = {"kind": served.resource.kind, "apiVersion": served.resource.api_version}
                tree = named | tree
            if form.include:
                shown = row(served, tree, now, include=form.include, version=version)
            else:
                shown = partial(tree, version)
            made.append(msgspec.json.encode(shown))
            if index % TURN_ITEMS == TURN_ITEMS - 1:
                await asyncio.sleep(0)
        return made


def form_of(choice: Wanted, request: Request) -> Form:
    """In which form a client wants a list."""
    include = included(first(request.query, "includeObject")) if choice.form == "table" else ""
    return Form(choice, include, is_pretty(choice, first(request.query, "pretty"), request.header("user-agent")))


def frame(served: Served, form: Form, found: Listed) -> tuple[bytes, bytes]:
    """What stands before the items of a list, and after them."""
    about: Tree = {"resourceVersion": found.version}
    if found.continue_ or (served.custom and form.choice.form == "object"):
        about["continue"] = found.continue_
    if found.remaining is not None:
        about["remainingItemCount"] = found.remaining
    version = f"meta.k8s.io/{form.choice.version}"
    match form.choice.form:
        case "table":
            made = table(served, [], metadata=about, version=form.choice.version)
        case "metadata":
            made = {"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": about, "items": []}
        case _:
            resource = served.resource
            made = {"kind": served.list_kind, "apiVersion": resource.api_version, "metadata": about, "items": []}
    # The last field is the empty list that the items go into.
    text = msgspec.json.encode(made)
    return text[:-2], text[-2:]
