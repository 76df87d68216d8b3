"""The wire types of `previews` and `clusterpreviews`: changes that are only thought of, and what they would do."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import UNSET, UnsetType

from pykueue.api.query import QUERY_GROUP, QUERY_VERSION
from pykueue.base.struct import Wire

PREVIEW: Final = "Preview"
CLUSTER_PREVIEW: Final = "ClusterPreview"
PREVIEW_API: Final = f"{QUERY_GROUP}/{QUERY_VERSION}"

WORDS: Final[Mapping[str, str]] = {
    "clusterqueue": "ClusterQueue",
    "clusterqueues": "ClusterQueue",
    "cq": "ClusterQueue",
    "cohort": "Cohort",
    "cohorts": "Cohort",
    "localqueue": "LocalQueue",
    "localqueues": "LocalQueue",
    "queue": "LocalQueue",
    "lq": "LocalQueue",
    "resourceflavor": "ResourceFlavor",
    "resourceflavors": "ResourceFlavor",
    "flavor": "ResourceFlavor",
    "rf": "ResourceFlavor",
    "admissioncheck": "AdmissionCheck",
    "admissionchecks": "AdmissionCheck",
    "workload": "Workload",
    "workloads": "Workload",
    "wl": "Workload",
    "job": "Job",
    "jobs": "Job",
}
"""The kinds that a change may name, by every word for them."""
IN_NAMESPACES: Final = frozenset({"LocalQueue", "Workload", "Job"})


class Effect(StrEnum):
    """What a change does to a workload."""

    EVICTED = "Evicted"
    RESTARTS = "Restarts"
    """It is evicted, and starts again at once on other quota."""
    NOT_STARTED = "NotStarted"
    """It would start without the change, and does not with it."""
    NEVER = "NeverStarts"
    BLOCKED = "Blocked"
    """It is pending, but no queue considers it."""
    DELETED = "Deleted"
    STARTS = "Starts"
    RESERVES = "Reserves"
    """It gets quota, and starts when its AdmissionChecks are ready."""
    WAITS = "Waits"
    """It is new, and pending."""
    MOVES = "Moves"
    """It is pending at another place."""
    STARTS_LATER = "StartsLater"
    """It is pending at the same place, and is expected to start later."""
    STARTS_EARLIER = "StartsEarlier"


HARMFUL: Final = frozenset({Effect.EVICTED, Effect.RESTARTS, Effect.NOT_STARTED, Effect.NEVER, Effect.BLOCKED})
"""The effects that leave a workload worse off at once."""
RUNNING: Final = frozenset({Effect.STARTS, Effect.RESERVES, Effect.DELETED})
"""The other effects that change which workloads run."""


class Affected(Wire):
    """A workload that a change affects."""

    workload: str
    """`namespace/name`."""
    effect: Effect
    job: str = ""
    """The name of its Job, if it has one."""
    queue: str = ""
    """Its ClusterQueue."""
    flavors: tuple[str, ...] = ()
    """Those of the quota that it would get."""
    place: int | None = None
    """Its place in the order of its ClusterQueue with the change, from 1."""
    place_before: int | None = None
    clause: str = ""
    """Which clause of a preemption policy lets it be evicted, if it is preempted, in Kueue's spelling."""
    by: str = ""
    """The workload that it is preempted for; empty if the caller may not know it."""
    reason: str = ""
    """Why; if it is preempted, what the other workload does."""
    start_before: str = ""
    """When it is expected to start without the change, in whole minutes, if waits are asked for.

    Empty if it runs already, does not exist, or does not start within the horizon in more than half of the runs.
    """
    start: str = ""
    """When it is expected to start with the change."""
    wait_seconds_before: int | None = None
    """The time from the question to that start; None if there is none."""
    wait_seconds: int | None = None


class QuotaChange(Wire, omit_defaults=False):
    """A quota of a ClusterQueue, before and after a change, in Kubernetes' quantities."""

    flavor: str
    resource: str
    nominal_before: str = "0"
    nominal: str = "0"
    used_before: str = "0"
    used: str = "0"


class QueueChange(Wire, omit_defaults=False):
    """A ClusterQueue, before and after a change: how many workloads hold quota in it, and how many are pending."""

    name: str
    running_before: int = 0
    running: int = 0
    pending_before: int = 0
    pending: int = 0
    quotas: tuple[QuotaChange, ...] = ()
    """Those that differ."""
    median_wait_seconds_before: int | UnsetType = UNSET
    """The median wait, from the question on, of the workloads that are pending on one of the sides.

    One that runs or starts at once on this side counts as 0; one that starts on neither side is left out. Absent if
    waits are not asked for, if there are no such workloads, or if more than half of them do not start on this side.
    """
    median_wait_seconds: int | UnsetType = UNSET


class PreviewSpec(Wire):
    """Changes that are only thought of; the order in which they are listed has no meaning."""

    objects: tuple[dict[str, Any], ...] = ()
    """New Jobs and Workloads, and other objects as they would be."""
    set: tuple[str, ...] = ()
    """Fields of objects as in `clusterqueue/main.cpu=64`."""
    delete: tuple[str, ...] = ()
    """Objects as in `clusterqueue/main`, those of a namespace as in `localqueue/team-a/main`."""
    drain: tuple[str, ...] = ()
    """ClusterQueues and LocalQueues that would be stopped with HoldAndDrain."""
    waits: bool = False
    """Whether to estimate how the starts of pending workloads change."""


class PreviewStatus(Wire):
    """What changes would do at once, after everything that is being stopped has stopped."""

    at: str = ""
    affected: tuple[Affected, ...] = ()
    hidden: Mapping[str, int] = {}
    """How many more are affected, by effect, whose names the caller may not read."""
    more: Mapping[str, int] = {}
    """How many more are affected, by effect, that are left out because there are too many."""
    queues: tuple[QueueChange, ...] = ()
    notes: tuple[str, ...] = ()
    runs: int = 0
    """How often both sides were run forward to estimate starts; 0 if waits are not asked for, or no queue differs."""

    def count(self, *effects: Effect) -> int:
        """How many workloads are affected in one of these ways, listed or not."""
        listed = sum(one.effect in effects for one in self.affected)
        return listed + sum(counts.get(effect, 0) for counts in (self.hidden, self.more) for effect in effects)


class Preview(Wire):
    """A question, and with its status the answer."""

    api_version: str = PREVIEW_API
    kind: str = ""
    spec: PreviewSpec = PreviewSpec()
    status: PreviewStatus | None = None


def split_target(text: str) -> tuple[str, str] | None:
    """The kind and the rest of `clusterqueue/main…`; None if the text names no kind."""
    word, slash, rest = text.partition("/")
    kind = WORDS.get(word.strip().lower())
    return None if kind is None or not slash or not rest else (kind, rest)


def possible_names(setting: str) -> Iterator[str]:
    """The names that the rest of a setting may begin with, the longest first: names, too, have dots."""
    path = setting.partition("=")[0]
    while "." in path:
        path = path.rpartition(".")[0]
        yield path
