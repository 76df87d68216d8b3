"""Follow an array: how many of its tasks have ended, and which failed."""

import contextlib
from collections.abc import Iterable
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.trees import text, whole
from pykueue.base.timers import timeout
from pykueue.base.units import MICROS, Moment
from pykueue.cli.arrays import Array, runs_of
from pykueue.cli.follow.job import ERROR, Following
from pykueue.cli.jobend import end_of
from pykueue.cli.messages import tell
from pykueue.cli.target import Target
from pykueue.jobs.batch import INTERVAL

PAUSE_MAX_SECONDS: Final = 60
"""The longest time between two lines; the first come faster."""
SHOWN_MAX: Final = 20
"""How many runs of failed tasks are named."""


class FollowingArray(Following):
    """Follows the progress of an Indexed Job; the output of its tasks stays in their logs."""

    streams = False

    def __init__(self, target: Target, namespace: str, array: Array) -> None:
        super().__init__(target, namespace, command="run", deletes=True)
        self.array = array
        self.pause = 1
        """Seconds until the next line."""
        self.due = Moment(0)
        """When the next line may be printed."""
        self.printed = ""
        """The line that was printed last."""

    async def attend(self) -> int:
        """Report why the Job is pending, and its progress, until it ends; return the exit code."""
        while True:
            self.news.clear()
            job = self.job()
            if job is not None and (ended := end_of(job)) is not None:
                return self.report_end(job, ended)
            if self.gone:
                tell(f"job {self.namespace}/{self.name} was deleted")
                return ERROR
            await self.explain()
            await self.report_progress(job)

    async def report_progress(self, job: Tree | None) -> None:
        """Print the progress if it has changed, and wait for the next change, or until the next line is due."""
        line = progress(job, self.array)
        now = self.clock.moment()
        if line and line != self.printed and now >= self.due:
            tell(line)
            self.printed, self.said = line, ""
            self.due = Moment(now + self.pause * MICROS)
            self.pause = min(self.pause * 2, PAUSE_MAX_SECONDS)
        if not line or line == self.printed:
            await self.news.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with timeout((self.due - now) / MICROS):
                await self.news.wait()

    def report_end(self, job: Tree, ended: str) -> int:
        """Report how the array ended; return the exit code."""
        failed = failed_tasks(job, self.array)
        if not ended and not failed:
            tell(f"all {self.array.count} tasks succeeded")
            return 0
        if failed:
            tell(f"{len(failed)} of {self.array.count} tasks failed: {listed(failed)}")
            logs = self.target.pykueue("logs", "-n", self.namespace, f"{self.name}:{failed[0]}")
            tell(f"to read the output of task {failed[0]}: {logs}")
        else:
            tell(f"failed: {ended}")
        return ERROR


def progress(job: Tree | None, array: Array) -> str:
    """How far an array is, in one line; empty before its first task has started."""
    active, done = whole(job, "status", "active") or 0, whole(job, "status", "succeeded") or 0
    failed = failed_tasks(job, array)
    if not active and not done and not failed:
        return ""
    words = f", {len(failed)} failed ({listed(failed)})" if failed else ""
    return f"{done} of {array.count} tasks succeeded, {active} running{words}"


def failed_tasks(job: Tree | None, array: Array) -> list[int]:
    """The numbers of the tasks that failed for good."""
    failed = text(job, "status", "failedIndexes")
    tasks = array.tasks() if failed else []
    found: list[int] = []
    for part in failed.split(","):
        if interval := INTERVAL.fullmatch(part):
            found += tasks[int(interval[1]) : int(interval[2] or interval[1]) + 1]
    return found


def listed(tasks: Iterable[int]) -> str:
    """Task numbers in short."""
    runs = [str(one) for one in runs_of(sorted(tasks))]
    return ", ".join(runs[:SHOWN_MAX]) + (", …" if len(runs) > SHOWN_MAX else "")
