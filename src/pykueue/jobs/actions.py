"""The actions that `plan` chooses from; the next module to read is `plan`."""

from typing import Final, TypeAlias

from pykueue.api.core import Tree
from pykueue.api.workload import Workload
from pykueue.base.struct import Frozen

STOPPED: Final = "Stopped"


class Notice(Frozen):
    """An Event about a job."""

    reason: str
    text: str
    warning: bool = False
    by_note: bool = False
    """Whether an equal Event with another text is an Event of its own."""


class CreateWorkload(Frozen):
    """Create the Workload of the job."""

    tree: Tree
    notice: Notice


class UpdateWorkload(Frozen):
    """Patch a Workload, except its status."""

    workload: Workload
    body: Tree
    notices: tuple[Notice, ...] = ()


class DeleteWorkload(Frozen):
    """Delete a Workload, after removing our finalizer."""

    workload: Workload
    notice: Notice


class RemoveFinalizer(Frozen):
    """Remove our finalizer from a Workload."""

    workload: Workload
    notice: Notice | None = None


class WriteReclaimable(Frozen):
    """Write how many pods of a Workload no longer need their quota."""

    workload: Workload
    counts: tuple[tuple[str, int], ...]


class WritePodsReady(Frozen):
    """Write whether the pods of a Workload are ready."""

    workload: Workload
    ready: bool
    reason: str
    message: str


class Finish(Frozen):
    """Mark a Workload as finished."""

    workload: Workload
    reason: str
    message: str
    notice: Notice | None = None


class PatchJob(Frozen):
    """Patch the job, or its status."""

    body: Tree
    status: bool = False
    notice: Notice | None = None
    confirm: bool = False
    """Whether to confirm first that no Workload was overlooked: this stops a job that may rightly be running."""
    last: bool = False
    """Whether this completes the start or stop of the job."""

    @property
    def stops(self) -> bool:
        """Whether this is the write that stops the job."""
        return self.notice is not None and self.notice.reason == STOPPED


class DeleteJob(Frozen):
    """Delete the job."""

    notice: Notice


class Stopped(Frozen):
    """Record that no pod of an evicted Workload is left."""

    workload: Workload


class SendEvent(Frozen):
    """Send an Event that belongs to no write; once, until another one replaces it."""

    notice: Notice


class LookAgain(Frozen):
    """Look at the job again after a delay."""

    seconds: float


class Await(Frozen):
    """Look at the job again when a priority class or flavor is added."""


Write: TypeAlias = (
    CreateWorkload
    | UpdateWorkload
    | DeleteWorkload
    | RemoveFinalizer
    | WriteReclaimable
    | WritePodsReady
    | Finish
    | PatchJob
    | DeleteJob
)
Action: TypeAlias = Write | Stopped | SendEvent | LookAgain | Await
Actions: TypeAlias = tuple[Action, ...]

NOTHING: Final[Actions] = ()
