"""Run the pods of this machine: a kubelet with processes in place of containers.

Each pod is a `Box`, reconciled one at a time: read the states of its containers, plan (`podplan`), act (`spawn`), and
write its status (`podstatus`) if that changed. Supervisors report when a process starts or ends; only processes that an
earlier server started are polled.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.trees import text
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, Moment
from pykueue.kube.controller import Controller
from pykueue.kube.notices import Notice, Tell
from pykueue.kube.port import Kube, Ref
from pykueue.node import attempts
from pykueue.node.accounts import Account
from pykueue.node.attempts import Attempt
from pykueue.node.cleanup import Cleaner
from pykueue.node.containerlogs import ContainerLogs, last_words
from pykueue.node.containerruntime import Runtime
from pykueue.node.containers import KEPT, Box, Ending, Life
from pykueue.node.gpus import Shares
from pykueue.node.hooks import Tending
from pykueue.node.limits import Limits, end_cgroup, own_cgroup
from pykueue.node.machine import Machine, NodeKeeper, kept_name
from pykueue.node.podplan import (
    deadline,
    grace_seconds,
    kill_due,
    label,
    steps,
    until,
)
from pykueue.node.podstatus import Waiting, final_phase, phase_of
from pykueue.node.podwatch import PodWatch
from pykueue.node.podwrites import REPORTER, PodWrites, learn
from pykueue.node.prepare import NoRoomError, StartFailure, Workshop, make_scratch, passed_on
from pykueue.node.securitycontext import scope
from pykueue.node.spawn import Spawner, SpawnError
from pykueue.node.supervision.followers import GRACE_SECONDS
from pykueue.node.volumes import VolumeError

LOG: Final = logging.getLogger(__name__)

WORKERS: Final = 32
SETTLE_SECONDS: Final = 0.01
"""A running process is reported after this delay: many end earlier, and one write then says it all."""
BUSY_SECONDS: Final = 0.1
"""The same with more than a few pods, when everything takes longer."""
FEW: Final = 4
NEWS_MICROS: Final = 100_000
"""How long nothing is written about a container after its start was requested."""
UNHEARD_MICROS: Final = 1 * MICROS
"""After this long without news of a container whose start was requested, its record is read."""
SWEEP_MICROS: Final = 2 * MICROS
CONFIG_SECONDS: Final = 10
"""How long to wait before retrying after a configuration error."""
MOUNT_SECONDS_MAX: Final = 122
ROOM_SECONDS: Final = 1.0
ROOM_SAID: Final = 600
"""After this many attempts the lack of GPUs is reported again, since Events expire."""
BURY_SECONDS: Final = 0.5
STOP_MICROS: Final = 5 * MICROS
"""How much longer than their grace period to wait for pods at shutdown."""
STOP_REASON: Final = "Terminated"
STOP_MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."


class Settings(Frozen):
    """How to run pods."""

    data: Path
    """The folder of attempts and logs."""
    scratch: Path | None = None
    """The folder of pods' folders, which all users of pods must be able to traverse; None for the data folder."""
    node: str = ""
    """The name of the Node; empty for the one in the data folder, or else this machine's."""
    on_stop: Literal["keep", "terminate"] = "keep"
    pids_max: int = 0
    """The most processes and threads of a container; 0 for a default per core."""
    runtime: Runtime | None = None
    grace_seconds: float = GRACE_SECONDS
    """How long a job waits for the `run` that follows it to reconnect."""


def own_account(pod: Tree) -> Account | None:
    """The user of this process, for pods of any creator."""
    return Account.of_this_process()


def always(pod: Tree) -> bool:
    """Always True."""
    return True


