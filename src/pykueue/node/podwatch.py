"""Which pods are bound to our node? A list and a watch of them, of which only those that go on are kept by others.

An informer would keep every pod that there is, and finished ones are many and of no interest to a node; so this one
keeps nothing but where the watch stands.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.base.clock import Clock
from pykueue.base.struct import Wire
from pykueue.kube.informer import EVENT, PAGE
from pykueue.kube.port import PODS, STATUS, GoneError, Kube, KubeError

LOG: Final = logging.getLogger(__name__)

FIRST_MICROS: Final = 50_000
DOUBLINGS_MAX: Final = 7


def tree_of(raw: bytes) -> Tree:
    """The object in these bytes."""
    tree: Tree = msgspec.json.decode(raw)
    return tree


class Meta(Wire):
    """What is read of a pod before anything else."""

    uid: str = ""
    resource_version: str = "0"
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class Phase(Wire):
    """The phase in a status."""

    phase: str = ""


class Glance(Wire):
    """A pod at a glance."""

    metadata: Meta = Meta()
    status: Phase = Phase()

    @property
    def done(self) -> bool:
        """Whether it is over, and nobody waits for us to let go of it."""
        meta = self.metadata
        waited_for = meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds != 0
        return self.status.phase in ("Succeeded", "Failed") and not waited_for


GLANCE: Final = msgspec.json.Decoder(Glance)


class PodWatch:
    """Tells of every pod that is bound to a node."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        node: str,
        *,
        seen: Callable[[Tree], None],
        over: Callable[[str], None],
        gone: Callable[[str], None],
        listed: Callable[[set[str]], None],
    ) -> None:
        self.kube = kube
        self.clock = clock
        self.fields = f"spec.nodeName={node}"
        self.seen = seen
        """Told of a pod that goes on, or that waits for us."""
        self.over = over
        """Told the uid of a pod that is over."""
        self.gone = gone
        """Told the uid of a pod that exists no more."""
        self.listed = listed
        """Told the uids of all pods that there are."""
        self.version = ""
        self.failures = 0
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Tell of all pods until cancelled."""
        while True:
            try:
                if not self.version:
                    await self.list()
                async for line in self.kube.watch(PODS, version=self.version, fields=self.fields):
                    self.take(line)
                    self.failures = 0
                # One that ends at once, as when the store closes, must not keep others from their turn.
                await asyncio.sleep(0)
                continue
            except GoneError:
                self.version = ""
                continue
            except KubeError as error:
                LOG.info("pods of this node: no watch: %s", error)
            except Exception:
                LOG.exception("pods of this node: the watch failed")
                self.version = ""
            delay = FIRST_MICROS << min(self.failures, DOUBLINGS_MAX)
            self.failures += 1
            await self.clock.sleep(delay)

    async def list(self) -> None:
        """Tell of all pods that there are now."""
        uids = set()
        version = ""
        async for raw in self.kube.pages(PODS, fields=self.fields):
            page = PAGE.decode(raw)
            version = version or page.metadata.resource_version
            for item in page.items or ():
                uids.add(self.look(bytes(item)).uid)
        self.listed(uids)
        self.version = version
        self.synced.set()

    def look(self, raw: bytes) -> Meta:
        """Tell of one pod: its metadata."""
        glance = GLANCE.decode(raw)
        if glance.done:
            self.over(glance.metadata.uid)
        else:
            self.seen(tree_of(raw))
        return glance.metadata

    def take(self, line: bytes) -> None:
        """Tell of one change."""
        event = EVENT.decode(line)
        raw = bytes(event.object)
        match event.type:
            case "ADDED" | "MODIFIED":
                self.version = self.look(raw).resource_version
            case "DELETED":
                meta = GLANCE.decode(raw).metadata
                self.gone(meta.uid)
                self.version = meta.resource_version
            case "BOOKMARK":
                self.version = GLANCE.decode(raw).metadata.resource_version
            case "ERROR":
                status = STATUS.decode(raw)
                failure = GoneError if status.code == 410 else KubeError
                raise failure("watch pods", status.code, status.reason, status.message)
