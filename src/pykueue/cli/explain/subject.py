"""What a question is about: a Job, a Workload, a LocalQueue or a ClusterQueue, by the name on the command line."""

import asyncio
from difflib import get_close_matches
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import Label
from pykueue.api.trees import text
from pykueue.base.struct import Frozen
from pykueue.cli.jobs.lostoutput import of_deleted
from pykueue.cli.objects import everything, names
from pykueue.cli.serverstate import UNAUTHORIZED, fail
from pykueue.kube.port import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    WORKLOADS,
    DeniedError,
    Kube,
    NotFoundError,
    Resource,
)

JOB, WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE = KINDS = ("job", "workload", "localqueue", "clusterqueue")
RESOURCES: Final = dict(zip(KINDS, (JOBS, WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES), strict=True))
PREFIXES: Final = {
    **{kind: (kind,) for kind in KINDS},
    **{f"{kind}s": (kind,) for kind in KINDS},
    "wl": (WORKLOAD,),
    "lq": (LOCAL_QUEUE,),
    "cq": (CLUSTER_QUEUE,),
    "queue": (LOCAL_QUEUE, CLUSTER_QUEUE),
}
"""The kinds that a prefix such as `job/` means."""
NEAR_MAX: Final = 1


class Subject(Frozen):
    """An object that exists."""

    kind: str
    tree: Tree
    workload: Tree | None = None
    """The Workload of a Job; None if it has none."""

    @property
    def name(self) -> str:
        """Its name."""
        return text(self.tree, "metadata", "name")

    @property
    def namespace(self) -> str:
        """Its namespace; empty for a ClusterQueue."""
        return text(self.tree, "metadata", "namespace")

    @property
    def workload_name(self) -> str:
        """The name of its Workload; empty if it is a queue, or a Job without one."""
        return "" if self.workload is None else text(self.workload, "metadata", "name")

    @property
    def title(self) -> str:
        """How it is shown."""
        kind = RESOURCES[self.kind].kind
        if self.kind == JOB and self.workload_name:
            return f"{kind} {self.namespace}/{self.name} (Workload {self.workload_name})"
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


class SubjectError(Exception):
    """What was named does not exist (code 1), or may be several things (code 2); the message says what to do."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def parsed(word: str) -> tuple[tuple[str, ...], str]:
    """The kinds that a word may mean, and the name in it; exits with code 2 if it names no kind that there is."""
    prefix, slash, name = word.rpartition("/")
    kinds = PREFIXES.get(prefix.lower()) if slash else KINDS
    if kinds is None:
        fail(
            f"{word!r}: {prefix!r} is not a kind that can be explained; use {'/, '.join(KINDS)}/ or queue/ before "
            "a name"
        )
    if not name:
        fail(f"{word!r} has no name; write it as in job/train or queue/team-a")
    return kinds, name


async def subject(kube: Kube, namespace: str, word: str) -> Subject:
    """The object that a word names; raises `SubjectError`."""
    return await subject_of(kube, namespace, *parsed(word))


async def subject_of(kube: Kube, namespace: str, kinds: tuple[str, ...], name: str) -> Subject:
    """The object of this name and one of these kinds; raises `SubjectError`."""
    trees = await asyncio.gather(*(read(kube, kind, name, namespace) for kind in kinds))
    found = {kind: tree for kind, tree in zip(kinds, trees, strict=True) if tree is not None}
    if LOCAL_QUEUE in found and text(found[LOCAL_QUEUE], "spec", "clusterQueue") == name:
        # What is said of a LocalQueue includes its ClusterQueue.
        found.pop(CLUSTER_QUEUE, None)
    if not found:
        gone = await of_deleted(kube, namespace, name) if JOB in kinds else ""
        if gone:
            raise SubjectError(f"no job {name!r} in namespace {namespace}: {gone}")
        raise SubjectError(await missing(kube, kinds, name, namespace))
    if len(found) > 1:
        what = " and a ".join(RESOURCES[kind].kind for kind in found)
        ways = " or ".join(f"{kind}/{name}" for kind in found)
        raise SubjectError(f"{name!r} is a {what}; write {ways}", 2)
    ((kind, tree),) = found.items()
    if kind == JOB:
        return Subject(kind, tree, await workload_of(kube, tree))
    return Subject(kind, tree, tree if kind == WORKLOAD else None)


async def read(kube: Kube, kind: str, name: str, namespace: str) -> Tree | None:
    """An object; None if it does not exist, or if this user may not read it."""
    resource = RESOURCES[kind]
    try:
        tree: Tree = msgspec.json.decode(await kube.get(resource, name, namespace if resource.namespaced else ""))
    except NotFoundError:
        return None
    except DeniedError as error:
        if error.code == UNAUTHORIZED:
            raise
        return None
    return tree


async def workload_of(kube: Kube, job: Tree) -> Tree | None:
    """The Workload of a Job; None if it has none, or if this user may not read it."""
    uid, namespace = text(job, "metadata", "uid"), text(job, "metadata", "namespace")
    try:
        found = await everything(kube, WORKLOADS, namespace, labels=f"{Label.JOB_UID}={uid}")
    except (DeniedError, NotFoundError):
        return None
    return found[0] if found else None


async def missing(kube: Kube, kinds: tuple[str, ...], name: str, namespace: str) -> str:
    """That nothing has this name, and what has one like it."""
    known: list[str] = []
    for kind in kinds:
        known += await listed(kube, RESOURCES[kind], namespace)
    near = get_close_matches(name, known, n=NEAR_MAX)
    advice = f"did you mean {near[0]}?" if near else "`pykueue jobs` lists jobs, and `pykueue list localqueue` queues"
    *others, last = (RESOURCES[kind].kind for kind in kinds)
    what = f"{', '.join(others)} or {last}" if others else last
    return f"no {what} {name!r} in namespace {namespace}, or you may not read it; {advice}"


async def listed(kube: Kube, resource: Resource, namespace: str) -> list[str]:
    """The names of objects; none if this user may not list them."""
    try:
        return await names(kube, resource, namespace if resource.namespaced else "")
    except (DeniedError, NotFoundError):
        return []
