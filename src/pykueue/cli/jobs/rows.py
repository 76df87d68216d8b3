"""How jobs are shown: the columns of `pykueue jobs`, for those that run or wait and for those that have finished."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from pykueue.api.jobsummary import OWN_GROUP, OWN_VERSION, FinishedJob, JobState, JobSummary
from pykueue.api.names import GPU
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.cli.formats import Column
from pykueue.cli.tables import duration, local_time

NONE: Final = "-"
SHORT_NAMES: Final = {"cpu": "cpu", "memory": "mem", GPU: "gpu", "amd.com/gpu": "gpu"}
"""What resources are called in a table."""
COLOURS: Final = {
    JobState.RUNNING: "green",
    JobState.COMPLETED: "green",
    JobState.FAILING: "red",
    JobState.FAILED: "red",
    JobState.HELD: "yellow",
    JobState.STOPPING: "yellow",
    JobState.CANCELLED: "yellow",
}
"""Of states on a terminal."""
ORDER: Final = ("cpu", "memory", GPU, "amd.com/gpu")


def columns(
    rows: Sequence[JobSummary], output: str | None, now: Instant, *, all_namespaces: bool, tasks: bool = False
) -> list[Column[JobSummary]]:
    """The columns of jobs that run or wait; csv has one for each fact, with seconds and timestamps in UTC.

    That of tasks is there if a row has some, or if `tasks` says so.
    """
    if output == "csv":
        return [*CSV]
    wide = output == "wide"
    tasks = tasks or wide or any(row.progress for row in rows)
    return [
        Column("NAME", lambda row: f"{row.namespace}/{row.name}" if all_namespaces else row.name),
        Column("QUEUE", lambda row: row.queue or NONE),
        Column("OWNER", lambda row: row.owner or NONE, drops=True),
        Column("STATE", lambda row: row.state.value, colour=lambda row: COLOURS.get(row.state)),
        *([Column[JobSummary]("TASKS", lambda row: row.progress or NONE, ">")] if tasks else []),
        Column("USES", lambda row: uses(row.requests, row.gpus), shrinks=True),
        Column(
            "SINCE", (lambda row: local_time(row.since) or NONE) if wide else (lambda row: elapsed(row.since, now)), ">"
        ),
        Column("LEFT", lambda row: left(row, now), ">", drops=True),
        Column("PLACE", lambda row: NONE if row.place is None else str(row.place), ">", drops=True),
        Column("REASON", lambda row: (row.message if wide else "") or row.reason or NONE, shrinks=True),
    ]


CSV: Final[tuple[Column[JobSummary], ...]] = (
    Column("NAMESPACE", lambda row: row.namespace),
    Column("NAME", lambda row: row.name),
    Column("QUEUE", lambda row: row.queue),
    Column("OWNER", lambda row: row.owner),
    Column("STATE", lambda row: row.state.value),
    Column("TASKS", lambda row: row.progress),
    Column("USES", lambda row: amounts(row.requests)),
    Column("GPUS", lambda row: " ".join(map(str, row.gpus))),
    Column("SUBMITTED", lambda row: row.submitted),
    Column("SINCE", lambda row: row.since),
    Column("LIMIT_SECONDS", lambda row: "" if row.limit_seconds is None else str(row.limit_seconds)),
    Column("DEADLINE", lambda row: row.deadline),
    Column("PLACE", lambda row: "" if row.place is None else str(row.place)),
    Column("REASON", lambda row: row.message or row.reason),
)


def finished_columns(
    rows: Sequence[FinishedJob], output: str | None, *, all_namespaces: bool
) -> list[Column[FinishedJob]]:
    """The columns of jobs that have finished."""
    if output == "csv":
        return [*FINISHED_CSV]
    wide = output == "wide"
    tasks = wide or any(row.progress for row in rows)
    return [
        Column("NAME", lambda row: f"{row.namespace}/{row.name}" if all_namespaces else row.name),
        Column("QUEUE", lambda row: row.queue or NONE, drops=True),
        Column("OWNER", lambda row: row.owner or NONE, drops=True),
        Column("STATE", lambda row: row.state.value, colour=lambda row: COLOURS.get(row.state)),
        *([Column[FinishedJob]("TASKS", lambda row: row.progress or NONE, ">")] if tasks else []),
        Column("EXIT", lambda row: NONE if row.exit_code is None else str(row.exit_code), ">"),
        Column("USED", lambda row: uses(row.requests), shrinks=True, drops=True),
        Column("SUBMITTED", lambda row: local_time(row.submitted) or NONE, wide=True),
        Column("STARTED", lambda row: local_time(row.started) or NONE, wide=True),
        Column("ENDED", lambda row: local_time(row.ended) or NONE, drops=True),
        Column("WAITED", lambda row: duration(row.waited_seconds * MICROS), ">"),
        Column("RAN", lambda row: duration(row.ran_seconds * MICROS), ">"),
        Column("PREEMPTED", lambda row: str(row.preempted), ">"),
        Column("LOST", lambda row: duration(row.lost_seconds * MICROS), ">"),
        Column("REASON", lambda row: row.message or row.reason or NONE, wide=True),
    ]


FINISHED_CSV: Final[tuple[Column[FinishedJob], ...]] = (
    Column("NAMESPACE", lambda row: row.namespace),
    Column("NAME", lambda row: row.name),
    Column("QUEUE", lambda row: row.queue),
    Column("OWNER", lambda row: row.owner),
    Column("STATE", lambda row: row.state.value),
    Column("TASKS", lambda row: row.progress),
    Column("EXIT_CODE", lambda row: "" if row.exit_code is None else str(row.exit_code)),
    Column("USED", lambda row: amounts(row.requests)),
    Column("SUBMITTED", lambda row: row.submitted),
    Column("STARTED", lambda row: row.started),
    Column("ENDED", lambda row: row.ended),
    Column("WAITED_SECONDS", lambda row: str(row.waited_seconds)),
    Column("RAN_SECONDS", lambda row: str(row.ran_seconds)),
    Column("PREEMPTED", lambda row: str(row.preempted)),
    Column("LOST_SECONDS", lambda row: str(row.lost_seconds)),
    Column("REASON", lambda row: row.reason),
)


def uses(requests: Mapping[str, str], gpus: Sequence[int] = ()) -> str:
    """What a job uses, in a cell: `2 cpu, 4Gi mem, 2 gpu (0,1)`."""
    return used(tuple(requests.items()), tuple(gpus))


@lru_cache(maxsize=1024)
def used(requests: tuple[tuple[str, str], ...], gpus: tuple[int, ...]) -> str:
    """The same from hashable values: many jobs ask for the same."""
    found = dict(requests)
    names = [*(name for name in ORDER if name in found), *sorted(name for name in found if name not in ORDER)]
    shown = ", ".join(f"{found[name]} {SHORT_NAMES.get(name, name)}" for name in names)
    numbers = f" ({','.join(map(str, gpus))})" if gpus else ""
    return f"{shown}{numbers}" or NONE


def amounts(requests: Mapping[str, str]) -> str:
    """What a job uses, for programs: `cpu=2 memory=4Gi`."""
    return " ".join(f"{name}={amount}" for name, amount in requests.items())


def elapsed(since: str, now: Instant) -> str:
    """How long ago a time was."""
    return duration(max(0, now - parse_instant(since))) if since else NONE


def left(row: JobSummary, now: Instant) -> str:
    """How long a job may still run; all of its time if it waits."""
    if row.deadline:
        return duration(max(0, parse_instant(row.deadline) - now))
    return NONE if row.limit_seconds is None else duration(row.limit_seconds * MICROS)


def resource_name(row: JobSummary | FinishedJob) -> str:
    """A job as kubectl names it."""
    return f"job.batch/{row.name}"


def document(kind: str, rows: Sequence[JobSummary] | Sequence[FinishedJob]) -> dict[str, object]:
    """What json and yaml show."""
    return {"kind": kind, "apiVersion": f"{OWN_GROUP}/{OWN_VERSION}", "items": rows}
