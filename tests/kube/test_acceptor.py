"""Are connections of unknown clients bounded, and does a client that identifies itself always get in?"""

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from typing import cast

import pytest
import uvloop

from pykueue.kube.acceptor import Acceptor, ConnectionLimits, limits_for


class Echo(asyncio.Protocol):
    """Identifies its client by the name that it sends, and answers whether that is accepted."""

    def __init__(self, acceptor: list[Acceptor]) -> None:
        self.acceptor = acceptor

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"yes" if self.acceptor[0].identify(self, data.decode()) else b"no")


class Site:
    """An acceptor, and clients that connect to it."""

    def __init__(self, acceptor: Acceptor, stack: contextlib.ExitStack) -> None:
        self.acceptor, self.stack = acceptor, stack
        self.port: int = acceptor.listener.getsockname()[1]

    async def connect(self, name: str = "") -> socket.socket:
        """A client's connection; with a name it identifies itself."""
        loop = asyncio.get_running_loop()
        client = self.stack.enter_context(socket.socket())
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", self.port))
        if name:
            assert await self.say(client, name) == b"yes"
        return client

    async def say(self, client: socket.socket, name: str) -> bytes:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, name.encode())
        return await asyncio.wait_for(loop.sock_recv(client, 10), 20)

    async def ended(self, client: socket.socket) -> bool:
        """Whether the connection is closed by the server; waits for that."""
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 10), 20) == b""
        return True


@pytest.fixture(params=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as made:
        yield made


@contextlib.asynccontextmanager
async def site(limits: ConnectionLimits) -> AsyncIterator[Site]:
    acceptors: list[Acceptor] = []
    listener = socket.create_server(("127.0.0.1", 0))
    acceptor = Acceptor(listener, lambda: Echo(acceptors), None, limits)
    acceptors.append(acceptor)
    acceptor.start()
    with contextlib.ExitStack() as stack:
        try:
            yield Site(acceptor, stack)
        finally:
            await acceptor.stop()
            for one in acceptor.connections.values():
                one.close()
            await asyncio.sleep(0.05)


def test_at_the_limit_the_oldest_unknown_connection_makes_room(runner: asyncio.Runner) -> None:
    async def story() -> None:
        async with site(ConnectionLimits(anonymous=3, per_user=9)) as on:
            strangers = [await on.connect() for _ in range(3)]
            known = await on.connect("ada")
            assert await on.ended(strangers[0])
            assert await on.say(known, "ada") == b"yes"
            assert await on.say(strangers[2], "bob") == b"yes"

    runner.run(story())


def test_below_the_limit_no_unknown_connection_is_closed(runner: asyncio.Runner) -> None:
    async def story() -> None:
        async with site(ConnectionLimits(anonymous=8, per_user=9)) as on:
            strangers = [await on.connect() for _ in range(7)]
            assert [await on.say(one, f"user-{number}") for number, one in enumerate(strangers)] == [b"yes"] * 7

    runner.run(story())


def test_an_unknown_connection_ends_in_time_and_a_known_one_stays(runner: asyncio.Runner) -> None:
    async def story() -> None:
        async with site(ConnectionLimits(anonymous=9, per_user=9, anonymous_seconds=0.5)) as on:
            known, stranger = await on.connect("ada"), await on.connect()
            assert await on.ended(stranger)
            assert await on.say(known, "ada") == b"yes"

    runner.run(story())


def test_at_a_users_limit_an_idle_connection_makes_room_and_other_users_keep_theirs(runner: asyncio.Runner) -> None:
    async def story() -> None:
        async with site(ConnectionLimits(anonymous=9, per_user=2)) as on:
            other = await on.connect("bob")
            first = await on.connect("ada")
            await on.connect("ada")
            await on.connect("ada")
            assert await on.ended(first)
            assert await on.say(other, "bob") == b"yes"

    runner.run(story())


def test_a_user_whose_connections_are_all_in_use_gets_no_more(runner: asyncio.Runner) -> None:
    async def story() -> None:
        async with site(ConnectionLimits(anonymous=9, per_user=1)) as on:
            await on.connect("ada")
            busy = next(protocol for protocol, one in on.acceptor.connections.items() if one.user)
            with on.acceptor.serving(busy):
                assert await on.say(await on.connect(), "ada") == b"no"
            assert await on.say(await on.connect(), "ada") == b"yes"

    runner.run(story())


def test_without_descriptors_left_a_new_connection_still_gets_in(runner: asyncio.Runner) -> None:
    async def story() -> None:
        async with site(ConnectionLimits(anonymous=1000, per_user=1000)) as on:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            clients = [await on.connect() for _ in range(8)]
            late = on.stack.enter_context(socket.socket())
            late.setblocking(False)
            resource.setrlimit(resource.RLIMIT_NOFILE, (late.fileno() + 1, hard))
            try:
                await asyncio.get_running_loop().sock_connect(late, ("127.0.0.1", on.port))
                assert await on.say(late, "ada") == b"yes"
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert await on.ended(clients[0])

    runner.run(story())


@pytest.mark.parametrize("descriptors", [256, 1024, 4096, 1048576])
def test_strangers_leave_descriptors_for_users(descriptors: int) -> None:
    limits = limits_for(descriptors)
    assert limits.anonymous + 2 * limits.per_user <= descriptors * 3 // 4
