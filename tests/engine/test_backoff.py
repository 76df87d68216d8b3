"""How long does a workload that never becomes ready wait, attempt after attempt? Too long for a story to tell."""

import pytest

from tests.facts import covers
from tests.story import Story
from tests.storywords import options


def delays(attempts: int, **pods_ready: object) -> list[int]:
    """The seconds between eviction and requeueing, for so many timeouts in a row."""
    story = Story(options=options({"pods_ready": {"timeout": 300, **pods_ready}}), queues=["main cpu=2"])
    story.do("queue a main cpu=2")
    assert story.decide() == ["admit a"]
    found = []
    for attempt in range(1, attempts + 1):
        story.wait("300s")
        assert story.decide() == ["evict a (PodsReadyTimeout)"]
        details = dict(detail.split("=") for detail in story.told[0].details)
        assert details["count"] == str(attempt)
        found.append(int(details["in"].removesuffix("s")))
        story.do("stopped a")
        assert story.decide() == ["unreserve a"]
        story.wait("wake")
        assert story.decide() == ["requeue a (BackoffFinished)", "admit a"]
    return found


@covers("LIF-2", "KEP1282-9")
@pytest.mark.parametrize(
    ("longest", "expected"),
    [
        pytest.param(3600, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600], id="an hour at most"),
        # The trifle that spreads the workloads makes a second of its own from about three hours on.
        pytest.param(0, [60, 120, 240, 480, 960, 1920, 3840, 7680, 15360, 30720], id="no end"),
    ],
)
def test_ten_requeues_under_a_limit_of_ten(longest: int, expected: list[int]) -> None:
    found = delays(10, backoff_limit=10, backoff_max=longest)
    assert all(0 <= late - delay <= delay // 10_000 for late, delay in zip(found, expected, strict=True))
    assert sum(expected) == (18180 if longest else 61380)


@covers("LIF-2")
def test_the_first_delay_is_the_base_even_above_the_maximum() -> None:
    assert delays(3, backoff_base=100, backoff_max=10) == [100, 10, 10]


@covers("LIF-2", "KEP1282-11")
def test_without_a_limit_there_is_always_another_attempt() -> None:
    assert delays(100)[6:] == [3600] * 94
