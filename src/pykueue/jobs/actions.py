"""What can be done for a job? The actions that `plan` chooses from; the next module to read is `plan`."""

from typing import Final, TypeAlias

from pykueue.api.core import Tree
from pykueue.api.workload import Workload
from pykueue.base.struct import Frozen

STOPPED: Final = "Stopped"


class Notice(Frozen):
    """What people are told about a job: an Event."""

    reason: str
    text: str
    warning: bool = False


class CreateWorkload(Frozen):
    """Create the Workload of the job."""

    tree: Tree
    notice: Notice


class UpdateWorkload(Frozen):
    """Patch a Workload, but for its status."""

    workload: Workload
    body: Tree
    notices: tuple[Notice, ...] = ()


class DeleteWorkload(Frozen):
    """Delete a Workload; whoever does it takes off our finalizer first."""

    workload: Workload
    notice: Notice


class RemoveFinalizer(Frozen):
    """Let go of a Workload."""

    workload: Workload
    notice: Notice | None = None


class WriteReclaimable(Frozen):
    """Write how many pods of a Workload need their quota no more."""

    workload: Workload
    counts: tuple[tuple[str, int], ...]


class WritePodsReady(Frozen):
    """Write whether the pods of a Workload are ready."""

    workload: Workload
    ready: bool
    reason: str
    message: str


class Finish(Frozen):
    """Write that a Workload is finished."""

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
    """Whether to make sure first that no Workload was overlooked: this stops a job that may be running rightly."""
    last: bool = False
    """Whether the job is started, or stopped, with it."""

    @property
    def stops(self) -> bool:
        """Whether this is the write that stops the job."""
        return self.notice is not None and self.notice.reason == STOPPED


class DeleteJob(Frozen):
    """Delete the job."""

    notice: Notice


class Stopped(Frozen):
    """Say that no pod of an evicted Workload is left."""

    workload: Workload


class Tell(Frozen):
    """Tell people something that no write goes with; once, until something else is to be told."""

    notice: Notice


class LookAgain(Frozen):
    """Look at the job again after a while."""

    seconds: float


class Await(Frozen):
    """Look at the job again when there is a new priority class, or a new flavor."""


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
Action: TypeAlias = Write | Stopped | Tell | LookAgain | Await
Actions: TypeAlias = tuple[Action, ...]

NOTHING: Final[Actions] = ()
