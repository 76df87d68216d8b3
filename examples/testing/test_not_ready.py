"""What becomes of a job whose pods do not get ready? A Configuration of its own, and time that passes at once."""

from pathlib import Path

import pytest

from pykueue.testing.kueue import Kueue

QUEUES = Path(__file__).with_name("queues.yaml")
CONFIGURATION = {
    "waitForPodsReady": {"timeout": "5m", "requeuingStrategy": {"backoffBaseSeconds": 60, "backoffLimitCount": 1}}
}


@pytest.mark.kueue(config=CONFIGURATION)
def test_it_is_tried_once_more_and_then_set_aside(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("stuck", queue="red", cpu=4, script={"ready-after": "never"})
    assert kueue.running() == {"stuck"}

    kueue.advance("5m")
    assert kueue.running() == set()

    kueue.advance("2m")
    assert kueue.running() == {"stuck"}

    kueue.advance("10m")
    assert kueue.running() == set()
    assert "deactivated" in kueue.waiting()["stuck"]
