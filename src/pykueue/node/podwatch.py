"""List and watch the pods bound to our node, without caching them.

An informer would cache every pod, and finished ones are many and irrelevant to a node; this one keeps only the position
of the watch.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.base.clock import Clock
from pykueue.base.struct import Wire
from pykueue.kube.informer import PAGE
from pykueue.kube.port import PODS, STATUS, GoneError, Kube, KubeError
from pykueue.kube.watchlines import parted

LOG: Final = logging.getLogger(__name__)

FIRST_MICROS: Final = 50_000
DOUBLINGS_MAX: Final = 7
SETTLED_MAX: Final = 10_000
"""How many ended pods are remembered: far more than end while the watch is behind."""


def tree_of(raw: bytes) -> Tree:
    """Decode an object."""
    tree: Tree = msgspec.json.decode(raw)
    return tree


class Meta(Wire):
    """The metadata that is read first."""

    uid: str = ""
    resource_version: str = "0"
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class Phase(Wire):
    """The phase in a status."""

    phase: str = ""


class PodSummary(Wire):
    """The part of a pod that decides whether to decode the rest."""

    metadata: Meta = Meta()
    status: Phase = Phase()

    @property
    def done(self) -> bool:
        """Whether it has ended, and needs no confirmation from us."""
        meta = self.metadata
        waited_for = meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds != 0
        return self.status.phase in ("Succeeded", "Failed") and not waited_for


SUMMARY: Final = msgspec.json.Decoder(PodSummary)


class PodWatch:
    """Reports every pod bound to a node."""

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
        """Called with a pod that is not finished, or that waits for our confirmation."""
        self.over = over
        """Called with the uid of a finished pod."""
        self.gone = gone
        """Called with the uid of a deleted pod."""
        self.listed = listed
        """Called with the uids of all pods."""
        self.version = ""
        self.failures = 0
        self.synced = asyncio.Event()
        self.settled: dict[str, None] = {}
        """The uids of the pods that ended last, the latest last."""

    def settle(self, uid: str) -> None:
        """Ignore from now on what the watch, if it is behind, shows of a pod from before its end.

        Its files may be gone by then, and it would be started again.
        """
        self.settled[uid] = None
        if len(self.settled) > SETTLED_MAX:
            del self.settled[next(iter(self.settled))]

    async def run(self) -> None:
        """Report all pods until cancelled."""
        while True:
            try:
                if not self.version:
                    await self.list()
                async for line in self.kube.watch(PODS, version=self.version, fields=self.fields):
                    self.take(line)
                    self.failures = 0
                # A watch that ends at once, as when the store closes, must not starve other tasks.
                await asyncio.sleep(0)
                continue
            except GoneError:
                self.version = ""
                continue
            except KubeError as error:
                LOG.info("podwatch: watch ended error=%s", error)
            except Exception:
                LOG.exception("podwatch: watch failed")
                self.version = ""
            delay = FIRST_MICROS << min(self.failures, DOUBLINGS_MAX)
            self.failures += 1
            await self.clock.sleep(delay)

    async def list(self) -> None:
        """Report all present pods."""
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
        """Report one pod; returns its metadata."""
        summary = SUMMARY.decode(raw)
        if summary.done:
            self.over(summary.metadata.uid)
        elif summary.metadata.deletion_timestamp is not None or summary.metadata.uid not in self.settled:
            self.seen(tree_of(raw))
        return summary.metadata

    def take(self, line: bytes) -> None:
        """Report one change."""
        kind, raw = parted(line)
        match kind:
            case "ADDED" | "MODIFIED":
                self.version = self.look(raw).resource_version
            case "DELETED":
                meta = SUMMARY.decode(raw).metadata
                self.gone(meta.uid)
                self.version = meta.resource_version
            case "BOOKMARK":
                self.version = SUMMARY.decode(raw).metadata.resource_version
            case "ERROR":
                status = STATUS.decode(raw)
                failure = GoneError if status.code == 410 else KubeError
                raise failure("watch pods", status.code, status.reason, status.message)
