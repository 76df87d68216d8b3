"""What to do with a pod's containers next: pure, from their states to which start, end or wait."""

from collections.abc import Mapping
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.trees import text, whole
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, Moment, Seconds, after, parse_instant
from pykueue.kube.port import Ref
from pykueue.node.podstatus import (
    BACK_OFF,
    FRESH,
    ContainerStatus,
    Ended,
    Running,
    Waiting,
    is_sidecar,
    restart_policy,
    specs,
    succeeded,
)

FIRST_SECONDS: Final = 10
LAST_SECONDS: Final = 300
FORGET_MICROS: Final = 2 * LAST_SECONDS * MICROS
"""A container that ran for this long starts over with its back-off."""
GRACE_DEFAULT: Final = 30
DEADLINE_REASON: Final = "DeadlineExceeded"
DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"


class Steps(Frozen):
    """What to do now, and when to look again if nothing changes."""

    start: tuple[str, ...] = ()
    held: Mapping[str, Instant] = {}
    """Containers to restart, but not before an instant."""
    end: tuple[str, ...] = ()
    """Sidecars that are no longer needed."""

    @property
    def wake(self) -> Instant | None:
        """When the first back-off ends."""
        return min(self.held.values(), default=None)


def delay_seconds(failures: int) -> int:
    """The back-off after this many consecutive failures: none at first, then 10 s, doubled up to 5 min."""
    return 0 if failures <= 1 else min(LAST_SECONDS, FIRST_SECONDS << min(failures - 2, 10))


def restart_due(end: Ended, failures: int) -> Instant:
    """When a container may restart."""
    return after(end.ended, Seconds(delay_seconds(failures)))


def wants_restart(policy: str, end: Ended) -> bool:
    """Whether the restart policy restarts a container that ended like this."""
    return policy == "Always" or (policy == "OnFailure" and end.code != 0)


def duration(seconds: int) -> str:
    """Seconds as Go prints a duration."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def held_state(pod: Tree, name: str, failures: int) -> Waiting:
    """The state of a container in back-off."""
    return Waiting(
        BACK_OFF, f"back-off {duration(delay_seconds(failures))} restarting failed container={name} pod={label(pod)}"
    )


def label(pod: Tree) -> str:
    """A pod as the kubelet's messages name it."""
    meta = [text(pod, "metadata", field) for field in ("name", "namespace", "uid")]
    return f"{meta[0]}_{meta[1]}({meta[2]})"


def reference(pod: Tree) -> Ref:
    """A pod as its Events refer to it."""
    meta = pod.get("metadata")
    return Ref("v1", "Pod", *(text(meta, name) for name in ("namespace", "name", "uid", "resourceVersion")))


def steps(pod: Tree, containers: Mapping[str, ContainerStatus], failures: Mapping[str, int], now: Instant) -> Steps:
    """What to do with a pod that is not ending."""
    policy = restart_policy(pod)
    start: list[str] = []
    held: dict[str, Instant] = {}

    def begin(name: str, again: str) -> bool:
        """Start a container if it should run; returns whether it will run, now or later."""
        known = containers.get(name, FRESH)
        end = known.state if isinstance(known.state, Ended) else known.last
        match known.state:
            case Running():
                return True
            case Ended() as ended if not wants_restart(again, ended):
                return False
            case _:
                due = now if end is None else restart_due(end, failures.get(name, 0))
                if due <= now:
                    start.append(name)
                else:
                    held[name] = due
                return True

    sidecars = [text(spec, "name") for spec in specs(pod, "initContainers") if is_sidecar(spec)]
    mains = [text(spec, "name") for spec in specs(pod)]
    begun = any(containers.get(name, FRESH) != FRESH for name in mains)
    failed = False
    for spec in specs(pod, "initContainers"):
        name = text(spec, "name")
        known = containers.get(name, FRESH)
        if is_sidecar(spec):
            begin(name, "Always")
            if not known.started and not begun:
                return Steps(tuple(start), held)
        elif not begun and not succeeded(known.state):
            failed = not begin(name, "OnFailure" if policy == "Always" else policy)
            if not failed:
                return Steps(tuple(start), held)
            break
    alive = [] if failed else [begin(name, policy) for name in mains]
    if any(alive):
        return Steps(tuple(start), held)
    # Only sidecars are left, which serve the others: the last to start ends first.
    running = [name for name in sidecars if isinstance(containers.get(name, FRESH).state, Running)]
    return Steps(end=tuple(reversed(running)))


def grace_seconds(pod: Tree) -> int:
    """A pod's grace period after SIGTERM."""
    given = whole(pod, "spec", "terminationGracePeriodSeconds")
    return GRACE_DEFAULT if given is None else given


def kill_due(pod: Tree, now: Instant) -> Instant:
    """When the remaining processes of a deleted pod are killed."""
    grace = whole(pod, "metadata", "deletionGracePeriodSeconds")
    if grace is None:
        grace = grace_seconds(pod)
    moment = text(pod, "metadata", "deletionTimestamp")
    # deletionTimestamp is the end of the grace period, truncated to whole seconds.
    return now if grace <= 0 or not moment else after(parse_instant(moment), Seconds(1))


def deadline(pod: Tree) -> Instant | None:
    """When a pod reaches its activeDeadlineSeconds."""
    seconds = whole(pod, "spec", "activeDeadlineSeconds")
    started = text(pod, "status", "startTime")
    return None if seconds is None or not started else after(parse_instant(started), Seconds(seconds))


def until(now: Moment, wakes: list[Moment | None]) -> float | None:
    """Seconds until the earliest of some moments."""
    due = [wake for wake in wakes if wake is not None]
    return max(0.001, (min(due) - now) / MICROS) if due else None
