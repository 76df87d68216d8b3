"""How busy are we ourselves? Counts of requests and reconciles, under the names that controllers written in Go have."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from pykueue.controllers.series import Histogram
from pykueue.kube.controller import Controller

RECONCILE_SECONDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)


class Workings:
    """What this process has been busy with."""

    def __init__(self) -> None:
        self.controllers: list[Controller] = []
        self.results: dict[tuple[str, str], int] = {}
        self.durations: dict[str, Histogram] = {}
        self.requests: dict[tuple[str, str, str], int] = {}

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        """A controller has looked at an object: `success`, `requeue_after` or `error`."""
        key = (controller, result)
        self.results[key] = self.results.get(key, 0) + 1
        found = self.durations.get(controller)
        if found is None:
            found = self.durations[controller] = Histogram(RECONCILE_SECONDS)
        found.observe(seconds)

    def requested(self, code: str, method: str, host: str) -> None:
        """The API server has answered a request."""
        key = (code, method, host)
        self.requests[key] = self.requests.get(key, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """The families with their series."""
        depth = GaugeMetricFamily("workqueue_depth", "Keys that wait to be worked on.", labels=("controller", "name"))
        for controller in self.controllers:
            depth.add_metric((controller.name, controller.name), len(controller.queue.ready))
        yield depth
        total = CounterMetricFamily(
            "controller_runtime_reconcile_total", "Looks at objects.", labels=("controller", "result")
        )
        errors = CounterMetricFamily(
            "controller_runtime_reconcile_errors_total", "Looks at objects that failed.", labels=("controller",)
        )
        for (name, result), count in self.results.items():
            total.add_metric((name, result), count)
            if result == "error":
                errors.add_metric((name,), count)
        yield total
        yield errors
        seconds = HistogramMetricFamily(
            "controller_runtime_reconcile_time_seconds", "How long looks at objects took.", labels=("controller",)
        )
        for name, duration in self.durations.items():
            seconds.add_metric((name,), duration.buckets(), duration.total)
        yield seconds
        requests = CounterMetricFamily(
            "rest_client_requests_total", "Answers of the API server.", labels=("code", "host", "method")
        )
        for (code, method, host), count in self.requests.items():
            requests.add_metric((code, host, method), count)
        yield requests
