"""What becomes of a pod that is only played? Its annotations say; without any it runs until it is told otherwise.

| annotation | meaning |
| --- | --- |
| `<prefix>ready-after: 2s` | ready so long after its start, or `never`; without it: at once |
| `<prefix>run-for: 3s` | ends so long after it was ready; without it: runs until it is deleted |
| `<prefix>fail: "true"` | when it ends, it has failed |
| `<prefix>exit-code: "3"` | what its containers exit with when it has failed; without it: 1 |
| `<prefix>unready-after: 2s` | stops being ready so long after it was, and does not succeed by itself |
| `<prefix>recover-after: 2s` | and is ready again so long after that |
| `<prefix>stop-for: 5s` | how long it takes to go away once it is deleted; without it: at once |
| `<prefix>now: succeeded` | set on a running pod: `succeeded`, `failed`, `unready` or `ready`, now |

Pure: `pods` has the clock and the API.
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
"""The conditions that a kubelet writes; the others stay."""


class State(StrEnum):
    """Where a pod stands: the reason of its Ready condition."""

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
    """A container, as far as its status repeats it."""

    name: str = ""
    image: str = ""


class PodSpecSeen(Wire):
    """What a kubelet looks for in a pod."""

    node_name: str = ""
    containers: tuple[ContainerSeen, ...] = ()


class ConditionSeen(Wire):
    """A condition of a pod."""

    type: str = ""
    reason: str = ""


class PodStatusSeen(Wire):
    """What became of a pod so far."""

    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: tuple[ConditionSeen, ...] = ()


class PodSeen(KubeObject):
    """A pod, as far as it is played."""

    spec: PodSpecSeen = PodSpecSeen()
    status: PodStatusSeen = PodStatusSeen()


class NextState(Frozen):
    """What is to become of a pod next, and how many microseconds after it came to where it stands."""

    state: State
    after: int = 0


def state_of(pod: PodSeen) -> State:
    """Where a pod stands."""
    if pod.status.phase in OVER:
        return State(pod.status.phase)
    if not pod.status.pod_ip:
        return State.NEW
    ready = next((one.reason for one in pod.status.conditions if one.type == "Ready"), "")
    return STATES.get(ready, State.STARTED)


def next_step(pod: PodSeen, prefix: str = PREFIX) -> NextState | None:
    """What is to become of a pod; None where it stays as it is until somebody changes it."""
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
    """What a running pod is told to become at once."""
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
    """What becomes of a running pod with time."""
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
    """The length of time in an annotation; None where there is none, or it never ends, or cannot be read."""
    text = said.get(name)
    if text is None or text == NEVER:
        return None
    try:
        return parse_duration(text)
    except DurationError:
        return None


def mistake(said: Mapping[str, str]) -> str:
    """What is wrong with a script, without the prefix; empty where nothing is. Pods pass over what they cannot read."""
    for word, text in said.items():
        if word not in WORDS:
            return f"{word!r} is no word of a script; there are: {', '.join(sorted(WORDS))}"
        if not isinstance(text, str):
            return f"{word}: {text!r} is no text"
        if word in LENGTHS and text != NEVER:
            try:
                parse_duration(text)
            except DurationError as error:
                return f"{word}: {error}"
        if word == "now" and text not in COMMANDS:
            return f"now: {text!r} is none of: {', '.join(sorted(COMMANDS))}"
        if word == "fail" and text != "true":
            return f"fail: {text!r} is not 'true'; leave it out for pods that succeed"
        if word == "exit-code" and not (text.isascii() and text.isdigit()):
            return f"exit-code: {text!r} is no number"
    return ""


def status_of(pod: PodSeen, state: State, now: str, prefix: str = PREFIX) -> Tree:
    """The status of a pod that has just come to a state, without the conditions of others."""
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
    """What the containers of a failed pod exit with."""
    text = pod.metadata.annotations.get(f"{prefix}exit-code", "1")
    return int(text) if text.isascii() and text.isdigit() else 1


def place(uid: str) -> str:
    """An address for a pod: any will do, as long as it has one."""
    number = sum(ord(letter) * (index + 1) for index, letter in enumerate(uid))
    return f"10.244.{number // 254 % 254}.{number % 254 + 1}"
