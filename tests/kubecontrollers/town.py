"""What do tests of the built-in controllers need? An API, a clock that is turned by hand, and a kubelet's part.

Every write of the controllers is kept, so that a test can say how many there were.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from pykueue.apiserver.inprocess import LocalKube
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.storage.store import Store
from pykueue.apiserver.verbs.registry import Registry
from pykueue.base.clock import ManualClock
from pykueue.base.units import format_instant
from pykueue.kube.notices import Notice
from pykueue.kube.port import JOBS, NAMESPACES, PODS, NotFoundError, Patch, Resource
from tests.fakes.faulty import Faulty, Object

NODES = Resource("", "v1", "nodes", "Node")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True)
TEMPLATE: Object = {
    "metadata": {"labels": {"app": "train"}},
    "spec": {
        "containers": [{"name": "main", "image": "a:1", "resources": {"requests": {"cpu": "1"}}}],
        "restartPolicy": "Never",
    },
}


class Town:
    """An API with a namespace, and what happens in it."""

    def __init__(self, clock: ManualClock, kube: LocalKube) -> None:
        self.clock = clock
        self.kube = kube
        self.counted = Faulty(clock, kube.registry)
        """For the controllers under test."""
        self.notices: list[Notice] = []

    @asynccontextmanager
    async def running(self, *works: Callable[[], Coroutine[None, None, None]]) -> AsyncIterator[None]:
        """Have controllers run for a while."""
        tasks = [asyncio.create_task(work()) for work in works]
        try:
            await self.settle()
            yield
            for task in tasks:
                assert not task.done(), task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def settle(self) -> None:
        await self.clock.settle()

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    def said(self) -> list[tuple[str, str]]:
        """What people have heard since they were last asked: reason and note."""
        found = [(one.reason, one.note) for one in self.notices]
        self.notices.clear()
        return found

    # Objects.

    async def create(self, resource: Resource, tree: Object, namespace: str = "") -> Object:
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        raw = await self.kube.create(resource, msgspec.json.encode(head | tree), namespace)
        await self.settle()
        return tree_of(raw)

    async def get(self, resource: Resource, name: str, namespace: str = "team-a") -> Object | None:
        try:
            raw = await self.kube.get(resource, name, namespace if resource.namespaced else "")
        except NotFoundError:
            return None
        return tree_of(raw)

    async def all(self, resource: Resource, namespace: str = "") -> list[Object]:
        return [
            item
            async for page in self.kube.pages(resource, namespace)
            for item in msgspec.json.decode(page)["items"] or ()
        ]

    async def patch(
        self, resource: Resource, name: str, change: Object, namespace: str = "team-a", subresource: str = ""
    ) -> Object:
        raw = await self.kube.patch(
            resource,
            name,
            msgspec.json.encode(change),
            namespace if resource.namespaced else "",
            how=Patch.MERGE,
            subresource=subresource,
        )
        await self.settle()
        return tree_of(raw)

    async def delete(self, resource: Resource, name: str, namespace: str = "team-a", **how: Any) -> None:
        await self.kube.delete(resource, name, namespace if resource.namespaced else "", **how)
        await self.settle()

    async def namespace(self, name: str = "team-a") -> Object:
        return await self.create(NAMESPACES, {"metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}})

    async def job(self, name: str = "train", template: Object | None = None, **spec: Any) -> Object:
        metadata = {"name": name, "namespace": "team-a"} | spec.pop("metadata", {})
        tree = {"metadata": metadata, "spec": {"template": template or TEMPLATE} | spec}
        return await self.create(JOBS, tree, "team-a")

    async def node(self, name: str = "here", **given: str) -> Object:
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"} | given
        return await self.create(
            NODES, {"metadata": {"name": name, "labels": {"zone": "a"}}, "status": {"allocatable": allocatable}}
        )

    async def status(self, job: str = "train") -> Object:
        """The status of a Job, but for its conditions and times."""
        found = await self.get(JOBS, job)
        assert found is not None
        status = dict(found.get("status", {}))
        for key in ("conditions", "startTime", "completionTime"):
            status.pop(key, None)
        return status

    async def conditions(self, job: str = "train") -> dict[str, str]:
        """The conditions of a Job, with status and reason."""
        found = await self.get(JOBS, job)
        assert found is not None
        return {one["type"]: f"{one['status']} {one['reason']}" for one in found["status"].get("conditions", ())}

    async def pods(self) -> list[Object]:
        """All pods, the oldest first."""
        return sorted(await self.all(PODS, "team-a"), key=lambda pod: int(pod["metadata"]["resourceVersion"]))

    # The kubelet.

    async def say(
        self, pod: str, phase: str, *, code: int | None = None, ready: bool | None = None, **status: Any
    ) -> None:
        """The status of a pod, as a kubelet writes it."""
        now = format_instant(self.clock.now())
        ended = phase in ("Succeeded", "Failed")
        ready = phase == "Running" if ready is None else ready
        state: Object = {"running": {}}
        if ended:
            state = {"terminated": {"exitCode": code or (phase == "Failed") * 1, "finishedAt": now}}
        status = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": now}],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}],
        } | status
        await self.patch(PODS, pod, {"status": status}, subresource="status")

    async def run_all(self) -> list[str]:
        """Have every pod that pends run; their names."""
        names = [pod["metadata"]["name"] for pod in await self.pods() if phase_of(pod) == "Pending"]
        for name in names:
            await self.say(name, "Running")
        return names

    async def end_all(self, phase: str = "Succeeded", code: int | None = None) -> list[str]:
        """Have every pod that runs, or pends, end; their names."""
        names = [pod["metadata"]["name"] for pod in await self.pods() if phase_of(pod) in ("Pending", "Running")]
        for name in names:
            await self.say(name, phase, code=code)
        return names

    async def bury(self) -> None:
        """End every pod that is being deleted, as a kubelet does."""
        for pod in await self.pods():
            if pod["metadata"].get("deletionTimestamp"):
                name = pod["metadata"]["name"]
                if phase_of(pod) in ("Pending", "Running"):
                    await self.say(name, "Failed")
                await self.kube.delete(PODS, name, "team-a", grace=0)
        await self.settle()


def tree_of(raw: bytes) -> Object:
    made: Object = msgspec.json.decode(raw)
    return made


def phase_of(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def finalizers(tree: Object) -> list[str]:
    return tree["metadata"].get("finalizers") or []


def names(trees: list[Object]) -> list[str]:
    return [tree["metadata"]["name"] for tree in trees]


@asynccontextmanager
async def new_town() -> AsyncIterator[Town]:
    """A town of its own."""
    clock = ManualClock()
    store = Store.open(None, clock)
    town = Town(clock, LocalKube(Registry(store, Catalog(), clock)))
    await town.namespace()
    yield town
    await store.close()
