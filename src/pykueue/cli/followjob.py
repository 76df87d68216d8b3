"""Submit a Job and follow it: report why it is pending, stream its output, and return its exit code."""

import asyncio
import contextlib
import re
import signal
from collections.abc import Mapping
from typing import Any, Final

import click
import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import DEFAULT_QUEUE, Label, WorkloadCondition
from pykueue.api.trees import mapping, mappings, text, whole
from pykueue.base.clock import SystemClock
from pykueue.base.text import printable
from pykueue.base.units import MICROS
from pykueue.bridge.sentences import condition, pending_text
from pykueue.checks.pendingchecks import awaited
from pykueue.cli.admitted import borrowing_note, start_problem
from pykueue.cli.output import Output
from pykueue.cli.reasons import LOOKS, Preemptors, with_reason
from pykueue.cli.serverstate import UNAUTHORIZED, rejected_credentials
from pykueue.cli.target import Target
from pykueue.kube.client.credentials import CredentialError
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import (
    JOBS,
    LOCAL_QUEUES,
    PODS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    DeniedError,
    ExistsError,
    GoneError,
    KubeError,
    NotFoundError,
    Resource,
    UnansweredError,
)

INTERRUPTED: Final = 130
ERROR: Final = 1
NAME_MAX: Final = 63
"""The longest name of a Job."""
MISUSED: Final = 2
AGAIN_MICROS: Final = MICROS // 2
NEVER: Final = "can never start"
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
PATIENCE: Final = "--pod-running-timeout=8760h"
"""Makes kubectl wait for the Job's pod; by default it gives up after 20 seconds."""
RAN: Final = frozenset({"Running", "Succeeded", "Failed"})


