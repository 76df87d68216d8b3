"""Run the pods of this machine: a kubelet with processes in place of containers.

Each pod is a `Sandbox`, reconciled one at a time: read the states of its containers, plan (`podplan`), act (`spawn`),
and write its status (`podstatus`) if that changed. Supervisors report when a process starts or ends; only processes
that an earlier server started are polled.
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
from pykueue.kube.port import Kube
from pykueue.node import attempts
from pykueue.node.cleanup import Cleaner
from pykueue.node.containerlogs import ContainerLogs, last_output
from pykueue.node.containers import KEPT, Container, Ending, Sandbox
from pykueue.node.execs import Execs
from pykueue.node.hooks import ContainerLifecycle
from pykueue.node.machine import Machine, NodeRegistration, kept_name
from pykueue.node.podplan import deadline, grace_seconds, kill_due, label, reference, steps, until
from pykueue.node.podstatus import Waiting, final_phase, phase_of
from pykueue.node.podwatch import PodWatch
from pykueue.node.podwrites import REPORTER, PodWrites, learn
from pykueue.node.prepare import NoRoomError, StartBuilder, StartFailure, make_scratch, passed_on
from pykueue.node.setup.accounts import Account
from pykueue.node.setup.containerruntime import Runtime
from pykueue.node.setup.gpus import Shares
from pykueue.node.setup.limits import Limits, end_cgroup
from pykueue.node.setup.securitycontext import scope
from pykueue.node.setup.volumes import VolumeError
from pykueue.node.spawn import Spawner, SpawnError
from pykueue.node.supervision.followers import GRACE_SECONDS

LOG: Final = logging.getLogger(__name__)

WORKERS: Final = 32
SETTLE_SECONDS: Final = 0.01
"""A running process is reported after this delay: many end earlier, and one write then says it all."""
BUSY_SECONDS: Final = 0.1
"""The same with more than a few pods, when everything takes longer."""
FEW: Final = 4
NEWS_MICROS: Final = 100_000
"""How long nothing is written about a container after its start was requested."""
BUSY_NEWS_MICROS: Final = 1 * MICROS
"""The same with more than a few pods, whose starts wait for each other."""
UNHEARD_MICROS: Final = 1 * MICROS
"""After this long without news of a container whose start was requested, its record is read."""
SWEEP_MICROS: Final = 2 * MICROS
CONFIG_SECONDS: Final = 10
"""How long to wait before retrying after a configuration error."""
MOUNT_SECONDS_MAX: Final = 122
ROOM_SECONDS: Final = 1.0
ROOM_REPORT_TRIES: Final = 600
"""After this many attempts the lack of GPUs is reported again, since Events expire."""
TEAR_DOWN_SECONDS: Final = 0.5
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
    """A permission that every pod has."""
    return True


class Runner:
    """Runs the pods that are bound to this machine's Node."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        notify: Tell,
        settings: Settings,
        machine: Machine,
        *,
        account: Callable[[Tree], Account | None] = own_account,
        may_mount: Callable[[Tree], bool] = always,
        may_choose: Callable[[Tree], bool] = always,
    ) -> None:
        self.kube = kube
        self.clock = clock
        self.notify = notify
        self.settings = settings
        self.node = settings.node or kept_name(settings.data)
        self.folder = attempts.folder_of(settings.data)
        scratch = settings.scratch or settings.data / "scratch"
        name = blake2b(os.fsencode(settings.data.absolute()), digest_size=4).hexdigest()
        self.limits = Limits(clock.moment, name=f"pykueue-{name}", pids_max=settings.pids_max)
        self.shares = Shares(self.folder, machine.gpus, machine.shared_gpus)
        self.builder = StartBuilder(
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
        self.spawner = Spawner(self.folder, clock, self.notice_received, self.supervisor_gone, self.renewed)
        self.date = attempts.dated(clock, self.spawner.boot)
        self.logs = ContainerLogs(self.folder, clock)
        self.cleaner = Cleaner(clock, str(self.folder), str(scratch), self.spawner.clean, self.logs.held)
        self.writes = PodWrites(kube, clock)
        self.sandboxes: dict[str, Sandbox] = {}
        self.controller = Controller("runner", self.reconcile, clock, WORKERS)
        self.lifecycle = ContainerLifecycle(clock, self.spawner, self.builder, self.event, self.controller.add)
        self.watch = PodWatch(
            kube, clock, self.node, seen=self.seen, over=self.closed, gone=self.deleted, listed=self.listed
        )
        self.execs = Execs(self.folder, clock, self.spawner, self.builder, self.sandboxes)
        self.registration: NodeRegistration | None = None
        self.machine = machine
        self.stopping = False

    async def open(self) -> None:
        """Start the fork server; afterwards nothing that an earlier server requested can still start."""
        make_scratch(self.builder.scratch)
        await self.spawner.open()
        self.limits.open(self.spawner.pid)
        await self.execs.listen()
        for uid in attempts.pods(self.folder):
            self.shares.restore(uid)
        self.registration = NodeRegistration(self.kube, self.clock, self.node, self.machine, self.limits.describe())

    async def run(self) -> None:
        """Run pods until cancelled."""
        assert self.registration is not None, "a runner is opened before it runs"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.registration.run(), name="node")
            tasks.create_task(self.watch.run(), name="pods of the node")
            tasks.create_task(self.controller.run(), name="runner")
            tasks.create_task(self.sweep(), name="adopted processes")

    async def stop(self, policy: Literal["keep", "terminate"] | None = None) -> None:
        """Prepare to stop while `run` still runs: pods keep running, or end first. Call `close` afterwards."""
        self.stopping = True
        if (policy or self.settings.on_stop) == "keep":
            return
        now = last = self.clock.moment()
        ending = {uid: sandbox for uid, sandbox in self.sandboxes.items() if sandbox.alive}
        for uid, sandbox in ending.items():
            due = Moment(now + grace_seconds(sandbox.pod) * MICROS)
            sandbox.ending = sandbox.ending or Ending(due, "Failed", STOP_REASON, STOP_MESSAGE, disruption=STOP_MESSAGE)
            last = max(last, sandbox.ending.due)
            self.controller.add(uid)
        while ending.keys() & self.sandboxes.keys() and self.clock.moment() < last + STOP_MICROS:
            await self.clock.sleep(int(SETTLE_SECONDS * MICROS))

    async def close(self) -> None:
        """Release everything except the processes."""
        for sandbox in self.sandboxes.values():
            for container in sandbox.containers.values():
                container.quiet()
        await self.execs.close()
        await self.cleaner.close()
        await self.spawner.close()
        self.limits.close()

    # From the API.

    def seen(self, pod: Tree) -> None:
        """Handle a pod that is bound to us."""
        uid = text(pod, "metadata", "uid")
        sandbox = self.sandboxes.get(uid)
        if sandbox is None:
            try:
                sandbox = Sandbox(uid, pod)
                self.restore(sandbox)
            except ValueError as error:
                LOG.error("pod: ignored pod=%s error=%s", label(pod), error)
                return
            self.sandboxes[uid] = sandbox
        else:
            learn(sandbox, pod)
        self.controller.add(uid)

    def restore(self, sandbox: Sandbox) -> None:
        """Restore what an earlier server started of a pod."""
        if (self.folder / attempts.checked(sandbox.uid)).exists():
            now = self.clock.now()
            for container in sandbox.containers.values():
                container.restore(self.folder, self.spawner.boot, now, self.date)
                self.explain(container)
                if container.alive:
                    LOG.info(
                        "container: still running, adopted container=%s pod=%s", container.name, label(sandbox.pod)
                    )
                if container.running:
                    self.lifecycle.begin(sandbox, container)

    def closed(self, uid: str) -> None:
        """Handle a pod that has ended, as reported by us or by another client."""
        sandbox = self.sandboxes.get(uid)
        if sandbox is not None and not sandbox.finished:
            sandbox.closed = True
            self.controller.add(uid)

    def deleted(self, uid: str) -> None:
        """Handle the deletion of a pod's object."""
        sandbox = self.sandboxes.get(uid)
        if sandbox is None:
            self.cleaner.remove(uid)
            return
        sandbox.gone = True
        self.controller.add(uid)

    def listed(self, uids: set[str]) -> None:
        """Handle the list of all pods: anything else on this machine is left over."""
        for uid in self.sandboxes.keys() - uids:
            self.deleted(uid)
        for uid in attempts.pods(self.folder):
            if uid not in uids and uid not in self.sandboxes:
                self.tear_down_orphan(uid)
        self.cleaner.sweep(uids | self.sandboxes.keys())
        known = {container.key.replace("/", "_") for container in self.alive()}
        for folder in self.limits.leftovers():
            if folder.name not in known:
                end_cgroup(folder)

    def tear_down_orphan(self, uid: str) -> None:
        """End the processes of a pod that no longer exists."""
        spec: Json = [{"name": name} for name in attempts.containers(self.folder, uid)]
        sandbox = Sandbox(uid, {"metadata": {"uid": uid}, "spec": {"containers": spec}})
        sandbox.gone = True
        self.sandboxes[uid] = sandbox
        for container in sandbox.containers.values():
            container.restore(self.folder, self.spawner.boot, self.clock.now(), self.date)
        self.controller.add(uid)

    # From supervisors.

    def container_of(self, key: str) -> tuple[Sandbox, Container] | None:
        """The pod and container whose present attempt this is."""
        uid, name, number = (*key.split("/", 2), "", "")[:3]
        sandbox = self.sandboxes.get(uid)
        container = None if sandbox is None else sandbox.containers.get(name)
        if sandbox is None or container is None or str(container.number) != number:
            return None
        return sandbox, container

    def alive(self) -> list[Container]:
        """The containers of all pods that run, or may run."""
        return [one for sandbox in self.sandboxes.values() for one in sandbox.containers.values() if one.alive]

    def notice_received(self, key: str, line: str) -> None:
        """Handle a supervisor's message."""
        found = self.container_of(key)
        if found is None:
            return
        sandbox, container = found
        if container.attempt is None and not line.startswith("supervisor "):
            # Earlier messages were lost; the record has them all.
            self.reread(sandbox, container)
        elif (attempt := attempts.learned(container.attempt, line, self.date)) is not None:
            self.take_in(sandbox, container, attempt)

    def reread(self, sandbox: Sandbox, container: Container) -> None:
        """Read the record again: a busy server can miss messages."""
        attempt = attempts.read_attempt(self.folder, container.key, self.date)
        if attempt is not None and attempt != container.attempt:
            self.take_in(sandbox, container, attempt)

    def take_in(self, sandbox: Sandbox, container: Container, attempt: attempts.Attempt) -> None:
        """Apply what is known of an attempt."""
        before = container.running
        container.settle(attempt)
        if container.running and not before:
            self.event(sandbox.pod, "Created", "Container created")
            self.event(sandbox.pod, "Started", "Container started")
            self.lifecycle.begin(sandbox, container)
            self.controller.add_after(sandbox.uid, SETTLE_SECONDS if len(self.sandboxes) <= FEW else BUSY_SECONDS)
        elif container.end is not None:
            self.execs.end(sandbox.uid, container.name)
            self.explain(container)
            if container.end.reason == "StartError":
                self.event(sandbox.pod, "Failed", f"Error: {container.end.message}", warning=True)
            self.controller.add(sandbox.uid)
        if container.kill_at is not None:
            self.controller.add(sandbox.uid)

    def explain(self, container: Container) -> None:
        """Use the end of a container's output as its termination message, if so configured."""
        end = container.end
        if end is not None and end.code and text(container.spec, "terminationMessagePolicy") == "FallbackToLogsOnError":
            words = end.message or last_output(self.folder, container.key)
            container.end = msgspec.structs.replace(end, message=words)

    def supervisor_gone(self, key: str) -> None:
        """Handle the death of a supervisor: the record says how the attempt ended, or that it never began."""
        found = self.container_of(key)
        if found is None:
            return
        sandbox, container = found
        if container.alive:
            attempt = attempts.read_attempt(self.folder, key, self.date)
            if attempt is not None and (attempt.over or attempt.supervisor.alive(self.spawner.boot)):
                self.take_in(sandbox, container, attempt)
            elif attempts.claimed(self.folder, key):
                hidden = container.adopted and self.limits.base is None
                rest = "; detached processes without our environment variable may still run" if hidden else ""
                LOG.warning("container: supervisor died without reporting attempt=%s%s", key, rest)
                container.attempt = attempt
                container.abandon(self.spawner.boot, self.clock.now())
                self.execs.end(sandbox.uid, container.name)
            else:
                container.take_back()
                container.retry_at = Moment(self.clock.moment() + MICROS)
            self.controller.add(sandbox.uid)

    def renewed(self) -> None:
        """Handle a new fork server: it does not report supervisors of the previous one."""
        self.limits.open(self.spawner.pid)
        for container in self.alive():
            container.adopted = True
            self.supervisor_gone(container.key)

    async def sweep(self) -> None:
        """Check processes that an earlier server started: the death of their supervisors is not reported."""
        while True:
            await self.clock.sleep(SWEEP_MICROS)
            for container in [one for one in self.alive() if one.adopted]:
                if container.attempt is not None and not container.attempt.supervisor.alive(self.spawner.boot):
                    self.supervisor_gone(container.key)

    # Reconciliation.

    async def reconcile(self, uid: str) -> float | None:
        """Bring a pod to its desired state; returns the seconds after which to look again."""
        sandbox = self.sandboxes.get(uid)
        if sandbox is None:
            return None
        now, moment = self.clock.now(), self.clock.moment()
        unheard = [container for container in sandbox.containers.values() if container.alive and not container.running]
        for container in unheard:
            self.reread(sandbox, container)
        if sandbox.gone or sandbox.closed:
            return self.tear_down(sandbox, moment)
        ending = sandbox.ending = self.must_end(sandbox, now)
        if ending is not None:
            wakes = self.lifecycle.terminate_all(sandbox, ending.due, moment)
            if sandbox.alive:
                return until(moment, [*wakes, Moment(moment + UNHEARD_MICROS) if unheard else None])
            phase = ending.phase or final_phase(sandbox.pod, sandbox.statuses())
            await self.finish(sandbox, msgspec.structs.replace(ending, phase=phase))
            return None
        plan = steps(sandbox.pod, sandbox.statuses(), sandbox.failures(), now)
        wakes = [
            None if instant is None else Moment(moment + instant - now)
            for instant in (plan.wake, deadline(sandbox.pod))
        ]
        wakes.append(Moment(moment + UNHEARD_MICROS) if unheard else None)
        for name in plan.start:
            wakes.append(await self.start(sandbox, sandbox.containers[name], moment))
            # A pod can have many containers, and each takes milliseconds to prepare.
            await asyncio.sleep(0)
        for name in plan.end[:1]:
            due = Moment(moment + grace_seconds(sandbox.pod) * MICROS)
            sandbox.containers[name].kill_at = sandbox.containers[name].kill_at or due
        for name in plan.held:
            self.lifecycle.report_back_off(sandbox, name)
        wakes += [self.lifecycle.terminate(sandbox, container, moment) for container in sandbox.containers.values()]
        if phase_of(sandbox.pod, sandbox.statuses()) in ("Succeeded", "Failed") and not sandbox.alive:
            await self.finish(sandbox, None)
            return None
        if any(sandbox.containers[name].fresh for name in plan.start):
            # More news is due in milliseconds; write it all at once then.
            for name in plan.start:
                sandbox.containers[name].fresh = False
            wakes.append(Moment(moment + (NEWS_MICROS if len(self.sandboxes) <= FEW else BUSY_NEWS_MICROS)))
            return until(self.clock.moment(), wakes)
        await self.writes.write(sandbox, sandbox.shown(plan.held))
        return self.tear_down(sandbox, moment) if sandbox.gone else until(self.clock.moment(), wakes)

    def must_end(self, sandbox: Sandbox, now: Instant) -> Ending | None:
        """Whether a pod must end, and why."""
        if text(sandbox.pod, "metadata", "deletionTimestamp"):
            return Ending(Moment(self.clock.moment() + kill_due(sandbox.pod, now) - now), deleted=True)
        if sandbox.ending is None and (over := sandbox.overdue(now, self.clock.moment())) is not None:
            self.event(sandbox.pod, over.reason, over.message)
            return over
        return sandbox.ending

    async def start(self, sandbox: Sandbox, container: Container, now: Moment) -> Moment | None:
        """Start a container; returns when to retry if it cannot start."""
        if container.alive or self.stopping:
            return None
        if container.retry_at is not None and container.retry_at > now:
            return container.retry_at
        container.tries += 1
        try:
            start = await self.builder.start(sandbox.pod, container.spec, container.number + 1)
            if sandbox.gone or sandbox.closed or text(sandbox.pod, "metadata", "deletionTimestamp"):
                return None
            self.spawner.start(start)
        except StartFailure as failure:
            container.waiting = Waiting(failure.reason, failure.message)
            self.event(sandbox.pod, "Failed", f"Error: {failure.message}", warning=True)
            container.retry_at = Moment(now + CONFIG_SECONDS * MICROS)
        except VolumeError as error:
            self.event(sandbox.pod, "FailedMount", str(error), warning=True)
            container.retry_at = Moment(now + min(MOUNT_SECONDS_MAX, 1 << min(container.tries - 1, 7)) * MICROS)
        except NoRoomError as error:
            if container.tries % ROOM_REPORT_TRIES == 1:
                self.event(sandbox.pod, "InsufficientGPUs", f"The pod waits for free GPUs: {error}", warning=True)
            container.retry_at = Moment(now + int(ROOM_SECONDS * MICROS))
        except (OSError, SpawnError) as error:
            LOG.warning(
                "container: cannot start container=%s pod=%s error=%s", container.name, label(sandbox.pod), error
            )
            self.event(sandbox.pod, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}", warning=True)
            container.retry_at = Moment(now + min(MOUNT_SECONDS_MAX, 1 << min(container.tries - 1, 7)) * MICROS)
        else:
            container.begin(start)
            if container.number >= KEPT:
                kept = range(container.number - KEPT + 1, container.number + 1)
                attempts.drop(self.folder, sandbox.uid, container.name, keep=kept)
            return None
        return container.retry_at

    def tear_down(self, sandbox: Sandbox, now: Moment) -> float | None:
        """End all processes of a pod that was deleted or declared finished; then forget it."""
        for container in sandbox.containers.values():
            container.kill_at = now
            self.lifecycle.terminate(sandbox, container, now)
        if sandbox.alive or self.execs.end(sandbox.uid):
            return TEAR_DOWN_SECONDS
        self.forget(sandbox)
        if sandbox.gone:
            self.cleaner.remove(sandbox.uid)
        return None

    async def finish(self, sandbox: Sandbox, ending: Ending | None) -> None:
        """Write how a pod ended, and release it."""
        await self.execs.ended(sandbox.uid)
        # Its GPUs must be free before anyone learns that it has ended.
        self.shares.release(sandbox.uid)
        sandbox.finished = True
        await self.writes.write(sandbox, sandbox.statuses(), ending or sandbox.disruption(self.clock.moment()))
        if ending is not None and ending.deleted and not sandbox.gone:
            await self.writes.remove(sandbox)
        self.forget(sandbox)
        if self.settings.runtime is not None:
            await self.lifecycle.remove_containers(sandbox, self.settings.runtime)
        (self.cleaner.remove if sandbox.gone else self.cleaner.tidy)(sandbox.uid)

    def forget(self, sandbox: Sandbox) -> None:
        """Release a pod's GPUs, and stop its probes."""
        self.shares.release(sandbox.uid)
        for container in sandbox.containers.values():
            container.quiet()
        self.sandboxes.pop(sandbox.uid, None)
        self.watch.settle(sandbox.uid)

    def event(self, pod: Tree, reason: str, note: str, *, warning: bool = False) -> None:
        """Report an event of a pod."""
        about = reference(pod)
        if about.name:
            self.notify(Notice(about, reason, note, REPORTER, warning))
