"""Mounts the page on the server of `pykueue up`; what it needs is imported with the first request to it."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from pykueue.apiserver.wire.messages import Request, Response
from pykueue.app.machine import Up

if TYPE_CHECKING:
    from pykueue.cli.localserver.dashboard import MachinePage

ROOT: Final = "/ui"
MODULE: Final = "pykueue.cli.localserver.dashboard"


class PageMount:
    """The page, once it was asked for."""

    root = ROOT

    def __init__(self, up: Up) -> None:
        self.up = up
        self.page: MachinePage | None = None
        self.importing = asyncio.Lock()

    async def user(self, request: Request) -> str:
        """The user of a request; empty if it has none."""
        return await (await self.mounted()).user(request)

    async def answer(self, request: Request, read: Callable[[int], Awaitable[bytes]]) -> Response:
        """The response to a request below `/ui`."""
        return await (await self.mounted()).answer(request, read)

    async def mounted(self) -> "MachinePage":
        """The page; imported if this is the first request to it."""
        if self.page is None:
            async with self.importing:
                # An import takes longer than the loop may be held.
                module = await asyncio.to_thread(import_module, MODULE)
                self.page = self.page or module.MachinePage(self.up)
        return self.page

    def close(self) -> None:
        """End all sessions."""
        if self.page is not None:
            self.page.close()
