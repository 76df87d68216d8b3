"""Measure an array of short tasks on `pykueue up`: tasks a second from its submission to its end."""

from time import perf_counter
from typing import Final

import msgspec
import uvloop

from bench import kernel
from bench.floors import Floor, Result
from bench.upserver import QUEUE, Server, serving
from pykueue.cli.arrays import array_of
from pykueue.cli.run.job import job, resources
from pykueue.kube.port import JOBS

TASKS: Final = 1_000
AT_ONCE: Final = (8, TASKS)
"""How many tasks run at the same time: a machine's worth, and all of them."""
NAME: Final = "array"


def floor(at_once: int) -> Floor:
    """The floor for an array of which so many tasks run at the same time."""
    return Floor(
        f"array, {at_once:,} at once", "tasks/s", 50, f"one Job of {TASKS:,} tasks (`true`)", at_least=True, scales=True
    )


def submitted(at_once: int) -> bytes:
    """The Job that `pykueue run --array` creates."""
    tree = job(
        ("true",),
        queue=QUEUE,
        resources=resources("1", None, 0),
        name=f"{NAME}-{at_once}",
        priority=None,
        environment={"PATH": "/usr/bin:/bin"},
        image="none",
        seconds=None,
        umask=0o022,
        array=array_of(f"0-{TASKS - 1}%{at_once}"),
    )
    return msgspec.json.encode(tree)


async def tasks_per_second(server: Server, at_once: int) -> float:
    """Tasks per second from the submission of an array to its completion."""
    kube = server.kube()
    name = f"{NAME}-{at_once}"
    try:
        start = perf_counter()
        await kube.create(JOBS, submitted(at_once), "default")
        async for event in kube.watch(JOBS, "default", fields=f"metadata.name={name},status.successful={TASKS}"):
            if msgspec.json.decode(event)["type"] == "ADDED":
                return TASKS / (perf_counter() - start)
        raise RuntimeError("the watch ended")
    finally:
        await kube.close()


def arrays() -> list[Result]:
    """How fast the tasks of an array run."""
    found = []
    for at_once in AT_ONCE:
        before = kernel.seconds()
        with serving() as server:
            spent = server.cpu_seconds()
            rate = uvloop.run(tasks_per_second(server, at_once))
            note = f"the server took {server.cpu_seconds() - spent:.1f} CPU s and {server.memory():.0f} MB"
        found.append(Result(floor(at_once), rate, kernel.slowness(before), note))
    return found
