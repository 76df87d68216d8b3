"""How a Job ended: why it failed, and the exit codes of its pods."""

import contextlib
import signal
from collections.abc import Iterable, Mapping
from typing import Final

from pykueue.api.exitcodes import DEADLINE, TIMED_OUT, shell_code
from pykueue.api.names import COMPLETION_INDEX
from pykueue.api.trees import Tree, mapping, mappings, text, whole

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
TASK_FAILED: Final = "the task failed"


def pods_of(uid: str, index: int | None = None) -> str:
    """The label selector of the pods of a Job, or of one index of it."""
    return f"{CONTROLLER_UID}={uid}" + ("" if index is None else f",{COMPLETION_INDEX}={index}")


def end_of(job: Tree, index: int | None = None) -> str | None:
    """Why a Job, or one index of it, failed, empty if it succeeded; None while it has not ended."""
    if index is not None and contains(text(job, "status", "completedIndexes"), index):
        return ""
    if index is not None and contains(text(job, "status", "failedIndexes"), index):
        return TASK_FAILED
    for _, one in mappings(job, "status", "conditions"):
        if text(one, "status") == "True":
            match text(one, "type"):
                case "Complete":
                    return ""
                case "Failed":
                    return text(one, "message") or text(one, "reason") or "no reason given"
    return None


def contains(indexes: str, index: int) -> bool:
    """Whether a list of indexes as in the status of a Job, such as 0,3-5, contains an index."""
    for one in indexes.split(","):
        first, _, last = one.partition("-")
        if first.isdigit() and int(first) <= index <= int(last if last.isdigit() else first):
            return True
    return False


def timed_out(job: Mapping[str, object] | None) -> bool:
    """Whether a Job failed because it reached its time limit."""
    return any(
        (text(one, "type"), text(one, "status"), text(one, "reason")) == ("Failed", "True", DEADLINE)
        for _, one in mappings(job, "status", "conditions")
    )


def blamed_on_pods(job: Tree) -> bool:
    """Whether a Job failed because too many of its pods did."""
    return any(
        text(one, "type") == "Failed" and text(one, "reason") == "BackoffLimitExceeded"
        for _, one in mappings(job, "status", "conditions")
    )


def killed(end: Mapping[str, object]) -> str:
    """A sentence about a process that was killed; empty if it exited by itself."""
    if text(end, "reason") == "OOMKilled":
        return "the command was killed because it exceeded its memory limit; set a higher one with --memory"
    number = whole(end, "signal")
    if not number:
        return ""
    with contextlib.suppress(ValueError):
        return f"the command was killed by signal {number} ({signal.Signals(number).name})"
    return f"the command was killed by signal {number}"


def ends_of(pods: Iterable[Tree]) -> list[Tree]:
    """How the containers of some pods ended, in this order."""
    return [end for _, end in ended(pods)]


def ended(pods: Iterable[Tree]) -> list[tuple[Tree, Tree]]:
    """Some pods and how a container of each ended, in this order."""
    ends = [
        (pod, mapping(one, "state", "terminated"))
        for pod in pods
        for _, one in mappings(pod, "status", "containerStatuses")
    ]
    return sorted(((pod, end) for pod, end in ends if end), key=lambda one: text(one[1], "finishedAt"))


def codes_of(pods: Iterable[Tree]) -> list[int]:
    """The known exit codes of some pods, in the order in which they ended."""
    return [code for pod, end in ended(pods) if (code := code_of(pod, end)) is not None]


def code_of(pod: Tree, end: Tree) -> int | None:
    """The exit code of a container as shells report it: of a command that cannot be executed, or ran for too long."""
    if text(pod, "status", "reason") == DEADLINE:
        return TIMED_OUT
    code = whole(end, "exitCode")
    return None if code is None else shell_code(code, text(end, "reason"), text(end, "message"))


def failed_attempt(job: Tree | None, pods: Iterable[Tree]) -> str:
    """Which attempt of a Job failed last, and how."""
    failed, attempts = whole(job, "status", "failed") or 0, 1 + (whole(job, "spec", "backoffLimit") or 0)
    code = f" with exit code {codes[-1]}" if (codes := codes_of(pods)) else ""
    return f"attempt {failed} of {attempts} failed{code}"


def started_at(pod: Tree) -> tuple[str, str]:
    """The order in which pods are shown: that of their start."""
    return text(pod, "status", "startTime"), text(pod, "metadata", "name")
