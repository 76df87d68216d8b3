"""Submit a Job: check its queue and priority class first, and say what to use instead."""

import re
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import DEFAULT_QUEUE, Label
from pykueue.api.trees import mapping, text
from pykueue.base.clock import SystemClock
from pykueue.cli.follow.admitted import borrowing_note
from pykueue.cli.follow.needed import annotations_of, unknown
from pykueue.cli.follow.reasons import first_verdict, never
from pykueue.cli.jobend import end_of
from pykueue.cli.messages import tell
from pykueue.cli.objects import names
from pykueue.cli.queues.leader import without_leader
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.cli.target import Target
from pykueue.jobs.dependencies import needs_of
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import (
    JOBS,
    LOCAL_QUEUES,
    WORKLOAD_PRIORITY_CLASSES,
    DeniedError,
    ExistsError,
    Kube,
    NotFoundError,
)

MISUSED: Final = 2
BORROWING_LOOKS: Final = 2
"""How often a submission that is not followed looks whether its queue borrows, each half a second."""
MARK: Final = "pykueue"
"""A part of the version of the embedded server."""
NAME_MAX: Final = 63
"""The longest name of a Job."""


async def is_embedded(kube: HttpKube) -> bool:
    """Whether a server is the embedded one of `pykueue up`, by its version."""
    try:
        about = msgspec.json.decode(await kube.call(Call("GET", "/version", "get /version", repeatable=True)))
    except DeniedError as error:
        if error.code == UNAUTHORIZED:
            raise
        return False
    return MARK in text(about, "gitVersion")


class Submission:
    """A Job to submit."""

    kube: Kube

    def __init__(
        self, target: Target, namespace: str, job: Tree, *, detach: bool, array: bool = False, cluster: bool = False
    ) -> None:
        self.target = target
        self.namespace = namespace
        self.wanted = job
        self.detach = detach
        self.array = array
        """Whether the Job has many tasks, each with an output of its own."""
        self.cluster = cluster
        """Whether the server is a cluster, whose manager may be down."""

    async def submit(self, kube: Kube) -> Tree | int:
        """Create the Job and return it; the exit code if it cannot be created, or is not to be followed."""
        self.kube = kube
        labels = mapping(self.wanted, "metadata", "labels")
        queue = text(labels, Label.QUEUE)
        try:
            if queue:
                await self.kube.get(LOCAL_QUEUES, queue, self.namespace)
            else:
                known = sorted(await names(self.kube, LOCAL_QUEUES, self.namespace))
                queue = DEFAULT_QUEUE if DEFAULT_QUEUE in known else known[0] if len(known) == 1 else ""
                if not queue:
                    tell(f"--queue: choose the queue to submit to with -q QUEUE; {advice(known)}")
                    return MISUSED
        except NotFoundError:
            known = sorted(await names(self.kube, LOCAL_QUEUES, self.namespace))
            tell(f"--queue: no LocalQueue {queue!r} in namespace {self.namespace}; {advice(known)}")
            return MISUSED
        except DeniedError as error:
            if error.code == UNAUTHORIZED:
                raise
            tell(f"--namespace: {error.message}")
            return MISUSED
        if not await self.has_class(text(self.wanted, "metadata", "labels", Label.PRIORITY_CLASS)):
            return MISUSED
        needs = needs_of(annotations_of(self.wanted))
        if needs is not None and (problem := await unknown(self.kube, needs, self.namespace)):
            tell(problem)
            return MISUSED
        metadata = {**mapping(self.wanted, "metadata"), "labels": {**labels, Label.QUEUE.value: queue}}
        try:
            made = await self.kube.create(
                JOBS, msgspec.json.encode({**self.wanted, "metadata": metadata}), self.namespace
            )
        except ExistsError:
            name = text(metadata, "name")
            tell(f"--name: job {self.namespace}/{name} {await self.taken(name)}")
            return MISUSED
        tree: Tree = msgspec.json.decode(made)
        name = text(tree, "metadata", "name")
        tell(f"job {self.namespace}/{name} submitted to queue {queue}")
        if self.cluster and (note := await without_leader(kube, SystemClock().now())):
            tell(note)
        if self.detach:
            tell(self.reading(name))
            clock = SystemClock()
            workload = await first_verdict(self.kube, clock, text(tree, "metadata", "uid"), self.namespace)
            if why := never(workload):
                tell(f"job {self.namespace}/{name} {why}; to remove it: {self.cancelling(name)}")
            elif text(workload, "status", "admission", "clusterQueue") and (
                note := await borrowing_note(self.kube, clock, workload, BORROWING_LOOKS)
            ):
                tell(note)
            return 0
        return tree

    def reading(self, name: str) -> str:
        """How to read the output of a Job."""
        if self.array:
            task = self.target.pykueue("logs", "-n", self.namespace, f"{name}:N")
            return f"to read the output of task N, numbered as in --array: {task}"
        return f"to follow it: {self.target.pykueue('attach', '-n', self.namespace, name)}"

    async def taken(self, name: str) -> str:
        """What to do about a name that another Job has."""
        other = f"use another name, e.g. {await self.free(name)}"
        try:
            found: Tree = msgspec.json.decode(await self.kube.get(JOBS, name, self.namespace))
        except NotFoundError:
            return f"has just been deleted; try again, or {other}"
        if text(found, "metadata", "deletionTimestamp"):
            return f"is being deleted, and its processes have not ended yet; wait, or {other}"
        if end_of(found) is None:
            return f"already exists; {other}, or cancel it: {self.cancelling(name)}"
        delete = self.cancelling("--ended", name)
        return f"already exists and has ended; {other}, or delete it with its output: {delete}"

    def cancelling(self, *words: str) -> str:
        """How to cancel a Job."""
        return self.target.pykueue("cancel", "-n", self.namespace, *words)

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
            tell(f"--priority: no WorkloadPriorityClass {name!r}; {await self.other_classes()}")
            return False
        except DeniedError as error:
            # A user who may submit Jobs may lack the right to read priority classes.
            if error.code == UNAUTHORIZED:
                raise
            tell(
                f"--priority: cannot check whether WorkloadPriorityClass {name!r} exists, because you may not "
                "read it; if it does not, the job is not queued"
            )
        return True

    async def other_classes(self) -> str:
        """Which priority class to use instead."""
        try:
            known = ", ".join(sorted(await names(self.kube, WORKLOAD_PRIORITY_CLASSES)))
        except DeniedError:
            return "ask an administrator for their names, or omit --priority"
        return f"use one of: {known}" if known else "none exists; create one, or omit --priority"


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