class Runner:
    """Runs the pods that are bound to this machine's Node."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        tell: Tell,
        settings: Settings,
        machine: Machine,
        *,
        account: Callable[[Tree], Account | None] = own_account,
        may_mount: Callable[[Tree], bool] = always,
        may_choose: Callable[[Tree], bool] = always,
    ) -> None:
        self.kube = kube
        self.clock = clock
        self.tell = tell
        self.settings = settings
        self.node = settings.node or kept_name(settings.data)
        self.folder = attempts.folder_of(settings.data)
        scratch = settings.scratch or settings.data / "scratch"
        name = blake2b(os.fsencode(settings.data.absolute()), digest_size=4).hexdigest()
        self.limits = Limits(clock.moment, name=f"pykueue-{name}", pids_max=settings.pids_max, own=own_cgroup())
        self.shares = Shares(self.folder, machine.gpus)
        self.workshop = Workshop(
            kube,
            self.shares,
            self.limits,
            scratch,
            lambda pod: scope(account(pod), any=may_choose(pod)),
            may_mount,
            machine.resources(),
            passed_on(),
            settings.runtime,
            grace_seconds=settings.grace_seconds,
        )
        self.spawner = Spawner(self.folder, clock, self.heard, self.supervisor_gone, self.renewed)
        self.date = attempts.dated(clock, self.spawner.boot)
        self.logs = ContainerLogs(self.folder, clock)
        self.cleaner = Cleaner(clock, str(self.folder), str(scratch), self.spawner.clean, self.logs.held)
        self.writes = PodWrites(kube, clock)
        self.boxes: dict[str, Box] = {}
        self.controller = Controller("runner", self.reconcile, clock, WORKERS)
        self.tending = Tending(clock, self.spawner, self.workshop, self.say, self.controller.add)
        self.watch = PodWatch(
            kube, clock, self.node, seen=self.seen, over=self.closed, gone=self.deleted, listed=self.listed
        )
        self.keeper: NodeKeeper | None = None
        self.machine = machine
        self.stopping = False

    async def open(self) -> None:
        """Start the fork server; afterwards nothing that an earlier server requested can still start."""
        make_scratch(self.workshop.scratch)
        self.limits.open()
        await self.spawner.open()
        for uid in attempts.pods(self.folder):
            self.shares.restore(uid)
        self.keeper = NodeKeeper(self.kube, self.clock, self.node, self.machine, self.limits.describe())

    async def run(self) -> None:
        """Run pods until cancelled."""
        assert self.keeper is not None, "a runner is opened before it runs"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.keeper.run(), name="node")
            tasks.create_task(self.watch.run(), name="pods of the node")
            tasks.create_task(self.controller.run(), name="runner")
            tasks.create_task(self.sweep(), name="adopted processes")

    async def stop(self, policy: Literal["keep", "terminate"] | None = None) -> None:
        """Prepare to stop while `run` still runs: pods keep running, or end first. Call `close` afterwards."""
        self.stopping = True
        if (policy or self.settings.on_stop) == "keep":
            return
        now = last = self.clock.moment()
        ending = {uid: box for uid, box in self.boxes.items() if box.alive}
        for uid, box in ending.items():
            due = Moment(now + grace_seconds(box.pod) * MICROS)
            box.ending = box.ending or Ending(due, "Failed", STOP_REASON, STOP_MESSAGE)
            last = max(last, box.ending.due)
            self.controller.add(uid)
        while ending.keys() & self.boxes.keys() and self.clock.moment() < last + STOP_MICROS:
            await self.clock.sleep(int(SETTLE_SECONDS * MICROS))

    async def close(self) -> None:
        """Release everything except the processes."""
        for box in self.boxes.values():
            for life in box.lives.values():
                life.quiet()
        await self.cleaner.close()
        await self.spawner.close()
        self.limits.close()

    # From the API.

    def seen(self, pod: Tree) -> None:
        """Handle a pod that is bound to us."""
        uid = text(pod, "metadata", "uid")
        box = self.boxes.get(uid)
        if box is None:
            try:
                box = Box(uid, pod)
                self.restore(box)
            except ValueError as error:
                LOG.error("pod: ignored pod=%s error=%s", label(pod), error)
                return
            self.boxes[uid] = box
        else:
            learn(box, pod)
        self.controller.add(uid)

    def restore(self, box: Box) -> None:
        """Restore what an earlier server started of a pod."""
        if (self.folder / attempts.checked(box.uid)).exists():
            now = self.clock.now()
            for life in box.lives.values():
                life.restore(self.folder, self.spawner.boot, now, self.date)
                self.explain(life)
                if life.alive:
                    LOG.info("container: still running, adopted container=%s pod=%s", life.name, label(box.pod))
                if life.running:
                    self.tending.begin(box, life)

    def closed(self, uid: str) -> None:
        """Handle a pod that has ended, as reported by us or by another client."""
        box = self.boxes.get(uid)
        if box is not None and not box.finished:
            box.closed = True
            self.controller.add(uid)

    def deleted(self, uid: str) -> None:
        """Handle the deletion of a pod's object."""
        box = self.boxes.get(uid)
        if box is None:
            self.cleaner.remove(uid)
            return
        box.gone = True
        self.controller.add(uid)

    def listed(self, uids: set[str]) -> None:
        """Handle the list of all pods: anything else on this machine is left over."""
        for uid in self.boxes.keys() - uids:
            self.deleted(uid)
        for uid in attempts.pods(self.folder):
            if uid not in uids and uid not in self.boxes:
                self.bury_found(uid)
        self.cleaner.sweep(uids | self.boxes.keys())
        known = {life.key.replace("/", "_") for box in self.boxes.values() for life in box.lives.values() if life.alive}
        for folder in self.limits.leftovers():
            if folder.name not in known:
                end_cgroup(folder)

    def bury_found(self, uid: str) -> None:
        """End the processes of a pod that no longer exists."""
        spec: Json = [{"name": name} for name in attempts.containers(self.folder, uid)]
        box = Box(uid, {"metadata": {"uid": uid}, "spec": {"containers": spec}})
        box.gone = True
        self.boxes[uid] = box
        for life in box.lives.values():
            life.restore(self.folder, self.spawner.boot, self.clock.now(), self.date)
        self.controller.add(uid)

    # From supervisors.

    def life_of(self, key: str) -> tuple[Box, Life] | None:
        """The pod and container whose present attempt this is."""
        uid, _, rest = key.partition("/")
        name, _, number = rest.partition("/")
        box = self.boxes.get(uid)
        life = None if box is None else box.lives.get(name)
        if box is None or life is None or str(life.number) != number:
            return None
        return box, life

    def heard(self, key: str, line: str) -> None:
        """Handle a supervisor's message."""
        found = self.life_of(key)
        if found is None:
            return
        box, life = found
        if life.attempt is None and not line.startswith("supervisor "):
            # Earlier messages were lost; the record has them all.
            self.reread(box, life)
        elif (attempt := attempts.learned(life.attempt, line, self.date)) is not None:
            self.take_in(box, life, attempt)

    def reread(self, box: Box, life: Life) -> None:
        """Read the record again: a busy server can miss messages."""
        attempt = attempts.read_attempt(self.folder, life.key, self.date)
        if attempt is not None and attempt != life.attempt:
            self.take_in(box, life, attempt)

    def take_in(self, box: Box, life: Life, attempt: Attempt) -> None:
        """Apply what is known of an attempt."""
        before = life.running
        life.settle(attempt)
        if life.running and not before:
            self.say(box.pod, "Created", "Container created")
            self.say(box.pod, "Started", "Container started")
            self.tending.begin(box, life)
            self.controller.add_after(box.uid, SETTLE_SECONDS if len(self.boxes) <= FEW else BUSY_SECONDS)
        elif life.end is not None:
            self.explain(life)
            if life.end.reason == "StartError":
                self.say(box.pod, "Failed", f"Error: {life.end.message}", warning=True)
            self.controller.add(box.uid)
        if life.kill_at is not None:
            self.controller.add(box.uid)

    def explain(self, life: Life) -> None:
        """Use the end of a container's output as its termination message, if so configured."""
        end = life.end
        if end is not None and end.code and text(life.spec, "terminationMessagePolicy") == "FallbackToLogsOnError":
            words = end.message or last_words(self.folder, life.key)
            life.end = msgspec.structs.replace(end, message=words)

    def supervisor_gone(self, key: str) -> None:
        """Handle the death of a supervisor: the record says how the attempt ended, or that it never began."""
        found = self.life_of(key)
        if found is None:
            return
        box, life = found
        if life.alive:
            attempt = attempts.read_attempt(self.folder, key, self.date)
            if attempt is not None and (attempt.over or attempt.supervisor.alive(self.spawner.boot)):
                self.take_in(box, life, attempt)
            elif attempts.claimed(self.folder, key):
                LOG.warning("container: supervisor died without reporting attempt=%s", key)
                life.attempt = attempt
                life.abandon(self.spawner.boot, self.clock.now())
            else:
                life.take_back()
                life.retry_at = Moment(self.clock.moment() + MICROS)
            self.controller.add(box.uid)

    def renewed(self) -> None:
        """Handle a new fork server: it does not report supervisors of the previous one."""
        for life in [life for box in self.boxes.values() for life in box.lives.values() if life.alive]:
            life.adopted = True
            self.supervisor_gone(life.key)

    async def sweep(self) -> None:
        """Check processes that an earlier server started: the death of their supervisors is not reported."""
        while True:
            await self.clock.sleep(SWEEP_MICROS)
            adopted = [
                life for box in self.boxes.values() for life in box.lives.values() if life.adopted and life.alive
            ]
            for life in adopted:
                if life.attempt is not None and not life.attempt.supervisor.alive(self.spawner.boot):
                    self.supervisor_gone(life.key)

    # Reconciliation.

    async def reconcile(self, uid: str) -> float | None:
        """Bring a pod to its desired state; returns the seconds after which to look again."""
        box = self.boxes.get(uid)
        if box is None:
            return None
        now, moment = self.clock.now(), self.clock.moment()
        unheard = [life for life in box.lives.values() if life.alive and not life.running]
        for life in unheard:
            self.reread(box, life)
        if box.gone or box.closed:
            return self.bury(box, moment)
        ending = box.ending = self.must_end(box, now)
        if ending is not None:
            wakes = self.tending.press_all(box, ending.due, moment)
            if box.alive:
                return until(moment, [*wakes, Moment(moment + UNHEARD_MICROS) if unheard else None])
            phase = ending.phase or final_phase(box.pod, box.containers())
            await self.finish(box, msgspec.structs.replace(ending, phase=phase))
            return None
        plan = steps(box.pod, box.containers(), box.falls(), now)
        wakes = [
            None if instant is None else Moment(moment + instant - now) for instant in (plan.wake, deadline(box.pod))
        ]
        wakes.append(Moment(moment + UNHEARD_MICROS) if unheard else None)
        for name in plan.start:
            wakes.append(await self.start(box, box.lives[name], moment))
            # A pod can have many containers, and each takes milliseconds to prepare.
            await asyncio.sleep(0)
        for name in plan.end[:1]:
            due = Moment(moment + grace_seconds(box.pod) * MICROS)
            box.lives[name].kill_at = box.lives[name].kill_at or due
        for name in plan.held:
            self.held(box, name)
        wakes += [self.tending.press(box, life, moment) for life in box.lives.values()]
        if phase_of(box.pod, box.containers()) in ("Succeeded", "Failed") and not box.alive:
            await self.finish(box, None)
            return None
        if any(box.lives[name].fresh for name in plan.start):
            # More news is due in milliseconds; write it all at once then.
            for name in plan.start:
                box.lives[name].fresh = False
            return until(self.clock.moment(), [*wakes, Moment(moment + NEWS_MICROS)])
        await self.writes.write(box, box.shown(plan.held))
        return self.bury(box, moment) if box.gone else until(self.clock.moment(), wakes)

    def must_end(self, box: Box, now: Instant) -> Ending | None:
        """Whether a pod must end, and why."""
        if text(box.pod, "metadata", "deletionTimestamp"):
            return Ending(Moment(self.clock.moment() + kill_due(box.pod, now) - now), deleted=True)
        if box.ending is None and (over := box.overdue(now, self.clock.moment())) is not None:
            self.say(box.pod, over.reason, over.message)
            return over
        return box.ending

    def held(self, box: Box, name: str) -> None:
        """Report a container's back-off, once per failure."""
        life = box.lives[name]
        if life.held != life.falls:
            life.held = life.falls
            note = f"Back-off restarting failed container {name} in pod {label(box.pod)}"
            self.say(box.pod, "BackOff", note, warning=True)

    async def start(self, box: Box, life: Life, now: Moment) -> Moment | None:
        """Start a container; returns when to retry if it cannot start."""
        if life.alive or self.stopping:
            return None
        if life.retry_at is not None and life.retry_at > now:
            return life.retry_at
        life.tries += 1
        try:
            start = await self.workshop.start(box.pod, life.spec, life.number + 1)
            if box.gone or box.closed:
                return None
            self.spawner.start(start)
        except StartFailure as failure:
            life.waiting = Waiting(failure.reason, failure.message)
            self.say(box.pod, "Failed", f"Error: {failure.message}", warning=True)
            life.retry_at = Moment(now + CONFIG_SECONDS * MICROS)
        except VolumeError as error:
            self.say(box.pod, "FailedMount", str(error), warning=True)
            life.retry_at = Moment(now + min(MOUNT_SECONDS_MAX, 1 << min(life.tries - 1, 7)) * MICROS)
        except NoRoomError as error:
            if life.tries % ROOM_SAID == 1:
                self.say(box.pod, "InsufficientGPUs", f"The pod waits for free GPUs: {error}", warning=True)
            life.retry_at = Moment(now + int(ROOM_SECONDS * MICROS))
        except (OSError, SpawnError) as error:
            LOG.warning("container: cannot start container=%s pod=%s error=%s", life.name, label(box.pod), error)
            self.say(box.pod, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}", warning=True)
            life.retry_at = Moment(now + min(MOUNT_SECONDS_MAX, 1 << min(life.tries - 1, 7)) * MICROS)
        else:
            life.begin(start)
            if life.number >= KEPT:
                kept = range(life.number - KEPT + 1, life.number + 1)
                attempts.drop(self.folder, box.uid, life.name, keep=kept)
            return None
        return life.retry_at

    def bury(self, box: Box, now: Moment) -> float | None:
        """End all processes of a pod that was deleted or declared finished; then forget it."""
        for life in box.lives.values():
            life.kill_at = now
            self.tending.press(box, life, now)
        if box.alive:
            return BURY_SECONDS
        self.forget(box)
        if box.gone:
            self.cleaner.remove(box.uid)
        return None

    async def finish(self, box: Box, ending: Ending | None) -> None:
        """Write how a pod ended, and release it."""
        # Its GPUs must be free before anyone learns that it has ended.
        self.shares.release(box.uid)
        box.finished = True
        await self.writes.write(box, box.containers(), ending)
        if ending is not None and ending.deleted and not box.gone:
            await self.writes.remove(box)
        self.forget(box)
        if self.settings.runtime is not None:
            await self.tending.remove_containers(box, self.settings.runtime)
        if box.gone:
            self.cleaner.remove(box.uid)
        else:
            self.cleaner.tidy(box.uid)

    def forget(self, box: Box) -> None:
        """Forget a pod."""
        self.shares.release(box.uid)
        for life in box.lives.values():
            life.quiet()
        self.boxes.pop(box.uid, None)

    def say(self, pod: Tree, reason: str, note: str, *, warning: bool = False) -> None:
        """Report an event of a pod."""
        meta = pod.get("metadata")
        about = Ref("v1", "Pod", *(text(meta, name) for name in ("namespace", "name", "uid", "resourceVersion")))
        if about.name:
            self.tell(Notice(about, reason, note, REPORTER, warning))
