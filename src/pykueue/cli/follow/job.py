"""Follow a Job: report why it is pending, stream its output, and return its exit code."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.exitcodes import TIMED_OUT
from pykueue.api.names import Label, WorkloadCondition
from pykueue.api.trees import mapping, text, whole
from pykueue.base.clock import SystemClock
from pykueue.base.timers import timeout
from pykueue.base.units import MICROS
from pykueue.bridge.sentences import condition, held_text, pending_text, shrinkable
from pykueue.checks.pendingchecks import awaited
from pykueue.cli.follow.admitted import borrowing_note, node_problem, start_problem
from pykueue.cli.follow.needed import annotations_of, why_held
from pykueue.cli.follow.output import Output
from pykueue.cli.follow.reasons import LOOKS, NEVER, Preemptors, with_reason
from pykueue.cli.groups import INTERRUPTED
from pykueue.cli.jobend import (
    blamed_on_pods,
    codes_of,
    end_of,
    ends_of,
    failed_attempt,
    killed,
    pods_of,
    started_at,
    timed_out,
)
from pykueue.cli.messages import tell
from pykueue.cli.objects import each
from pykueue.cli.serverstate import UNAUTHORIZED, rejected_credentials
from pykueue.cli.target import Target
from pykueue.jobs.dependencies import GATED, Needs, needs_of
from pykueue.kube.client.credentials import CredentialError
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import (
    JOBS,
    PODS,
    WORKLOADS,
    DeniedError,
    GoneError,
    KubeError,
    NotFoundError,
    Resource,
    UnansweredError,
)

ERROR: Final = 1
UNREAD: Final = 141
"""As shells report a process that SIGPIPE ended."""
REST_SECONDS: Final = 3.0
"""How long output is shown after Ctrl-C."""
AGAIN_MICROS: Final = MICROS // 2
SILENCE_MICROS: Final = 3 * MICROS
"""How long a server may not respond, as in a restart, before that is said."""
RAN: Final = frozenset({"Running", "Succeeded", "Failed"})
LEFT_OUT: Final = {PODS: "the output and the exit code are", WORKLOADS: "the reasons why the job is pending are"}
"""What a user does not see who may not read these objects."""

Start = Callable[[HttpKube], Awaitable[Tree | int]]
"""Submits or finds the Job to follow."""


class Following:
    """Follows a Job: `run` gives its exit code."""

    streams = True
    """Whether the output of the Job's pods is streamed."""

    def __init__(
        self,
        target: Target,
        namespace: str,
        *,
        command: str,
        deletes: bool = False,
        output: int | None = None,
        index: int | None = None,
        tail: int | None = None,
        judges: bool = True,
    ) -> None:
        self.clock = SystemClock()
        self.target = target
        self.kube = HttpKube(target.connection, self.clock, agent=f"pykueue-{command}")
        self.namespace = namespace
        self.deletes = deletes
        """Whether Ctrl-C deletes the Job; otherwise it continues."""
        self.output = Output(self.kube, self.clock, namespace, output)
        self.index = index
        """The one index of the Job to follow; None for the whole Job."""
        self.tail = tail
        """How many of the lines to show that a pod has printed before; None for all."""
        self.judges = judges
        """Whether the exit code is that of the Job; otherwise it says whether the output was shown."""
        self.name, self.uid = "", ""
        self.needs: Needs | None = None
        """What the Job waits for."""
        self.seen: dict[str, dict[str, Tree]] = {}
        """Objects by resource and name, as far as they concern the Job."""
        self.news = asyncio.Event()
        self.gone = False
        self.said = ""
        """The pending reason that was printed last."""
        self.evicted = ""
        """The time of the eviction that was printed last."""
        self.failures = 0
        """The number of failed attempts that were reported."""
        self.preemptors = Preemptors(self.kube, self.clock)
        self.asking: asyncio.Task[None] | None = None
        """Polls for a reason that the status does not show yet."""
        self.admitted = ""
        """The time of the admission whose borrowing was looked up last."""
        self.borrowing: asyncio.Task[None] | None = None
        """Reports that the job uses borrowed quota."""
        self.probing: asyncio.Task[None] | None = None
        """Finds out whether a server that did not respond does again."""
        self.interrupted = asyncio.Event()
        self.shown: set[str] = set()
        """UIDs of the pods whose output is or was shown."""
        self.showing: asyncio.Task[None] | None = None
        """Shows the output of a pod."""

    async def run(self, start: Start, *, failing: int) -> int:
        """Follow the Job that `start` returns; return its exit code.

        If `start` returns a number instead, that is the exit code; if the server does not answer it, `failing` is.
        """
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(signal.SIGINT, self.interrupt)
        try:
            found = await start(self.kube)
            if isinstance(found, int):
                return found
            self.name, self.uid = text(found, "metadata", "name"), text(found, "metadata", "uid")
            self.needs = needs_of(annotations_of(found))
            self.output.empty()
            return await self.until_over()
        except (KubeError, CredentialError) as error:
            if isinstance(error, KubeError) and error.code == UNAUTHORIZED:
                tell(rejected_credentials(self.target.file, self.target.context, error.message))
            else:
                tell(self.target.unanswered(error) if isinstance(error, UnansweredError) else str(error))
            if self.uid:
                self.left_running("no longer followed")
            return ERROR if self.uid else failing
        finally:
            await self.output.close()
            await self.kube.close()

    def interrupt(self) -> None:
        """Handle Ctrl-C; a second one terminates the process."""
        self.interrupted.set()
        if self.deletes and self.uid:
            # The Job is to be deleted even if the terminal is closed now.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            tell(
                f"deleting job {self.namespace}/{self.name}, even if this terminal is closed; press Ctrl-C again "
                "to keep it"
            )
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    async def until_over(self) -> int:
        """Follow the Job until it ends; return the exit code."""
        watching = [asyncio.create_task(one) for one in self.watches()]
        interrupted = asyncio.create_task(self.interrupted.wait())
        unread = asyncio.create_task(self.output.unread.wait())
        work = asyncio.create_task(self.attend())
        everyone: list[asyncio.Task[Any]] = [*watching, interrupted, unread, work]
        try:
            await asyncio.wait(everyone, return_when=asyncio.FIRST_COMPLETED)
            for task in watching:
                if task.done():
                    task.result()
            if work.done():
                return self.judged(work.result())
            if unread.done():
                return self.abandon()
            await self.show_rest()
            # Otherwise it would report the deletion that follows.
            work.cancel()
            return await self.stop()
        finally:
            everyone += [self.probing] if self.probing is not None else []
            for one in everyone:
                one.cancel()
            await asyncio.gather(*everyone, return_exceptions=True)

    def judged(self, code: int) -> int:
        """The exit code; not 0 if part of the output is missing."""
        problems = self.output.problems()
        for one in problems:
            tell(one)
        return (code if self.judges else 0) or (ERROR if problems else 0)

    async def show_rest(self) -> None:
        """Show what the Job has printed so far; not for long, because whoever pressed Ctrl-C waits."""
        self.output.ending.set()
        with contextlib.suppress(TimeoutError):
            async with timeout(REST_SECONDS):
                if self.showing is not None:
                    await asyncio.wait((self.showing,))
                # The pod's watch may be behind.
                if self.streams and await self.look_at_pods():
                    while pod := self.next_pod():
                        await self.output_of(pod)

    def abandon(self) -> int:
        """Leave the Job alone because nobody reads its output; return the exit code."""
        self.left_running("the reader of the output exited")
        return UNREAD

    async def stop(self) -> int:
        """End after Ctrl-C; return the exit code."""
        return await self.delete_job() if self.deletes else self.detach()

    async def delete_job(self) -> int:
        """Delete the Job after Ctrl-C."""
        with contextlib.suppress(NotFoundError):
            await self.kube.delete(JOBS, self.name, self.namespace, uid=self.uid, propagation="Foreground")
        tell(f"job {self.namespace}/{self.name} deleted")
        return INTERRUPTED

    def detach(self) -> int:
        """Leave the Job alone after Ctrl-C."""
        self.left_running("detached")
        return INTERRUPTED

    def left_running(self, why: str) -> None:
        """Say that the Job continues, unless only its output was asked for."""
        if self.judges:
            again = self.target.pykueue("attach", "-n", self.namespace, self.name)
            tell(f"{why}: job {self.namespace}/{self.name} continues; to follow it again: {again}")

    def watches(self) -> list[Coroutine[Any, Any, None]]:
        """The watches to follow the Job with."""
        needed = () if self.needs is None else self.needs.jobs
        found = [self.watch(JOBS, fields=f"metadata.name={name}") for name in (self.name, *needed)]
        found.append(self.watch(WORKLOADS, labels=f"{Label.JOB_UID}={self.uid}"))
        # The pods of an array may be a hundred thousand.
        return [*found, self.watch(PODS, labels=pods_of(self.uid, self.index))] if self.streams else found

    def job(self) -> Tree | None:
        """The Job, as far as it is known."""
        return self.seen.get(str(JOBS), {}).get(self.name)

    async def attend(self) -> int:
        """Report why the Job is pending and stream its output until it ends; return the exit code."""
        complete = False
        while not self.output.ending.is_set():
            self.news.clear()
            pod = self.next_pod()
            if pod:
                self.showing = asyncio.create_task(self.show(pod))
                await self.showing
                continue
            job = self.job()
            if job is not None and (ended := end_of(job, self.index)) is not None:
                if complete:
                    return self.report_failure(ended, blamed=blamed_on_pods(job))
                # The Job's watch may be ahead of the pods'.
                complete = await self.look_at_pods()
                continue
            if self.gone:
                tell(f"job {self.namespace}/{self.name} was deleted")
                return ERROR
            self.count_failures(job)
            await self.explain()
            await self.news.wait()
        return INTERRUPTED

    def count_failures(self, job: Tree | None) -> None:
        """Report that an attempt has failed and another one follows."""
        failed = whole(job, "status", "failed") or 0
        if failed > self.failures:
            self.failures = failed
            tell(f"{failed_attempt(job, self.pods())}; the next one starts after a delay")

    def next_pod(self) -> Tree | None:
        """A pod that has started and was not returned yet."""
        for pod in sorted(self.pods(), key=started_at):
            uid = text(pod, "metadata", "uid")
            if text(pod, "status", "phase") in RAN and uid not in self.shown:
                self.shown.add(uid)
                return pod
        return None

    async def explain(self) -> None:
        """Report why the Job is pending or was evicted, if that changed."""
        for workload in list(self.seen.get(str(WORKLOADS), {}).values()):
            evicted = condition(workload, WorkloadCondition.EVICTED)
            reserved = condition(workload, WorkloadCondition.QUOTA_RESERVED)
            since = text(evicted, "lastTransitionTime")
            if text(evicted, "status") == "True" and since != self.evicted:
                self.evicted = since
                why = held_text(workload) or await self.preemptors.said(evicted, workload, looks=LOOKS)
                tell(f"evicted: {why}")
            if not reserved and self.asking is None:
                self.asking = asyncio.create_task(self.ask_why(text(workload, "metadata", "name")))
            why = ""
            # Right after an eviction the pending reason repeats the eviction.
            if text(reserved, "status") == "False" and text(reserved, "message") != text(evicted, "message"):
                why = pending_text(reserved, shrinkable(workload))
                if text(reserved, "message") == GATED:
                    await self.look_at_needed()
                    # Empty when nothing is left to wait for, and only the gate is to be removed.
                    why = why_held(self.name, self.seen.get(str(JOBS), {}), self.clock.now())
                why = why if why.startswith(NEVER) else f"pending: {held_text(workload) or why}"
            if checks := awaited(workload):
                why = f"waiting for admission checks: {checks}"
            for pod in self.pods():
                if problem := start_problem(pod):
                    why = f"cannot start: {problem}"
                elif problem := node_problem(pod):
                    why = problem
            if why and why not in ("pending: ", self.said):
                self.said = why
                tell(why)

    async def ask_why(self, workload: str) -> None:
        """Fetch the pending reason before the status shows it."""
        found = await with_reason(self.kube, self.clock, workload, self.namespace)
        held = self.seen.get(str(WORKLOADS), {})
        if found is not None and workload in held and not condition(held[workload], WorkloadCondition.QUOTA_RESERVED):
            held[workload] = dict(found)  # type: ignore[arg-type]  # decoded JSON is Json
            self.news.set()

    def look_at_borrowing(self, workload: Tree) -> None:
        """After each admission, find out whether the job uses borrowed quota."""
        admitted = condition(workload, WorkloadCondition.ADMITTED)
        since = text(admitted, "lastTransitionTime")
        if text(admitted, "status") == "True" and since != self.admitted:
            self.admitted = since
            self.borrowing = asyncio.create_task(self.report_borrowing(workload))

    async def report_borrowing(self, workload: Tree) -> None:
        """Report that the job uses borrowed quota."""
        if note := await borrowing_note(self.kube, self.clock, workload):
            tell(note)

    async def show(self, pod: Tree) -> None:
        """Stream a pod's output until the pod ends."""
        if self.said:
            tell("running")
            self.said = ""
        await self.output_of(pod)

    async def output_of(self, pod: Tree) -> None:
        """Stream a pod's output until the pod ends."""
        if problem := await self.output.show(pod, tail=self.tail):
            tell(problem)

    def report_failure(self, ended: str, *, blamed: bool) -> int:
        """Report why the Job failed; returns the exit code. With `blamed`, the output of its pods shows the cause."""
        if not ended:
            return 0
        codes = codes_of(self.pods())
        for words in self.unstarted():
            tell(words)
        code = codes[-1] if codes else 0
        if timed_out(self.job()):
            code = TIMED_OUT
        if not blamed or not code:
            tell(f"failed: {ended}")
        elif words := killed(ends_of(self.pods())[-1]):
            tell(words)
        return code or ERROR

    def unstarted(self) -> list[str]:
        """Why containers could not be started, as far as that is known."""
        return [text(end, "message") for end in ends_of(self.pods()) if text(end, "reason") == "StartError"]

    def pods(self) -> list[Tree]:
        """Its pods, as far as they were seen."""
        return list(self.seen.get(str(PODS), {}).values())

    async def look_at_needed(self) -> None:
        """Get the Jobs that it waits for and that no watch has shown yet; those that are still unknown do not exist."""
        for name in () if self.needs is None else self.needs.jobs:
            if name not in self.seen.get(str(JOBS), {}):
                with contextlib.suppress(NotFoundError):
                    tree = msgspec.json.decode(await self.kube.get(JOBS, name, self.namespace))
                    self.learn(JOBS, {"type": "MODIFIED", "object": tree})

    async def look_at_pods(self) -> bool:
        """Refresh its pods and return whether that succeeded; deleted pods keep their last known state."""
        try:
            async for pod in each(self.kube, PODS, self.namespace, labels=pods_of(self.uid, self.index)):
                self.learn(PODS, {"type": "MODIFIED", "object": pod})
        except UnansweredError:
            # The server may be restarting.
            await self.clock.sleep(AGAIN_MICROS)
            return False
        except DeniedError as error:
            if error.code == UNAUTHORIZED or not self.may_miss(PODS):
                raise
        return True

    async def watch(self, resource: Resource, *, labels: str = "", fields: str = "") -> None:
        """Keep the local copy of some objects up to date."""
        version = ""
        while True:
            try:
                async for line in self.kube.watch(
                    resource, self.namespace, version=version, labels=labels, fields=fields
                ):
                    version = self.learn(resource, msgspec.json.decode(line)) or version
            except GoneError:
                version = ""
            except DeniedError as error:
                if error.code == UNAUTHORIZED or not self.may_miss(resource):
                    raise
                tell(f"{LEFT_OUT[resource]} omitted: {error.message}")
                await asyncio.Event().wait()
            except KubeError:
                # The server may be restarting.
                if self.probing is None or self.probing.done():
                    self.probing = asyncio.create_task(self.report_silence())
                await self.clock.sleep(AGAIN_MICROS)

    def may_miss(self, resource: Resource) -> bool:
        """Whether there is something to follow for a user who may not read these objects."""
        return resource == WORKLOADS or (resource == PODS and self.judges)

    async def report_silence(self) -> None:
        """Say that the server does not respond, if that lasts, and when it responds again."""
        begun, told = self.clock.moment(), False
        while True:
            try:
                await self.kube.get(JOBS, self.name, self.namespace)
            except UnansweredError as error:
                if not told and self.clock.moment() - begun > SILENCE_MICROS:
                    told = True
                    tell(f"waiting for the server: {self.target.unanswered(error)}")
                await self.clock.sleep(AGAIN_MICROS)
                continue
            except KubeError:
                # Whatever it says, it responds.
                pass
            if told:
                tell("the server responds again")
            return

    def learn(self, resource: Resource, event: Tree) -> str:
        """Apply a watch event; return the version to resume from."""
        tree, how = mapping(event, "object"), text(event, "type")
        held = self.seen.setdefault(str(resource), {})
        name = text(tree, "metadata", "name")
        if resource == JOBS and name == self.name and text(tree, "metadata", "uid") != self.uid:
            # Another Job has taken the name of ours, which is gone.
            self.gone = True
        elif how in ("ADDED", "MODIFIED"):
            held[name] = dict(tree)  # type: ignore[arg-type]  # decoded JSON is Json
            if resource == PODS and text(tree, "status", "phase") in RAN:
                self.output.hold(held[name])
            if resource == WORKLOADS:
                self.look_at_borrowing(held[name])
        elif how == "DELETED":
            if resource == JOBS and text(tree, "metadata", "uid") == self.uid:
                self.gone = True
            if resource != PODS:
                held.pop(name, None)
        self.news.set()
        return text(tree, "metadata", "resourceVersion")
