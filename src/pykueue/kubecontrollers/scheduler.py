"""The pod scheduler: binds pods that fit, and reports why the others do not.

A pod that fits nowhere waits with those of the same shape. When resources may have been freed, waiting pods are tried
in order of priority; after one that does not fit, others of its shape are skipped.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from heapq import heapify, heappop, heappush
from sys import intern
from typing import Final

import msgspec

from pykueue.api.core import ObjectMeta, Tree
from pykueue.api.names import Annotation
from pykueue.api.pods import PodSpec, read_special, read_with
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import format_instant
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.notices import Notice, Tell
from pykueue.kube.port import NODES, PODS, ConflictError, Kube, Patch, Ref
from pykueue.kubecontrollers.podfit import Blocked, Node, add, blocked, message, read_node, requested

NAME: Final = "default-scheduler"
MANAGER: Final = "kube-scheduler"
WORKERS: Final = 16
UNSCHEDULABLE: Final = "Unschedulable"
OVER: Final = ("Succeeded", "Failed")
TURN: Final = ""
"""A key that is not a pod's: try the waiting pods again."""


class Gate(Wire):
    """A scheduling gate, which must be removed before the pod is scheduled."""

    name: str = ""


class FullSpec(PodSpec):
    """A pod's spec, with the scheduler's fields."""

    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[Gate, ...] = ()


class FullStatus(Wire):
    """The part of a pod's status that is used here, with undecoded conditions."""

    phase: str = "Pending"
    conditions: tuple[dict[str, object], ...] = ()


class Body(Wire):
    """A Pod in wire format."""

    metadata: ObjectMeta = ObjectMeta()
    spec: FullSpec = FullSpec()
    status: FullStatus = FullStatus()


class Unplaced(Frozen):
    """An unbound pod, as far as the scheduler needs it."""

    spec: PodSpec
    priority: int
    created: str
    conditions: tuple[dict[str, object], ...]
    generation: int | None = None
    consumes: str = ""
    """The name of the ProvisioningRequest whose capacity it uses."""

    def scheduled_condition(self) -> dict[str, object]:
        """Its PodScheduled condition; empty if there is none."""
        return next((one for one in self.conditions if one.get("type") == "PodScheduled"), {})

    def shape(self) -> str:
        """The key of pods that fit on the same nodes."""
        return shape_of(self.spec)


def shape_of(spec: PodSpec) -> str:
    """The key of pods that fit on the same nodes."""
    return repr((sorted(requested(spec).items()), sorted(spec.node_selector.items()), spec.affinity, spec.tolerations))


class Pod(Frozen):
    """A pod as the scheduler sees it."""

    namespace: str
    name: str
    version: int
    uid: str = ""
    node: str = ""
    """The node whose resources it uses; empty if it is unbound or has ended."""
    requests: Mapping[str, int] = {}
    unplaced: Unplaced | None = None
    """None unless it is to be scheduled."""
    consumed: str = ""
    """The name of the ProvisioningRequest whose capacity it has used."""

    @property
    def metadata(self) -> ObjectMeta:
        """The part of its metadata that caches need."""
        return ObjectMeta(name=self.name, namespace=self.namespace, resource_version=str(self.version))


BODY: Final = msgspec.json.Decoder(Body, dec_hook=read_special)


def read_pod(raw: bytes) -> Pod:
    """The scheduler's view of a pod."""
    body = read_with(BODY, raw)
    metadata, spec, status = body.metadata, body.spec, body.status
    namespace, name, version = (
        intern(metadata.namespace or ""),
        metadata.name or "",
        int(metadata.resource_version or 0),
    )
    consumes = metadata.annotations.get(Annotation.CONSUME_PROVISIONING_REQUEST, "")
    if status.phase in OVER:
        return Pod(namespace, name, version, consumed=consumes)
    uid = metadata.uid or ""
    if spec.node_name:
        return Pod(namespace, name, version, uid, intern(spec.node_name), requested(spec), consumed=consumes)
    if spec.scheduling_gates or metadata.deletion_timestamp is not None or spec.scheduler_name not in ("", NAME):
        return Pod(namespace, name, version, uid)
    unplaced = Unplaced(
        spec, spec.priority or 0, metadata.creation_timestamp or "", status.conditions, metadata.generation, consumes
    )
    return Pod(namespace, name, version, uid, "", requested(spec), unplaced)


