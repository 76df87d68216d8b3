"""Counts of our own requests, writes and reconciles, under the names that Go controllers use where there are such."""

from collections.abc import Iterator
from typing import Final

from pykueue.base.timers import WALL
from pykueue.controllers.metrics.exposition import head
from pykueue.controllers.metrics.families import Family, Kind
from pykueue.controllers.metrics.series import Owner, Starts
from pykueue.kube.controller import Controller

RECONCILE_SECONDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
DEPTH: Final = Family("workqueue_depth", Kind.GAUGE, "Keys in the work queue.", ("controller", "name"))
RECONCILES: Final = Family(
    "controller_runtime_reconcile_total", Kind.COUNTER, "Reconciles by result.", ("controller", "result")
)
ERRORS: Final = Family("controller_runtime_reconcile_errors_total", Kind.COUNTER, "Failed reconciles.", ("controller",))
SECONDS: Final = Family(
    "controller_runtime_reconcile_time_seconds",
    Kind.HISTOGRAM,
    "Duration of reconciles.",
    ("controller",),
    RECONCILE_SECONDS,
)
REQUESTS: Final = Family(
    "rest_client_requests_total", Kind.COUNTER, "Responses of the API server.", ("code", "method", "host")
)

WEBHOOKS: Final = Family(
    "controller_runtime_webhook_requests_total",
    Kind.COUNTER,
    "Requests to webhooks by the status of the response.",
    ("webhook", "code"),
)
WEBHOOK_SECONDS: Final = Family(
    "controller_runtime_webhook_latency_seconds",
    Kind.HISTOGRAM,
    "Duration of requests to webhooks.",
    ("webhook",),
    RECONCILE_SECONDS,
)
WRITES: Final = Family(
    "pykueue_api_writes_total",
    Kind.COUNTER,
    "Writes of the controllers by kind, verb and result: `ok`, or the reason for the failure.",
    ("kind", "verb", "result"),
)
EVENTS_DROPPED: Final = Family(
    "pykueue_events_dropped_total",
    Kind.COUNTER,
    "Kubernetes Events that were not written, because the API server refused them or was too slow.",
    (),
)
LEADING: Final = Family(
    "pykueue_leading", Kind.GAUGE, "1 if this replica is the leader and has loaded all objects, otherwise 0.", ()
)

CLOCK_OFFSET: Final = Family(
    "pykueue_clock_offset_seconds", Kind.GAUGE, "How far the wall clock is ahead of the timestamps of this process.", ()
)
CLOCK_STEPS: Final = Family(
    "pykueue_clock_steps_total",
    Kind.COUNTER,
    "Number of times the wall clock was changed since this process started.",
    (),
)
CLOCK_SUSPENDS: Final = Family(
    "pykueue_clock_suspends_total",
    Kind.COUNTER,
    "Number of times the machine was suspended since this process started.",
    (),
)


COUNTED: Final = (RECONCILES, ERRORS, SECONDS, REQUESTS, WEBHOOKS, WEBHOOK_SECONDS, WRITES, EVENTS_DROPPED)
ALL: Final = (DEPTH, *COUNTED, LEADING, CLOCK_OFFSET, CLOCK_STEPS, CLOCK_SUSPENDS)
"""Every family of this module."""


class SelfMetrics:
    """Counters of this process."""

    def __init__(self) -> None:
        self.controllers: list[Controller] = []
        self.counts = Owner()
        self.starts = Starts()

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        """Count a reconcile: `success`, `requeue_after` or `error`."""
        self.counts.count(RECONCILES, (controller, result))
        if result == "error":
            self.counts.count(ERRORS, (controller,))
        self.counts.observe(SECONDS, (controller,), seconds)

    def requested(self, code: str, method: str, host: str) -> None:
        """Count a response of the API server."""
        self.counts.count(REQUESTS, (code, method, host))

    def reviewed(self, webhook: str, code: int, seconds: float) -> None:
        """Count a request to a webhook, which is named by its path."""
        self.counts.count(WEBHOOKS, (webhook, str(code)))
        self.counts.observe(WEBHOOK_SECONDS, (webhook,), seconds)

    def wrote(self, kind: str, verb: str, result: str) -> None:
        """Count a write of the controllers."""
        self.counts.count(WRITES, (kind, verb, result))

    def event_dropped(self) -> None:
        """Count a Kubernetes Event that was not written."""
        self.counts.count(EVENTS_DROPPED, ())

    def write(self, leads: bool, lines: list[str]) -> Iterator[None]:
        """Add the families with their series, in steps."""
        lines.append(head(DEPTH.name, DEPTH.kind.value, DEPTH.help))
        depths = [((one.name, one.name), len(one.queue.ready)) for one in self.controllers]
        yield from self.starts.write(DEPTH, depths, lines)
        for family in COUNTED:
            lines.append(head(family.name, family.kind.value, family.help))
            yield from self.counts.write(family, lines)
        WALL.look()
        for family, value in (
            (LEADING, float(leads)),
            (CLOCK_OFFSET, round(WALL.offset_nanos / 1e9, 3)),
            (CLOCK_STEPS, WALL.steps),
            (CLOCK_SUSPENDS, WALL.suspends),
        ):
            lines.append(head(family.name, family.kind.value, family.help))
            yield from self.starts.write(family, [((), value)], lines)
