"""The question when a workload will start, sent with the state of the engine; `api.estimates` has the answer."""

from collections.abc import Mapping
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.bridge.runtimes import Learned

KIND: Final = "estimate"
"""The name of this kind of question."""
RUNS_DEFAULT: Final = 40
RUNS_MIN: Final = 20
RUNS_MAX: Final = 200


class EstimateQuestion(Frozen):
    """When will this workload start?"""

    workload: str
    """Namespace and name."""
    now: Instant
    runs: int = RUNS_DEFAULT
    """How often to run the state forward."""
    seed: int = 0
    arrivals: bool = False
    """Whether other jobs arrive as they have until now; otherwise none does."""
    limits: Mapping[str, int] = {}
    """How many seconds a job may run, by its UID, where that is not in its workload."""
    learned: Learned = Learned()
