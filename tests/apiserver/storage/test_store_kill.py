"""Is everything that was acknowledged still there after `kill -9`? A process writes and says so; then it is gone."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

from pykueue.api.core import Tree
from pykueue.apiserver.storage.store import Change, Key, Store, StoredObject
from pykueue.base.clock import SystemClock

JOBS = "jobs.batch"
ROUNDS = 5
WRITERS = 24
NAMES = 40
"""Of each writer; few, so that objects are replaced and dropped again and again."""


async def scribble(path: Path, first: int) -> None:
    """Write for ever, and say what is acknowledged: how, name, version."""
    store = Store.open(path, SystemClock())

    async def write(writer: int) -> None:
        rng = random.Random(first + writer)
        for number in count(first):
            key = Key(JOBS, "red", f"{writer}-{rng.randrange(NAMES)}")
            body: Tree = {"metadata": {"name": key.name}, "number": number, "fill": "x" * rng.randrange(5000)}
            dropping = store.latest(key) is not None and rng.random() < 0.3
            held = await (store.drop(key, body) if dropping else store.put(key, body, uid="u"))
            os.write(1, f"{'drop' if dropping else 'put'} {key.name} {held.version}\n".encode())
            if rng.random() < 0.01:
                # What is under way at the end stays in the log.
                store.compact(keep=4 * WRITERS + rng.randrange(200))

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))


async def found(path: Path) -> tuple[dict[str, StoredObject], int, int, list[Change]]:
    """What a store holds, its version, where its log begins, and what is in the log."""
    store = Store.open(path, SystemClock())
    held = {one.key.name: one for one in store.page(JOBS)}
    logged = store.changes(JOBS, after=store.compacted)
    try:
        return held, store.version, store.compacted, logged
    finally:
        await store.close()


async def test_nothing_acknowledged_is_lost_and_no_version_is_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    rng = random.Random(7)
    acknowledged: dict[str, tuple[str, int]] = {}
    highest = 0
    for number in range(ROUNDS):
        wanted = rng.randrange(1, 1500)
        command = [sys.executable, __file__, str(path), str(number * 1_000_000)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = []
            for line in process.stdout:
                told.append(line)
                if len(told) == wanted:
                    process.send_signal(signal.SIGKILL)
        # What was said before the end and not read yet was acknowledged too; a line may have been cut.
        said = [line.split() for line in told if line.endswith("\n")]
        assert len(said) >= wanted, "the process ended by itself"
        versions = [int(version) for _, _, version in said]
        assert min(versions) > highest, "a version was given twice"
        assert len(set(versions)) == len(versions)
        for how, name, version in said:
            if name not in acknowledged or acknowledged[name][1] < int(version):
                acknowledged[name] = how, int(version)
        held, highest, compacted, logged = await found(path)
        assert highest >= max(versions)
        assert {change.version for change in logged} >= {version for version in versions if version > compacted}
        # A later write may have been committed whose acknowledgement came too late; the log tells.
        for change in logged:
            if change.key.name not in acknowledged or acknowledged[change.key.name][1] < change.version:
                acknowledged[change.key.name] = "drop" if change.how == "DELETED" else "put", change.version
        for name, (how, stored) in acknowledged.items():
            if how == "drop":
                assert name not in held, f"{name} was dropped at {stored} and is back"
            else:
                assert name in held, f"{name} of {stored} is lost"
                assert held[name].version == stored


if __name__ == "__main__":
    asyncio.run(scribble(Path(sys.argv[1]), int(sys.argv[2])))
