"""The auditor: receives every change of the cluster's objects in order, and reports violations.

It shares nothing with the manager except the wire types. `follow` feeds it from an API server, `history` from a file.
"""

from collections.abc import Iterator
from typing import Protocol

from pykueue.audit.rules.capacity import Capacity
from pykueue.audit.rules.conditions import Conditions
from pykueue.audit.rules.covered import Covered
from pykueue.audit.rules.fairshare import FairShare
from pykueue.audit.rules.losses import Losses
from pykueue.audit.rules.order import Order
from pykueue.audit.rules.overuse import Overuse
from pykueue.audit.rules.preemption import Preemption
from pykueue.audit.rules.reruns import Reruns
from pykueue.audit.rules.starts import Starts
from pykueue.audit.rules.stuck import Stuck
from pykueue.audit.rules.tournament import Tournament
from pykueue.audit.rules.undone import Undone
from pykueue.audit.times import MICROS, Instant
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import Event
from pykueue.audit.world import Change, Finding, Settings, World

LOOK_MICROS = MICROS
"""How often to check for what takes too long."""


class Rule(Protocol):
    """An invariant of the cluster."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Violations by this change, in the world after it."""

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """What has taken too long."""


class Auditor:
    """All findings, in order."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.findings: list[Finding] = []
        self.events = 0
        self.uptime = Uptime(self.settings)
        self.looked: Instant = 0
        self.world = World()
        overuse = Overuse(self.settings)
        preemption = Preemption(self.settings, self.uptime, overuse)
        order = Order(self.settings, self.uptime, overuse, preemption)
        self.rules: tuple[Rule, ...] = (
            overuse,
            Conditions(self.settings, self.uptime),
            # These come before the preemptions, which forget a preemptor as soon as it has quota.
            order,
            Tournament(self.settings, self.uptime, overuse, preemption, order),
            # The shares are judged before the preemptions forget a case.
            FairShare(self.settings, self.uptime, overuse, preemption),
            preemption,
            Starts(self.settings, self.uptime),
            Covered(self.settings),
            Losses(self.settings, self.uptime),
            Stuck(self.settings, self.uptime, overuse),
            Reruns(),
            Undone(self.settings, self.uptime),
            Capacity(self.settings, self.uptime),
        )

    def observe(self, event: Event) -> list[Finding]:
        """Apply an event and return its findings. Events come in the order of their versions."""
        self.events += 1
        change = self.world.take(event)
        self.uptime.seen(change)
        found = [finding for rule in self.rules for finding in rule.seen(change, self.world)]
        self.findings += found
        return found + (self.tick(event.at) if event.at - self.looked >= LOOK_MICROS else [])

    def tick(self, at: Instant) -> list[Finding]:
        """Findings about what takes too long by now."""
        self.looked = at
        found = [finding for rule in self.rules for finding in rule.late(at, self.world)]
        self.findings += found
        return found
