"""Fail and delete pods whose node has been gone for a while."""

from typing import Final

import msgspec

from pykueue.api.core import KubeObject, Tree
from pykueue.base.clock import Clock
from pykueue.base.struct import Wire
from pykueue.base.units import MICROS, format_instant
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import PODS, ConflictError, Kube, NotFoundError, Patch
from pykueue.kubecontrollers.podfit import Node
from pykueue.kubecontrollers.scheduler import Pod

MANAGER: Final = "kube-controller-manager"
PATIENCE_SECONDS: Final = 40.0
"""How long a node may be missing before its pods fail."""


class PodStatus(Wire):
    """The undecoded conditions of a pod."""

    conditions: tuple[dict[str, object], ...] = ()


class PodBody(KubeObject):
    """A pod in wire format."""

    status: PodStatus = PodStatus()


POD: Final = msgspec.json.Decoder(PodBody)


def on_node(pod: Pod) -> tuple[str, ...]:
    """The node of a pod, if it runs."""
    return (pod.node,) if pod.node else ()


class LostPods:
    """Ends the pods of nodes that are gone."""

    def __init__(self, kube: Kube, clock: Clock, nodes: Informer[Node], pods: Informer[Pod]) -> None:
        self.kube = kube
        self.clock = clock
        self.nodes = nodes
        self.pods = pods
        self.by_node = pods.index(on_node)
        self.since: dict[str, int] = {}
        """By missing node: since when."""
        self.controller = Controller("lost pods", self.reconcile, clock)
        self.nodes.listen(lambda change: self.controller.add(change.key))
        self.pods.listen(self.pod_changed)

    async def run(self) -> None:
        """Reconcile until cancelled; the scheduler runs the informers of nodes and pods."""
        await self.nodes.synced.wait()
        await self.pods.synced.wait()
        await self.controller.run()

    def pod_changed(self, change: Change[Pod]) -> None:
        """Look at the node of a pod that is added or removed, if the node is missing."""
        for pod in (change.old, change.new):
            if pod is not None and pod.node and self.nodes.get(pod.node) is None:
                self.controller.add(pod.node)

    async def reconcile(self, node: str) -> float | None:
        """End the pods of a node that has been missing too long; returns the seconds after which to look again."""
        if self.nodes.get(node) is not None or not self.by_node.get(node):
            self.since.pop(node, None)
            return None
        since = self.since.setdefault(node, self.clock.moment())
        left = PATIENCE_SECONDS - (self.clock.moment() - since) / MICROS
        if left > 0:
            return left
        for pod in list(self.by_node.get(node).values()):
            await self.end(pod)
        return None

    async def end(self, pod: Pod) -> None:
        """Mark a pod as failed, and delete it."""
        try:
            found = POD.decode(await self.kube.get(PODS, pod.name, pod.namespace))
            uid = found.metadata.uid or ""
            guard: Tree = {"uid": uid, "resourceVersion": found.metadata.resource_version}
            body = msgspec.json.encode({"metadata": guard, "status": self.failure(found)})
            await self.kube.patch(
                PODS, pod.name, body, pod.namespace, how=Patch.MERGE, subresource="status", manager=MANAGER
            )
            await self.kube.delete(PODS, pod.name, pod.namespace, uid=uid, grace=0)
        except (NotFoundError, ConflictError):
            # Gone, or changed at this moment; the watch reports it.
            return

    def failure(self, pod: PodBody) -> dict[str, object]:
        """The status of a pod whose node is lost."""
        kept = [one for one in pod.status.conditions if one.get("type") != "DisruptionTarget"]
        lost: dict[str, object] = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": format_instant(self.clock.now()),
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }
        return {"phase": "Failed", "conditions": [*kept, lost]}
