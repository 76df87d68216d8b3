"""A team reclaims its quota from the team that borrowed it."""

from pathlib import Path

from pykueue.testing.kueue import Kueue

QUEUES = Path(__file__).with_name("queues.yaml")


def test_idle_quota_is_lent_until_its_owner_needs_it(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("borrower", queue="red", cpu=6)
    assert kueue.running() == {"borrower"}

    kueue.job("owner", queue="blue", cpu=4)
    assert kueue.running() == {"owner"}
    assert "2 more needed" in kueue.waiting()["borrower"]

    kueue.finish("owner")
    assert kueue.running() == {"borrower"}
