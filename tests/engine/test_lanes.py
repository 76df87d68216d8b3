from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pykueue.base.units import Instant
from pykueue.engine.items import Item, Shape
from pykueue.engine.lanes import UsageClass
from pykueue.engine.model import Workload
from pykueue.engine.order import pending_key

LOCAL_QUEUES = ("ns/a", "ns/b", "ns/c")
SHAPE = Shape((), 0, ())


def item(number: int, local_queue: str, stamp: int) -> Item:
    """A workload with this age."""
    return Item(Workload(f"ns/w{number}", f"{number:04}", local_queue, Instant(stamp)), SHAPE, Instant(stamp))


class Lanes(RuleBasedStateMachine):
    """A class finds the first workload whatever comes, goes and is used."""

    @initialize()
    def begin(self) -> None:
        self.used = dict.fromkeys(LOCAL_QUEUES, 0.0)
        self.group = UsageClass(lambda key: self.used[key])
        self.members: list[Item] = []
        self.number = 0

    @rule(local_queue=st.sampled_from(LOCAL_QUEUES), stamp=st.integers(0, 5))
    def add(self, local_queue: str, stamp: int) -> None:
        self.number += 1
        one = item(self.number, local_queue, stamp)
        one.entry = self.number
        self.members.append(one)
        key = self.group.add((pending_key(one), one.entry, one))
        assert key is not None or self.first() is not one

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.members:
            gone = data.draw(st.sampled_from(self.members))
            gone.entry = 0
            self.members.remove(gone)

    @rule(local_queue=st.sampled_from(LOCAL_QUEUES), used=st.integers(0, 4))
    def use(self, local_queue: str, used: int) -> None:
        lower = used < self.used[local_queue]
        self.used[local_queue] = float(used)
        if lower:
            self.group.relist(local_queue)

    def first(self) -> Item | None:
        return min(self.members, key=lambda one: pending_key(one, self.used[one.workload.local_queue]), default=None)

    @invariant()
    def the_first_is_found(self) -> None:
        found, wanted = self.group.first(), self.first()
        assert (None if found is None else found[2]) is wanted
        if found is not None and wanted is not None:
            assert found[0] == pending_key(wanted, self.used[wanted.workload.local_queue])

    @invariant()
    def all_are_listed(self) -> None:
        listed = {one.key for _, entry, one in self.group.entries() if one.entry == entry}
        assert listed == {one.key for one in self.members}


TestLanes = Lanes.TestCase


@given(st.lists(st.floats(0, 10), min_size=3, max_size=3))
def test_local_queues_take_turns_by_past_use(used: list[float]) -> None:
    values = dict(zip(LOCAL_QUEUES, used, strict=True))
    group = UsageClass(values.__getitem__)
    for number, key in enumerate(LOCAL_QUEUES, 1):
        one = item(number, key, number)
        one.entry = number
        group.add((pending_key(one), number, one))
    found = group.first()
    assert found is not None
    assert values[found[2].workload.local_queue] == min(used)
