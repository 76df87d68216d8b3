"""Does the benchmark of metrics render what it promises?"""

import pytest

from bench import metricspage
from bench.metricspage import metrics_of_many_queues, page_cost
from pykueue.controllers.metrics import families
from tests.prometheus import Page


def test_every_queue_has_series_in_all_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metricspage, "QUEUES", 3)
    monkeypatch.setattr(metricspage, "PENDING", 9)
    found = Page(metrics_of_many_queues().page().decode())
    for name in ("q-0", "q-2"):
        shown = {series.partition("{")[0] for series in found if f'"{name}"' in series}
        expected = {family.name for family in families.ALL if family.source in ("ClusterQueue", "LocalQueue")}
        unused = (families.CREATION_SECONDS, families.PREEMPTION_SKIPS, families.LOCAL_PAST_USE, families.QUEUE_SHARE)
        left_out = {family.name for family in unused}
        assert {name for name in expected - left_out if name not in shown and f"{name}_sum" not in shown} == set()
    assert sum(number for name, number in found.items() if name.startswith("pykueue_line_length")) >= 6
    cost = page_cost()
    assert min(cost.seconds, cost.longest, cost.steps) > 0
    assert cost.bytes > 1_000
