"""No workload that fits, with nothing ahead of it, stays pending.

Only certain violations are reported: wherever a queueing rule that the auditor does not know might make a workload
wait, the wait counts as justified.
"""

from collections.abc import Iterator
from typing import Final

from pykueue.audit.rules.look import Look
from pykueue.audit.rules.overuse import Overuse
from pykueue.audit.times import MICROS, Instant
from pykueue.audit.uptime import Uptime
from pykueue.audit.world import Change, Finding, Settings, World

RULE: Final = "stuck"


class Stuck:
    """The rule that a workload that would fit does not wait."""

    def __init__(self, settings: Settings, uptime: Uptime, overuse: Overuse) -> None:
        self.settings, self.uptime, self.overuse = settings, uptime, overuse
        self.fits_since: dict[str, Instant] = {}
        """Since when each pending workload, by key, would have fitted without interruption."""
        self.reported: set[str] = set()

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Nothing at once; a workload that no longer fits starts a new wait."""
        if change.kind in ("Workload", "ClusterQueue", "Cohort", "LocalQueue") and self.fits_since:
            look = Look(self.settings, self.overuse, world, change.at, self.uptime)
            self.fits_since = {
                key: since
                for key, since in self.fits_since.items()
                if key in world.workloads and look.would_fit(world.workloads[key])
            }
        yield from ()

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Workloads that would have fitted for too long."""
        look = Look(self.settings, self.overuse, world, at, self.uptime)
        fitting = [key for key, workload in world.workloads.items() if look.would_fit(workload)]
        self.fits_since = {key: self.fits_since.get(key, at) for key in fitting}
        self.reported &= set(fitting)
        for key, since in self.fits_since.items():
            if key in self.reported or self.uptime.waited(since, at) <= self.settings.stuck_seconds * MICROS:
                continue
            self.reported.add(key)
            queue = world.queue_name_of(world.workloads[key])
            message = f"has fit in ClusterQueue {queue} for {(at - since) // MICROS} s but is still pending"
            yield Finding(RULE, f"Workload {key}", message, world.version, at)