class Following:
    """Submits a Job and follows it."""

    def __init__(self, target: Target, namespace: str, job: Tree, *, detach: bool, output: int | None = None) -> None:
        self.clock = SystemClock()
        self.target = target
        self.kube = HttpKube(target.connection, self.clock, agent="pykueue-run")
        self.namespace = namespace
        self.output = Output(self.kube, self.clock, namespace, output)
        self.wanted = job if detach else self.output.announced(job)
        self.detach = detach
        self.name, self.uid = "", ""
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
        self.interrupted = asyncio.Event()

    async def run(self) -> int:
        """Submit and follow the Job; return the exit code."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(signal.SIGINT, self.interrupt)
        try:
            if not await self.submit():
                return MISUSED
            if self.detach:
                return 0
            return await self.until_over()
        except (KubeError, CredentialError) as error:
            if isinstance(error, KubeError) and error.code == UNAUTHORIZED:
                tell(rejected_credentials(self.target.file))
            else:
                hint = self.target.hint() if isinstance(error, UnansweredError) else ""
                tell(f"{error}{hint}")
            return MISUSED if not self.uid else ERROR
        finally:
            await self.output.close()
            await self.kube.close()

    def interrupt(self) -> None:
        """Handle Ctrl-C; a second one terminates the process."""
        self.interrupted.set()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    async def submit(self) -> bool:
        """Create the Job; return whether it was created."""
        labels = mapping(self.wanted, "metadata", "labels")
        queue = text(labels, Label.QUEUE)
        try:
            if queue:
                await self.kube.get(LOCAL_QUEUES, queue, self.namespace)
            else:
                names = await self.names(LOCAL_QUEUES, self.namespace)
                queue = DEFAULT_QUEUE if DEFAULT_QUEUE in names else names[0] if len(names) == 1 else ""
                if not queue:
                    tell(f"--queue: choose the queue to submit to with -q QUEUE; {advice(names)}")
                    return False
        except NotFoundError:
            names = await self.names(LOCAL_QUEUES, self.namespace)
            tell(f"--queue: no LocalQueue {queue!r} in namespace {self.namespace}; {advice(names)}")
            return False
        except DeniedError as error:
            if error.code == UNAUTHORIZED:
                raise
            tell(f"--namespace: {error.message}")
            return False
        if not await self.has_class(text(self.wanted, "metadata", "labels", Label.PRIORITY_CLASS)):
            return False
        metadata = {**mapping(self.wanted, "metadata"), "labels": {**labels, Label.QUEUE.value: queue}}
        try:
            made = await self.kube.create(
                JOBS, msgspec.json.encode({**self.wanted, "metadata": metadata}), self.namespace
            )
        except ExistsError:
            name = text(metadata, "name")
            tell(f"--name: job {self.namespace}/{name} already exists; use another name, e.g. {await self.free(name)}")
            return False
        tree: Tree = msgspec.json.decode(made)
        self.name, self.uid = text(tree, "metadata", "name"), text(tree, "metadata", "uid")
        self.output.empty()
        tell(f"job {self.namespace}/{self.name} submitted to queue {queue}")
        if self.detach:
            tell(
                f"to follow it: {self.target.kubectl('logs', '-f', '-n', self.namespace, f'job/{self.name}', PATIENCE)}"
            )
        return True

    async def free(self, name: str) -> str:
        """A name that no Job has yet: the given one with the next free number."""
        while True:
            name = next_name(name)
            try:
                await self.kube.get(JOBS, name, self.namespace)
            except NotFoundError:
                return name

    async def has_class(self, name: str) -> bool:
        """Whether the priority class of the Job exists, or none is set; print an error if it does not."""
        try:
            if name:
                await self.kube.get(WORKLOAD_PRIORITY_CLASSES, name)
        except NotFoundError:
            names = ", ".join(await self.names(WORKLOAD_PRIORITY_CLASSES))
            advice = f"use one of: {names}" if names else "none exists; create one, or omit --priority"
            tell(f"--priority: no WorkloadPriorityClass {name!r}; {advice}")
            return False
        except DeniedError as error:
            # A user who may submit Jobs may lack the right to read priority classes.
            if error.code == UNAUTHORIZED:
                raise
        return True

    async def names(self, resource: Resource, namespace: str = "") -> list[str]:
        """The names of all objects of a kind."""
        found: list[str] = []
        async for page in self.kube.pages(resource, namespace):
            found += [text(one, "metadata", "name") for _, one in mappings(msgspec.json.decode(page), "items")]
        return sorted(found)

    async def until_over(self) -> int:
        """Follow the Job until it ends; return the exit code."""
        watching = [
            asyncio.create_task(self.watch(JOBS, fields=f"metadata.name={self.name}")),
            asyncio.create_task(self.watch(WORKLOADS, labels=f"{Label.JOB_UID}={self.uid}")),
            asyncio.create_task(self.watch(PODS, labels=f"{CONTROLLER_UID}={self.uid}")),
        ]
        interrupted = asyncio.create_task(self.interrupted.wait())
        work = asyncio.create_task(self.attend())
        everyone: list[asyncio.Task[Any]] = [*watching, interrupted, work]
        try:
            await asyncio.wait(everyone, return_when=asyncio.FIRST_COMPLETED)
            for task in watching:
                if task.done():
                    task.result()
            if work.done():
                return self.judged(work.result())
            # Otherwise it would report the deletion that follows.
            work.cancel()
            return await self.delete_job()
        finally:
            for one in everyone:
                one.cancel()
            await asyncio.gather(*everyone, return_exceptions=True)

    def judged(self, code: int) -> int:
        """The exit code; not 0 if part of the output is missing."""
        problems = self.output.problems()
        for one in problems:
            tell(one)
        return code or (ERROR if problems else 0)

    async def delete_job(self) -> int:
        """Delete the Job after Ctrl-C."""
        with contextlib.suppress(NotFoundError):
            await self.kube.delete(JOBS, self.name, self.namespace, uid=self.uid)
        tell(f"job {self.namespace}/{self.name} deleted")
        return INTERRUPTED

    async def attend(self) -> int:
        """Report why the Job is pending and stream its output until it ends; return the exit code."""
        shown: set[str] = set()
        while True:
            self.news.clear()
            pod = self.next_pod(shown)
            if pod:
                shown.add(text(pod, "metadata", "uid"))
                await self.show(pod)
                continue
            job = next(iter(self.seen.get(str(JOBS), {}).values()), None)
            if job is not None and (ended := end_of(job)) is not None:
                return await self.report_failure(ended, blamed=blamed_on_pods(job))
            if self.gone:
                tell(f"job {self.namespace}/{self.name} was deleted")
                return ERROR
            self.count_failures(job)
            await self.explain()
            await self.news.wait()

    def count_failures(self, job: Tree | None) -> None:
        """Report that an attempt has failed and another one follows."""
        failed = whole(job, "status", "failed") or 0
        if failed > self.failures:
            self.failures = failed
            attempts = 1 + (whole(job, "spec", "backoffLimit") or 0)
            code = f" with exit code {codes[-1]}" if (codes := self.codes()) else ""
            tell(f"attempt {failed} of {attempts} failed{code}; the next one starts after a delay")

    def next_pod(self, shown: set[str]) -> Tree | None:
        """A pod that has started and whose output was not shown yet."""
        for pod in self.seen.get(str(PODS), {}).values():
            if text(pod, "status", "phase") in RAN and text(pod, "metadata", "uid") not in shown:
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
                tell(f"evicted: {await self.preemptors.said(evicted, workload, looks=LOOKS)}")
            if not reserved and self.asking is None:
                self.asking = asyncio.create_task(self.ask_why(text(workload, "metadata", "name")))
            why = ""
            # Right after an eviction the pending reason repeats the eviction.
            if text(reserved, "status") == "False" and text(reserved, "message") != text(evicted, "message"):
                why = pending_text(reserved)
                why = why if why.startswith(NEVER) else f"pending: {why}"
            if checks := awaited(workload):
                why = f"waiting for admission checks: {checks}"
            for pod in self.seen.get(str(PODS), {}).values():
                if problem := start_problem(pod):
                    why = f"cannot start: {problem}"
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
        if problem := await self.output.show(pod):
            tell(problem)

    async def report_failure(self, ended: str, *, blamed: bool) -> int:
        """Report why the Job failed; returns the exit code. With `blamed`, the output of its pods shows the cause."""
        if not ended:
            return 0
        codes = self.codes()
        if not any(codes):
            # The Job's watch may be ahead of the pods'.
            await self.look_at_pods()
            codes = self.codes()
        for words in self.unstarted():
            tell(words)
        code = codes[-1] if codes else 0
        if not blamed or not code:
            tell(f"failed: {ended}")
        elif words := killed(self.ends()[-1]):
            tell(words)
        return code or ERROR

    def ends(self) -> list[Mapping[str, object]]:
        """How the containers of its pods ended, in this order."""
        ends = [
            mapping(one, "state", "terminated")
            for pod in self.seen.get(str(PODS), {}).values()
            for _, one in mappings(pod, "status", "containerStatuses")
        ]
        return sorted((end for end in ends if end), key=lambda end: text(end, "finishedAt"))

    def unstarted(self) -> list[str]:
        """Why containers could not be started, as far as that is known."""
        return [text(end, "message") for end in self.ends() if text(end, "reason") == "StartError"]

    def codes(self) -> list[int]:
        """The known exit codes of its pods, in the order in which they ended."""
        return [code for end in self.ends() if (code := whole(end, "exitCode")) is not None]

    async def look_at_pods(self) -> None:
        """Refresh its pods; deleted pods keep their last known state."""
        async for page in self.kube.pages(PODS, self.namespace, labels=f"{CONTROLLER_UID}={self.uid}"):
            for _, pod in mappings(msgspec.json.decode(page), "items"):
                self.learn(PODS, {"type": "MODIFIED", "object": dict(pod)})  # type: ignore[arg-type]  # decoded JSON

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
            except DeniedError:
                raise
            except KubeError:
                # The server may be restarting.
                await self.clock.sleep(AGAIN_MICROS)

    def learn(self, resource: Resource, event: Tree) -> str:
        """Apply a watch event; return the version to resume from."""
        tree, how = mapping(event, "object"), text(event, "type")
        held = self.seen.setdefault(str(resource), {})
        name = text(tree, "metadata", "name")
        if how in ("ADDED", "MODIFIED"):
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


def advice(queues: list[str]) -> str:
    """Which queue to use instead."""
    if queues:
        return f"use one of: {', '.join(queues)}"
    return "the namespace has none; create one, or start the server with `pykueue up --example`"


def next_name(name: str) -> str:
    """The name with the next number: train-2 after train, train-3 after train-2."""
    stem, number = re.fullmatch(r"(.*?)(?:-([0-9]{1,9}))?", name).groups()  # type: ignore[union-attr]  # matches any text
    suffix = f"-{int(number or 1) + 1}"
    return stem[: NAME_MAX - len(suffix)].rstrip("-.") + suffix


def end_of(job: Tree) -> str | None:
    """Why a Job failed, empty if it succeeded; None while it has not ended."""
    for _, one in mappings(job, "status", "conditions"):
        if text(one, "status") == "True":
            match text(one, "type"):
                case "Complete":
                    return ""
                case "Failed":
                    return text(one, "message") or text(one, "reason") or "no reason given"
    return None


def blamed_on_pods(job: Tree) -> bool:
    """Whether a Job failed because too many of its pods did."""
    return any(
        text(one, "type") == "Failed" and text(one, "reason") == "BackoffLimitExceeded"
        for _, one in mappings(job, "status", "conditions")
    )


def killed(end: Mapping[str, object]) -> str:
    """A sentence about a process that was killed; empty if it exited by itself."""
    if text(end, "reason") == "OOMKilled":
        return "the command was killed because it exceeded its memory limit; set a higher one with --memory"
    number = whole(end, "signal")
    if not number:
        return ""
    with contextlib.suppress(ValueError):
        return f"the command was killed by signal {number} ({signal.Signals(number).name})"
    return f"the command was killed by signal {number}"


def tell(words: str) -> None:
    """Print a message to standard error, apart from the command's own output."""
    click.echo(printable(f"pykueue: {words}"), err=True)
