"""An urgent job goes first and preempts an ordinary one."""

from pathlib import Path

from pykueue.testing.kueue import Kueue

QUEUES = Path(__file__).with_name("queues.yaml")


def test_an_urgent_job_preempts_an_ordinary_one(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    # Both teams use their quota, so nothing can be borrowed.
    kueue.job("neighbour", queue="blue", cpu=4)
    kueue.job("first", queue="red", cpu=2)
    kueue.job("second", queue="red", cpu=2)
    kueue.job("hotfix", queue="red", cpu=2, priority="urgent")
    assert kueue.running() == {"neighbour", "first", "hotfix"}
    assert list(kueue.waiting()) == ["second"]

    kueue.finish("hotfix")
    assert kueue.running() == {"neighbour", "first", "second"}
