"""A spawner of real processes, and what it reports of their attempts."""

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pykueue.base.clock import SystemClock
from pykueue.node import attempts
from pykueue.node.attempts import Attempt
from pykueue.node.spawn import Spawner, Start
from pykueue.node.supervision.logfiles import STREAMS, Records
from tests.patience import soon_async

ENV = {"PATH": os.environ["PATH"]}


class Watched:
    """A spawner, and what was heard of each attempt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, Attempt | None] = {}
        self.gone: list[str] = []
        self.spawner = Spawner(folder, SystemClock(), self.heard, self.gone.append)

    def heard(self, key: str, line: str) -> None:
        self.known[key] = attempts.learned(self.known.get(key), line)

    def start(self, script: str, key: str = "u/main/0", **more: Any) -> None:
        self.spawner.start(Start(key, ("sh", "-c", script), ENV, str(self.folder), "n/p", **more))

    async def until(self, condition: Callable[[], Any]) -> Any:
        found = await soon_async(condition)
        assert found, f"it never came: {self.known}"
        return found

    async def running(self, key: str = "u/main/0") -> Attempt:
        found = await self.until(lambda: (one := self.known.get(key)) is not None and one.began and one)
        assert isinstance(found, Attempt)
        return found

    async def over(self, key: str = "u/main/0") -> Attempt:
        await self.until(lambda: (one := self.known.get(key)) is not None and one.over)
        found = attempts.read_attempt(self.folder, key)
        assert found == self.known[key], "the record says the same as the supervisor"
        assert found is not None
        return found

    def printed(self, key: str = "u/main/0", *streams: bytes) -> str:
        records = Records().feed((self.folder / key / "0.log").read_bytes())
        text = b"".join(one.data for one in records if one.stream in (streams or STREAMS))
        return text.decode().removesuffix("\n")


@asynccontextmanager
async def spawner(folder: Path) -> AsyncIterator[Watched]:
    watched = Watched(folder / "pods")
    await watched.spawner.open()
    try:
        yield watched
    finally:
        for attempt in watched.known.values():
            if attempt is not None and not attempt.over:
                watched.spawner.send(attempt.supervisor, signal.SIGUSR1)
        await watched.spawner.close()
