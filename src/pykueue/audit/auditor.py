"""Is all well? The auditor is told every change of the cluster's objects, in order, and says what must not be.

It shares nothing with the manager but the wire types. `follow` feeds it from an API server, `history` from a file.
"""

from collections.abc import Iterator
from typing import Protocol

from pykueue.audit.capacity import Capacity
from pykueue.audit.conditions import Conditions
from pykueue.audit.covered import Covered
from pykueue.audit.losses import Losses
from pykueue.audit.overuse import Overuse
from pykueue.audit.reruns import Reruns
from pykueue.audit.starts import Starts
from pykueue.audit.stuck import Stuck
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import Event
from pykueue.audit.world import Change, Finding, Settings, World
from pykueue.base.units import MICROS, Instant

LOOK_MICROS = MICROS
"""How often to look for what takes too long."""


class Rule(Protocol):
    """Something that must always be so."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """What this change breaks, in the world after it."""

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """What has taken too long."""


class Auditor:
    """Everything that was found wrong, in the order in which it came to light."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.findings: list[Finding] = []
        self.events = 0
        self.uptime = Uptime(self.settings)
        self.looked = Instant(0)
        self.world = World()
        overuse = Overuse(self.settings)
        self.rules: tuple[Rule, ...] = (
            overuse,
            Conditions(self.settings),
            Starts(self.settings, self.uptime),
            Covered(self.settings),
            Losses(self.settings, self.uptime),
            Stuck(self.settings, self.uptime, overuse),
            Reruns(),
            Capacity(self.settings, self.uptime),
        )

    def observe(self, event: Event) -> list[Finding]:
        """What this event brings to light. Events come in the order of their versions."""
        self.events += 1
        change = self.world.take(event)
        self.uptime.seen(change)
        found = [finding for rule in self.rules for finding in rule.seen(change, self.world)]
        self.findings += found
        return found + (self.tick(event.at) if event.at - self.looked >= LOOK_MICROS else [])

    def tick(self, at: Instant) -> list[Finding]:
        """What has come to take too long by now."""
        self.looked = at
        found = [finding for rule in self.rules for finding in rule.late(at, self.world)]
        self.findings += found
        return found
