"""A report as one JSON object; `docs/simulate.md` describes its fields."""

from typing import Final

from pykueue.api.core import Json
from pykueue.base.units import MICROS, Instant, amount_text, format_instant
from pykueue.sim.report import JobRow, Line, QueueRow, Report, UseRow, WaitingRow

SCHEMA: Final = "pykueue.io/simulation/v1"


def as_json(found: Report) -> dict[str, Json]:
    """The report as one JSON object."""
    return {
        "schema": SCHEMA,
        "start": format_instant(found.start),
        "events": [event_json(one, found.start) for one in found.lines],
        "summary": {
            "end": format_instant(found.end),
            "seconds": seconds(found.end - found.start),
            "ended": found.ended.value,
            "queues": [queue_json(one) for one in found.queues],
            "use": [use_json(one) for one in found.use],
            "waiting": [waiting_json(one, found.start) for one in found.waiting],
            "notes": list(found.notes),
            "jobs": [job_json(one, found.start) for one in found.jobs],
        },
    }


def seconds(micros: int) -> float:
    """Microseconds as seconds."""
    return micros / MICROS


def event_json(one: Line, start: Instant) -> dict[str, Json]:
    """One event."""
    return {
        "at": format_instant(one.at),
        "seconds": seconds(one.at - start),
        "workload": one.workload,
        "name": one.name,
        "queue": one.queue,
        "what": one.what.value,
        "why": one.why,
        "helps": list(one.helps),
        "reason": one.reason,
        "message": one.message,
        "by": one.by,
    }


def queue_json(one: QueueRow) -> dict[str, Json]:
    """One ClusterQueue."""
    wait = one.wait
    return {
        "queue": one.queue,
        "workloads": one.workloads,
        "admissions": one.admissions,
        "finished": one.finished,
        "wait_seconds": None
        if wait is None
        else {
            "mean": seconds(wait.mean),
            "p50": seconds(wait.p50),
            "p90": seconds(wait.p90),
            "p95": seconds(wait.p95),
            "p99": seconds(wait.p99),
            "max": seconds(wait.longest),
        },
        "waited_seconds": seconds(one.waited),
        "preempts": one.preempts,
        "preempted": one.preempted,
        "evicted": one.evicted,
    }


def use_json(one: UseRow) -> dict[str, Json]:
    """One quota."""
    share = one.tenths_of_percent
    return {
        "queue": one.queue,
        "flavor": one.flavor,
        "resource": one.resource,
        "nominal": amount_text(one.resource, one.nominal),
        "used_percent": None if share is None else share / 10,
        "peak": amount_text(one.resource, one.peak),
    }


def job_json(one: JobRow, start: Instant) -> dict[str, Json]:
    """One workload, from its arrival to its end."""
    return {
        "workload": one.workload,
        "name": one.name,
        "queue": one.queue,
        "arrived_seconds": seconds(one.arrived - start),
        "started_seconds": None if one.started is None else seconds(one.started - start),
        "finished_seconds": None if one.finished is None else seconds(one.finished - start),
        "waited_seconds": seconds(one.waited),
        "evictions": one.evictions,
    }


def waiting_json(one: WaitingRow, start: Instant) -> dict[str, Json]:
    """One workload that has not finished."""
    return {
        "workload": one.workload,
        "name": one.name,
        "queue": one.queue,
        "since_seconds": seconds(one.since - start),
        "state": one.state,
        "why": one.why,
        "helps": list(one.helps),
    }
