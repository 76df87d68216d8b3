"""Simulate the kubelet of every node in a test: pods change state as their annotations say."""

import asyncio
from typing import Final

import msgspec

from pykueue.api.core import Json, KubeObject, Tree
from pykueue.api.names import GPU
from pykueue.apiserver.inprocess import LocalKube
from pykueue.base.clock import Clock
from pykueue.base.struct import Wire
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import NODES, PODS, NotFoundError, Patch
from pykueue.testing.script import OURS, PREFIX, PodSeen, State, next_step, state_of, status_of

NODE: Final = "node"
CAPACITY: Final[Tree] = {"cpu": "100k", "memory": "1Pi", "pods": "10000", GPU: "100k"}
"""More than any test requests, so that only quota limits what runs."""
WORKERS: Final = 4
POD: Final = msgspec.json.Decoder(PodSeen)


class NodeConditionSeen(Wire):
    """A condition of a node."""

    type: str = ""
    status: str = ""


class NodeStatusSeen(Wire):
    """The status of a node."""

    conditions: tuple[NodeConditionSeen, ...] = ()


class NodeSeen(KubeObject):
    """The fields of a node that are read here."""

    status: NodeStatusSeen = NodeStatusSeen()


class ScriptedPods:
    """Simulates the kubelet of every node."""

    def __init__(self, kube: LocalKube, clock: Clock, *, prefix: str = PREFIX) -> None:
        self.kube = kube
        self.clock = clock
        self.prefix = prefix
        self.pods: Informer[PodSeen] = Informer(kube, PODS, POD.decode, clock)
        self.nodes: Informer[NodeSeen] = Informer(kube, NODES, msgspec.json.Decoder(NodeSeen).decode, clock)
        self.since: dict[str, tuple[str, State, Instant]] = {}
        """The UID and state of each pod, and since when."""
        self.controller = Controller("scripted pods", self.play, clock, WORKERS)
        self.node_controller = Controller("scripted nodes", self.play_node, clock)
        self.pods.listen(self.pod_changed)
        self.nodes.listen(lambda change: self.node_controller.add(change.key))

    def pod_changed(self, change: Change[PodSeen]) -> None:
        """Queue a pod when it changes."""
        if change.new is None:
            self.since.pop(change.key, None)
        else:
            self.controller.add(change.key)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for one in (self.pods, self.nodes, self.controller, self.node_controller):
                tasks.create_task(one.run())

    async def play(self, key: str) -> float | None:
        """Make the due state change of a pod; return the seconds until the next one."""
        pod = self.pods.get(key)
        if pod is None or not pod.spec.node_name:
            return None
        step = next_step(pod, self.prefix)
        if step is None:
            return None
        now = self.clock.now()
        state = State.GONE if step.state is State.GONE else state_of(pod)
        uid, before, since = self.since.get(key, ("", State.NEW, now))
        if (uid, before) != (pod.metadata.uid, state):
            since = now
            self.since[key] = (pod.metadata.uid or "", state, now)
        if since + step.after > now:
            return (since + step.after - now) / MICROS
        if step.state is State.GONE:
            await self.kube.delete(PODS, pod.name, pod.namespace, uid=pod.metadata.uid or "", grace=0)
            return None
        await self.become(pod, step.state)
        return None

    async def become(self, pod: PodSeen, state: State) -> None:
        """Write the status of a pod for a state."""
        tree: Tree = msgspec.json.decode(await self.kube.get(PODS, pod.name, pod.namespace))
        held = tree.get("status")
        listed = held.get("conditions") if isinstance(held, dict) else None
        assert listed is None or isinstance(listed, list), "the conditions of a pod are a list"
        others = [one for one in listed or () if isinstance(one, dict) and one.get("type") not in OURS]
        status = status_of(pod, state, format_instant(self.clock.now()), self.prefix)
        conditions = status["conditions"]
        assert isinstance(conditions, list), "a status is made with a list of conditions"
        status["conditions"] = [*conditions, *others]
        body = msgspec.json.encode({"metadata": {"uid": pod.metadata.uid}, "status": status})
        raw = await self.kube.patch(PODS, pod.name, body, pod.namespace, how=Patch.MERGE, subresource="status")
        self.pods.learn(raw)

    async def play_node(self, key: str) -> None:
        """Mark a node as ready."""
        node = self.nodes.get(key)
        if node is None or any(one.type == "Ready" for one in node.status.conditions):
            return
        now = format_instant(self.clock.now())
        ready: Json = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now}
        body = msgspec.json.encode({"status": {"conditions": [ready]}})
        await self.kube.patch(NODES, key, body, how=Patch.MERGE, subresource="status")

    async def add_node(self, name: str = NODE) -> None:
        """Add a node with more capacity than any test requests."""
        try:
            await self.kube.get(NODES, name)
        except NotFoundError:
            labels: Tree = {"kubernetes.io/hostname": name}
            node: Tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            node["status"] = {"capacity": CAPACITY, "allocatable": CAPACITY}
            await self.kube.create(NODES, msgspec.json.encode(node))
