"""Which workloads of an answer the caller may know by name."""

import asyncio
from collections.abc import Iterable
from typing import Final

from pykueue.api.names import GROUP
from pykueue.kube.aggregated import Caller
from pykueue.kube.port import WORKLOADS

NAMESPACES_MAX: Final = 50
"""In how many namespaces the rights of a caller are checked; the workloads of all others are not named."""


async def readable(caller: Caller, own: str, namespaces: Iterable[str]) -> frozenset[str]:
    """Those of these namespaces in which a caller may list Workloads; `own` is checked first."""
    wanted = sorted(set(namespaces), key=lambda one: (one != own, one))
    if not wanted:
        return frozenset()
    if await caller.may("list", GROUP, WORKLOADS.plural, ""):
        return frozenset(wanted)
    checked = wanted[:NAMESPACES_MAX]
    granted = await asyncio.gather(*(caller.may("list", GROUP, WORKLOADS.plural, one) for one in checked))
    return frozenset(one for one, may in zip(checked, granted, strict=True) if may)
