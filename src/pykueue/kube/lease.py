"""Leader election among replicas by a Lease, as in client-go.

The lease is renewed on a thread of its own, with a loop and connections of its own, so that a busy main loop cannot
lose it. Leadership ends by CLOCK_BOOTTIME, well before another replica may take the lease: a machine that resumes from
a suspend does not assume that it still leads.
"""

import asyncio
import contextlib
import logging
import math
import random
import threading
from collections.abc import Callable
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
    Patch,
)

LOG: Final = logging.getLogger(__name__)

STANDBY_SECONDS: Final = 1.0
"""How often at least a standby replica reads the lease, so that a released one is taken within 2 s."""
RELEASE_SECONDS: Final = 1.0
"""How long a release may take."""
RELEASED: Final = "released"

LeaseTree = dict[str, str | int]


class LeaseSpec(Wire):
    """The holder of a lease, and its times."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMeta(Wire):
    """The version of a lease."""

    resource_version: str = ""


class Lease(Wire):
    """A lease."""

    metadata: LeaseMeta = LeaseMeta()
    spec: LeaseSpec | None = None


class Terms(Frozen):
    """The durations of an election, in seconds."""

    lease: float
    renew: float
    retry: float

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew < self.lease:
            raise ValueError(
                "leaderElection: an election needs 0 < retryPeriod < renewDeadline < leaseDuration; they are "
                f"{self.retry}, {self.renew} and {self.lease} seconds"
            )


LEASE: Final = msgspec.json.Decoder(Lease)


class WentBackError(Exception):
    """The lease has an earlier version than before: the store of the API server was restored from a backup."""


class Leadership(Protocol):
    """Whether this process may write."""

    @property
    def leading(self) -> bool:
        """Whether it leads at this moment; safe to call from any thread."""

    def at_loss(self, cut: Callable[[], None]) -> None:
        """Call a function on the election's loop as soon as the lease is lost."""

    async def run(self, started: Callable[[], None], stopped: Callable[[str], None]) -> None:
        """Take part in the election, lead, and return when that ends; both functions run on the caller's loop."""

    async def release(self) -> None:
        """Release the lease, so that another replica may lead at once; `run` then returns."""


class Always:
    """Leads from start to end, because election is off."""

    def __init__(self) -> None:
        self.leading = False
        self.over = asyncio.Event()

    def at_loss(self, cut: Callable[[], None]) -> None:
        """Do nothing: this leadership cannot be lost."""

    async def run(self, started: Callable[[], None], stopped: Callable[[str], None]) -> None:
        """Lead until released."""
        self.leading = not self.over.is_set()
        try:
            if self.leading:
                started()
            await self.over.wait()
        finally:
            self.leading = False
        stopped(RELEASED)

    async def release(self) -> None:
        """Stop leading."""
        self.leading = False
        self.over.set()


class Election:
    """Takes part in an election; it ends when leadership is lost.

    `connect` is called on the election's own thread, and its result is used and closed only there.
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
        """Whether this process leads at this moment; safe to call from any thread."""
        return self.thread is not None and self.thread.leading

    def at_loss(self, cut: Callable[[], None]) -> None:
        """Call a function on the election's loop as soon as the lease is lost."""
        self.cuts.append(cut)

    async def run(self, started: Callable[[], None], stopped: Callable[[str], None]) -> None:
        """Take part in the election, lead, and return when that ends; both functions run on the caller's loop."""
        if self.released:
            return
        loop = asyncio.get_running_loop()
        campaign = self.thread = Campaign(self, loop, started)
        campaign.start()
        try:
            reason = await asyncio.shield(campaign.outcome)
        finally:
            # Even if cancelled, release the lease if it is ours, and end the thread.
            await campaign.end()
        if campaign.led:
            stopped(reason)

    async def release(self) -> None:
        """Release the lease, so that another replica may lead at once; `run` then returns."""
        self.released = True
        if self.thread is not None:
            await self.thread.end()


