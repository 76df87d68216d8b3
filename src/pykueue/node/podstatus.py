"""The status of a pod from the states of its containers: phase, conditions and container statuses.

Pure: `status_of` returns the status that a kubelet would write, for a runner as for a script. Conditions of other
writers (PodScheduled, DisruptionTarget, readiness gates) stay.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from pykueue.api.core import Json, Tree
from pykueue.api.trees import mappings, text, whole
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, format_instant

Phase: TypeAlias = Literal["Pending", "Running", "Succeeded", "Failed"]

CREATING: Final = "ContainerCreating"
INITIALIZING: Final = "PodInitializing"
BACK_OFF: Final = "CrashLoopBackOff"
COMPLETED: Final = "Completed"
ERROR: Final = "Error"
OOM: Final = "OOMKilled"
LOST: Final = "ContainerStatusUnknown"
LOST_MESSAGE: Final = "The container could not be located when the pod was terminated"
LOST_CODE: Final = 137
LOCALHOST: Final = "127.0.0.1"
DISRUPTION: Final = "DisruptionTarget"
DISRUPTION_REASON: Final = "TerminationByKubelet"


class Waiting(Frozen, tag=True):
    """Not running, at first or before a restart."""

    reason: str = CREATING
    message: str = ""


class Running(Frozen, tag=True):
    """Running since an instant."""

    since: Instant


class Ended(Frozen, tag=True):
    """Terminated."""

    code: int
    began: Instant
    ended: Instant
    reason: str = ""
    """Empty: `Completed` with code 0, `Error` with any other."""
    message: str = ""
    signal: int = 0


State: TypeAlias = Waiting | Running | Ended


class ContainerStatus(Frozen):
    """The state of a container."""

    state: State = Waiting()
    last: Ended | None = None
    """How the previous attempt ended."""
    restarts: int = 0
    ready: bool = False
    """The result of its readiness probe, while it runs; without a probe, running is ready."""
    started: bool = False
    """The result of its startup probe, while it runs; without a probe, running is started."""
    attempt: str = ""
    """The identity of this attempt, for `containerID`."""


FRESH: Final = ContainerStatus()


def restart_policy(pod: Tree) -> str:
    """Always, OnFailure or Never."""
    return text(pod, "spec", "restartPolicy") or "Always"


def is_sidecar(container: Mapping[str, object]) -> bool:
    """Whether an init container keeps running beside the containers started after it."""
    return container.get("restartPolicy") == "Always"


def specs(pod: Tree, which: str = "containers") -> list[Mapping[str, object]]:
    """The containers of a pod's spec, or another list in it."""
    spec = pod.get("spec")
    found = spec.get(which) if isinstance(spec, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def succeeded(state: State) -> bool:
    """Whether it terminated successfully."""
    return isinstance(state, Ended) and state.code == 0


def initialized(pod: Tree, containers: Mapping[str, ContainerStatus]) -> bool:
    """Whether every init container is done: succeeded, or started if it is a sidecar."""
    return not uninitialized(pod, containers)


def uninitialized(pod: Tree, containers: Mapping[str, ContainerStatus]) -> list[str]:
    """The init containers that are not done, in order."""
    if any(not isinstance(containers.get(name, FRESH).state, Waiting) for name in names(specs(pod))):
        # Main containers start only after all of these, and a restart of a sidecar changes nothing.
        return []
    left = []
    for spec in specs(pod, "initContainers"):
        known = containers.get(text(spec, "name"), FRESH)
        done = known.started if is_sidecar(spec) else succeeded(known.state)
        if not done:
            left.append(text(spec, "name"))
    return left


def names(containers: Iterable[Mapping[str, object]]) -> list[str]:
    """The names of containers."""
    return [text(one, "name") for one in containers]


def phase_of(pod: Tree, containers: Mapping[str, ContainerStatus]) -> Phase:
    """The phase of a pod with these container states."""
    policy = restart_policy(pod)
    plain = [spec for spec in specs(pod, "initContainers") if not is_sidecar(spec)]
    if policy == "Never":
        for spec in plain:
            state = containers.get(text(spec, "name"), FRESH).state
            if isinstance(state, Ended) and state.code != 0:
                return "Failed"
    if not initialized(pod, containers):
        return "Pending"
    known = [containers.get(name, FRESH) for name in names(specs(pod))]
    waiting = sum(isinstance(one.state, Waiting) and one.last is None for one in known)
    running = sum(isinstance(one.state, Running) for one in known)
    if waiting or not known:
        return "Pending"
    if running or policy == "Always" or any(isinstance(one.state, Running) for one in containers.values()):
        # A pod ends only when its sidecars have ended, too.
        return "Running"
    ends = [one.state if isinstance(one.state, Ended) else one.last for one in known]
    if all(end is not None and end.code == 0 for end in ends):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def final_phase(pod: Tree, containers: Mapping[str, ContainerStatus]) -> Phase:
    """The phase of a pod that was stopped, once nothing of it runs."""
    states = [containers.get(name, FRESH).state for name in names(specs(pod))]
    return "Succeeded" if states and all(succeeded(state) for state in states) else "Failed"


def status_of(
    pod: Tree,
    containers: Mapping[str, ContainerStatus],
    now: Instant,
    *,
    host: str = LOCALHOST,
    phase: Phase | None = None,
    reason: str = "",
    message: str = "",
    disruption: str = "",
) -> Tree:
    """The status of a pod; `phase`, `reason` and `message` override what follows from the container states.

    `disruption` is the message of the DisruptionTarget condition of a pod that ended because of its node.
    Fields that are not the kubelet's are copied from the present status.
    """
    before = pod.get("status")
    status: Tree = dict(before) if isinstance(before, dict) else {}
    phase = phase or phase_of(pod, containers)
    over = phase in ("Succeeded", "Failed")
    generation = whole(pod, "metadata", "generation")
    if generation is not None:
        status["observedGeneration"] = generation
    status["phase"] = phase
    status["conditions"] = conditions_of(pod, containers, phase, now, disruption)
    for name, value in (("reason", reason), ("message", message)):
        if value:
            status[name] = value
        elif not over:
            # The scheduler's message about a pod that could not be placed is obsolete once it runs.
            status.pop(name, None)
    status["hostIP"] = host
    status["hostIPs"] = [{"ip": host}]
    status["podIP"] = host
    status["podIPs"] = [{"ip": host}]
    status.setdefault("startTime", format_instant(now))
    inits = specs(pod, "initContainers")
    mains = specs(pod)
    if inits:
        status["initContainerStatuses"] = [entry(spec, containers, over=over, init=True) for spec in inits]
    before_start = bool(inits) and not initialized(pod, containers)
    status["containerStatuses"] = [
        entry(spec, containers, over=over, idle=INITIALIZING if before_start else CREATING) for spec in mains
    ]
    return status


def entry(
    spec: Mapping[str, object],
    containers: Mapping[str, ContainerStatus],
    *,
    over: bool,
    init: bool = False,
    idle: str = INITIALIZING,
) -> Tree:
    """The status of one container."""
    name = text(spec, "name")
    known = containers.get(name, FRESH)
    state = known.state
    if isinstance(state, Waiting) and state == Waiting():
        state = Waiting(idle)
    if isinstance(state, Waiting) and over and known.last is not None:
        # A finished pod waits for nothing: its last termination is its state.
        state, known = known.last, ContainerStatus(known.last, None, known.restarts, attempt=known.attempt)
    running = isinstance(state, Running)
    ready = succeeded(state) if init and not is_sidecar(spec) else running and known.ready
    image = text(spec, "image")
    made: Tree = {
        "name": name,
        "state": state_tree(state, known.attempt),
        "lastState": {} if known.last is None else state_tree(known.last, ""),
        "ready": ready,
        "restartCount": known.restarts,
        "image": image,
        "imageID": "",
        "started": running and known.started,
    }
    if known.attempt and not isinstance(state, Waiting):
        made["containerID"] = container_id(known.attempt)
    return made


def container_id(attempt: str) -> str:
    """The containerID of an attempt."""
    return f"process://{attempt}"


def state_tree(state: State, attempt: str) -> Tree:
    """A state in wire format."""
    match state:
        case Waiting(reason=reason, message=message):
            waiting: Tree = {"reason": reason}
            if message:
                waiting["message"] = message
            return {"waiting": waiting}
        case Running(since=since):
            return {"running": {"startedAt": format_instant(since)}}
        case Ended():
            ended: Tree = {"exitCode": state.code}
            if state.signal:
                ended["signal"] = state.signal
            ended["reason"] = state.reason or (COMPLETED if state.code == 0 else ERROR)
            if state.message:
                ended["message"] = state.message
            ended["startedAt"] = format_instant(state.began)
            ended["finishedAt"] = format_instant(state.ended)
            if attempt:
                ended["containerID"] = container_id(attempt)
            return {"terminated": ended}


def conditions_of(
    pod: Tree, containers: Mapping[str, ContainerStatus], phase: Phase, now: Instant, disruption: str = ""
) -> list[Json]:
    """All conditions: those of other writers unchanged, and ours."""
    known = {text(one, "type"): one for one in stored_conditions(pod)}
    generation = whole(pod, "metadata", "generation")
    ready = readiness(pod, containers, phase)
    gated = ready
    if ready == ("True", "", "") and (missing := unmet_gates(pod, known)):
        gated = ("False", "ReadinessGatesNotReady", missing)
    alive = any(isinstance(one.state, Running) or one.last is not None for one in containers.values())
    mine = {
        "PodReadyToStartContainers": (
            "True" if phase in ("Pending", "Running") and (alive or phase == "Running") else "False",
            "",
            "",
        ),
        "Initialized": initialization(pod, containers, phase),
        "Ready": gated,
        "ContainersReady": ready,
    }
    if disruption and phase == "Failed":
        mine[DISRUPTION] = ("True", DISRUPTION_REASON, disruption)
    made: list[Json] = []
    for kind in mine:
        status, reason, message = mine[kind]
        before = known.pop(kind, None)
        since = text(before, "lastTransitionTime") if before is not None and before.get("status") == status else ""
        condition: Tree = {"type": kind, "status": status}
        if generation is not None:
            condition["observedGeneration"] = generation
        condition["lastProbeTime"] = None
        condition["lastTransitionTime"] = since or format_instant(now)
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        made.append(condition)
    return [*made, *known.values()]


def stored_conditions(pod: Tree) -> list[Tree]:
    """The present conditions of a pod."""
    status = pod.get("status")
    found = status.get("conditions") if isinstance(status, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def initialization(pod: Tree, containers: Mapping[str, ContainerStatus], phase: Phase) -> tuple[str, str, str]:
    """Status, reason and message of Initialized."""
    if phase == "Succeeded":
        return "True", "PodCompleted", ""
    left = uninitialized(pod, containers)
    if left:
        return "False", "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(left)}]"
    return "True", "", ""


def readiness(pod: Tree, containers: Mapping[str, ContainerStatus], phase: Phase) -> tuple[str, str, str]:
    """Status, reason and message of ContainersReady, and of Ready if all readiness gates hold."""
    if phase == "Succeeded":
        return "False", "PodCompleted", ""
    if phase == "Failed":
        return "False", "PodFailed", ""
    asked = names(specs(pod)) + [text(spec, "name") for spec in specs(pod, "initContainers") if is_sidecar(spec)]
    left = []
    for name in asked:
        one = containers.get(name, FRESH)
        if not (one.ready and isinstance(one.state, Running)):
            left.append(name)
    if left:
        return "False", "ContainersNotReady", f"containers with unready status: [{' '.join(left)}]"
    return "True", "", ""


def unmet_gates(pod: Tree, conditions: Mapping[str, Mapping[str, object]]) -> str:
    """The kubelet's message about readiness gates that do not hold; empty if all do."""
    problems = []
    for _, gate in mappings(pod, "spec", "readinessGates"):
        kind = text(gate, "conditionType")
        found = conditions.get(kind)
        if found is None:
            problems.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif found.get("status") != "True":
            problems.append(f'the status of pod readiness gate "{kind}" is not "True", but {found.get("status")}')
    return ", ".join(problems)
