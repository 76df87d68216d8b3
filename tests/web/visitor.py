"""A browser for tests: a client with cookies of its own, and the key of its session."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

KEY = "X-Pykueue-Key"
PATIENCE = 60.0


class Visitor:
    """A client of the page at an address."""

    def __init__(self, base: str, session: aiohttp.ClientSession, tls: ssl.SSLContext | None = None) -> None:
        self.base = base
        self.session = session
        self.tls = tls
        self.key = ""

    async def ask(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> tuple[int, str, aiohttp.ClientResponse]:
        """The status, the text and the rest of a response; the key is sent if there is one."""
        sent = {KEY: self.key, **(headers or {})} if self.key else headers or {}
        sent = {name: value for name, value in sent.items() if value}
        response = await self.session.request(
            method, self.base + path, headers=sent, ssl=self.tls or True, allow_redirects=False, **more
        )
        return response.status, await response.text(), response

    async def enter(self, code: str, **headers: str) -> int:
        """Exchange a code; keeps the key of the session. Returns the status."""
        # The file that opens a page on a loopback address has no origin; at a server the code is typed into its form.
        origin = "null" if self.base.startswith("http://") else self.base
        status, text, _ = await self.ask(
            "POST", "/ui/enter", data={"code": code}, headers={"Origin": origin, **headers}
        )
        found = re.search(r'<meta name="pykueue-key" content="([^"]+)">', text)
        self.key = found[1] if found else self.key
        return status

    async def get(self, path: str) -> tuple[int, Any]:
        """The status and the JSON of a call."""
        status, text, _ = await self.ask("GET", f"/ui/api/{path}")
        return status, json.loads(text)

    async def post(self, path: str, body: object) -> tuple[int, Any]:
        """The status and the JSON of a call."""
        status, text, _ = await self.ask("POST", f"/ui/api/{path}", json=body)
        return status, json.loads(text)

    @asynccontextmanager
    async def streaming(self) -> AsyncIterator["Streaming"]:
        """The events of the stream."""
        response = await self.session.get(
            f"{self.base}/ui/api/stream", headers={KEY: self.key}, ssl=self.tls or True, timeout=aiohttp.ClientTimeout()
        )
        assert response.status == 200, await response.text()
        try:
            yield Streaming(response)
        finally:
            if response.connection is not None and response.connection.transport is not None:
                # A TLS shutdown would outlive the loop of a test.
                response.connection.transport.abort()
            response.close()
            await asyncio.sleep(0)


class Streaming:
    """An open stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.rows: dict[str, Any] = {}
        self.overview: dict[str, Any] = {}
        self.finished: list[Any] = []
        self.complete = False
        self.unread = bytearray()

    async def line(self) -> bytes:
        """The next line; empty at the end. Lines are longer than aiohttp reads itself."""
        at = 0
        while (end := self.unread.find(b"\n", at)) < 0:
            at = len(self.unread)
            piece = await asyncio.wait_for(self.response.content.readany(), PATIENCE)
            if not piece:
                return b""
            self.unread += piece
        found = bytes(self.unread[: end + 1])
        del self.unread[: end + 1]
        return found

    async def next(self) -> tuple[str, Any] | None:
        """The next event, which is taken over as the page does; None at the end."""
        name = ""
        while True:
            line = await self.line()
            if not line:
                return None
            if line.startswith(b"event: "):
                name = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                data = json.loads(line[6:])
                self.take(name, data)
                return name, data

    def take(self, name: str, data: Any) -> None:
        """Apply an event."""
        if name == "overview":
            self.overview = data
        elif name == "jobs":
            if data.get("first"):
                self.rows = {}
            self.rows |= {f"{row['namespace']}/{row['name']}": row for row in data["rows"]}
            self.complete = not data["more"]
        elif name == "delta":
            self.rows |= {f"{row['namespace']}/{row['name']}": row for row in data["set"]}
            for key in data["del"]:
                self.rows.pop(key, None)
        elif name == "finished":
            self.finished = [*data["rows"], *self.finished]

    async def until(self, holds: Any) -> None:
        """Read until a condition on this stream holds."""
        while not holds(self):
            assert await self.next() is not None, "the stream has ended"


@asynccontextmanager
async def visitor(base: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[Visitor]:
    """A browser of its own, without cookies at first."""
    connector = aiohttp.TCPConnector()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), connector=connector) as session:
        try:
            yield Visitor(base, session, tls)
        finally:
            # The loop may end before a TLS connection is shut down.
            await connector.close(abort_ssl=True)
            await asyncio.sleep(0)
