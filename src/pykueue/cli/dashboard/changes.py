"""What changed in the last hour: jobs that were submitted, started, were stopped or ended. Pure."""

from collections.abc import Iterable, Iterator
from heapq import nlargest
from typing import Final, Literal

from pykueue.api.jobsummary import FinishedJob, JobState, JobSummary
from pykueue.base.struct import Wire
from pykueue.base.units import MICROS, Instant, format_instant, parse_instant
from pykueue.bridge.sentences import BY_OWNER
from pykueue.controllers.jobsummaries import PROCESSES

HOUR_MICROS: Final = 60 * 60 * MICROS
CHANGES_MAX: Final = 200
WAITS: Final = frozenset({JobState.PENDING, JobState.HELD})
RUNS: Final = frozenset({JobState.RUNNING, JobState.FAILING})

PREEMPTED: Final = "preempted for "
"""How the reason of a job begins that was preempted."""

What = Literal["started", "finished", "failed", "preempted", "evicted", "held", "submitted", "cancelled"]
ENDS: Final[dict[JobState, What]] = {
    JobState.COMPLETED: "finished",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}


class Occurrence(Wire, omit_defaults=False):
    """Something that happened to a job."""

    at: str
    kind: What
    job: str
    namespace: str
    queue: str
    text: str = ""


def of_row(row: JobSummary, what: What, at: str, text: str = "") -> Occurrence:
    """Something that happened to a job that is listed."""
    return Occurrence(at, what, row.name, row.namespace, row.queue, text)


def of_end(end: FinishedJob) -> Occurrence:
    """The end of a job."""
    said = end.reason
    if not said and end.state is JobState.COMPLETED:
        said = f"ran for {end.ran_seconds} s" if end.started else ""
    return Occurrence(end.ended, ENDS.get(end.state, "finished"), end.name, end.namespace, end.queue, said)


def of_past(end: FinishedJob, what: Literal["submitted", "started"], at: str) -> Occurrence:
    """Something that happened to a job before it ended."""
    said = f"by {end.owner}" if what == "submitted" and end.owner else ""
    return Occurrence(at, what, end.name, end.namespace, end.queue, said)


def between(before: JobSummary | None, after: JobSummary, now: str) -> Iterator[Occurrence]:
    """What happened to a job, by its rows before and after."""
    if before is None or before.submitted != after.submitted:
        yield from at_first(after, "")
    elif before.state in WAITS and after.state in RUNS:
        yield of_row(after, "started", after.since or now)
    elif before.state in RUNS | {JobState.STOPPING}:
        if after.state in WAITS:
            yield stopped(before, after, after.since or now)
        elif after.state in RUNS and before.since and after.since > before.since:
            # It waited for less time than passes between two lists.
            yield stopped(before, after, before.since if before.state is JobState.STOPPING else after.since)
            yield of_row(after, "started", after.since)


def stopped(before: JobSummary, after: JobSummary, at: str) -> Occurrence:
    """That a job that ran was stopped without having ended, and why if one of its rows says so."""
    if after.state is JobState.HELD:
        return of_row(after, "held", at, "by its owner" if after.reason == BY_OWNER["hold"] else after.reason)
    known = before.reason if before.state is JobState.STOPPING and before.reason != PROCESSES else ""
    # Its reason may name the preemptor, but is soon that it waits for quota.
    why = next((one for one in (known, after.reason, after.evicted) if one.startswith(PREEMPTED)), known)
    return evicted(after, at, why or after.evicted)


def evicted(row: JobSummary, at: str, why: str) -> Occurrence:
    """That the run of a job was stopped, and why."""
    return of_row(row, "preempted" if why.startswith(PREEMPTED) else "evicted", at, why)


def at_first(row: JobSummary, since: str) -> Iterator[Occurrence]:
    """What is known of a job that is seen for the first time, since a time."""
    if row.submitted >= since:
        yield of_row(row, "submitted", row.submitted, row.owner and f"by {row.owner}")
    if row.state in RUNS and row.since >= since:
        yield of_row(row, "started", row.since)
    if row.state is JobState.PENDING and row.evicted and row.since >= since:
        yield evicted(row, row.since, row.reason if row.reason.startswith(PREEMPTED) else row.evicted)


class Changes:
    """The last occurrences of the last hour."""

    def __init__(self) -> None:
        self.kept: list[Occurrence] = []
        """The newest first."""

    def add(self, occurrences: Iterable[Occurrence]) -> None:
        """Add occurrences, in any order."""
        merged = dict.fromkeys((*occurrences, *self.kept))
        self.kept = nlargest(CHANGES_MAX, merged, key=lambda one: one.at)

    def add_ends(self, ends: Iterable[FinishedJob]) -> None:
        """Add the ends of jobs, and what happened to those before that were not seen while they ran."""
        seen: dict[tuple[str, str, str], str] = {}
        for one in self.kept:
            seen.setdefault((one.namespace, one.job, one.kind), one.at)
        found: list[Occurrence] = []
        for end in ends:
            found.append(of_end(end))
            past: tuple[tuple[Literal["submitted", "started"], str], ...]
            past = (("submitted", end.submitted), ("started", end.started))
            for what, at in past:
                if at and seen.get((end.namespace, end.name, what), "") < end.submitted:
                    found.append(of_past(end, what, at))
        self.add(found)

    def shown(self, now: Instant) -> list[Occurrence]:
        """Those of the last hour, the newest first."""
        return [one for one in self.kept if is_recent(one.at, now)]


def hour_before(now: Instant) -> str:
    """An hour ago."""
    return format_instant(Instant(now - HOUR_MICROS))


def is_recent(at: str, now: Instant) -> bool:
    """Whether a time is within the last hour."""
    try:
        return now - parse_instant(at) < HOUR_MICROS
    except ValueError:
        return False
