"""The cells of `kubectl get pods` that summarize the state of a pod's containers."""

from collections.abc import Mapping
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.trees import items, mapping, mappings, member, text, whole
from pykueue.base.struct import Frozen

NONE: Final = "<none>"
GATED: Final = "SchedulingGated"
TERMINAL: Final = ("Succeeded", "Failed")


class PodSeen(Frozen):
    """The cells of a pod."""

    ready: int
    containers: int
    state: str
    restarts: int
    restarted_at: str
    """When a container last ended before its restart; empty if none was restarted."""
    wide: tuple[str, str, str, str]
    """Address, node, nominated node, readiness gates."""


class Counted(Frozen):
    """The summary of a pod's containers, init or main."""

    state: str
    initializing: bool = False
    ready: int = 0
    restarts: int = 0
    restarted_at: str = ""
    lasting_restarts: int = 0
    """Of sidecars."""
    lasting_restarted_at: str = ""


def pod_cells(pod: Tree) -> PodSeen:
    """The cells of a pod."""
    phase = text(pod, "status", "phase")
    state = text(pod, "status", "reason") or phase
    conditions = {text(one, "type"): one for _, one in mappings(pod, "status", "conditions")}
    if text(conditions.get("PodScheduled"), "reason") == GATED:
        state = GATED
    first = init_containers(pod, state)
    shown = first
    if not first.initializing or text(conditions.get("Initialized"), "status") == "True":
        is_ready = text(conditions.get("Ready"), "status") == "True"
        shown = main_containers(pod, first, is_ready=is_ready)
    state = shown.state
    if member(pod, "metadata", "deletionTimestamp"):
        if text(pod, "status", "reason") == "NodeLost":
            state = "Unknown"
        elif phase not in TERMINAL:
            state = "Terminating"
    count = len(items(pod, "spec", "containers")) + len(sidecars(pod))
    return PodSeen(shown.ready, count, state, shown.restarts, shown.restarted_at, wide_cells(pod, conditions))


def sidecars(pod: Tree) -> frozenset[str]:
    """The names of sidecars: init containers that keep running beside the main ones."""
    return frozenset(
        text(one, "name")
        for _, one in mappings(pod, "spec", "initContainers")
        if text(one, "restartPolicy") == "Always"
    )


def init_containers(pod: Tree, state: str) -> Counted:
    """The summary of init containers; the first that has not finished determines the status."""
    restarts = lasting_restarts = ready = 0
    restarted_at = lasting_restarted_at = ""
    stays, all_of_them = sidecars(pod), len(items(pod, "spec", "initContainers"))
    initializing = False
    for index, one in mappings(pod, "status", "initContainerStatuses"):
        times, ended = whole(one, "restartCount") or 0, ended_at(one)
        restarts, restarted_at = restarts + times, max(restarted_at, ended)
        if text(one, "name") in stays:
            lasting_restarts, lasting_restarted_at = lasting_restarts + times, max(lasting_restarted_at, ended)
        terminated, waiting = member(one, "state", "terminated"), text(one, "state", "waiting", "reason")
        if isinstance(terminated, Mapping) and not whole(terminated, "exitCode"):
            continue
        if text(one, "name") in stays and member(one, "started") is True:
            ready += member(one, "ready") is True
            continue
        initializing = True
        if isinstance(terminated, Mapping):
            state = f"Init:{ending(terminated)}"
        elif waiting and waiting != "PodInitializing":
            state = f"Init:{waiting}"
        else:
            state = f"Init:{index}/{all_of_them}"
        break
    return Counted(state, initializing, ready, restarts, restarted_at, lasting_restarts, lasting_restarted_at)


def main_containers(pod: Tree, first: Counted, *, is_ready: bool) -> Counted:
    """The summary of the main containers and the sidecars."""
    state, ready, restarts, restarted_at = (
        first.state,
        first.ready,
        first.lasting_restarts,
        first.lasting_restarted_at,
    )
    running, failed = False, ""
    for _, one in reversed(mappings(pod, "status", "containerStatuses")):
        restarts, restarted_at = restarts + (whole(one, "restartCount") or 0), max(restarted_at, ended_at(one))
        waiting, terminated = text(one, "state", "waiting", "reason"), member(one, "state", "terminated")
        if waiting:
            state = waiting
        elif isinstance(terminated, Mapping):
            state = ending(terminated)
            failed = state if whole(terminated, "exitCode") else failed
        elif member(one, "ready") is True and member(one, "state", "running") is not None:
            running, ready = True, ready + 1
    if state == "Completed":
        if running and is_ready:
            state = "Running"
        elif failed:
            state = failed
        elif running:
            state = "NotReady"
    return Counted(state, False, ready, restarts, restarted_at)


def ended_at(status: object) -> str:
    """When the previous run of a container ended."""
    return text(status, "lastState", "terminated", "finishedAt")


def ending(terminated: Mapping[str, object]) -> str:
    """How a container ended, as one word."""
    if reason := text(terminated, "reason"):
        return reason
    if signal := whole(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{whole(terminated, 'exitCode') or 0}"


def wide_cells(pod: Tree, conditions: Mapping[str, Mapping[str, object]]) -> tuple[str, str, str, str]:
    """The cells of a pod that only `-o wide` shows."""
    addresses = mappings(pod, "status", "podIPs")
    gates = [text(one, "conditionType") for _, one in mappings(pod, "spec", "readinessGates")]
    open_ones = sum(text(conditions.get(gate), "status") == "True" for gate in gates)
    return (
        (text(addresses[0][1], "ip") if addresses else "") or NONE,
        text(mapping(pod, "spec"), "nodeName") or NONE,
        text(pod, "status", "nominatedNodeName") or NONE,
        f"{open_ones}/{len(gates)}" if gates else NONE,
    )
