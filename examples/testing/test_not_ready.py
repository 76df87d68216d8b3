"""A job whose pods never become ready: a test with its own Configuration, in which minutes pass at once."""

from pathlib import Path

import pytest

from pykueue.testing.kueue import Kueue

QUEUES = Path(__file__).with_name("queues.yaml")
CONFIGURATION = {
    "waitForPodsReady": {"timeout": "5m", "requeuingStrategy": {"backoffBaseSeconds": 60, "backoffLimitCount": 1}}
}


@pytest.mark.kueue(config=CONFIGURATION)
def test_it_is_retried_once_and_then_deactivated(kueue: Kueue) -> None:
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
