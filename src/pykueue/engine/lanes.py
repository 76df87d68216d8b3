"""The pending workloads of one shape in a usage-based ClusterQueue: in order inside each LocalQueue, and among them.

Past use changes with every reservation and with time, so it is no part of the keys inside a LocalQueue. Among the
LocalQueues of a class, the key with which a LocalQueue is listed may be lower than its true one: `first` corrects it.
A past use that becomes lower must therefore be announced (`relist`), and one that becomes higher need not be.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush, heapreplace

from pykueue.engine.decisions import WaitReason, Why
from pykueue.engine.items import Item
from pykueue.engine.order import PendingKey

Entry = tuple[PendingKey, int, Item]


class Members:
    """Workloads in order."""

    __slots__ = ("members",)

    def __init__(self) -> None:
        self.members: list[Entry] = []
        """Their entries as a heap, some of them outdated; the keys are without past use."""

    def first(self) -> Entry | None:
        """Return the entry of the next member; also drops outdated entries."""
        members = self.members
        while members:
            if members[0][2].entry == members[0][1]:
                return members[0]
            heappop(members)
        return None


class Lane(Members):
    """The workloads of one LocalQueue in a class."""

    __slots__ = ("listed", "listed_use")

    def __init__(self) -> None:
        super().__init__()
        self.listed = 0
        """With which entry it is listed in the class; 0 if it is not listed."""
        self.listed_use = 0.0
        """With which past use it is listed."""


class UsageClass:
    """The queued workloads of one shape, in order, if the past use of their LocalQueues comes first in it."""

    __slots__ = ("lanes", "order", "parked", "past_use", "size", "why")

    def __init__(self, past_use: Callable[[str], float]) -> None:
        self.past_use = past_use
        self.lanes: dict[str, Lane] = {}
        self.order: list[tuple[PendingKey, int, str]] = []
        """The LocalQueues as a heap; an entry with which its lane is not listed is outdated."""
        self.size = 0
        self.parked: WaitReason | None = None
        self.why: Why | None = None
        """As in `pending.ShapeClass`: a verdict holds for workloads of all LocalQueues."""

    def add(self, entry: Entry) -> PendingKey | None:
        """Add a workload; returns its key if it is the first of its LocalQueue, otherwise None."""
        local_queue = entry[2].workload.local_queue
        lane = self.lanes.get(local_queue)
        if lane is None:
            lane = self.lanes[local_queue] = Lane()
        heappush(lane.members, entry)
        if lane.members[0] is not entry:
            return None
        return self.list_with(local_queue, lane, entry)

    def first(self) -> Entry | None:
        """Return the entry of the next member, with its past use; also drops outdated entries."""
        order = self.order
        while order:
            key, number, local_queue = order[0]
            lane = self.lanes[local_queue]
            if lane.listed != number or lane.listed_use != key[0]:
                heappop(order)
                continue
            found = lane.first()
            if found is None:
                heappop(order)
                lane.listed = 0
                continue
            used = self.past_use(local_queue)
            if found[1] == number and used == key[0]:
                return key, number, found[2]
            lane.listed, lane.listed_use = found[1], used
            heapreplace(order, ((used, *found[0][1:]), found[1], local_queue))
        return None

    def relist(self, local_queue: str) -> None:
        """Correct the place of a LocalQueue whose past use may be lower than before."""
        lane = self.lanes.get(local_queue)
        if lane is not None and lane.listed and self.past_use(local_queue) < lane.listed_use:
            found = lane.first()
            if found is not None:
                self.list_with(local_queue, lane, found)

    def list_with(self, local_queue: str, lane: Lane, first: Entry) -> PendingKey:
        """List a LocalQueue with its first workload; returns the key of it."""
        used = self.past_use(local_queue)
        key = (used, *first[0][1:])
        lane.listed, lane.listed_use = first[1], used
        heappush(self.order, (key, first[1], local_queue))
        return key

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, in no particular order; some of them may be outdated."""
        for lane in self.lanes.values():
            yield from lane.members
