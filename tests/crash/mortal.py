"""What if it dies between two writes? `python -m tests.crash.mortal before 3 manager …` kills itself at the third.

Writes of Workloads, PodTemplates and ProvisioningRequests count: those of which an attempt to get capacity is made. It
dies right before the write is sent, or right after it was answered, and leaves everything as it is.
"""

import itertools
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from pykueue.apiserver.inprocess import LocalKube
from pykueue.cli.main import main
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import Resource

COUNTED = frozenset({"workloads", "podtemplates", "provisioningrequests"})
WRITES = ("create", "patch", "replace", "delete")


def deadly(write: Callable[..., Awaitable[Any]], *, after: bool, number: int, count: Iterator[int]) -> Any:
    """A write that is the last thing this process does, if it is that of this number."""

    async def written(kube: object, resource: Resource, *told: Any, **more: Any) -> Any:
        fatal = resource.plural in COUNTED and next(count) == number
        if fatal and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await write(kube, resource, *told, **more)
        if fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return written


def arrange(when: str, number: int) -> None:
    """Have this process die at its write of this number."""
    count = itertools.count(1)
    for kube in (HttpKube, LocalKube):
        for name in WRITES:
            write = getattr(kube, name)
            setattr(kube, name, deadly(write, after=when == "after", number=number, count=count))


if __name__ == "__main__":
    arrange(sys.argv.pop(1), int(sys.argv.pop(1)))
    main()
