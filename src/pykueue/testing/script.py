"""The script of a simulated pod: its annotations determine its state changes.

| annotation | meaning | default |
| --- | --- | --- |
| `<prefix>ready-after: 2s` | becomes ready this long after it started, or `never` | at once |
| `<prefix>run-for: 3s` | ends this long after it became ready | runs until deleted |
| `<prefix>fail: "true"` | fails when it ends | succeeds |
| `<prefix>exit-code: "3"` | the exit code of its containers if it fails | 1 |
| `<prefix>unready-after: 2s` | becomes unready this long after it was ready, and does not succeed by itself | never |
| `<prefix>recover-after: 2s` | becomes ready again this long after it lost readiness | never |
| `<prefix>stop-for: 5s` | takes this long to stop once it is deleted | at once |
| `<prefix>now: succeeded` | on a running pod: change to `succeeded`, `failed`, `unready` or `ready` at once | |

This module is pure; `pods` has the clock and the API.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from pykueue.api.core import Json, KubeObject, Tree
from pykueue.api.durations import DurationError, parse_duration
from pykueue.base.struct import Frozen, Wire

PREFIX: Final = "testing.pykueue.io/"
NEVER: Final = "never"
LENGTHS: Final = frozenset({"ready-after", "run-for", "unready-after", "recover-after", "stop-for"})
COMMANDS: Final = frozenset({"succeeded", "failed", "unready", "ready"})
WORDS: Final = frozenset({*LENGTHS, "fail", "exit-code", "now"})
OURS: Final = ("Ready", "ContainersReady", "Initialized")
"""The conditions that the kubelet writes; others are kept."""


class State(StrEnum):
    """The state of a pod; the reason of its Ready condition."""

    NEW = "New"
    STARTING = "Starting"
    STARTED = "Started"
    LOST = "Lost"
    RECOVERED = "Recovered"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    GONE = "Gone"


STATES: Final = {state.value: state for state in State}
READY: Final = frozenset({State.STARTED, State.RECOVERED})
OVER: Final = frozenset({State.SUCCEEDED, State.FAILED})


class ContainerSeen(Wire):
    """The fields of a container that its status repeats."""

    name: str = ""
    image: str = ""


class PodSpecSeen(Wire):
    """The fields of a pod spec that are read here."""

    node_name: str = ""
    containers: tuple[ContainerSeen, ...] = ()


class ConditionSeen(Wire):
    """A condition of a pod."""

    type: str = ""
    reason: str = ""


class PodStatusSeen(Wire):
    """The fields of a pod status that are read here."""

    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: tuple[ConditionSeen, ...] = ()


class PodSeen(KubeObject):
    """The fields of a pod that are read here."""

    spec: PodSpecSeen = PodSpecSeen()
    status: PodStatusSeen = PodStatusSeen()


class NextState(Frozen):
    """The next state of a pod, and how many microseconds after it entered its current state."""

    state: State
    after: int = 0


def state_of(pod: PodSeen) -> State:
    """The current state of a pod."""
    if pod.status.phase in OVER:
        return State(pod.status.phase)
    if not pod.status.pod_ip:
        return State.NEW
    ready = next((one.reason for one in pod.status.conditions if one.type == "Ready"), "")
    return STATES.get(ready, State.STARTED)


def next_step(pod: PodSeen, prefix: str = PREFIX) -> NextState | None:
    """The next state of a pod; None if it stays as it is."""
    said = {key.removeprefix(prefix): text for key, text in pod.metadata.annotations.items() if key.startswith(prefix)}
    state = state_of(pod)
    if pod.metadata.deletion_timestamp is not None:
        return NextState(State.GONE, micros(said, "stop-for") or 0)
    if state in OVER:
        return None
    if state is State.NEW:
        return NextState(State.STARTING if "ready-after" in said else State.STARTED)
    at_once = commanded(state, said.get("now", ""))
    return NextState(at_once) if at_once is not None else by_itself(state, said)


def commanded(state: State, now: str) -> State | None:
    """The state that the annotation `now` requests."""
    match now:
        case "succeeded":
            return State.SUCCEEDED
        case "failed":
            return State.FAILED
        case "unready" if state in READY:
            return State.LOST
        case "ready" if state not in READY:
            return State.RECOVERED
        case _:
            return None


def by_itself(state: State, said: Mapping[str, str]) -> NextState | None:
    """The next state that a running pod reaches with time."""
    if state is State.STARTING:
        after, then = micros(said, "ready-after"), State.STARTED
    elif state is State.LOST:
        after, then = micros(said, "recover-after"), State.RECOVERED
    elif state is State.STARTED and "unready-after" in said and "fail" not in said:
        after, then = micros(said, "unready-after"), State.LOST
    elif "fail" in said:
        after, then = micros(said, "run-for"), State.FAILED
    elif "unready-after" not in said:
        after, then = micros(said, "run-for"), State.SUCCEEDED
    else:
        return None
    return None if after is None else NextState(then, after)


def micros(said: Mapping[str, str], name: str) -> int | None:
    """The duration in an annotation; None if it is missing, `never` or invalid."""
    text = said.get(name)
    if text is None or text == NEVER:
        return None
    try:
        return parse_duration(text)
    except DurationError:
        return None


def mistake(said: Mapping[str, str]) -> str:
    """The first error in a script, without the prefix; empty if it is valid. Pods ignore invalid annotations."""
    for word, text in said.items():
        if word not in WORDS:
            return f"unknown script key {word!r}; use one of: {', '.join(sorted(WORDS))}"
        if not isinstance(text, str):
            return f"{word}: {text!r} is not a string; quote it"
        if word in LENGTHS and text != NEVER:
            try:
                parse_duration(text)
            except DurationError as error:
                return f"{word}: {error}"
        if word == "now" and text not in COMMANDS:
            return f"now: unknown value {text!r}; use one of: {', '.join(sorted(COMMANDS))}"
        if word == "fail" and text != "true":
            return f"fail: {text!r} is not 'true'; omit it for pods that succeed"
        if word == "exit-code" and not (text.isascii() and text.isdigit()):
            return f"exit-code: {text!r} is not a number; use digits only"
    return ""


def status_of(pod: PodSeen, state: State, now: str, prefix: str = PREFIX) -> Tree:
    """The status of a pod that enters a state, without conditions of other writers."""
    ready, over = state in READY, state in OVER
    conditions: list[Json] = [
        condition("Ready", ready, state, now),
        condition("ContainersReady", ready, state, now),
        condition("Initialized", True, "", now),
    ]
    if over:
        code = 0 if state is State.SUCCEEDED else exit_code(pod, prefix)
        reason = "Completed" if state is State.SUCCEEDED else "Error"
        running: Json = {"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}}
    else:
        running = {"running": {"startedAt": pod.status.start_time or now}}
    status: Tree = {
        "phase": state.value if over else "Running",
        "conditions": conditions,
        "containerStatuses": [
            {
                "name": one.name,
                "image": one.image,
                "imageID": "",
                "lastState": {},
                "ready": ready,
                "restartCount": 0,
                "started": not over,
                "state": running,
            }
            for one in pod.spec.containers
        ],
    }
    if not pod.status.pod_ip:
        address = place(pod.metadata.uid or pod.name)
        status |= {"startTime": now, "hostIP": "127.0.0.1", "podIP": address, "podIPs": [{"ip": address}]}
    return status


def condition(kind: str, holds: bool, reason: str, now: str) -> Json:
    """A condition of a pod."""
    made: Tree = {"type": kind, "status": str(holds), "lastTransitionTime": now}
    return made | ({"reason": str(reason)} if reason else {})


def exit_code(pod: PodSeen, prefix: str) -> int:
    """The exit code of the containers of a failed pod."""
    text = pod.metadata.annotations.get(f"{prefix}exit-code", "1")
    return int(text) if text.isascii() and text.isdigit() else 1


def place(uid: str) -> str:
    """A made-up IP address for a pod."""
    number = sum(ord(letter) * (index + 1) for index, letter in enumerate(uid))
    return f"10.244.{number // 254 % 254}.{number % 254 + 1}"
