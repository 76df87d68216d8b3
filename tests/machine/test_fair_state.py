"""Do queues under load reach their fair parts, whoever came first, and keep them while work comes and goes?"""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pykueue.engine.model import Options, ShareStrategy, Workload
from tests.story import Story

BOTH = (ShareStrategy.FINAL, ShareStrategy.INITIAL)
ROUNDS_MAX = 60
PER_QUEUE = 14
"""Workloads of each queue, so that no queue runs out of them."""


def settle(story: Story) -> None:
    """Let victims stop, and preemptors start, until nothing happens any more."""
    for _ in range(ROUNDS_MAX):
        story.decide()
        workloads = [thing for thing, _ in story.things.values() if isinstance(thing, Workload)]
        leaving = [one.key for one in workloads if one.evicted is not None and one.admission is not None]
        if not leaving:
            return
        story.do(*(f"stopped {key.removeprefix('ns/')}" for key in leaving))
    raise AssertionError("workloads evict each other in turn")


def is_fair(story: Story, weights: list[int], capacity: int) -> bool:
    """Whether all is in use, and nobody would have less of a share than another even with one more unit."""
    held = [len(story.holding(f"q{number}")) for number in range(len(weights))]
    below = min((count + 1) / weight for count, weight in zip(held, weights, strict=True))
    above = max(count / weight for count, weight in zip(held, weights, strict=True))
    return sum(held) == capacity and above <= below


@given(
    weights=st.lists(st.sampled_from((1, 1, 1, 2, 4)), min_size=2, max_size=4),
    capacity=st.integers(1, 10),
    first=st.randoms(use_true_random=False),
    data=st.data(),
)
def test_a_fair_state_is_reached_and_kept(
    weights: list[int], capacity: int, first: Random, data: st.DataObject
) -> None:
    queues = [f"q{number} cpu=0 cohort=all reclaim=Any weight={weight}" for number, weight in enumerate(weights)]
    story = Story(options=Options(fair_sharing=BOTH), queues=[*queues, f"lender cpu={capacity} cohort=all"])
    order = list(range(len(weights)))
    first.shuffle(order)
    for number in order:
        # Whoever comes first has all of it for a while.
        story.do(*(f"queue w{number}-{index} q{number} cpu=1" for index in range(PER_QUEUE)))
        settle(story)
    assert is_fair(story, weights, capacity), story.told
    for _ in range(3):
        holding = [name for number in range(len(weights)) for name in story.holding(f"q{number}")]
        story.do(f"finish {data.draw(st.sampled_from(holding))}")
        settle(story)
        assert is_fair(story, weights, capacity), story.told
