"""The protocol of a kind of job, by which one reconciler serves all kinds.

Everything here is pure: a kind reads a view of its object and returns patches.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from pykueue.api.core import ObjectMeta, Tree
from pykueue.api.workload import PodSet
from pykueue.base.struct import Frozen
from pykueue.jobs.podsets import Info, Shape


class Described(Protocol):
    """The part of an object's view that all kinds share."""

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the object."""


View = TypeVar("View", bound=Described, contravariant=True)


class Outcome(Frozen):
    """How a job ended."""

    success: bool
    message: str


class JobPatch(Frozen):
    """One write towards a started or a stopped job: a merge patch."""

    body: Tree
    status: bool = False
    """Whether it patches the status subresource."""
    decisive: bool = False
    """Whether this write starts or stops the job, rather than preparing it or cleaning up."""
    last: bool = False
    """Whether nothing is left to do after it."""


class Pause(Frozen):
    """Nothing can be written before the job itself changes."""


class JobKind(Protocol[View]):
    """A kind of job that can be suspended, started and stopped."""

    @property
    def framework(self) -> str:
        """Its name in the Configuration."""

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
        """Whether it is suspended, with nothing left to do to stop it."""

    def stopping(self, job: View) -> bool:
        """Whether its stop has begun but is not complete."""

    def noticed(self, job: View) -> bool:
        """Whether its controller has seen that it may run, so that its status counts its pods."""

    def active(self, job: View) -> bool:
        """Whether it has pods."""

    def finished(self, job: View) -> Outcome | None:
        """How it ended; None if it has not."""

    def pod_sets(self, job: View, *, partial: bool, topology: bool) -> tuple[Tree, ...]:
        """Its pod sets for a Workload.

        `partial` says whether fewer pods may be admitted, `topology` whether the gate TopologyAwareScheduling is on.
        """

    def shapes(self, job: View, *, partial: bool) -> tuple[Shape, ...]:
        """The parts of its pods whose change requires another Workload."""

    def start(self, job: View, infos: Sequence[Info]) -> JobPatch | Pause:
        """The next write to start it; raises `InjectionError` if it can never start like that."""

    def stop(self, job: View, pod_sets: Sequence[PodSet]) -> JobPatch | Pause | None:
        """The next write to stop it, given its original pod sets; None if it is stopped."""

    def suspend(self, job: View) -> JobPatch | None:
        """The write that only suspends it; None if it is suspended."""

    def reclaimable(self, job: View) -> Mapping[str, int] | None:
        """The pods of each set that no longer need quota; None for a kind that cannot tell."""

    def pods_ready(self, job: View) -> bool:
        """Whether all its pods are ready or have succeeded."""

    def priority_class(self, job: View) -> str:
        """The PriorityClass that it names outside its pod templates; empty if there is none."""
