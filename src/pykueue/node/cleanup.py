"""Remove the files of pods: keep the output of finished pods as long as the pods exist.

Removal waits for the disk, so another process does it (`removal`), a while later, and for many pods at once.
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
"""The uid of a pod, as the API generates it."""
LINGER_MICROS: Final = 2 * MICROS
"""How long the files of a deleted pod are kept, for followers that read its output ten times a second."""


class Cleaner:
    """Removes files that are no longer needed, after a delay."""

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
        """Cleans the two folders: of finished pods, and of deleted pods."""
        self.held = held
        """Whether the `run` that started a pod is still reading its output."""
        self.over: list[str] = []
        """Finished pods, of which only the output is kept."""
        self.gone: list[str] = []
        """Deleted pods, of which nothing is kept."""
        self.task: asyncio.Task[None] | None = None

    def tidy(self, uid: str) -> None:
        """Remove everything of a finished pod except its output."""
        self.over.append(checked(uid))
        self.begin()

    def remove(self, uid: str) -> None:
        """Remove everything of a deleted pod."""
        if os.path.exists(f"{self.folder}/{checked(uid)}") or os.path.exists(f"{self.scratch}/{uid}"):
            self.gone.append(uid)
            self.begin()

    def sweep(self, known: Container[str]) -> None:
        """Remove the folders of unknown pods."""
        try:
            names = os.listdir(self.scratch)
        except FileNotFoundError:
            return
        for name in names:
            # Other files are not ours to remove.
            if POD.fullmatch(name) and name not in known:
                self.remove(name)

    def begin(self) -> None:
        """Start the cleaning task if necessary."""
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
        """Stop; leftovers of deleted pods are found at the next start."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait((self.task,))
