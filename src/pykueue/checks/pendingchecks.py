"""The words for a Workload that waits for admission checks, or that nothing is known about yet."""

from collections.abc import Iterable
from typing import Final

from pykueue.api.names import WorkloadCondition
from pykueue.api.trees import Tree, mappings, text

NOT_CONSIDERED: Final = "not considered yet"
"""Why a workload waits about which nothing was decided."""


def awaited(workload: Tree) -> str:
    """The checks that a Workload with quota still waits for, with their messages; empty if there are none."""
    conditions = {text(one, "type"): text(one, "status") for _, one in mappings(workload, "status", "conditions")}
    if conditions.get(WorkloadCondition.QUOTA_RESERVED) != "True":
        return ""
    if conditions.get(WorkloadCondition.ADMITTED) == "True":
        return ""
    return unready(check_states(workload))


def check_states(workload: Tree) -> Iterable[tuple[str, str, str]]:
    """Name, state and message of each check of a Workload."""
    for _, one in mappings(workload, "status", "admissionChecks"):
        yield text(one, "name"), text(one, "state"), text(one, "message")


def unready(checks: Iterable[tuple[str, str, str]]) -> str:
    """The checks that are not ready, with their messages."""
    return "; ".join(f"{name}: {message or state}" for name, state, message in checks if state != "Ready")


def awaited_text(checks: Iterable[tuple[str, str, str]]) -> str:
    """Why a Workload waits that has quota and is not admitted."""
    waiting = unready(checks)
    return f"waiting for admission checks: {waiting}" if waiting else "quota is reserved; waiting for admission checks"
