"""Requests through a proxy: like `transport`, with a library that supports proxies."""

import asyncio
import base64
import ssl
from urllib.parse import unquote, urlsplit

import aiohttp
from yarl import URL

from pykueue.base.timers import timeout
from pykueue.kube.client.transport import (
    CALL_SECONDS,
    CONNECT_SECONDS,
    CONNECTIONS_MAX,
    Dialled,
    LostError,
    Request,
    Response,
    UnsentError,
)

BUFFER = 1 << 20


class ProxiedStream:
    """A streamed response."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    @property
    def status(self) -> int:
        """The status code."""
        return self.response.status

    def header(self, name: str) -> str:
        """The value of a header; empty if absent."""
        return self.response.headers.get(name, "")

    async def readany(self) -> bytes:
        """The next bytes of the body; empty at its end."""
        try:
            return await self.response.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise LostError(f"the connection was lost: {error!r}") from error

    def close(self) -> None:
        """Close the connection."""
        self.response.close()


class Proxied:
    """A transport through a proxy."""

    def __init__(self, server: str, server_name: str, proxy: str) -> None:
        self.server = server
        self.server_name = server_name or None
        self.proxy = proxy or None
        self.tls: ssl.SSLContext | None = None
        self.session: aiohttp.ClientSession | None = None
        self.closed = False

    def trust(self, tls: ssl.SSLContext | None) -> None:
        """Use these TLS settings on all connections from now on."""
        self.tls = tls

    async def exchange(self, request: Request) -> Response:
        """Send a request and return the response."""
        response = await self.ask(request, aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS))
        try:
            body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise LostError(f"the connection was lost: {error!r}") from error
        return Response(response.status, response.headers.get("Retry-After", ""), body)

    async def open(self, request: Request, idle: float) -> ProxiedStream:
        """Send a request and stream the response; silence for this many seconds ends it."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle)
        return ProxiedStream(await self.ask(request, timeout))

    async def ask(self, request: Request, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Send a request and return the response with its body unread."""
        if self.closed or (request.may_send is not None and not request.may_send()):
            raise UnsentError("the connections are closed" if self.closed else "sending is no longer allowed")
        if self.session is None:
            self.session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=2 * CONNECTIONS_MAX),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=BUFFER,
            )
        try:
            return await self.session.request(
                request.method,
                URL(self.server + request.path, encoded=True),
                data=request.body,
                headers=[*request.headers, ("Content-Type", request.content)] if request.body else request.headers,
                ssl=self.tls or True,
                server_hostname=self.server_name,
                proxy=self.proxy,
                allow_redirects=False,
                timeout=timeout,
            )
        except (
            aiohttp.ClientConnectorError,
            aiohttp.ClientProxyConnectionError,
            aiohttp.ConnectionTimeoutError,
        ) as error:
            raise UnsentError(f"the server cannot be reached through its proxy: {error}") from error
        except aiohttp.ClientHttpProxyError as error:
            raise UnsentError(f"the proxy refused the connection: {error.status} {error.message}") from error
        except (aiohttp.ClientError, TimeoutError, OSError, RuntimeError) as error:
            raise LostError(f"no response: {error!r}") from error

    async def dial(self) -> Dialled:
        """A connection through the proxy's CONNECT, for another protocol than HTTP."""
        proxy, url = urlsplit(self.proxy or ""), urlsplit(self.server)
        if proxy.scheme != "http":
            raise UnsentError(f"connections to containers need a proxy that is reached by http://, not {proxy.scheme}")
        host, encrypted = url.hostname or "", url.scheme == "https"
        target = f"{url.hostname}:{url.port or (443 if encrypted else 80)}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if proxy.username:
            secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(secret).decode()}")
        try:
            async with timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(proxy.hostname, proxy.port or 80)
                writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
                head = await reader.readuntil(b"\r\n\r\n")
                if head.split(b" ", 2)[1:2] != [b"200"]:
                    writer.close()
                    said = head.partition(b"\r\n")[0].decode(errors="replace")
                    raise UnsentError(f"the proxy refused the connection: {said}")
                if encrypted and self.tls is not None:
                    await writer.start_tls(self.tls, server_hostname=self.server_name or host)
        except TimeoutError:
            raise UnsentError(
                f"the server cannot be reached through its proxy within {CONNECT_SECONDS:.0f} s"
            ) from None
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise UnsentError(f"the server cannot be reached through its proxy: {error}") from error
        return Dialled(reader, writer, url.netloc.rpartition("@")[2], url.path.rstrip("/"))

    async def close(self) -> None:
        """Close all connections."""
        self.closed = True
        if self.session is not None:
            await self.session.close()
