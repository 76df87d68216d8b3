"""Accept connections, and limit those whose client has not identified itself.

A client identifies itself only by the request that it sends, so every connection first costs a descriptor. `Acceptor`
closes an anonymous connection after some seconds, and keeps few of them: at the limit it closes the oldest and accepts
the new one, so that a client with a token always gets in. Identified connections are limited per user.
"""

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.timers import Timer

LOG: Final = logging.getLogger(__name__)

ANONYMOUS_SECONDS: Final = 10.0
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of accept(2) that pass once a descriptor is closed."""
RETRY_SECONDS: Final = 0.05


class ConnectionLimits(Frozen):
    """How many connections are kept, and for how long."""

    anonymous: int
    per_user: int
    anonymous_seconds: float = ANONYMOUS_SECONDS
    """The time within which a client must have identified itself."""


def limits_for(descriptors: int) -> ConnectionLimits:
    """The limits for this many file descriptors: an eighth for anonymous clients, a quarter for each user."""
    return ConnectionLimits(
        anonymous=min(max(descriptors // 8, 16), 256), per_user=min(max(descriptors // 4, 32), 1024)
    )


def own_limits() -> ConnectionLimits:
    """The limits for this process."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limits_for(65536 if soft == resource.RLIM_INFINITY else soft)


class Connection:
    """An accepted connection."""

    __slots__ = ("requests", "sock", "user")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.user = ""
        """Its user; empty while unknown."""
        self.requests = 0
        """How many requests it is serving now."""

    @property
    def open(self) -> bool:
        """Whether the connection still has a descriptor."""
        return self.sock.fileno() >= 0

    def close(self) -> None:
        """Close the connection in any state of TLS or HTTP: the transport sees the end of its stream."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


class Acceptor:
    """Accepts the connections of a listening socket and hands each to a new protocol."""

    def __init__(
        self,
        listener: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext | None,
        limits: ConnectionLimits,
    ) -> None:
        self.listener = listener
        self.factory = factory
        self.context = context
        self.limits = limits
        self.connections: dict[asyncio.BaseProtocol, Connection] = {}
        """Oldest first; closed ones are removed by `prune`."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start accepting."""
        self.listener.setblocking(False)
        self.accepting = asyncio.create_task(self.accept())

    async def stop(self) -> None:
        """Stop accepting; connections that were accepted stay open."""
        tasks = [*self.tasks, *([self.accepting] if self.accepting is not None else [])]
        self.accepting = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.listener.close()

    async def accept(self) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(self.listener)
            except OSError as error:
                if error.errno in EXHAUSTED:
                    LOG.warning("acceptor: cannot accept a connection, closing another error=%s", error.strerror)
                    self.relieve()
                    await asyncio.sleep(RETRY_SECONDS)
                elif self.listener.fileno() < 0:
                    return
                continue
            self.prune()
            unidentified = [one for one in self.connections.values() if not one.user]
            for one in unidentified[: max(0, len(unidentified) - self.limits.anonymous + 1)]:
                one.close()
            task = asyncio.create_task(self.hand_over(sock))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def hand_over(self, sock: socket.socket) -> None:
        """Give a connection its protocol after the TLS handshake, and close it if its client stays anonymous."""
        loop = asyncio.get_running_loop()
        protocol = self.factory()
        connection = self.connections[protocol] = Connection(sock)
        Timer(self.limits.anonymous_seconds, partial(self.expire, connection))
        timeout = self.limits.anonymous_seconds if self.context is not None else None
        try:
            await loop.connect_accepted_socket(lambda: protocol, sock, ssl=self.context, ssl_handshake_timeout=timeout)
        except (OSError, ssl.SSLError):
            # A failed handshake is not logged: port scans would fill the log.
            self.connections.pop(protocol, None)
            sock.close()

    def replace_context(self, context: ssl.SSLContext) -> None:
        """Use another TLS context from now on, and close the connections that were made under the present one."""
        self.context = context
        for connection in self.connections.values():
            connection.close()

    def expire(self, connection: Connection) -> None:
        """Close a connection whose client has not identified itself in time."""
        if not connection.user:
            connection.close()

    def prune(self) -> None:
        """Remove closed connections."""
        self.connections = {protocol: one for protocol, one in self.connections.items() if one.open}

    def relieve(self) -> None:
        """Free a descriptor: close the oldest anonymous connection, or an idle one of the user with most."""
        self.prune()
        unidentified = [one for one in self.connections.values() if not one.user]
        idle = [one for one in self.connections.values() if one.user and not one.requests]
        counts: dict[str, int] = {}
        for one in idle:
            counts[one.user] = counts.get(one.user, 0) + 1
        idle.sort(key=lambda one: -counts[one.user])
        for one in (unidentified or idle)[:1]:
            one.close()

    def identify(self, protocol: asyncio.BaseProtocol, user: str) -> bool:
        """Record the user of a connection; False if all connections of that user are in use and there are too many.

        At a user's limit, the oldest connection that serves no request is closed.
        """
        connection = self.connections.get(protocol)
        if connection is None or connection.user == user:
            return True
        self.prune()
        others = [one for one in self.connections.values() if one.user == user]
        if len(others) >= self.limits.per_user:
            idle = next((one for one in others if not one.requests), None)
            if idle is None:
                return False
            idle.close()
        connection.user = user
        return True

    @contextlib.contextmanager
    def serving(self, protocol: asyncio.BaseProtocol) -> Iterator[None]:
        """Count a request while it is served."""
        connection = self.connections.get(protocol)
        if connection is None:
            yield
            return
        connection.requests += 1
        try:
            yield
        finally:
            connection.requests -= 1