class Campaign(threading.Thread):
    """The thread that takes and renews the lease."""

    def __init__(self, election: Election, caller: asyncio.AbstractEventLoop, started: Callable[[], None]) -> None:
        super().__init__(name="election", daemon=True)
        self.election = election
        self.caller = caller
        self.started = started
        self.outcome: asyncio.Future[str] = caller.create_future()
        """Why it ended; a future of the caller's loop."""
        self.loop = asyncio.SelectorEventLoop()
        self.letting_go = asyncio.Event()
        self.until = 0.0
        """Until when we lead, by `uptime`."""
        self.led = False
        self.seen = Lease()
        self.seen_at = 0.0
        """When the lease was last seen to change."""

    @property
    def leading(self) -> bool:
        """Whether we lead at this moment."""
        return uptime() < self.until

    async def end(self) -> None:
        """Release the lease; return when the thread has ended, or after a short time."""
        self.until = 0.0
        if not self.outcome.done():
            self.loop.call_soon_threadsafe(self.letting_go.set)
            await waited({self.outcome}, RELEASE_SECONDS)

    def run(self) -> None:
        """The thread's main function."""
        reason = "internal error in the election; see the log"
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                reason = runner.run(self.campaign())
        except WentBackError as error:
            reason = str(error)
            LOG.error("election: stopped taking part identity=%s reason=%s", self.election.identity, reason)
        except Exception:
            LOG.exception("election: failed")
        finally:
            self.until = 0.0
            self.tell(lambda: None if self.outcome.done() else self.outcome.set_result(reason))

    def tell(self, what: Callable[[], None]) -> None:
        """Call a function on the caller's loop, if that still runs."""
        with contextlib.suppress(RuntimeError):
            self.caller.call_soon_threadsafe(what)

    async def campaign(self) -> str:
        """Take the lease, keep it as long as possible, release it; returns why it ended."""
        kube = self.election.connect()
        try:
            while not await self.attempt(kube, self.election.terms.renew):
                if await self.rest(min(self.election.terms.retry, STANDBY_SECONDS)):
                    return RELEASED
            self.led = True
            election = self.election
            LOG.info("election: leading identity=%s lease=%s/%s", election.identity, election.namespace, election.name)
            self.tell(self.started)
            reason = await self.keep(kube)
            self.until = 0.0
            LOG.info("election: stopped leading identity=%s reason=%s", self.election.identity, reason)
            if reason == RELEASED:
                await self.let_go(kube)
            else:
                for cut in self.election.cuts:
                    self.tell(cut)
            return reason
        finally:
            await kube.close()

    async def keep(self, kube: Kube) -> str:
        """Renew the lease until that fails for too long or it is released; returns why."""
        while not await self.rest(min(self.election.terms.retry, max(0.0, self.until - uptime()))):
            left = self.until - uptime()
            if left <= 0:
                return f"the lease could not be renewed within {self.election.terms.renew:g} s"
            try:
                renewed = await self.attempt(kube, left)
            except WentBackError as error:
                return str(error)
            if not renewed and self.holder() != self.election.identity:
                return f"the lease is held by {self.holder() or 'nobody'}"
        return RELEASED

    def holder(self) -> str:
        """The holder of the lease, as last seen."""
        return (self.seen.spec or LeaseSpec()).holder_identity or ""

    async def rest(self, seconds: float) -> bool:
        """Sleep; returns whether the lease is to be released."""
        try:
            async with timeout(seconds * (0.9 + self.election.rng() / 10)):
                await self.letting_go.wait()
        except TimeoutError:
            return False
        return True

    async def attempt(self, kube: Kube, seconds: float) -> bool:
        """Try once to take or renew the lease within this time; returns whether it is ours."""
        began = uptime()
        try:
            async with timeout(seconds):
                ours = await self.take(kube)
        except (KubeError, TimeoutError) as error:
            LOG.warning("election: cannot take or renew the lease error=%s", str(error) or "no response in time")
            return False
        if ours:
            # Counted from before the request, while others count from after it.
            self.until = 0.0 if self.letting_go.is_set() else began + self.election.terms.renew
        return ours

    async def take(self, kube: Kube) -> bool:
        """Take or renew the lease if it is free or ours; returns whether it is ours."""
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
                # Another replica was faster, or an earlier write of ours succeeded although its response was lost.
                self.observe(await kube.get(LEASES, election.name, election.namespace))
            else:
                return True
        return False

    def claim(self, acquired: str | None, transitions: int) -> LeaseTree:
        """A lease that is ours from now."""
        now = micro_time(self.election.clock.now())
        return {
            "holderIdentity": self.election.identity,
            "leaseDurationSeconds": math.ceil(self.election.terms.lease),
            "acquireTime": acquired or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def create(self, kube: Kube) -> bool:
        """Create the lease; returns whether no other replica was faster."""
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
        """Write the lease if it is still the version that was seen."""
        election = self.election
        tree = {"metadata": {"resourceVersion": self.seen.metadata.resource_version}, "spec": spec}
        body = msgspec.json.encode(tree)
        self.observe(await kube.patch(LEASES, election.name, body, election.namespace, how=Patch.MERGE))

    def observe(self, raw: bytes) -> None:
        """Record the state of the lease, and the time if it changed.

        Raises `WentBackError` if the version is earlier than before: everything that this process has cached may then
        be of a time that the store has forgotten, and only a restart reads all of it again.
        """
        found = LEASE.decode(raw)
        before, now = (int(one.metadata.resource_version or 0) for one in (self.seen, found))
        if now < before:
            raise WentBackError(
                f"the lease went back from version {before} to {now}, as after a restore of etcd from a backup; "
                "this process exits, and must be restarted to read everything again"
            )
        if found != self.seen:
            self.seen, self.seen_at = found, uptime()

    async def let_go(self, kube: Kube) -> None:
        """Release the lease."""
        now = micro_time(self.election.clock.now())
        empty: LeaseTree = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        try:
            async with timeout(RELEASE_SECONDS):
                await self.write(kube, empty)
        except (KubeError, TimeoutError) as error:
            LOG.warning("election: cannot release the lease error=%s", str(error) or "no response in time")
