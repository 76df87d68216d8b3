"""The inputs of the engine. Facts are levels, not edges: observing the same fact twice changes nothing."""

from typing import Literal

from pykueue.base.struct import Frozen
from pykueue.engine.model import Thing

Kind = Literal["Flavor", "Cohort", "ClusterQueue", "LocalQueue", "Namespace", "Check", "Workload"]


class Seen(Frozen, tag=True):
    """An object is like this, at this version; a version older than one already seen is ignored."""

    thing: Thing
    version: int = 0


class Gone(Frozen, tag=True):
    """An object no longer exists."""

    kind: Kind
    name: str


class Stopped(Frozen, tag=True):
    """No pod of this evicted workload's job is running any more, so its room is free."""

    workload: str


class Synced(Frozen, tag=True):
    """The initial lists are complete; before this the engine decides nothing."""


class Leading(Frozen, tag=True):
    """Whether this process may act; a follower observes but decides nothing."""

    leading: bool


class Written(Frozen, tag=True):
    """Our last decision on this workload was stored, as this version."""

    workload: str
    version: int = 0


class Refused(Frozen, tag=True):
    """Our last decision on this workload was not stored; what was assumed is taken back."""

    workload: str
    why: str = ""


Fact = Seen | Gone | Stopped | Synced | Leading | Written | Refused
