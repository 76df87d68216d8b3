"""Where do tests run pods? The embedded API in memory, with a real runner, real processes and the real time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from pykueue.base.clock import Clock, SystemClock
from pykueue.kube.logs import LogQuery
from pykueue.kube.notices import Notice
from pykueue.kube.port import PODS, SECRETS
from pykueue.node.machine import Machine
from pykueue.node.prepare import CONFIG_MAPS
from pykueue.node.runner import Runner, Settings
from pykueue.node.setup.gpus import Gpu
from tests.fakes.faulty import Faulty
from tests.patience import soon_async

NODE = "here"
SHELL = ("sh", "-c")
MACHINE = Machine(2000, 1 << 30, (), 1 << 30)


def pod_api(clock: Clock | None = None, path: Path | None = None) -> Faulty:
    """An API in memory, or in a file, with the namespaces that a node needs; in real time unless a clock is given."""
    api = Faulty(clock or SystemClock(), path=path)
    api.namespaces("default", "kube-node-lease")
    return api


class Host:
    """A runner over an API, and what tests ask of the two."""

    def __init__(self, data: Path, api: Faulty, **settings: Any) -> None:
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

    async def pod(
        self, name: str, *containers: dict[str, Any], restart: str = "Never", uid: str = "", **spec: Any
    ) -> str:
        """Create a pod that is bound to this node; returns its uid."""
        metadata = {"name": name, "labels": {"app": "test"}, "annotations": spec.pop("annotations", {})}
        spec |= {"nodeName": NODE, "restartPolicy": restart, "containers": list(containers)}
        if uid:
            self.api.put(PODS, name, "default", metadata={**metadata, "uid": uid}, spec=spec)
            return uid
        made = await self.api.create(PODS, msgspec.json.encode({"metadata": metadata, "spec": spec}), "default")
        return str(msgspec.json.decode(made)["metadata"]["uid"])

    def stored(self, name: str) -> Any:
        return self.api.find(PODS, name, "default")

    def patches(self, name: str) -> int:
        """How many patches of the pod were sent."""
        return self.api.sent(f"patch pods/status {name}")

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
        found = await soon_async(condition)
        if not found:
            pods = {key: tree.get("status") for key, tree in self.api.all(PODS).items()}
            raise AssertionError(f"{why or 'it'} never came: {pods}, {[(n.reason, n.note) for n in self.said]}")
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
        self.api.put(resource, name, "default", data=data)


@asynccontextmanager
async def host(data: Path, api: Faulty | None = None, **settings: Any) -> AsyncIterator[Host]:
    """A runner at work; at the end nothing of it runs."""
    made = Host(data, api or pod_api(), **settings)
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
