"""How a Job ended: why it failed, and the exit codes of its pods."""

import contextlib
import re
import signal
from collections.abc import Iterable, Mapping
from typing import Final

from pykueue.api.names import COMPLETION_INDEX
from pykueue.api.trees import Tree, mapping, mappings, text, whole

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
NOT_EXECUTED: Final = re.compile(r'exec: ".*": (.*)', re.DOTALL)
"""What container runtimes say of a command that they cannot execute."""
ABSENT: Final = ("executable file not found", "no such file or directory")
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""The exit codes of shells for such a command."""


def pods_of(uid: str, index: int | None = None) -> str:
    """The label selector of the pods of a Job, or of one index of it."""
    return f"{CONTROLLER_UID}={uid}" + ("" if index is None else f",{COMPLETION_INDEX}={index}")


def end_of(job: Tree, index: int | None = None) -> str | None:
    """Why a Job, or one index of it, failed, empty if it succeeded; None while it has not ended."""
    if index is not None and contains(text(job, "status", "completedIndexes"), index):
        return ""
    if index is not None and contains(text(job, "status", "failedIndexes"), index):
        return f"index {index} failed"
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
    ends = [
        mapping(one, "state", "terminated") for pod in pods for _, one in mappings(pod, "status", "containerStatuses")
    ]
    return sorted((end for end in ends if end), key=lambda end: text(end, "finishedAt"))


def codes_of(pods: Iterable[Tree]) -> list[int]:
    """The known exit codes of some pods, in the order in which they ended."""
    return [code for end in ends_of(pods) if (code := code_of(end)) is not None]


def code_of(end: Tree) -> int | None:
    """The exit code of a container; as in shells if its command does not exist or cannot be executed."""
    if text(end, "reason") == "StartError" and (why := NOT_EXECUTED.search(text(end, "message"))):
        return NOT_FOUND if any(words in why[1] for words in ABSENT) else NOT_EXECUTABLE
    return whole(end, "exitCode")


def failed_attempt(job: Tree | None, pods: Iterable[Tree]) -> str:
    """Which attempt of a Job failed last, and how."""
    failed, attempts = whole(job, "status", "failed") or 0, 1 + (whole(job, "spec", "backoffLimit") or 0)
    code = f" with exit code {codes[-1]}" if (codes := codes_of(pods)) else ""
    return f"attempt {failed} of {attempts} failed{code}"


def started_at(pod: Tree) -> tuple[str, str]:
    """The order in which pods are shown: that of their start."""
    return text(pod, "status", "startTime"), text(pod, "metadata", "name")
