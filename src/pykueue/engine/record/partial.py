"""What a workload asks for at least, if it may start with fewer pods than it has (partial admission)."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from pykueue.base.struct import Frozen
from pykueue.engine.decisions import OverCapacity, Unassigned


class PodCounts(Frozen):
    """With how many of its pods a pod set may start."""

    least: int
    whole: int


Shrinkable = Mapping[str, PodCounts]
"""The pod sets that may start with fewer pods than they have, by name."""
RIGID: Final[Shrinkable] = {}
"""No such pod set."""


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
