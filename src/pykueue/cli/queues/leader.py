"""Whether a manager leads on a cluster, by the Lease of its election."""

from typing import Final

import msgspec

from pykueue.api.config.types import DEFAULT_NAMESPACE, LEADER_LEASE
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, Moment, parse_instant
from pykueue.kube.lease import Lease
from pykueue.kube.port import LEASES, Kube, KubeError

SLACK_MICROS: Final = 60 * MICROS
"""How far the clock of this machine may be ahead of the cluster's."""


class Leadership(Frozen):
    """What the Lease of the manager says."""

    holder: str
    renewed: str
    renewed_at: Instant
    micros: int
    """How long it is valid after it was renewed."""

    def is_valid(self, now: Instant) -> bool:
        """Whether a manager leads, by clocks that may differ."""
        return bool(self.holder) and now < self.renewed_at + self.micros + SLACK_MICROS


class LeaderWatch:
    """Reads the Lease again and again: that it is not renewed shows without comparing clocks."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self.kube = kube
        self.clock = clock
        self.seen: tuple[str, Moment] | None = None
        """The last renewal, and when it was seen first."""

    async def note(self) -> str:
        """A note that no manager leads; empty if one does, or the Lease cannot be read."""
        found = await leadership(self.kube)
        if found is None:
            self.seen = None
            return ""
        if self.seen is None or self.seen[0] != found.renewed:
            self.seen = found.renewed, self.clock.moment()
        ended = self.clock.moment() - self.seen[1] > found.micros
        return leaderless(found) if ended or not found.is_valid(self.clock.now()) else ""


async def without_leader(kube: Kube, now: Instant) -> str:
    """A note that no manager leads; empty if one does, or if the Lease is missing or this user may not read it."""
    found = await leadership(kube)
    return "" if found is None or found.is_valid(now) else leaderless(found)


async def leadership(kube: Kube) -> Leadership | None:
    """What the Lease says; None if it is missing, says nothing, or this user may not read it."""
    try:
        spec = msgspec.json.decode(await kube.get(LEASES, LEADER_LEASE, DEFAULT_NAMESPACE), type=Lease).spec
        if spec is None or not spec.renew_time:
            return None
        micros = (spec.lease_duration_seconds or 0) * MICROS
        return Leadership(spec.holder_identity or "", spec.renew_time, parse_instant(spec.renew_time), micros)
    except (KubeError, msgspec.DecodeError, ValueError):
        return None


def leaderless(found: Leadership) -> str:
    """The note that no manager leads."""
    lease = f"{DEFAULT_NAMESPACE}/{LEADER_LEASE}"
    return (
        f"no manager is running: the Lease {lease} was last renewed at {found.renewed}; until one is, jobs are "
        "neither started nor stopped"
    )
