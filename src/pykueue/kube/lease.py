"""Who leads? One of several replicas, chosen by a Lease as client-go does it; the others watch and wait.

The lease is renewed on a thread of its own, with a loop and connections of its own, so that nothing that keeps the main
loop busy can lose it. Leading ends by CLOCK_BOOTTIME, well before another replica may take the lease: a
machine that resumes from a suspend does not believe that it still leads.
"""

import asyncio
import contextlib
import logging
import math
import random
import threading
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

import msgspec

from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.timers import timeout, uptime, waited
from pykueue.base.units import micro_time
from pykueue.kube.port import (
    LEASES,
    ConflictError,
    ExistsError,
    Kube,
    KubeError,
    NotFoundError,
    NotLeadingError,
    Patch,
    Resource,
)

LOG: Final = logging.getLogger(__name__)

STANDBY_SECONDS: Final = 1.0
"""How often a replica that does not lead looks at the lease at least, so that one let go is taken up within 2 s."""
RELEASE_SECONDS: Final = 1.0
"""How long letting go may take."""
RELEASED: Final = "released"

LeaseTree = dict[str, str | int]


class LeaseSpec(Wire):
    """Who holds a lease, and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMeta(Wire):
    """What tells versions of a lease apart."""

    resource_version: str = ""


class Lease(Wire):
    """A lease."""

    metadata: LeaseMeta = LeaseMeta()
    spec: LeaseSpec | None = None


class Terms(Frozen):
    """The lengths of time that an election goes by, in seconds."""

    lease: float
    renew: float
    retry: float

    def __post_init__(self) -> None:
        assert 0 < self.retry < self.renew < self.lease, (
            f"an election needs retry < renew < lease, all above 0; they are {self.retry}, {self.renew}, {self.lease}"
        )


LEASE: Final = msgspec.json.Decoder(Lease)


class Leadership(Protocol):
    """Whether this process may write."""

    @property
    def leading(self) -> bool:
        """Whether it leads at this very moment; any thread may ask."""

    def at_loss(self, cut: Callable[[], None]) -> None:
        """Have a function called, on the loop that runs the election, as soon as the lease is lost."""

    async def run(self, started: Callable[[], None], stopped: Callable[[str], None]) -> None:
        """Stand for election, lead, and return when that is over; both functions are called on the caller's loop."""

    async def release(self) -> None:
        """Let go, so that another may lead at once; `run` then returns."""


class Always:
    """Leads from the start to the end: election is off."""

    def __init__(self) -> None:
        self.leading = False
        self.over = asyncio.Event()

    def at_loss(self, cut: Callable[[], None]) -> None:
        """Do nothing: this cannot be lost."""

    async def run(self, started: Callable[[], None], stopped: Callable[[str], None]) -> None:
        """Lead until let go."""
        self.leading = not self.over.is_set()
        try:
            if self.leading:
                started()
            await self.over.wait()
        finally:
            self.leading = False
        stopped(RELEASED)

    async def release(self) -> None:
        """Lead no more."""
        self.leading = False
        self.over.set()


