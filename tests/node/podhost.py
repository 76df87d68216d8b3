"""Where do tests run pods? A small API in memory, with a real runner, real processes and the real time."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from pykueue.base.clock import SystemClock
from pykueue.base.units import Seconds, after, format_instant
from pykueue.kube.logs import LogQuery
from pykueue.kube.notices import Notice
from pykueue.kube.port import (
    PODS,
    SECRETS,
    ConflictError,
    ExistsError,
    NotFoundError,
    Patch,
    RejectedError,
    Resource,
)
from pykueue.node.gpus import Gpu
from pykueue.node.machine import Machine
from pykueue.node.prepare import CONFIG_MAPS
from pykueue.node.runner import Runner, Settings

NODE = "here"
SHELL = ("sh", "-c")
MACHINE = Machine(2000, 1 << 30, (), 1 << 30)
PATIENCE_SECONDS = 20.0


def merged(tree: Any, patch: Any) -> Any:
    """A tree after a merge patch."""
    if not isinstance(patch, dict):
        return patch
    made = dict(tree) if isinstance(tree, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), value)
    return made


class PodApi:
    """A `Kube` of a few kinds; pods are deleted with grace."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.objects: dict[tuple[str, str, str], Any] = {}
        self.version = 0
        self.log: list[tuple[int, str, str, Any]] = []
        self.news = asyncio.Event()
        self.writes: list[str] = []
        self.before: Callable[[str], None] = lambda what: None

    def store(self, resource: Resource, tree: Any, how: str) -> bytes:
        self.version += 1
        meta = tree["metadata"]
        tree = {**tree, "metadata": {**meta, "resourceVersion": str(self.version)}}
        key = (str(resource), meta.get("namespace", ""), meta["name"])
        if how == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = tree
        self.log.append((self.version, str(resource), how, tree))
        self.news.set()
        self.news = asyncio.Event()
        return msgspec.json.encode(tree)

    def find(self, resource: Resource, name: str, namespace: str) -> Any:
        found = self.objects.get((str(resource), namespace, name))
        if found is None:
            raise NotFoundError(f"get {resource} {name}", 404, "NotFound", "not found")
        return found

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        await asyncio.sleep(0)
        return msgspec.json.encode(self.find(resource, name, namespace))

    async def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        items = [tree for key, tree in self.objects.items() if key[0] == str(resource)]
        yield msgspec.json.encode({"metadata": {"resourceVersion": str(self.version)}, "items": items})

    async def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        assert fields == f"spec.nodeName={NODE}"
        at = next((index for index, one in enumerate(self.log) if one[0] > int(version)), len(self.log))
        while True:
            while at < len(self.log):
                _, what, how, tree = self.log[at]
                at += 1
                if what == str(resource):
                    yield msgspec.json.encode({"type": how, "object": tree})
            await self.news.wait()

    async def create(self, resource: Resource, body: bytes, namespace: str = "") -> bytes:
        await asyncio.sleep(0)
        tree = msgspec.json.decode(body)
        name = tree["metadata"]["name"]
        self.before(f"create {resource}")
        if (str(resource), namespace, name) in self.objects:
            raise ExistsError(f"create {resource} {name}", 409, "AlreadyExists", "exists")
        return self.store(resource, tree, "ADDED")

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str = "",
        *,
        how: Patch,
        subresource: str = "",
        manager: str = "",
    ) -> bytes:
        await asyncio.sleep(0)
        assert how is Patch.MERGE
        patch = msgspec.json.decode(body)
        self.before(f"patch {resource}")
        found = self.find(resource, name, namespace)
        for field in ("uid", "resourceVersion"):
            wanted = patch.get("metadata", {}).get(field)
            if wanted is not None and wanted != found["metadata"][field]:
                raise ConflictError(f"patch {resource} {name}", 409, "Conflict", f"another {field}")
        patch.get("metadata", {}).pop("resourceVersion", None)
        self.writes.append(f"{resource} {name}")
        return self.store(resource, merged(found, patch), "MODIFIED")

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        raise RejectedError("replace", 405, "MethodNotAllowed", "nobody replaces here")

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
        uid: str = "",
        version: str = "",
        grace: int | None = None,
    ) -> None:
        await asyncio.sleep(0)
        found = self.find(resource, name, namespace)
        if uid and uid != found["metadata"]["uid"]:
            raise ConflictError(f"delete {name}", 409, "Conflict", "another uid")
        seconds = grace if grace is not None else found.get("spec", {}).get("terminationGracePeriodSeconds", 30)
        if resource == PODS and seconds and found.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            moment = format_instant(after(self.clock.now(), Seconds(seconds)))
            mark = {"deletionTimestamp": moment, "deletionGracePeriodSeconds": seconds}
            self.store(resource, merged(found, {"metadata": mark}), "MODIFIED")
        else:
            self.store(resource, found, "DELETED")

    async def close(self) -> None:
        return


