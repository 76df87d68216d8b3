"""Wire types of `visibility.kueue.x-k8s.io`: the pending workloads of a queue, in order. All versions are alike."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pykueue.api.core import ObjectMeta
from pykueue.base.struct import Frozen, Wire

VISIBILITY_GROUP: Final = "visibility.kueue.x-k8s.io"
VISIBILITY_VERSIONS: Final = ("v1beta2", "v1beta1")
"""The preferred one first."""
PENDING_WORKLOADS: Final = "pendingworkloads"
"""The subresource of `clusterqueues` and of `localqueues`."""
SUMMARY: Final = "PendingWorkloadsSummary"
LIMIT_DEFAULT: Final = 1_000
LIMIT_MAX: Final = 100_000
NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
INT64_MAX: Final = 2**63 - 1
SHOWN_MAX: Final = 40
"""Characters of a malformed number that an error repeats."""


class PendingWorkload(Wire, omit_defaults=False):
    """One pending Workload."""

    metadata: ObjectMeta
    """Name, namespace, creation and owners."""
    priority: int
    """Without its boost."""
    local_queue_name: str
    position_in_cluster_queue: int
    """From 0, like the next."""
    position_in_local_queue: int


class PendingWorkloadsSummary(Wire):
    """The response, as clients read it."""

    items: tuple[PendingWorkload, ...] = ()


class PendingWorkloadOptions(Frozen):
    """Which of the pending Workloads are asked for."""

    offset: int = 0
    limit: int = LIMIT_DEFAULT


def options_in(query: Mapping[str, Sequence[str]]) -> PendingWorkloadOptions:
    """The options in a query; raises `ValueError` in Kubernetes' words if one is no number."""
    offset, limit = (number_in(query, name) for name in ("offset", "limit"))
    return PendingWorkloadOptions(max(offset, 0), min(max(limit or LIMIT_DEFAULT, 0), LIMIT_MAX))


def number_in(query: Mapping[str, Sequence[str]], name: str) -> int:
    """A number in a query; 0 if absent."""
    given = query.get(name)
    if not given:
        return 0
    text = given[0]
    if not NUMBER.fullmatch(text):
        raise ValueError(f'strconv.ParseInt: parsing "{text[:SHOWN_MAX]}": invalid syntax')
    if len(text) > SHOWN_MAX or not -INT64_MAX - 1 <= int(text) <= INT64_MAX:
        raise ValueError(f'strconv.ParseInt: parsing "{text[:SHOWN_MAX]}": value out of range')
    return int(text)


def summary(version: str, rows: Sequence[bytes]) -> bytes:
    """A PendingWorkloadsSummary in JSON, from rows that are already encoded."""
    head = {"kind": SUMMARY, "apiVersion": f"{VISIBILITY_GROUP}/{version}", "metadata": {}}
    return b"".join((msgspec.json.encode(head)[:-1], b',"items":[', b",".join(rows), b"]}"))