class Usage:
    """The used resources of a node."""

    def __init__(self) -> None:
        self.amounts: dict[str, int] = {}
        self.pods = 0

    def take(self, requests: Mapping[str, int], sign: int) -> None:
        """Add a pod's requests, or remove them."""
        add(self.amounts, {name: sign * amount for name, amount in requests.items()})
        self.pods += sign


UNUSED: Final = Usage()
"""Of a node on which there is nothing."""


class Scheduler:
    """Binds pods to nodes."""

    def __init__(
        self, kube: Kube, clock: Clock, bind: Callable[[str, str, str], Awaitable[bytes]], notify: Tell
    ) -> None:
        self.kube = kube
        self.clock = clock
        self.bind = bind
        """Binds a pod, by namespace and name, to a node; returns the bound pod."""
        self.notify = notify
        self.nodes: Informer[Node] = Informer(kube, NODES, read_node, clock)
        self.pods: Informer[Pod] = Informer(kube, PODS, read_pod, clock)
        self.controller = Controller("scheduler", self.reconcile, clock, WORKERS)
        self.used: dict[str, Usage] = {}
        """By node, if anything is used; a pod can name a node that does not exist."""
        self.stuck: dict[str, dict[str, tuple[int, str]]] = {}
        """Unschedulable pods by shape: priority and age by key."""
        self.shapes: dict[str, str] = {}
        """Their shapes, by key."""
        self.nodes.listen(self.node_changed)
        self.pods.listen(self.pod_changed)

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.nodes.run(), name="nodes")
            tasks.create_task(self.pods.run(), name="pods to schedule")
            tasks.create_task(self.act(), name="scheduler")

    async def act(self) -> None:
        """Reconcile once everything is listed."""
        await self.nodes.synced.wait()
        await self.pods.synced.wait()
        await self.controller.run()

    # Triggers.

    def node_changed(self, change: Change[Node]) -> None:
        """Handle a node: free resources may have changed."""
        old, new = change.old, change.new
        if old is None or new is None or msgspec.structs.replace(old, version=new.version) != new:
            self.wake()

    def pod_changed(self, change: Change[Pod]) -> None:
        """Handle a pod that is to be scheduled, or that takes or frees resources."""
        old, new = change.old, change.new
        before = old.node if old is not None else ""
        now = new.node if new is not None else ""
        if before != now or (old is not None and new is not None and old.requests != new.requests):
            if old is not None and before:
                self.give_back(before, old.requests)
            if new is not None and now:
                self.take(now, new.requests)
            if before:
                self.wake()
        if new is None or new.unplaced is None:
            self.unstick(change.key)
        elif old is None or old.unplaced is None or old.uid != new.uid or old.unplaced.spec != new.unplaced.spec:
            self.unstick(change.key)
            self.controller.add(change.key)

    def take(self, node: str, requests: Mapping[str, int]) -> None:
        """Take resources of a node for a pod."""
        self.used.setdefault(node, Usage()).take(requests, 1)

    def give_back(self, node: str, requests: Mapping[str, int]) -> None:
        """Free a pod's resources."""
        usage = self.used[node]
        usage.take(requests, -1)
        if not usage.pods:
            del self.used[node]

    def wake(self) -> None:
        """Try the waiting pods again soon."""
        if self.stuck:
            self.controller.add(TURN)

    def line_up(self) -> None:
        """Queue waiting pods that may fit now, in order of priority; of a shape none after one that does not fit."""
        lines = {shape: [(rank, key) for key, rank in waiting.items()] for shape, waiting in self.stuck.items()}
        for line in lines.values():
            heapify(line)
        heads = [(line[0], shape) for shape, line in lines.items()]
        heapify(heads)
        placed: list[tuple[str, Pod]] = []
        while heads:
            (_, key), shape = heappop(heads)
            self.controller.add(key)
            pod = self.pods.get(key)
            node = None if pod is None or pod.unplaced is None else self.place(pod, pod.unplaced)[0]
            if pod is not None and node is not None:
                self.take(node, pod.requests)
                placed.append((node, pod))
                heappop(lines[shape])
                if lines[shape]:
                    heappush(heads, (lines[shape][0], shape))
        for node, pod in placed:
            self.give_back(node, pod.requests)

    def unstick(self, key: str) -> None:
        """Remove a pod from the waiting ones; try the next of its shape."""
        shape = self.shapes.pop(key, None)
        if shape is None:
            return
        waiting = self.stuck[shape]
        del waiting[key]
        if not waiting:
            del self.stuck[shape]
        else:
            self.controller.add(min(waiting, key=lambda other: waiting[other]))

    # Reconciliation.

    async def reconcile(self, key: str) -> float | None:
        """Bind a pod to a node, or report why not."""
        if key == TURN:
            self.line_up()
            return None
        pod = self.pods.get(key)
        if pod is None or pod.unplaced is None:
            return None
        node, found = self.place(pod, pod.unplaced)
        if node is None:
            self.shapes[key] = shape = pod.unplaced.shape()
            self.stuck.setdefault(shape, {})[key] = (-pod.unplaced.priority, pod.unplaced.created)
            await self.explain(pod, pod.unplaced, found)
            return None
        # Until the binding is stored, other pods must not use the same resources.
        self.take(node, pod.requests)
        try:
            raw = await self.bind(pod.namespace, pod.name, node)
        except ConflictError:
            # It was bound, or is being deleted; the watch reports it.
            return None
        finally:
            self.give_back(node, pod.requests)
        self.pods.learn(raw)
        self.event(pod, "Scheduled", f"Successfully assigned {pod.namespace}/{pod.name} to {node}", "Binding")
        return None

    def place(self, pod: Pod, unplaced: Unplaced) -> tuple[str | None, list[Blocked]]:
        """The node with the most free resources on which a pod fits; otherwise, why it fits on none."""
        best: tuple[float, str] | None = None
        found: list[Blocked] = []
        for node in self.nodes.objects.values():
            usage = self.used.get(node.name, UNUSED)
            why = blocked(unplaced.spec, pod.requests, node, usage.amounts, usage.pods)
            if why is not None:
                found.append(why)
                continue
            rank = (fullness(node, usage), node.name)
            best = rank if best is None or rank < best else best
        return None if best is None else best[1], found

    async def explain(self, pod: Pod, unplaced: Unplaced, found: list[Blocked]) -> None:
        """Report why a pod fits nowhere, unless that was reported."""
        why = message(found)
        known = unplaced.scheduled_condition()
        if (known.get("status"), known.get("reason"), known.get("message")) == ("False", UNSCHEDULABLE, why):
            return
        condition: dict[str, object] = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": format_instant(self.clock.now()),
            "reason": UNSCHEDULABLE,
            "message": why,
        }
        if known.get("status") == "False" and known.get("lastTransitionTime"):
            condition["lastTransitionTime"] = known["lastTransitionTime"]
        if unplaced.generation is not None:
            condition["observedGeneration"] = unplaced.generation
        others = [one for one in unplaced.conditions if one.get("type") != "PodScheduled"]
        guard: Tree = {"uid": pod.uid, "resourceVersion": str(pod.version)}
        body = msgspec.json.encode({"metadata": guard, "status": {"conditions": [*others, condition]}})
        raw = await self.kube.patch(
            PODS, pod.name, body, pod.namespace, how=Patch.MERGE, subresource="status", manager=MANAGER
        )
        self.pods.learn(raw)
        self.event(pod, "FailedScheduling", why, "Scheduling", warning=True)

    def event(self, pod: Pod, reason: str, note: str, action: str, *, warning: bool = False) -> None:
        """Report an event of a pod."""
        about = Ref("v1", "Pod", pod.namespace, pod.name, pod.uid, str(pod.version))
        self.notify(Notice(about, reason, note, NAME, warning, action))


def fullness(node: Node, usage: Usage) -> float:
    """The sum of the used shares of a node's CPU and memory."""
    parts = [
        usage.amounts.get(name, 0) / node.amounts[name] for name in ("cpu", "memory") if node.amounts.get(name, 0) > 0
    ]
    return sum(parts)
