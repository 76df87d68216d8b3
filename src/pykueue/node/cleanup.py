"""What is kept of pods that are over, and for how long? Their output and what they left, as long as the pods exist.

Removing files waits for the disk, so it is done elsewhere (`removal`), a while later, and for many pods at once.
"""

import asyncio
import os
import re
from collections.abc import Callable, Container
from typing import Final

from pykueue.base.clock import Clock
from pykueue.base.units import MICROS
from pykueue.node.attempts import checked

POD: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""The uid of a pod, as the API makes it."""
LINGER_MICROS: Final = 2 * MICROS
"""How long the files of a pod outlive it, for those who follow its output and look ten times a second."""


class Cleaner:
    """Removes what nobody needs any more, a while later."""

    def __init__(
        self,
        clock: Clock,
        folder: str,
        scratch: str,
        clean: Callable[[str, str, list[str], list[str]], None],
        held: Callable[[str], bool] = lambda uid: False,
    ) -> None:
        self.clock = clock
        self.linger = LINGER_MICROS
        self.folder = folder
        self.scratch = scratch
        self.clean = clean
        """Has the two folders cleaned: of pods that are over, and of pods that are gone."""
        self.held = held
        """Whether the output of a pod is still being read by the `run` that started it."""
        self.over: list[str] = []
        """Pods of which only what they printed is kept."""
        self.gone: list[str] = []
        """Pods of which nothing is kept."""
        self.task: asyncio.Task[None] | None = None

    def tidy(self, uid: str) -> None:
        """Keep nothing of a pod that is over but what somebody may want to read."""
        self.over.append(checked(uid))
        self.begin()

    def remove(self, uid: str) -> None:
        """Keep nothing of a pod that exists no more."""
        if os.path.exists(f"{self.folder}/{checked(uid)}") or os.path.exists(f"{self.scratch}/{uid}"):
            self.gone.append(uid)
            self.begin()

    def sweep(self, known: Container[str]) -> None:
        """Keep no folder of a pod but of those that are known."""
        try:
            names = os.listdir(self.scratch)
        except FileNotFoundError:
            return
        for name in names:
            # Whatever else lies there is not ours to remove.
            if POD.fullmatch(name) and name not in known:
                self.remove(name)

    def begin(self) -> None:
        """See to it that somebody cleans."""
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self.run(), name="cleaning")

    async def run(self) -> None:
        """Clean until nothing is left to clean."""
        while self.over or self.gone:
            await self.clock.sleep(self.linger)
            over, self.over = self.over, []
            gone, self.gone = self.gone, [uid for uid in self.gone if self.held(uid)]
            gone = [uid for uid in gone if uid not in self.gone]
            if over or gone:
                self.clean(self.folder, self.scratch, over, gone)

    async def close(self) -> None:
        """Stop; what is left of pods that are gone is found to be of the past at the next start."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait((self.task,))
