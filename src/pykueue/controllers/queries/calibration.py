"""Whether jobs started when it was estimated: the first estimate of each is compared with its start."""

from collections import deque
from collections.abc import Callable
from typing import Final

from pykueue.api.estimates import Calibration, EstimateStatus
from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload, held
from pykueue.base.units import parse_instant
from pykueue.kube.informer import Change

OPEN_MAX: Final = 1_000
"""How many estimates of jobs that have not started are remembered; the oldest is forgotten first."""
RESULTS_MAX: Final = 100
"""How many of the latest results an answer refers to."""
RIGHT: Final = "right"
EARLY: Final = "early"
LATE: Final = "late"


class EstimateLog:
    """Remembers estimates until the jobs start; `count` is called with each result."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self.count = count
        self.open: dict[str, EstimateStatus] = {}
        """By the UID of the Workload."""
        self.results: deque[str] = deque(maxlen=RESULTS_MAX)

    def remember(self, uid: str, found: EstimateStatus) -> None:
        """Remember the first estimate of a Workload; a later one is easier."""
        if uid in self.open:
            return
        if len(self.open) >= OPEN_MAX:
            del self.open[next(iter(self.open))]
        self.open[uid] = found

    def workload_changed(self, change: Change[Workload]) -> None:
        """Compare the start of a Workload with its estimate."""
        known = change.new or change.old
        uid = "" if known is None or not self.open else known.metadata.uid or ""
        estimate = self.open.get(uid)
        if estimate is None:
            return
        admitted = None if change.new is None else held(change.new, WorkloadCondition.ADMITTED)
        if admitted is not None and admitted.last_transition_time:
            self.results.append(result(estimate, admitted.last_transition_time))
            self.count(self.results[-1])
        if admitted is not None or change.new is None:
            del self.open[uid]

    @property
    def calibration(self) -> Calibration:
        """How good the latest estimates were."""
        return Calibration(len(self.results), sum(one == RIGHT for one in self.results))


def result(estimate: EstimateStatus, started: str) -> str:
    """Whether a start was within its estimate, before it or after it. One that never starts in any run is after all."""
    at = parse_instant(started)
    if not estimate.earliest or at < parse_instant(estimate.earliest):
        return EARLY
    return LATE if estimate.latest and at > parse_instant(estimate.latest) else RIGHT
