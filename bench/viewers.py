"""Measure what the page at `/ui` costs the server of `pykueue up`: `python -m bench.viewers`.

The server has 50,000 jobs that wait in 1,000 queues. The same changes are made with and without viewers, in turns.
"""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Final, NamedTuple

import uvloop
import yaml

from bench import kernel
from bench.floors import Floor, Result, run
from bench.upserver import Server, serving
from bench.waitingjobs import NAMESPACE, QUEUES, WAITING, filled, waiting
from pykueue.kube.port import JOBS
from tests.web.visitor import Streaming, visitor

CLIENTS: Final = 10
CHANGES_PER_SECOND: Final = 100
SECONDS: Final = 15.0
TURNS: Final = 2
QUIET_SECONDS: Final = 3.0
START_SECONDS: Final = 300.0

VIEWERS: Final = Floor(
    "viewers",
    "% of a core",
    10,
    f"{CLIENTS} open pages, {WAITING:,} jobs in {QUEUES:,} queues, {CHANGES_PER_SECOND} changes a second",
    scales=True,
)


class Turn(NamedTuple):
    """A while with or without viewers."""

    cpu: float
    changes: int
    seconds: float

    @property
    def share(self) -> float:
        """The per cent of a core at the full rate of changes."""
        return self.cpu / self.changes * CHANGES_PER_SECOND * 100


class Viewers:
    """Opens pages of a server, each with a session of its own."""

    def __init__(self, server: Server) -> None:
        known = server.connection
        self.base = known.server
        self.tls = ssl.create_default_context(cadata=known.authority)
        config = yaml.safe_load((server.folder / "kubeconfig").read_text())
        self.headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[asyncio.Task[None]]:
        """A page whose stream is read by the task."""
        async with visitor(self.base, self.tls) as one:
            _, answer, _ = await one.ask("POST", "/ui/code", json={"seconds": 600}, headers=self.headers)
            assert await one.enter(json.loads(answer)["code"]) == 200, "the code was refused"
            async with one.streaming() as stream:
                reading = asyncio.ensure_future(drained(stream))
                try:
                    yield reading
                finally:
                    reading.cancel()


async def drained(stream: Streaming) -> None:
    """Read a stream until it ends."""
    async for _ in stream.response.content.iter_any():
        pass


async def changed(server: Server) -> Turn:
    """Submit and delete Jobs at a steady rate; the server's CPU time meanwhile."""
    kube = server.kube()
    begin, before, changes = monotonic(), server.work_seconds(), 0
    try:
        while (now := monotonic() - begin) < SECONDS:
            name = f"change-{begin:.0f}-{changes}"
            await kube.create(JOBS, waiting(name), NAMESPACE)
            await kube.delete(JOBS, name, NAMESPACE, propagation="Background")
            changes += 2
            await asyncio.sleep(max(0.0, changes / CHANGES_PER_SECOND - now))
    finally:
        await kube.close()
    await asyncio.sleep(QUIET_SECONDS)
    return Turn(server.work_seconds() - before, changes, monotonic() - begin)


async def quiet(server: Server) -> None:
    """Wait until the server has looked at all jobs after its start."""
    due = monotonic() + START_SECONDS
    while monotonic() < due:
        before = server.work_seconds()
        await asyncio.sleep(QUIET_SECONDS)
        if server.work_seconds() - before < QUIET_SECONDS / 10:
            return
    raise RuntimeError(f"the server is still busy after {START_SECONDS:.0f} s")


async def in_turns(server: Server) -> tuple[list[Turn], list[Turn]]:
    """Turns without and with viewers."""
    alone: list[Turn] = []
    watched: list[Turn] = []
    viewers = Viewers(server)
    await quiet(server)
    for _ in range(TURNS):
        alone.append(await changed(server))
        async with AsyncExitStack() as stack:
            pages = [await stack.enter_async_context(viewers.opened()) for _ in range(CLIENTS)]
            await asyncio.sleep(2 * QUIET_SECONDS)
            watched.append(await changed(server))
            ended = [page for page in pages if page.done()]
            assert not ended, f"{len(ended)} streams ended early: {ended[0]}"
    return alone, watched


def viewers() -> list[Result]:
    """What viewers add to the server's CPU time."""
    before = kernel.seconds()
    with serving(filled()) as server:
        alone, watched = uvloop.run(in_turns(server))
    slow = kernel.slowness(before)
    without, with_them = min(one.share for one in alone), min(one.share for one in watched)
    rate = min(one.changes / SECONDS for one in (*alone, *watched))
    note = f"{without:.0f} % without, {with_them:.0f} % with them, at {rate:.0f} changes a second or more"
    return [Result(VIEWERS, with_them - without, slow, note)]


MEASURES: Final[dict[str, Callable[[], list[Result]]]] = {"viewers": viewers}


if __name__ == "__main__":
    sys.exit(run("bench.viewers", "Time what open pages cost the server.", MEASURES, sys.argv[1:]))
