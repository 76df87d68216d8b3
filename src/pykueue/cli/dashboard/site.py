"""Where the page's data come from: one source for each set of rights, which runs while someone looks at it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from pykueue.base.clock import Clock
from pykueue.base.units import MICROS
from pykueue.cli.dashboard.calls import calls_of
from pykueue.cli.dashboard.source import Source, personal
from pykueue.kube.client.http import HttpKube
from pykueue.web.pages import PageCall
from pykueue.web.sessions import Session
from pykueue.web.stream import Feed

IDLE_MICROS: Final = 60 * MICROS
"""How long a source runs on after its last client has left."""


class World(Protocol):
    """The server that the page shows, as the users of sessions see it."""

    def kube(self, session: Session) -> HttpKube:
        """The server with the rights of a session's user."""

    def group(self, session: Session) -> str:
        """A name for the rights of a session's user; sessions with the same rights share a snapshot."""

    def source(self, group: str, session: Session) -> Source:
        """A new source of what a group may see; the session is one of it."""

    def rejected(self, message: str) -> None:
        """React to a server that rejects the credentials."""


class DashboardSite:
    """Answers the calls of the page, and has the snapshots that it shows."""

    def __init__(self, world: World, clock: Clock, *, idle: int = IDLE_MICROS) -> None:
        self.world = world
        self.clock = clock
        self.idle = idle
        self.sources: dict[str, Source] = {}
        self.watching: dict[str, asyncio.Task[None]] = {}
        self.known: Mapping[str, PageCall] = calls_of(lambda asked: world.kube(asked.session), world.rejected)

    @property
    def calls(self) -> Mapping[str, PageCall]:
        """The calls by their name in the path."""
        return self.known

    def feed(self, session: Session) -> Feed:
        """The snapshot that a session may see; its source is started if it does not run."""
        return self.source(session).feed

    def source(self, session: Session) -> Source:
        """The source of what a session may see."""
        group = self.world.group(session)
        found = self.sources.get(group)
        if found is None:
            found = self.sources[group] = self.world.source(group, session)
            found.start()
            self.watching[group] = asyncio.ensure_future(self.retire(group, found))
        return found

    async def retire(self, group: str, source: Source) -> None:
        """Stop a source that has had no client for a while."""
        while True:
            await self.clock.sleep(self.idle)
            if not source.feed.clients and not source.feed.take_used():
                break
        source.stop()
        del self.sources[group], self.watching[group]

    def personal(self, session: Session) -> Callable[[bytes], bytes]:
        """Completes the shared overview for a session."""
        source = self.source(session)

        def completed(overview: bytes) -> bytes:
            meta = personal(source.meta, session.grant.user, view_only=session.grant.view_only)
            return b'{"meta":%b,%b' % (meta, overview[1:])

        return completed

    def close(self) -> None:
        """Stop all sources."""
        for task in self.watching.values():
            task.cancel()
        for source in self.sources.values():
            source.stop()
        self.sources.clear()
        self.watching.clear()
