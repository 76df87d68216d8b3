"""What has gone on for too long? Sentences that are true for a while are said once they have been true long enough."""

from collections.abc import Iterable, Iterator

from pykueue.audit.uptime import Uptime
from pykueue.audit.world import Finding, World
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant


class Amiss(Frozen):
    """Something that may be so for a moment, but not for long."""

    rule: str
    about: str
    says: str


class Overdue:
    """Remembers since when things have been amiss, and says each once."""

    def __init__(self, uptime: Uptime, seconds: int) -> None:
        self.uptime, self.seconds = uptime, seconds
        self.since: dict[Amiss, Instant] = {}
        self.told: set[Amiss] = set()
        """What was reported, until it is no longer true."""

    def look(self, amiss: Iterable[Amiss], at: Instant, world: World) -> Iterator[Finding]:
        """What of all that is amiss now has been so for too long."""
        self.since = {wrong: self.since.get(wrong, at) for wrong in amiss}
        self.told &= self.since.keys()
        for wrong, since in self.since.items():
            if self.uptime.waited(since, at) <= self.seconds * MICROS or wrong in self.told:
                continue
            self.told.add(wrong)
            says = f"{wrong.says}, for {(at - since) // MICROS} s"
            yield Finding(wrong.rule, wrong.about, says, world.version, at)
