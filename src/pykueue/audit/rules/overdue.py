"""Report states that are allowed for a while once they have lasted too long."""

from collections.abc import Iterable, Iterator

from pykueue.audit.times import MICROS, Instant
from pykueue.audit.uptime import Uptime
from pykueue.audit.world import Finding, World
from pykueue.base.struct import Frozen


class Violation(Frozen):
    """A state that is allowed only for a short time."""

    rule: str
    about: str
    message: str


class Overdue:
    """Records since when such states have lasted, and reports each once."""

    def __init__(self, uptime: Uptime, seconds: int) -> None:
        self.uptime, self.seconds = uptime, seconds
        self.since: dict[Violation, Instant] = {}
        self.reported: set[Violation] = set()
        """What was reported, until it is no longer true."""

    def look(self, violations: Iterable[Violation], at: Instant, world: World) -> Iterator[Finding]:
        """The present states that have lasted too long."""
        self.since = {wrong: self.since.get(wrong, at) for wrong in violations}
        self.reported &= self.since.keys()
        for wrong, since in self.since.items():
            if self.uptime.waited(since, at) <= self.seconds * MICROS or wrong in self.reported:
                continue
            self.reported.add(wrong)
            message = f"{wrong.message}, for {(at - since) // MICROS} s"
            yield Finding(wrong.rule, wrong.about, message, world.version, at)
