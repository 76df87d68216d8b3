"""Is there a manager at all? Waiting is counted only while one has been at work without a break."""

from pykueue.audit.views import Lease
from pykueue.audit.world import Change, Settings
from pykueue.base.units import MICROS, Instant

EVER = Instant(-(2**62))
LEASE_SECONDS = 15


class Uptime:
    """Since when the manager has been at work, as its Lease shows, and nobody has asked us to look away."""

    def __init__(self, settings: Settings) -> None:
        self.lease = settings.lease
        self.since: Instant | None = None if settings.lease else EVER
        self.paused = False
        self.holder = ""
        self.heard = EVER
        self.lasts_micros = LEASE_SECONDS * MICROS

    def seen(self, change: Change) -> None:
        """Take in a change, which may be one of the Lease."""
        both = change.of(Lease)
        if not self.lease or both is None or change.key != self.lease:
            return
        holder = (both[1].spec.holder_identity or "") if both[1] is not None else ""
        self.lasts_micros = (
            (both[1].spec.lease_duration_seconds or LEASE_SECONDS) * MICROS if both[1] is not None else 0
        )
        broken = holder != self.holder or change.at - self.heard > self.lasts_micros
        self.holder, self.heard = holder, change.at
        if not holder or self.paused:
            self.since = None
        elif broken or self.since is None:
            self.since = change.at

    def pause(self) -> None:
        """Count no time from now on: something else is out of order that keeps the manager from its work."""
        self.paused, self.since = True, None

    def resume(self, at: Instant) -> None:
        """Count time again, from now."""
        self.paused = False
        self.since = at if not self.lease or self.holder else None

    def interrupted(self, at: Instant) -> None:
        """Begin to count anew: for a while we could not see what was going on."""
        if self.since is not None:
            self.since = at

    def waited(self, start: Instant, at: Instant) -> int:
        """For how many microseconds a manager has been at work while something waited from `start` until `at`."""
        if self.since is None or self.paused:
            return 0
        if self.lease and at - self.heard > self.lasts_micros:
            self.since = None
            return 0
        return max(0, at - max(start, self.since))
