"""A data folder with fifty thousand Jobs that wait in a thousand queues, as the server would have written it.

A server writes one Job, its Workload and its queues; the others are copies with names of their own.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.preparedfolder import prepared
from bench.upserver import QUEUE, ROOM, Server, job, serving
from pykueue.apiserver.storage.store import Key, Store, StoredObject
from pykueue.base.clock import SystemClock
from pykueue.jobs.workload import workload_name
from pykueue.kube.port import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS

WAITING: Final = 50_000
QUEUES: Final = 1_000
NAMESPACE: Final = "default"
FIRST: Final = "the-first-of-many"
TOGETHER: Final = 200
SETTLED_SECONDS: Final = 5.0
"""After which the server has written all that it will about a Job that waits."""


def waiting(name: str) -> bytes:
    """A Job that asks for more than the queue has."""
    tree: Any = msgspec.json.decode(job(name, ["true"]))
    tree["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(2 * ROOM)
    return msgspec.json.encode(tree)


class Original(msgspec.Struct):
    """An object that is copied."""

    resource: str
    text: str
    """In JSON."""

    @property
    def uid(self) -> str:
        """Its UID."""
        return str(msgspec.json.decode(self.text)["metadata"]["uid"])

    def copy(self, store: Store, names: Mapping[str, str]) -> Awaitable[StoredObject]:
        """Store a copy with other names; awaiting the result waits for the commit."""
        text = self.text
        for old, new in names.items():
            text = text.replace(f'"{old}"', f'"{new}"')
        tree: Any = msgspec.json.decode(text)
        metadata = tree["metadata"]
        return store.put(Key(self.resource, metadata.get("namespace", ""), metadata["name"]), tree, uid=metadata["uid"])


async def originals(server: Server) -> list[Original]:
    """A Job that waits, its Workload, its LocalQueue and its ClusterQueue."""
    kube = server.kube()
    try:
        made = msgspec.json.decode(await kube.create(JOBS, waiting(FIRST), NAMESPACE))
        workload = workload_name(kind="Job", group="batch", name=FIRST, uid=made["metadata"]["uid"])
        await asyncio.sleep(SETTLED_SECONDS)
        return [
            Original("jobs.batch", (await kube.get(JOBS, FIRST, NAMESPACE)).decode()),
            Original("workloads.kueue.x-k8s.io", (await kube.get(WORKLOADS, workload, NAMESPACE)).decode()),
            Original("localqueues.kueue.x-k8s.io", (await kube.get(LOCAL_QUEUES, QUEUE, NAMESPACE)).decode()),
            Original("clusterqueues.kueue.x-k8s.io", (await kube.get(CLUSTER_QUEUES, QUEUE)).decode()),
        ]
    finally:
        await kube.close()


@cache
def filled() -> Path:
    """A data folder with the Jobs, created once and removed when this process ends."""
    return prepared("waiting", fill)


async def fill(data: Path) -> None:
    """Write the queues and the Jobs into a new data folder."""
    with serving(data) as server:
        job_, workload, local_queue, cluster_queue = await originals(server)
    known = msgspec.json.decode(workload.text)["metadata"]["name"]
    store = Store.open(data / "pykueue.db", SystemClock())
    for number in range(QUEUES):
        name = f"{QUEUE}-{number}"
        await cluster_queue.copy(store, {QUEUE: name, cluster_queue.uid: uid_of("c", number)})
        await local_queue.copy(store, {QUEUE: name, local_queue.uid: uid_of("b", number)})
    uids = job_.uid, workload.uid
    for number in range(WAITING):
        name, uid = f"waits-{number}", uid_of("a", number)
        named = workload_name(kind="Job", group="batch", name=name, uid=uid)
        names = {FIRST: name, uids[0]: uid, known: named, QUEUE: f"{QUEUE}-{number % QUEUES}"}
        await_job = job_.copy(store, names)
        written = workload.copy(store, {**names, uids[1]: uid_of("d", number)})
        if number % TOGETHER == 0:
            await await_job
            await written
    await written
    await store.close()


def uid_of(kind: str, number: int) -> str:
    """A UID."""
    return f"{kind * 8}-0000-4000-8000-{number:012}"
