"""Do keys wait as they should? The rest is in the state machine."""

import pytest

from pykueue.base.units import MICROS, Moment
from pykueue.kube.workqueue import WorkQueue, backoff


@pytest.mark.parametrize(
    ("failures", "rng", "seconds"),
    [
        pytest.param(1, 1.0, 0.005, id="a short wait at first"),
        pytest.param(2, 1.0, 0.010, id="twice as long after the next"),
        pytest.param(2, 0.0, 0.005, id="up to half of it is left to rng"),
        pytest.param(14, 1.0, 40.96, id="doubled each time"),
        pytest.param(15, 1.0, 60.0, id="up to a minute"),
        pytest.param(10_000, 1.0, 60.0, id="for ever"),
    ],
)
def test_failures_make_a_key_wait(failures: int, rng: float, seconds: float) -> None:
    assert backoff(failures, rng) == int(seconds * MICROS)


def test_success_forgets_failures() -> None:
    queue = WorkQueue()
    now = Moment(0)
    waits = []
    for fails in (True, True, False, True):
        queue.add("a")
        assert queue.take() == "a"
        if fails:
            waits.append(queue.failed("a", now, 1.0))
        else:
            queue.done("a")
    assert waits == [5_000, 10_000, 5_000]
