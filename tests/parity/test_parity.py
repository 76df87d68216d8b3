"""Does our engine decide what the real Kueue decided? All recordings, with our differences set to Kueue's way."""

import gzip
from pathlib import Path

import msgspec
import pytest

from pykueue.engine.model import Options
from tests.parity.replay import differences, judge_file

FOLDER = Path(__file__).parent
CLASSIC = FOLDER / "classic.jsonl.gz"

DIFFERENT = {
    CLASSIC.name: {
        "classic-351": (
            "Two heads tie in everything that orders heads: borrowing level, priority and time. Kueue then goes by the "
            "order in which its map of queues happens to be walked; we go by the ClusterQueue's name."
        ),
    },
    "fair.jsonl.gz": {
        "fair-30120": (
            "In one cycle Kueue passes over the head of a queue that fits, writes nothing about it, and admits it in "
            "the next cycle, although nothing has changed. We admit it in the first; the cause is not known."
        ),
    },
}
"""Recordings that differ, by file, each with its reason."""


@pytest.mark.parametrize(("name", "count"), [("classic.jsonl.gz", 997), ("fair.jsonl.gz", 500)])
def test_every_recorded_decision_is_ours(name: str, count: int) -> None:
    results = judge_file(FOLDER / name)
    listed = DIFFERENT[name]
    different = {scenario: first for scenario, first in results if first}
    unexplained = {scenario: first for scenario, first in different.items() if scenario not in listed}
    assert len(results) == count
    assert not unexplained, f"decided otherwise than Kueue, without a listed reason: {unexplained}"
    assert set(listed) <= set(different), "a listed difference is gone; take it off the list"
    assert len(listed) < len(results) / 100


@pytest.mark.parametrize("name", DIFFERENT)
def test_our_own_setting_differs_on_purpose(name: str) -> None:
    with gzip.open(FOLDER / name) as lines:
        records = [msgspec.json.decode(line) for line, _ in zip(lines, range(60), strict=False)]
    different = [record for record in records if next(differences(record, Options(pods_ready=None)), "")]
    assert different, "with our differences on, some recordings must come out otherwise, or the switches do nothing"
    assert len(different) < len(records) / 2, "our differences are few; most recordings must come out the same"
