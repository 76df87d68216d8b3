"""Measure waiting only while a manager has been running without interruption."""

from pykueue.audit.times import MICROS, Instant, parse_instant
from pykueue.audit.views import Lease
from pykueue.audit.world import Change, Settings

EVER: Instant = -(2**62)
LEASE_SECONDS = 15


class Uptime:
    """Since when the manager has been running, by its Lease, and without a pause of ours."""

    def __init__(self, settings: Settings) -> None:
        self.lease = settings.lease
        self.since: Instant | None = None if settings.lease else EVER
        self.paused = False
        self.holder = ""
        self.renewed_at = EVER
        self.lasts_micros = LEASE_SECONDS * MICROS
        self.watched_since = EVER
        """Since when we have watched without interruption."""
        self.ahead_micros = 0
        """How far the manager's clock is ahead of ours, by the last renewal that we saw; late arrival makes it less."""

    @property
    def notice_micros(self) -> int:
        """How long a manager may be dead before its Lease shows it."""
        return self.lasts_micros if self.lease else 0

    def seen(self, change: Change) -> None:
        """Take in a change, which may be one of the Lease."""
        both = change.of(Lease)
        if not self.lease or both is None or change.key != self.lease:
            return
        holder = (both[1].spec.holder_identity or "") if both[1] is not None else ""
        self.lasts_micros = (
            (both[1].spec.lease_duration_seconds or LEASE_SECONDS) * MICROS if both[1] is not None else 0
        )
        broken = holder != self.holder or change.at - self.renewed_at > self.lasts_micros
        self.holder, self.renewed_at = holder, change.at
        renewed = both[1].spec.renew_time if both[1] is not None else None
        if renewed and not change.listed:
            self.ahead_micros = parse_instant(renewed) - change.at
        if not holder or self.paused:
            self.since = None
        elif broken or self.since is None:
            self.since = change.at

    def latest(self, at: Instant) -> Instant:
        """The time by the clock of the manager or ours, whichever is ahead."""
        return at + max(0, self.ahead_micros)

    def earliest(self, at: Instant) -> Instant:
        """The time by the clock of the manager or ours, whichever is behind."""
        return at + min(0, self.ahead_micros)

    def pause(self) -> None:
        """Stop counting time: an outside disturbance keeps the manager from working."""
        self.paused, self.since = True, None

    def resume(self, at: Instant) -> None:
        """Start counting time again from now."""
        self.paused = False
        self.since = at if not self.lease or self.holder else None

    def interrupted(self, at: Instant) -> None:
        """Restart the count: for a while we could not watch."""
        self.watched_since = at
        if self.since is not None:
            self.since = at

    def waited(self, start: Instant, at: Instant) -> int:
        """For how many microseconds of the wait from `start` to `at` a manager has certainly been running."""
        if not self.running(at) or self.since is None:
            return 0
        # After its last renewal it may have died, which its Lease shows only when that has expired.
        return max(0, (min(at, self.renewed_at) if self.lease else at) - max(start, self.since))

    def running(self, at: Instant) -> bool:
        """Whether a manager is running, as far as its Lease shows."""
        if self.lease and at - self.renewed_at > self.lasts_micros:
            self.since = None
        return self.since is not None and not self.paused

    def steady(self, start: Instant, at: Instant) -> bool:
        """Whether one manager has been running all the time from `start` to `at`, as far as its Lease shows."""
        return self.running(at) and self.since is not None and self.since <= start
