"""What goes wrong during a crash run? Each fault does its harm, sees the manager back at work, and says how long."""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pykueue.kube.port import Patch
from tests.crash.crew import Crew
from tests.crash.load import QUEUES, Load, spec_of
from tests.plane.client import ApiError, Client
from tests.plane.plane import Plane
from tests.plane.process import free_ports

Figures = dict[str, float]


class Scene(NamedTuple):
    """What faults happen to."""

    plane: Plane
    crew: Crew
    load: Load
    luck: random.Random
    cut_seconds: float


def kill(scene: Scene) -> Figures:
    """kill -9 of the manager: mostly while it works, now and then while it starts."""
    if scene.luck.random() < 0.8:
        scene.crew.await_alive()
    time.sleep(scene.luck.uniform(0, 2))
    scene.crew.end(scene.crew.leading())
    scene.crew.start(ready=False)
    return {}


def restart_apiserver(scene: Scene) -> Figures:
    """The API server goes away for a moment."""
    scene.plane.stop_apiserver()
    time.sleep(scene.luck.uniform(0, 2))
    scene.plane.start_apiserver()
    return {"back_seconds": scene.crew.await_alive()}


def cut(scene: Scene) -> Figures:
    """Nothing passes between the manager and the API server for a while."""
    member = scene.crew.leading()
    member.proxy.cut()
    time.sleep(scene.cut_seconds)
    scene.crew.reconnect(member)
    return {"back_seconds": scene.crew.await_alive()}


def cut_leader(scene: Scene) -> Figures:
    """The leader is cut off, another takes over, and the first comes back."""
    scene.crew.start()
    scene.crew.await_alive()
    member, leader = scene.crew.leading(), scene.crew.leader()
    member.proxy.cut()
    took = scene.crew.await_leader(unlike=leader)
    time.sleep(scene.crew.lease_seconds)
    scene.crew.reconnect(member)
    time.sleep(scene.crew.lease_seconds)
    scene.crew.keep_one()
    return {"takeover_seconds": took}


def close_watches(scene: Scene) -> Figures:
    """All of the manager's connections are reset, several times."""
    for _ in range(5):
        scene.crew.leading().proxy.mend()
        time.sleep(scene.luck.uniform(0.2, 1.5))
    return {"back_seconds": scene.crew.await_alive()}


def compact(scene: Scene) -> Figures:
    """The versions from which the manager's watches would go on are compacted away."""
    member = scene.crew.leading()
    member.proxy.cut()
    time.sleep(2)
    scene.plane.compact()
    scene.plane.stop_apiserver()
    scene.plane.start_apiserver()
    scene.plane.compact()
    scene.crew.reconnect(member)
    return {"back_seconds": scene.crew.await_alive()}


def webhooks_down(scene: Scene) -> Figures:
    """The API server cannot reach the manager's webhooks."""
    refused = scene.load.refused
    # To hide the manager would not do: the API server keeps its connections.
    (nobody,) = free_ports(1)
    ports = point_webhooks(scene.plane.client, nobody)
    time.sleep(8)
    refused = scene.load.refused - refused
    point_webhooks(scene.plane.client, ports)
    return {"refused": refused}


def point_webhooks(client: Client, port: int) -> int:
    """Have the API server call all webhooks on this port; returns the port on which it called them before."""
    before = port
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for tree in client.objects(kind):
            before = tree["webhooks"][0]["clientConfig"]["service"]["port"]
            patch = [
                {"op": "replace", "path": f"/webhooks/{index}/clientConfig/service/port", "value": port}
                for index in range(len(tree["webhooks"]))
            ]
            client.patch(kind, tree["metadata"]["name"], patch, how=Patch.JSON)
    return int(before)


def conflicts(scene: Scene) -> Figures:
    """Somebody else writes to Workloads and Jobs all the time, so that the manager's own writes are often refused."""
    enough, touched = threading.Event(), [0]

    def touch() -> None:
        client: Client = scene.plane.client
        while not enough.is_set():
            for kind in ("Workload", "Job"):
                found = client.objects(kind)
                for tree in scene.luck.sample(found, min(len(found), 20)):
                    meta = tree["metadata"]
                    touched[0] += 1
                    patch = {"metadata": {"annotations": {"crash.example.com/touched": str(touched[0])}}}
                    with contextlib.suppress(ApiError, OSError):
                        client.patch(kind, meta["name"], patch, meta["namespace"])
                    if enough.is_set():
                        return

    writers = [threading.Thread(target=touch, daemon=True) for _ in range(2)]
    for writer in writers:
        writer.start()
    time.sleep(10)
    enough.set()
    for writer in writers:
        writer.join()
    return {"writes": touched[0]}


def requota(scene: Scene) -> Figures:
    """Quotas are cut while they are in use, and given back."""
    name = scene.luck.choice(["left-a", "right-a", "alone"])
    less = {
        **QUEUES[name],
        "cpu": {flavor: {**quota, "nominalQuota": 1} for flavor, quota in QUEUES[name]["cpu"].items()},
    }
    for told in (less, QUEUES[name]):
        groups = {"spec": {"resourceGroups": spec_of(told)["resourceGroups"]}}
        # Between two managers nobody answers for the webhooks.
        scene.plane.retried(partial(scene.plane.client.patch, "ClusterQueue", name, groups), timeout=60)
        time.sleep(6)
    return {}


def delete_jobs(scene: Scene) -> Figures:
    """Jobs are deleted while they wait and while they run."""
    return {"deleted": scene.load.delete_some(8)}


def kill_leader(scene: Scene) -> Figures:
    """Of two replicas, the leader is killed."""
    scene.crew.start()
    scene.crew.await_alive()
    leader = scene.crew.leader()
    scene.crew.end(scene.crew.leading())
    return {"takeover_seconds": scene.crew.await_leader(unlike=leader)}


def stop_leader(scene: Scene) -> Figures:
    """Of two replicas, the leader is asked to stop."""
    scene.crew.start()
    scene.crew.await_alive()
    leader, member = scene.crew.leader(), scene.crew.leading()
    start = time.monotonic()
    stopping = threading.Thread(target=member.process.stop)
    stopping.start()
    scene.crew.members.remove(member)
    scene.crew.await_leader(unlike=leader)
    took = time.monotonic() - start
    stopping.join()
    member.end()
    return {"takeover_seconds": took}


FAULTS: dict[str, Callable[[Scene], Figures]] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        kill,
        restart_apiserver,
        cut,
        cut_leader,
        close_watches,
        compact,
        webhooks_down,
        conflicts,
        requota,
        delete_jobs,
        kill_leader,
        stop_leader,
    )
}


def takeover_max(fault: str, lease_seconds: int) -> float:
    """How many seconds another may take to lead: few after a clean stop, else two more than the lease lasts."""
    return 2.0 if fault == "stop-leader" else lease_seconds + 2.0
