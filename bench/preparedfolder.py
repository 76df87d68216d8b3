"""Data folders of `pykueue up` that a benchmark fills before it starts a server on them."""

import atexit
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop


def prepared(name: str, fill: Callable[[Path], Awaitable[None]]) -> Path:
    """A new data folder, filled; removed when this process ends."""
    folder = TemporaryDirectory(prefix=f"bench-{name}-")
    atexit.register(folder.cleanup)
    data = Path(folder.name, "data")

    async def filled() -> None:
        await fill(data)

    uvloop.run(filled())
    return data
