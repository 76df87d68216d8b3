"""What a workload asks for at least, if it may start with fewer pods than it has (partial admission)."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from pykueue.base.struct import Frozen
from pykueue.engine.decisions import OverCapacity, Unassigned
from pykueue.engine.model import Workload


class PodCounts(Frozen):
    """With how many of its pods a pod set may start."""

    least: int
    whole: int


Shrinkable = Mapping[str, PodCounts]
"""The pod sets that may start with fewer pods than they have, by name."""
RIGID: Final[Shrinkable] = {}
"""No such pod set."""


def that_may_shrink(pod_sets: Iterable[tuple[str, int | None, int | None]]) -> Shrinkable:
    """Those of some pod sets, given by name, minimum and count, that may start with fewer pods."""
    return {
        name: PodCounts(least, count)
        for name, least, count in pod_sets
        if least is not None and count is not None and least < count
    }


def shrinkable_pod_sets(workload: Workload) -> Shrinkable:
    """Those of a workload."""
    return that_may_shrink((one.name, one.min_count, one.count) for one in workload.pod_sets)


def may_shrink(why: Unassigned, shrinkable: Shrinkable) -> bool:
    """Whether a request that exceeds the capacity of a flavor may not do so with fewer pods."""
    return any(one.earlier + one.request <= one.capacity for one in fewest(why, shrinkable))


def fewest(why: Unassigned, shrinkable: Shrinkable) -> list[OverCapacity]:
    """The requests that exceed the capacity of a flavor, of the fewest pods with which the workload may start.

    Earlier pod sets share one amount: if one of them is shrinkable, the result is a lower bound.
    """
    found: list[OverCapacity] = []
    for pod_set in why.pod_sets:
        own = shrinkable.get(pod_set.pod_set)
        others = [counts for name, counts in shrinkable.items() if name != pod_set.pod_set]
        for one in pod_set.obstacles:
            if isinstance(one, OverCapacity):
                request = one.request if own is None else one.request * own.least // own.whole
                earlier = min((one.earlier * it.least // it.whole for it in others), default=one.earlier)
                found.append(replace(one, request=request, earlier=earlier))
    return list(dict.fromkeys(found))
