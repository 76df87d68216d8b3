"""Wait until Jobs have ended, across restarts of the server."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pykueue.api.durations import Micros
from pykueue.api.exitcodes import TIMED_OUT
from pykueue.api.trees import mapping, member, text
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.timers import timeout
from pykueue.base.units import MICROS
from pykueue.cli.follow.reasons import never_starts
from pykueue.cli.jobend import TASK_FAILED, codes_of, end_of, pods_of, timed_out
from pykueue.cli.jobs.chosen import ERROR, Chosen, Missing, Named, chosen_jobs, report
from pykueue.cli.messages import tell
from pykueue.cli.objects import everything
from pykueue.kube.port import JOBS, PODS, DeniedError, GoneError, Kube, KubeError

AGAIN_MICROS: Final = MICROS // 2
WATCHES_MAX: Final = 8
"""More Jobs than this are watched together with all others of their namespace."""
WARNED_MAX: Final = 20
"""How many pending Jobs are looked at that may never start."""
COMPLETE: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark after all present objects."""


class Outcome(Frozen):
    """How a Job, or one index of it, ended."""

    code: int
    text: str


class Waiting:
    """Waits for the chosen Jobs."""

    def __init__(
        self,
        namespace: str,
        names: Sequence[Named],
        selector: str | None,
        *,
        index: int | None = None,
        first: bool = False,
        micros: Micros | None = None,
    ) -> None:
        self.namespace = namespace
        self.names = names
        self.selector = selector
        self.index = index
        """The index of Jobs that are selected by label."""
        self.first = first
        """Whether the first Job that ends is enough."""
        self.micros = micros
        """How long to wait; None for ever."""
        self.clock = SystemClock()
        self.jobs: list[Chosen] = []
        self.ended: dict[Named, Outcome] = {}
        self.enough = asyncio.Event()

    async def run(self, kube: Kube) -> int:
        """Wait; return the exit code."""
        try:
            self.jobs = await chosen_jobs(kube, self.namespace, self.names, self.selector, self.index)
        except Missing as error:
            return report(error)
        tasks = [asyncio.create_task(self.watch(kube, one)) for one in self.selections()]
        enough = asyncio.create_task(self.enough.wait())
        warning = asyncio.create_task(self.warn(kube))
        try:
            async with contextlib.nullcontext() if self.micros is None else timeout(self.micros / MICROS):
                done, _ = await asyncio.wait([*tasks, enough], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            left = [one.title for one in self.jobs if one.named not in self.ended]
            more = f", and {len(left) - 1} more" if len(left) > 1 else ""
            tell(f"timed out: not ended yet: {left[0]}{more}")
            return TIMED_OUT
        finally:
            for task in (*tasks, enough, warning):
                task.cancel()
            await asyncio.gather(*tasks, enough, warning, return_exceptions=True)
        for task in done:
            task.result()
        outcomes = [self.ended[one.named] for one in self.jobs if one.named in self.ended]
        return next((one.code for one in outcomes if one.code), 0)

    async def warn(self, kube: Kube) -> None:
        """Say of jobs that are pending if they can never start."""
        for job in [one for one in self.jobs if member(one.tree, "spec", "suspend") is True][:WARNED_MAX]:
            if why := await never_starts(kube, self.clock, job.uid, self.namespace):
                tell(f"{job.title} {why}")

    def selections(self) -> list[str]:
        """Which Jobs to watch, as field selectors: labels may change while we wait."""
        names = dict.fromkeys(one.name for one in self.jobs)
        return [f"metadata.name={name}" for name in names] if len(names) <= WATCHES_MAX else [""]

    async def watch(self, kube: Kube, fields: str) -> None:
        """Judge Jobs by a watch that is repeated until it is cancelled."""
        version, silent = "", False
        present: set[str] = set()
        while True:
            complete = bool(version)
            try:
                async for line in kube.watch(JOBS, self.namespace, version=version, fields=fields):
                    silent = False
                    event = msgspec.json.decode(line)
                    tree, how = mapping(event, "object"), text(event, "type")
                    uid = text(tree, "metadata", "uid")
                    if how in ("ADDED", "MODIFIED"):
                        present.add(uid)
                        await self.judge(kube, uid, tree)
                    elif how == "DELETED":
                        self.drop({uid})
                    elif text(tree, "metadata", "annotations", COMPLETE):
                        complete = True
                        # Jobs that were deleted while the watch was interrupted are missing.
                        self.drop(self.watched(fields) - present)
                    version = text(tree, "metadata", "resourceVersion") if complete else ""
            except GoneError:
                version, present = "", set()
            except DeniedError:
                raise
            except KubeError as error:
                if not silent:
                    tell(f"the server does not respond, retrying: {error}")
                silent = True
                await self.clock.sleep(AGAIN_MICROS)

    def watched(self, fields: str) -> set[str]:
        """The uids of the Jobs that a watch shows, if they exist."""
        return {one.uid for one in self.jobs if not fields or fields == f"metadata.name={one.name}"}

    def drop(self, uids: set[str]) -> None:
        """Record that Jobs were deleted."""
        for job in self.jobs:
            if job.uid in uids:
                self.end(job, Outcome(ERROR, "was deleted"))

    async def judge(self, kube: Kube, uid: str, tree: Mapping[str, object]) -> None:
        """Record how a Job ended, if it did."""
        for job in self.jobs:
            why = end_of(tree, job.index) if job.uid == uid else None
            if why is None or job.named in self.ended:
                continue
            if not why:
                self.end(job, Outcome(0, "succeeded"))
                continue
            code = TIMED_OUT if timed_out(tree) else await exit_code(kube, self.namespace, job)
            failed = f"failed with exit code {code}" if code else "failed"
            self.end(job, Outcome(code or ERROR, failed if why == TASK_FAILED else f"{failed}: {why}"))

    def end(self, job: Chosen, outcome: Outcome) -> None:
        """Record and print how a Job ended."""
        if job.named in self.ended or self.enough.is_set():
            return
        self.ended[job.named] = outcome
        tell(f"{job.title} {outcome.text}")
        if self.first or len(self.ended) == len(self.jobs):
            self.enough.set()


async def exit_code(kube: Kube, namespace: str, job: Chosen) -> int:
    """The exit code of the last pod of a failed Job, or of one index of it; 0 if it is not known."""
    try:
        pods = await everything(kube, PODS, namespace, labels=pods_of(job.uid, job.index))
    except DeniedError:
        return 0
    return next((code for code in reversed(codes_of(pods)) if code), 0)