class Election:
    """Stands for election with others; once it has led and lost, it is over.

    `connect` is called on the election's own thread; what it gives is used and closed there alone.
    """

    def __init__(
        self,
        connect: Callable[[], Kube],
        clock: Clock,
        identity: str,
        namespace: str,
        name: str,
        *,
        lease: float = 15.0,
        renew: float = 10.0,
        retry: float = 2.0,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.connect = connect
        self.clock = clock
        self.identity = identity
        self.namespace = namespace
        self.name = name
        self.terms = Terms(lease, renew, retry)
        self.rng = rng
        self.cuts: list[Callable[[], None]] = []
        self.thread: Campaign | None = None
        self.released = False

    @property
    def leading(self) -> bool:
        """Whether this process leads at this very moment; any thread may ask."""
        return self.thread is not None and self.thread.leading

    def at_loss(self, cut: Callable[[], None]) -> None:
        """Have a function called, on the loop that runs the election, as soon as the lease is lost."""
        self.cuts.append(cut)

    async def run(self, started: Callable[[], None], stopped: Callable[[str], None]) -> None:
        """Stand for election, lead, and return when that is over; both functions are called on the caller's loop."""
        if self.released:
            return
        loop = asyncio.get_running_loop()
        campaign = self.thread = Campaign(self, loop, started)
        campaign.start()
        try:
            reason = await asyncio.shield(campaign.outcome)
        finally:
            # Cancelled or not, the lease is let go if it is ours, and nothing of the thread is left behind.
            await campaign.end()
        if campaign.led:
            stopped(reason)

    async def release(self) -> None:
        """Let go, so that another may lead at once; `run` then returns."""
        self.released = True
        if self.thread is not None:
            await self.thread.end()


class Campaign(threading.Thread):
    """The thread on which a lease is taken and renewed."""

    def __init__(self, election: Election, caller: asyncio.AbstractEventLoop, started: Callable[[], None]) -> None:
        super().__init__(name="election", daemon=True)
        self.election = election
        self.caller = caller
        self.started = started
        self.outcome: asyncio.Future[str] = caller.create_future()
        """Why it is over; a future of the caller's loop."""
        self.loop = asyncio.SelectorEventLoop()
        self.letting_go = asyncio.Event()
        self.until = 0.0
        """Up to when we lead, by `uptime`."""
        self.led = False
        self.seen = Lease()
        self.seen_at = 0.0
        """When the lease was seen to change last."""

    @property
    def leading(self) -> bool:
        """Whether we lead at this very moment."""
        return uptime() < self.until

    async def end(self) -> None:
        """Have the lease let go and return when the thread is done with it, or after a moment."""
        self.until = 0.0
        if not self.outcome.done():
            self.loop.call_soon_threadsafe(self.letting_go.set)
            await waited({self.outcome}, RELEASE_SECONDS)

    def run(self) -> None:
        """Stand for election; the thread's own main function."""
        reason = "the election failed by a mistake of ours; see the log"
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                reason = runner.run(self.campaign())
        except Exception:
            LOG.exception("the election failed")
        finally:
            self.until = 0.0
            self.tell(lambda: None if self.outcome.done() else self.outcome.set_result(reason))

    def tell(self, what: Callable[[], None]) -> None:
        """Have the caller's loop call a function, if there still is one."""
        with contextlib.suppress(RuntimeError):
            self.caller.call_soon_threadsafe(what)

    async def campaign(self) -> str:
        """Take the lease, keep it as long as possible, let it go: why it is over."""
        kube = self.election.connect()
        try:
            while not await self.attempt(kube, self.election.terms.renew):
                if await self.rest(min(self.election.terms.retry, STANDBY_SECONDS)):
                    return RELEASED
            self.led = True
            LOG.info("%s leads by lease %s/%s", self.election.identity, self.election.namespace, self.election.name)
            self.tell(self.started)
            reason = await self.keep(kube)
            self.until = 0.0
            LOG.info("%s leads no more: %s", self.election.identity, reason)
            if reason == RELEASED:
                await self.let_go(kube)
            else:
                for cut in self.election.cuts:
                    self.tell(cut)
            return reason
        finally:
            await kube.close()

    async def keep(self, kube: Kube) -> str:
        """Renew the lease until that fails for too long, or it is to be let go: why."""
        while not await self.rest(min(self.election.terms.retry, max(0.0, self.until - uptime()))):
            left = self.until - uptime()
            if left <= 0:
                return f"the lease could not be renewed within {self.election.terms.renew:g} s"
            if not await self.attempt(kube, left) and self.holder() != self.election.identity:
                return f"the lease is held by {self.holder() or 'nobody'}"
        return RELEASED

    def holder(self) -> str:
        """Who holds the lease, as far as we know."""
        return (self.seen.spec or LeaseSpec()).holder_identity or ""

    async def rest(self, seconds: float) -> bool:
        """Wait for a while; whether the lease is to be let go."""
        try:
            async with timeout(seconds * (0.9 + self.election.rng() / 10)):
                await self.letting_go.wait()
        except TimeoutError:
            return False
        return True

    async def attempt(self, kube: Kube, seconds: float) -> bool:
        """Try once to take or renew the lease, in so much time; whether it is ours now."""
        began = uptime()
        try:
            async with timeout(seconds):
                ours = await self.take(kube)
        except (KubeError, TimeoutError) as error:
            LOG.warning("the lease could not be taken or renewed: %s", str(error) or "no answer in time")
            return False
        if ours:
            # Counted from before the request: others count from after it.
            self.until = 0.0 if self.letting_go.is_set() else began + self.election.terms.renew
        return ours

    async def take(self, kube: Kube) -> bool:
        """Take or renew the lease if it is free or ours; whether it is ours now."""
        election = self.election
        if self.holder() != election.identity:
            try:
                self.observe(await kube.get(LEASES, election.name, election.namespace))
            except NotFoundError:
                return await self.create(kube)
        for _ in range(2):
            spec, holder = self.seen.spec or LeaseSpec(), self.holder()
            expires = self.seen_at + (spec.lease_duration_seconds or 0)
            if holder not in ("", election.identity) and uptime() < expires:
                return False
            renews = holder == election.identity
            transitions = (spec.lease_transitions or 0) + (not renews)
            try:
                await self.write(kube, self.claim(spec.acquire_time if renews else None, transitions))
            except ConflictError:
                # Somebody was faster, or an earlier write of ours was done after all without our hearing of it.
                self.observe(await kube.get(LEASES, election.name, election.namespace))
            else:
                return True
        return False

    def claim(self, acquired: str | None, transitions: int) -> LeaseTree:
        """A lease that is ours as of now."""
        now = micro_time(self.election.clock.now())
        return {
            "holderIdentity": self.election.identity,
            "leaseDurationSeconds": math.ceil(self.election.terms.lease),
            "acquireTime": acquired or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def create(self, kube: Kube) -> bool:
        """Make the lease; whether nobody else was faster."""
        election = self.election
        tree = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": election.name, "namespace": election.namespace},
            "spec": self.claim(None, 0),
        }
        try:
            self.observe(await kube.create(LEASES, msgspec.json.encode(tree), election.namespace))
        except ExistsError:
            return False
        return True

    async def write(self, kube: Kube, spec: LeaseTree) -> None:
        """Change the lease if it is still the one that we have seen."""
        election = self.election
        tree = {"metadata": {"resourceVersion": self.seen.metadata.resource_version}, "spec": spec}
        body = msgspec.json.encode(tree)
        self.observe(await kube.patch(LEASES, election.name, body, election.namespace, how=Patch.MERGE))

    def observe(self, raw: bytes) -> None:
        """Take in how the lease is; what changed, changed now."""
        found = LEASE.decode(raw)
        if found != self.seen:
            self.seen, self.seen_at = found, uptime()

    async def let_go(self, kube: Kube) -> None:
        """Leave the lease to whoever comes first."""
        now = micro_time(self.election.clock.now())
        empty: LeaseTree = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        try:
            async with timeout(RELEASE_SECONDS):
                await self.write(kube, empty)
        except (KubeError, TimeoutError) as error:
            LOG.warning("the lease could not be let go, and expires by itself: %s", str(error) or "no answer in time")


class Fenced:
    """A Kubernetes API that takes writes only from a leader."""

    def __init__(self, kube: Kube, election: Leadership) -> None:
        self.kube = kube
        self.election = election
        self.closing: asyncio.Task[None] | None = None
        election.at_loss(self.cut)

    def cut(self) -> None:
        """Close all connections, so that nothing is sent that waits to be."""
        self.closing = asyncio.get_running_loop().create_task(self.kube.close())

    def check(self, verb: str, resource: Resource, namespace: str, name: str) -> None:
        """Refuse to go on when this process does not lead."""
        if not self.election.leading:
            what = f"{verb} {resource} {namespace}/{name}" if namespace else f"{verb} {resource} {name}"
            raise NotLeadingError(what, 0, "NotLeading", "nothing was sent: this process does not lead")

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        """An object."""
        return await self.kube.get(resource, name, namespace)

    def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """A list, as the list objects of its pages."""
        return self.kube.pages(resource, namespace, labels=labels, fields=fields)

    def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        """Events after a version."""
        return self.kube.watch(resource, namespace, version=version, labels=labels, fields=fields)

    async def create(self, resource: Resource, body: bytes, namespace: str = "") -> bytes:
        """The object that was created."""
        self.check("create", resource, namespace, "")
        return await self.kube.create(resource, body, namespace)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str = "",
        *,
        how: Patch,
        subresource: str = "",
        manager: str = "",
    ) -> bytes:
        """The object as it is after a patch."""
        self.check("patch", resource, namespace, name)
        return await self.kube.patch(resource, name, body, namespace, how=how, subresource=subresource, manager=manager)

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str = "") -> bytes:
        """The object as it is after it was replaced."""
        self.check("replace", resource, namespace, name)
        return await self.kube.replace(resource, name, body, namespace)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
        uid: str = "",
        version: str = "",
        grace: int | None = None,
    ) -> None:
        """Have an object deleted."""
        self.check("delete", resource, namespace, name)
        await self.kube.delete(
            resource, name, namespace, propagation=propagation, uid=uid, version=version, grace=grace
        )

    async def close(self) -> None:
        """Let go of all connections."""
        await self.kube.close()
