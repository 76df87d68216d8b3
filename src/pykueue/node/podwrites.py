"""Write the status of pods when it differs from what is stored."""

import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.trees import text
from pykueue.base.clock import Clock
from pykueue.kube.port import PODS, ConflictError, Kube, NotFoundError, Patch
from pykueue.node.containers import Box, Ending
from pykueue.node.podplan import label
from pykueue.node.podstatus import Container, status_of
from pykueue.node.podwatch import tree_of

LOG: Final = logging.getLogger(__name__)

REPORTER: Final = "kubelet"


class PodWrites:
    """Writes the status of pods, and removes deleted ones that have ended."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self.kube = kube
        self.clock = clock

    async def write(self, box: Box, containers: Mapping[str, Container], ending: Ending | None = None) -> None:
        """Write the status of a pod if it has changed; a pod that no longer exists is marked as gone.

        On a conflict the pod is read again and the error is raised: the status depends on the pod, and the caller
        retries a moment later.
        """
        body = self.change(box, containers, ending)
        if body is None or box.gone:
            return
        name, namespace = text(box.pod, "metadata", "name"), text(box.pod, "metadata", "namespace")
        try:
            raw = await self.kube.patch(
                PODS, name, body, namespace, how=Patch.MERGE, subresource="status", manager=REPORTER
            )
        except ConflictError:
            await self.refresh(box, namespace, name)
            if not box.gone:
                raise
        except NotFoundError:
            box.gone = True
        else:
            # Nothing more is written for a finished pod, so its new version is not needed.
            if not box.finished:
                learn(box, tree_of(raw))

    async def refresh(self, box: Box, namespace: str, name: str) -> None:
        """Read a pod again."""
        try:
            pod = tree_of(await self.kube.get(PODS, name, namespace))
        except NotFoundError:
            box.gone = True
            return
        if text(pod, "metadata", "uid") != box.uid:
            box.gone = True
        else:
            learn(box, pod)

    def change(self, box: Box, containers: Mapping[str, Container], ending: Ending | None) -> bytes | None:
        """The patch that corrects the status of a pod; None if it is right."""
        ending = ending or Ending(self.clock.moment())
        status = status_of(
            box.pod,
            containers,
            self.clock.now(),
            phase=ending.phase,
            reason=ending.reason,
            message=ending.message,
        )
        before = box.pod.get("status")
        stored: Tree = before if isinstance(before, dict) else {}
        news: Tree = {name: value for name, value in status.items() if bare(stored.get(name)) != bare(value)}
        news.update({name: None for name in stored if name not in status})
        if not news:
            return None
        meta: Tree = {"uid": box.uid, "resourceVersion": text(box.pod, "metadata", "resourceVersion")}
        return msgspec.json.encode({"metadata": meta, "status": news})

    async def remove(self, box: Box) -> None:
        """Remove the object of a pod of which nothing runs any more."""
        name, namespace = text(box.pod, "metadata", "name"), text(box.pod, "metadata", "namespace")
        try:
            await self.kube.delete(PODS, name, namespace, uid=box.uid, grace=0)
        except (NotFoundError, ConflictError):
            LOG.debug("pod: already deleted pod=%s", label(box.pod))


def learn(box: Box, pod: Tree) -> None:
    """Keep a pod if it is newer."""
    if version(pod) > version(box.pod):
        box.pod = pod


def bare(value: Json) -> Json:
    """A value without empty members, which a server may keep or drop."""
    if isinstance(value, dict):
        return {name: inner for name, one in value.items() if (inner := bare(one)) not in (None, "", {}, [])}
    return [bare(one) for one in value] if isinstance(value, list) else value


def version(pod: Tree) -> int:
    """The resourceVersion of a pod, as a number."""
    return int(text(pod, "metadata", "resourceVersion") or 0)
