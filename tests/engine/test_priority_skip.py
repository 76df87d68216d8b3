"""Is the search for victims left out where the least important holder alone tells that it would find nobody?"""

from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.units import Instant
from pykueue.engine.candidates import hopeless, policy_allows
from pykueue.engine.forest import Forest
from pykueue.engine.items import Item
from pykueue.engine.model import Options, Policy, Workload
from pykueue.engine.preempt import Search
from pykueue.engine.quota import QuotaNode
from pykueue.engine.snapshot import Snapshot
from pykueue.engine.world import World
from tests.facts import covers

CPU = 0
POLICIES = st.sampled_from(list(Policy))


class Sealed(dict[str, Item]):
    """Holders that nobody may look through."""

    def values(self) -> NoReturn:
        raise AssertionError("the holders were searched")


def item(name: str, priority: int, created: int = 0) -> Item:
    seen = Workload(f"ns/{name}", name, "ns/main", Instant(created), priority=priority)
    found = Item(seen, World(Options()).shape(seen), seen.created)
    found.queue, found.frs = "main", frozenset((CPU,))
    return found


def queue(*holders: Item) -> QuotaNode:
    node = QuotaNode("main", is_queue=True)
    node.holders = {holder.key: holder for holder in holders}
    return node


def searched(policy: Policy, preemptor: Item, node: QuotaNode) -> list[str]:
    """The holders that a search yields, in the order of their names."""
    search = Search(Snapshot(Forest()), node, preemptor, Instant(0), Options())
    return sorted(holder.uid for holder in search.holders(node, policy, frozenset((CPU,))))


@covers("KEP83-11", "PRE-6")
@pytest.mark.parametrize(
    ("policy", "priority"),
    [
        pytest.param(Policy.NEVER, 9, id="never"),
        pytest.param(Policy.LOWER, 5, id="nobody lower"),
        pytest.param(Policy.LOWER, 4, id="all of them higher"),
        pytest.param(Policy.LOWER_OR_NEWER, 4, id="all of them higher, newer or not"),
    ],
)
def test_holders_are_not_looked_at_when_none_can_be_a_victim(policy: Policy, priority: int) -> None:
    node = queue(item("a", 5, created=9), item("b", 7, created=9))
    assert searched(Policy.LOWER, item("earlier", 5), node) == []
    node.holders = Sealed(node.holders)
    assert searched(policy, item("p", priority), node) == []


@covers("PRE-6")
@pytest.mark.parametrize(
    ("policy", "priority", "found"),
    [
        pytest.param(Policy.LOWER, 6, ["a"], id="one lower and one higher"),
        pytest.param(Policy.LOWER_OR_NEWER, 5, ["a"], id="an equal that is newer"),
        pytest.param(Policy.ANY, 0, ["a", "b"], id="any, though all are higher"),
    ],
)
def test_holders_are_looked_at_when_one_can_be_a_victim(policy: Policy, priority: int, found: list[str]) -> None:
    assert searched(policy, item("p", priority), queue(item("a", 5, created=9), item("b", 7, created=9))) == found


@covers("KEP83-11", "PRE-6")
@given(POLICIES, st.tuples(st.integers(0, 3), st.integers(0, 3)), st.lists(st.tuples(*[st.integers(0, 3)] * 2)))
def test_the_outcome_is_that_of_the_search(
    policy: Policy, ours: tuple[int, int], theirs: list[tuple[int, int]]
) -> None:
    preemptor = item("p", *ours)
    holders = [item(f"h{number}", *one) for number, one in enumerate(theirs)]
    possible = [holder.uid for holder in holders if policy_allows(policy, preemptor, holder)]
    assert searched(policy, preemptor, queue(*holders)) == sorted(possible)
    assert not (possible and hopeless(policy, preemptor, queue(*holders)))
