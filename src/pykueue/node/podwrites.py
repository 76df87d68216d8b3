"""Write the status of pods when it differs from what is stored."""

import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.trees import text
from pykueue.base.clock import Clock
from pykueue.kube.port import PODS, ConflictError, Kube, NotFoundError, Patch
from pykueue.node.containers import Ending, Sandbox
from pykueue.node.podplan import label
from pykueue.node.podstatus import ContainerStatus, status_of
from pykueue.node.podwatch import tree_of

LOG: Final = logging.getLogger(__name__)

REPORTER: Final = "kubelet"


class PodWrites:
    """Writes the status of pods, and removes deleted ones that have ended."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self.kube = kube
        self.clock = clock

    async def write(
        self, sandbox: Sandbox, statuses: Mapping[str, ContainerStatus], ending: Ending | None = None
    ) -> None:
        """Write the status of a pod if it has changed; a pod that no longer exists is marked as gone.

        On a conflict the pod is read again and the error is raised: the status depends on the pod, and the caller
        retries a moment later.
        """
        body = self.change(sandbox, statuses, ending)
        if body is None or sandbox.gone:
            return
        name, namespace = text(sandbox.pod, "metadata", "name"), text(sandbox.pod, "metadata", "namespace")
        try:
            raw = await self.kube.patch(
                PODS, name, body, namespace, how=Patch.MERGE, subresource="status", manager=REPORTER
            )
        except ConflictError:
            await self.refresh(sandbox, namespace, name)
            if not sandbox.gone:
                raise
        except NotFoundError:
            sandbox.gone = True
        else:
            # Nothing more is written for a finished pod, so its new version is not needed.
            if not sandbox.finished:
                learn(sandbox, tree_of(raw))

    async def refresh(self, sandbox: Sandbox, namespace: str, name: str) -> None:
        """Read a pod again."""
        try:
            pod = tree_of(await self.kube.get(PODS, name, namespace))
        except NotFoundError:
            sandbox.gone = True
            return
        if text(pod, "metadata", "uid") != sandbox.uid:
            sandbox.gone = True
        else:
            learn(sandbox, pod)

    def change(self, sandbox: Sandbox, statuses: Mapping[str, ContainerStatus], ending: Ending | None) -> bytes | None:
        """The patch that corrects the status of a pod; None if it is right."""
        ending = ending or Ending(self.clock.moment())
        status = status_of(
            sandbox.pod,
            statuses,
            self.clock.now(),
            phase=ending.phase,
            reason=ending.reason,
            message=ending.message,
            disruption=ending.disruption,
        )
        before = sandbox.pod.get("status")
        stored: Tree = before if isinstance(before, dict) else {}
        news: Tree = {name: value for name, value in status.items() if not alike(stored.get(name), value)}
        news.update({name: None for name in stored if name not in status})
        if not news:
            return None
        meta: Tree = {"uid": sandbox.uid, "resourceVersion": text(sandbox.pod, "metadata", "resourceVersion")}
        return msgspec.json.encode({"metadata": meta, "status": news})

    async def remove(self, sandbox: Sandbox) -> None:
        """Remove the object of a pod of which nothing runs any more."""
        name, namespace = text(sandbox.pod, "metadata", "name"), text(sandbox.pod, "metadata", "namespace")
        try:
            await self.kube.delete(PODS, name, namespace, uid=sandbox.uid, grace=0)
        except (NotFoundError, ConflictError):
            LOG.debug("pod: already deleted pod=%s", label(sandbox.pod))


def learn(sandbox: Sandbox, pod: Tree) -> None:
    """Keep a pod if it is newer."""
    if version(pod) > version(sandbox.pod):
        sandbox.pod = pod


def alike(before: Json, after: Json) -> bool:
    """Whether two values are equal, apart from empty members."""
    # Most fields of a status are new or unchanged, or lists that grow; only the others need the longer comparison.
    if before is None or before == after:
        return before == after
    if isinstance(before, list) and isinstance(after, list) and len(before) != len(after):
        return False
    return bare(before) == bare(after)


def bare(value: Json) -> Json:
    """A value without empty members, which a server may keep or drop."""
    if isinstance(value, dict):
        return {name: inner for name, one in value.items() if (inner := bare(one)) not in (None, "", {}, [])}
    return [bare(one) for one in value] if isinstance(value, list) else value


def version(pod: Tree) -> int:
    """The resourceVersion of a pod, as a number."""
    return int(text(pod, "metadata", "resourceVersion") or 0)