class Host:
    """A runner over a small API, and what tests ask of the two."""

    def __init__(self, data: Path, api: PodApi, **settings: Any) -> None:
        self.data = data
        self.api = api
        self.said: list[Notice] = []
        gpus = settings.pop("gpus", 0)
        machine = msgspec.structs.replace(MACHINE, gpus=tuple(Gpu(index) for index in range(gpus)))
        options = {name: settings.pop(name) for name in ("account", "may_mount", "may_choose") if name in settings}
        self.runner = Runner(
            api, api.clock, self.said.append, Settings(data, node=NODE, **settings), machine, **options
        )
        # Long enough for one who follows the output of a pod to see the last of it.
        self.runner.cleaner.linger = 300_000
        self.task: asyncio.Task[None] | None = None
        self.tag = f"{random.getrandbits(32):08x}"
        """What makes our pods unlike those of any other test on this machine."""
        self.made = 0

    async def begin(self) -> None:
        await self.runner.open()
        self.task = asyncio.create_task(self.runner.run())
        await self.runner.watch.synced.wait()

    async def end(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        await self.runner.close()

    async def pod(self, name: str, *containers: dict[str, Any], restart: str = "Never", **spec: Any) -> str:
        """Make a pod that is bound to us; its uid."""
        self.made += 1
        uid = f"{self.tag}-{name}-{self.made}"
        annotations = spec.pop("annotations", {})
        tree = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid,
                "generation": 1,
                "labels": {"app": "test"},
                "annotations": annotations,
                "creationTimestamp": format_instant(self.api.clock.now()),
            },
            "spec": {
                "nodeName": NODE,
                "restartPolicy": restart,
                "terminationGracePeriodSeconds": 30,
                "containers": list(containers),
                **spec,
            },
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
        }
        await self.api.create(PODS, msgspec.json.encode(tree), "default")
        return uid

    def stored(self, name: str) -> Any:
        return self.api.objects.get(("pods", "default", name))

    def status(self, name: str) -> Any:
        found = self.stored(name)
        return {} if found is None else found.get("status", {})

    def state(self, name: str, container: str = "main") -> Any:
        """The state of a container, as its status has it."""
        status = self.status(name)
        for one in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())):
            if one["name"] == container:
                return one["state"]
        return {}

    async def until(self, condition: Callable[[], Any], why: str = "") -> Any:
        """Wait for something to become true."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not (found := condition()):
            if asyncio.get_running_loop().time() > deadline:
                pods = {key[2]: tree.get("status") for key, tree in self.api.objects.items() if key[0] == "pods"}
                raise AssertionError(f"{why or 'it'} never came: {pods}, {[(n.reason, n.note) for n in self.said]}")
            await asyncio.sleep(0.005)
        return found

    async def phase(self, name: str, phase: str) -> Any:
        """Wait until a pod is in a phase: its status."""
        await self.until(lambda: self.status(name).get("phase") == phase, f"{phase} of {name}")
        return self.status(name)

    async def printed(self, name: str, container: str = "main", **asked: Any) -> str:
        """What a container printed."""
        pieces = await self.runner.logs.stream(self.stored(name), LogQuery(container, **asked))
        return b"".join([piece async for piece in pieces]).decode()

    def reasons(self) -> list[str]:
        return [notice.reason for notice in self.said]

    async def hold(self, kind: str, name: str, data: dict[str, str]) -> None:
        """Put a ConfigMap or a Secret there."""
        resource = CONFIG_MAPS if kind == "ConfigMap" else SECRETS
        tree = {"kind": kind, "metadata": {"name": name, "namespace": "default", "uid": name}, "data": data}
        await self.api.create(resource, msgspec.json.encode(tree), "default")


@asynccontextmanager
async def host(data: Path, api: PodApi | None = None, **settings: Any) -> AsyncIterator[Host]:
    """A runner at work; at the end nothing of it runs."""
    made = Host(data, api or PodApi(), **settings)
    await made.begin()
    try:
        yield made
    finally:
        try:
            await made.runner.stop("terminate")
        finally:
            await made.end()


def shell(script: str, name: str = "main", **more: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {"name": name, "image": "any:1", "command": [*SHELL, script], **more}
