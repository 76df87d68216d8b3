"""What goes wrong during a crash run? Each fault does its harm, sees the manager back at work, and says how long."""

import contextlib
import random
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from typing import NamedTuple

from pykueue.kube.port import Patch
from tests.crash.crew import Crew
from tests.crash.load import QUEUES, Load, spec_of
from tests.crash.netfaults import drop_events, expire_continue, slow_apiserver, slow_webhooks, stall_watches
from tests.crash.timefaults import expire_certificates, freeze_leader, restore_etcd, skew_clocks, step_clock
from tests.crash.watchman import Watchman
from tests.plane.client import ApiError, Client, Tree
from tests.plane.plane import Plane
from tests.plane.process import free_ports

Figures = dict[str, float]


class Scene(NamedTuple):
    """What faults happen to."""

    plane: Plane
    crew: Crew
    load: Load
    rng: random.Random
    cut_seconds: float
    watchman: Watchman


def kill(scene: Scene) -> Figures:
    """kill -9 of the manager: mostly soon after it has begun to lead, when it has most to write; else at any time."""
    if scene.rng.random() < 0.8:
        scene.crew.await_own_lead()
    time.sleep(scene.rng.uniform(0, scene.rng.choice((0.5, 2))))
    scene.crew.end(scene.crew.leading())
    scene.crew.start(ready=False)
    return {}


def restart_apiserver(scene: Scene) -> Figures:
    """The API server goes away for a moment."""
    scene.plane.stop_apiserver()
    time.sleep(scene.rng.uniform(0, 2))
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
        time.sleep(scene.rng.uniform(0.2, 1.5))
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
    """Somebody else writes to each Workload and Job as soon as it changes, so that the manager's next write is late."""
    before = refusals(scene.plane.client)
    meddlers = [Meddler(scene.plane.client, kind) for kind in ("Workload", "Job")]
    for meddler in meddlers:
        meddler.start()
    time.sleep(10)
    for meddler in meddlers:
        meddler.stop()
    writes = sum(meddler.writes for meddler in meddlers)
    return {"writes": writes, "conflicts": refusals(scene.plane.client) - before}


class Meddler:
    """A thread that follows a kind and annotates whatever changes."""

    def __init__(self, client: Client, kind: str) -> None:
        self.client, self.kind, self.writes = client, kind, 0
        self.touched: dict[str, float] = {}
        self.enough = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.enough.set()
        self.thread.join()

    def run(self) -> None:
        while not self.enough.is_set():
            with contextlib.suppress(OSError, HTTPException, ApiError):
                for event in self.client.watch(self.kind, timeout=10):
                    if self.enough.is_set():
                        return
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self.touch(event["object"]["metadata"])

    def touch(self, metadata: Tree) -> None:
        """Annotate an object, unless we have just done so."""
        now = time.monotonic()
        if now - self.touched.get(metadata["uid"], 0) < 0.1:
            return
        self.touched[metadata["uid"]] = now
        self.writes += 1
        patch = {"metadata": {"annotations": {"crash.example.com/touched": str(self.writes)}}}
        with contextlib.suppress(ApiError):  # It may be gone.
            self.client.patch(self.kind, metadata["name"], patch, metadata["namespace"])


def refusals(client: Client) -> float:
    """How many writes of Workloads and Jobs the API server has refused since its start because of a conflict."""
    found = re.findall(r'^apiserver_request_total\{(.*code="409".*)\} (\S+)$', client.text("/metrics"), re.MULTILINE)
    return sum(float(count) for labels, count in found if re.search(r'resource="(workloads|jobs)"', labels))


def requota(scene: Scene) -> Figures:
    """Quotas are cut while they are in use, and given back."""
    name = scene.rng.choice(["left-a", "right-a", "alone"])
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
        freeze_leader,
        step_clock,
        skew_clocks,
        restore_etcd,
        expire_certificates,
        slow_apiserver,
        slow_webhooks,
        stall_watches,
        drop_events,
        expire_continue,
    )
}


def takeover_max(fault: str, lease_seconds: int) -> float:
    """How many seconds another may take to lead: few after a clean stop, else two more than the lease lasts."""
    return 2.0 if fault == "stop-leader" else lease_seconds + 2.0
