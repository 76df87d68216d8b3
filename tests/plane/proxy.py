"""How does a test stand in for the network? A `Proxy`: it passes connections on, and can be cut.

with Proxy(lambda: [plane.ports["api"]]) as proxy:
    …  # let a program talk to https://127.0.0.1:{proxy.port}
    proxy.cut()   # what is open stalls, and nothing new gets through
    proxy.mend()
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final, Self

ROUNDS: Final = 20
"""Rounds of the event loop, not seconds: on a busy machine a short sleep may be over after one."""


class Proxy:
    """Passes connections on to the first of some ports of 127.0.0.1 that answers; asked anew for each connection."""

    def __init__(self, backends: Callable[[], list[int]], host: str = "127.0.0.1", port: int = 0) -> None:
        self.backends = backends
        self.host = host
        self.port = port
        self.loop = asyncio.new_event_loop()
        self.whole = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.started = threading.Event()
        self.failed: OSError | None = None
        self.thread = threading.Thread(target=self.serve, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        self.started.wait()
        if self.failed is not None:
            raise self.failed
        return self

    def __exit__(self, *_error: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def cut(self) -> None:
        """Let nothing through any more, as a broken cable does: connections stay open and stall."""
        self.loop.call_soon_threadsafe(self.whole.clear)

    def mend(self) -> None:
        """Let everything through again; connections that were open during the cut are reset."""

        def again() -> None:
            self.whole.set()
            for task in self.tasks:
                task.cancel()

        self.loop.call_soon_threadsafe(again)

    def release(self) -> None:
        """Let everything through again, and what was sent during the cut."""
        self.loop.call_soon_threadsafe(self.whole.set)

    def serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.whole.set()
        try:
            server = self.loop.run_until_complete(asyncio.start_server(self.connected, self.host, self.port))
        except OSError as error:
            self.failed = error
            self.started.set()
            return
        self.port = int(server.sockets[0].getsockname()[1])
        self.started.set()
        self.loop.run_forever()
        server.close()
        self.loop.run_until_complete(self.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    async def close(self) -> None:
        """End all connections; one that was just accepted takes a few rounds of the loop before it can be closed."""
        for _ in range(ROUNDS):
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self.loop.create_task(self.carry(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        # A task that is cancelled before it began closes nothing.
        task.add_done_callback(lambda _task: writer.transport.abort())

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes both ways until one side closes."""
        there: asyncio.StreamWriter | None = None
        try:
            await self.whole.wait()
            for port in self.backends():
                with contextlib.suppress(OSError):
                    back, there = await asyncio.open_connection("127.0.0.1", port)
                    break
            if there is None:
                return
            ways = [asyncio.ensure_future(way) for way in (self.pump(reader, there), self.pump(back, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for side in (writer, there):
                if side is not None:
                    side.transport.abort()

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self.whole.wait()
                writer.write(data)
                await writer.drain()
