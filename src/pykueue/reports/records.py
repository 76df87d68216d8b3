"""What a report is made of: jobs, what they held and when, quotas, and where all that comes from. Next: `figures`."""

from collections.abc import Mapping
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant

NO_QUEUE: Final = "(none)"
"""The queue of jobs that name none."""


class Period(Frozen):
    """The time that a report is about."""

    begin: Instant
    end: Instant

    @property
    def length(self) -> int:
        """Microseconds, at least 1."""
        return max(1, self.end - self.begin)


class Holding(Frozen):
    """Quota that a job held for a while; amounts are thousandths of cpu, bytes, or whole units."""

    queue: str
    flavor: str
    resource: str
    amount: int
    begin: Instant
    end: Instant


class Quota(Frozen):
    """The nominal quota of a queue from an instant on."""

    queue: str
    """Or the name of the Cohort that owns it itself."""
    flavor: str
    resource: str
    nominal: int
    since: Instant = Instant(0)
    of_cohort: bool = False


class Run(Frozen):
    """One run of a job."""

    begin: Instant
    end: Instant
    evicted: bool = False
    lost: bool = False
    """Whether its progress was lost; one that was evicted may have saved it."""


class Job(Frozen):
    """One job within the period."""

    name: str
    queue: str
    """Its ClusterQueue, or its LocalQueue where that is all that is known."""
    submitted: Instant
    waited: int
    """Microseconds without quota, also after evictions."""
    state: str
    """How it stands, for people: `completed`, `waiting`."""
    started: Instant | None = None
    ended: Instant | None = None
    reason: str = ""
    """Why it waited."""
    preempted: int = 0
    lost: int = 0
    """Microseconds of runs that were evicted."""
    requests: Mapping[str, int] = {}
    """What its runs held, by resource."""
    runs: tuple[Run, ...] = ()
    waits: tuple[tuple[Instant, Instant], ...] = ()
    """When it waited, as far as that is known."""
    pending: bool = False
    """Whether it waits at the end of the period."""
    running: bool = False
    """Whether it runs at the end of the period."""


class Calibration(Frozen):
    """How many estimates of start times were right."""

    estimates: int
    right: int


class Others(Frozen):
    """What a queue holds besides the jobs that the reader may see: numbers, no names."""

    queue: str
    running: int
    pending: int


class Material(Frozen):
    """Everything that a report is made of."""

    title: str
    period: Period
    asked_since: Instant
    """Where the period was to begin; it begins later if earlier jobs are not known."""
    source: str
    """Where the figures come from, in a sentence."""
    jobs: tuple[Job, ...] = ()
    holdings: tuple[Holding, ...] = ()
    quotas: tuple[Quota, ...] = ()
    notes: tuple[str, ...] = ()
    """What is left out, and why."""
    others: tuple[Others, ...] = ()
    calibration: Calibration | None = None
    elapsed: bool = False
    """Whether times are counted from the beginning, as in a simulation, rather than those of a clock."""
    offset: int = 0
    """Seconds by which the reader's clock is ahead of UTC."""
