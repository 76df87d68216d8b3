"""What does a kind of job have to know about itself? The protocol by which one reconciler serves all kinds.

Everything here is pure: a kind reads a view of its object and says what to patch; others do it.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from pykueue.api.core import ObjectMeta, Tree
from pykueue.api.workload import PodSet
from pykueue.base.struct import Frozen
from pykueue.jobs.podsets import Info, Shape


class Described(Protocol):
    """A view of an object, as far as all kinds share it."""

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the object."""


View = TypeVar("View", bound=Described, contravariant=True)


class Outcome(Frozen):
    """How a job ended."""

    success: bool
    message: str


class JobPatch(Frozen):
    """One write on the way to a started or a stopped job: a merge patch."""

    body: Tree
    status: bool = False
    """Whether it is the status that is patched."""
    tells: bool = False
    """Whether this is the write that starts or stops the job, rather than one that prepares it or tidies up."""
    last: bool = False
    """Whether nothing is left to do after it."""


class Pause(Frozen):
    """Nothing can be written before the job itself has changed."""


class JobKind(Protocol[View]):
    """A kind of job that can be held back, started and stopped."""

    @property
    def framework(self) -> str:
        """What the Configuration calls it."""

    @property
    def group(self) -> str:
        """The API group."""

    @property
    def version(self) -> str:
        """The API version."""

    @property
    def kind(self) -> str:
        """The kind."""

    def suspended(self, job: View) -> bool:
        """Whether it is held back, and nothing is left to do for that."""

    def stopping(self, job: View) -> bool:
        """Whether its stop has begun, and something is left to do for it."""

    def noticed(self, job: View) -> bool:
        """Whether its own controller has noticed that it may run, so that its status tells of its pods."""

    def active(self, job: View) -> bool:
        """Whether pods of it are there."""

    def finished(self, job: View) -> Outcome | None:
        """How it ended, once it has."""

    def pod_sets(self, job: View, *, partial: bool) -> tuple[Tree, ...]:
        """Its pods, as a Workload has them; `partial` says whether fewer pods may be admitted."""

    def shapes(self, job: View, *, partial: bool) -> tuple[Shape, ...]:
        """What of its pods tells it from a job that needs another Workload."""

    def start(self, job: View, infos: Sequence[Info]) -> JobPatch | Pause:
        """The next write on the way to its start; raises `InjectionError` when it can never start like that."""

    def stop(self, job: View, pod_sets: Sequence[PodSet]) -> JobPatch | Pause | None:
        """The next write on the way to its stop, with its pods as they were before; None when it is stopped."""

    def suspend(self, job: View) -> JobPatch | None:
        """The write that holds it back, and no more; None when it is held back."""

    def reclaimable(self, job: View) -> Mapping[str, int] | None:
        """The pods of each set that need their quota no more; None for a kind that cannot tell."""

    def pods_ready(self, job: View) -> bool:
        """Whether all its pods are ready, or have succeeded."""

    def priority_class(self, job: View) -> str:
        """The PriorityClass that it names outside its pod templates; empty where there is none."""
