"""A runner's state of a pod: each container's attempts, and their states.

All of it can be restored from the records on disk.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.trees import text
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, Moment
from pykueue.node import attempts
from pykueue.node.attempts import Attempt, Dating, lost, written
from pykueue.node.podplan import (
    DEADLINE_MESSAGE,
    DEADLINE_REASON,
    FORGET_MICROS,
    deadline,
    grace_seconds,
    held_state,
)
from pykueue.node.podstatus import FRESH, ContainerStatus, Ended, Phase, Running, State, Waiting, is_sidecar, specs
from pykueue.node.probes import probes_of
from pykueue.node.spawn import Start
from pykueue.node.supervision.processes import end_marked

KEPT: Final = 2
"""Attempts of a container that are kept: the present and, for `kubectl logs --previous`, the previous one."""


class Container:
    """One container of a pod, from its first attempt to its last."""

    def __init__(self, uid: str, spec: Mapping[str, object], *, init: bool) -> None:
        self.uid = uid
        self.spec = spec
        self.name = text(spec, "name")
        self.init = init
        self.sidecar = init and is_sidecar(spec)
        self.number = -1
        """The present attempt; -1 before the first."""
        self.attempt: Attempt | None = None
        self.asked = False
        """Whether its start was requested but not claimed yet."""
        self.fresh = False
        """Whether its start was requested just now."""
        self.end: Ended | None = None
        """How the present attempt ended."""
        self.last: Ended | None = None
        """How the previous one ended."""
        self.failures = 0
        """How often in a row it ended soon after its start."""
        self.waiting = Waiting()
        self.retry_at: Moment | None = None
        """When it may be tried again."""
        self.tries = 0
        """How often in a row it could not be started."""
        self.held = 0
        """The number of failures for which its back-off was reported."""
        self.probes = probes_of(spec)
        self.probed: dict[str, bool] = {}
        """The results of its probes."""
        self.tasks: list[asyncio.Task[None]] = []
        self.start: Start | None = None
        self.kill_at: Moment | None = None
        """When it is killed, if it has to end; None if it may continue."""
        self.hook: asyncio.Task[None] | None = None
        """The task of its preStop hook."""
        self.signalled = False
        self.killed = False
        self.adopted = False
        """Whether an earlier server started it, so that the death of its supervisor is not reported to us."""
        self.lost = False
        """Whether the supervisor of the present attempt died without reporting."""

    @property
    def key(self) -> str:
        """The path of the present attempt."""
        return attempts.key_of(self.uid, self.name, self.number)

    @property
    def alive(self) -> bool:
        """Whether a process of it runs, or may run."""
        return self.asked or (self.attempt is not None and self.end is None)

    @property
    def running(self) -> bool:
        """Whether the command runs."""
        return self.attempt is not None and self.attempt.began is not None and self.end is None

    @property
    def disrupted(self) -> bool:
        """Whether the present attempt ended because the machine went down, or something else ended its supervisor."""
        return self.lost or (self.attempt is not None and self.attempt.terminated and not self.signalled)

    def begin(self, start: Start) -> None:
        """Request the next attempt."""
        self.last = self.end or self.last
        self.end = self.attempt = None
        self.number += 1
        self.asked = self.fresh = True
        self.start = start.kept()
        self.waiting = Waiting()
        self.retry_at = None
        self.tries = 0
        self.held = 0
        self.probed = {}
        self.kill_at = None
        self.hook = None
        self.signalled = self.killed = self.adopted = self.lost = False

    def take_back(self) -> None:
        """Undo the request of an attempt that was never claimed."""
        self.asked = False
        self.number -= 1
        self.end, self.last = self.last, None

    def settle(self, attempt: Attempt) -> None:
        """Apply what is known of the present attempt."""
        self.attempt = attempt
        self.asked = False
        state = attempt.state()
        if isinstance(state, Ended) and self.end is None:
            self.over(state)

    def over(self, end: Ended) -> None:
        """Record the end of the present attempt."""
        self.asked = False
        self.end = end
        self.failures = 1 if end.ended - end.began >= FORGET_MICROS else self.failures + 1
        self.quiet()

    def quiet(self) -> None:
        """Stop probing."""
        for task in self.tasks:
            task.cancel()
        self.tasks.clear()

    def status(self) -> ContainerStatus:
        """The state for podstatus."""
        if self.number < 0:
            return FRESH if self.waiting == Waiting() else ContainerStatus(self.waiting)
        state: State
        if self.end is not None:
            state = self.end
        elif self.attempt is not None:
            state = self.attempt.state()
        else:
            state = self.waiting
        running = isinstance(state, Running)
        started = running and ("startup" not in self.probes or self.probed.get("startup", False))
        ready = started and ("readiness" not in self.probes or self.probed.get("readiness", False))
        return ContainerStatus(state, self.last, self.number, ready, started, self.key)

    def restore(self, folder: Path, boot: str, now: Instant, date: Dating = written) -> None:
        """Restore the attempts that an earlier server started from disk."""
        numbers = attempts.numbers(folder, self.uid, self.name)
        claimed = [one for one in numbers if attempts.claimed(folder, attempts.key_of(self.uid, self.name, one))]
        if not claimed:
            return
        self.number = claimed[-1]
        self.failures = self.number
        if len(claimed) > 1:
            before = attempts.read_attempt(folder, attempts.key_of(self.uid, self.name, claimed[-2]), date)
            state = None if before is None else before.state()
            self.last = state if isinstance(state, Ended) else lost(before, now)
        self.attempt = attempts.read_attempt(folder, self.key, date)
        self.adopted = True
        state = None if self.attempt is None else self.attempt.state()
        if isinstance(state, Ended):
            self.over(state)
        elif self.attempt is None or not self.attempt.supervisor.alive(boot):
            self.abandon(boot, now)

    def abandon(self, boot: str, now: Instant) -> None:
        """Record the death of the supervisor, and end what it may have left unless the machine was rebooted since."""
        if self.attempt is None or self.attempt.supervisor.boot == boot:
            end_marked(self.key)
        self.lost = True
        self.over(lost(self.attempt, now))


CONTAINERS_MAX: Final = 256
"""The most containers of one pod on this machine; each is a process with a supervisor, and all share one status."""
CROWDED_REASON: Final = "UnexpectedAdmissionError"
CROWDED_MESSAGE: Final = f"Pod was rejected: more than {CONTAINERS_MAX} containers; use several pods"


DOWN_MESSAGE: Final = "Pod was terminated because its node, or the supervisor of its process, was stopped."


class Ending(Frozen):
    """Why a pod must end, and the resulting status."""

    due: Moment
    """When remaining processes are killed."""
    phase: Phase | None = None
    reason: str = ""
    message: str = ""
    deleted: bool = False
    """Whether the object is deleted, too."""
    disruption: str = ""
    """The message of the DisruptionTarget condition; empty if the pod did not end because of its node."""


class Sandbox:
    """One pod of this node."""

    def __init__(self, uid: str, pod: Tree) -> None:
        self.uid = uid
        self.pod = pod
        self.containers: dict[str, Container] = {}
        self.ending: Ending | None = None
        self.gone = False
        """Whether the object was deleted, so that nothing of it may run."""
        self.closed = False
        """Whether another client has set a final phase."""
        self.finished = False
        """Whether its final status is being written, or is written."""
        for field in ("initContainers", "containers"):
            for spec in specs(pod, field):
                name = text(spec, "name")
                self.containers[name] = Container(uid, spec, init=field == "initContainers")

    @property
    def alive(self) -> bool:
        """Whether a process of it runs, or may run."""
        return any(container.alive for container in self.containers.values())

    def overdue(self, now: Instant, moment: Moment) -> Ending | None:
        """How a pod ends that has too many containers or is past its deadline; None for any other."""
        if len(self.containers) > CONTAINERS_MAX and not self.alive:
            return Ending(moment, "Failed", CROWDED_REASON, CROWDED_MESSAGE)
        due = deadline(self.pod)
        if due is None or due > now:
            return None
        end = Moment(moment + grace_seconds(self.pod) * MICROS)
        return Ending(end, "Failed", DEADLINE_REASON, DEADLINE_MESSAGE)

    def disruption(self, moment: Moment) -> Ending | None:
        """How a pod ends whose processes ended with the machine; None for any other."""
        if any(container.disrupted for container in self.containers.values()):
            return Ending(moment, disruption=DOWN_MESSAGE)
        return None

    def statuses(self) -> dict[str, ContainerStatus]:
        """The states of its containers."""
        return {name: container.status() for name, container in self.containers.items()}

    def shown(self, held: Iterable[str]) -> dict[str, ContainerStatus]:
        """The states of its containers for users: those in back-off are shown as waiting."""
        shown = self.statuses()
        for name in held:
            container = self.containers[name]
            if container.end is not None:
                before = shown[name]
                shown[name] = ContainerStatus(
                    held_state(self.pod, name, container.failures),
                    container.end,
                    before.restarts,
                    attempt=before.attempt,
                )
        return shown

    def failures(self) -> dict[str, int]:
        """How often in a row each container failed."""
        return {name: container.failures for name, container in self.containers.items()}
