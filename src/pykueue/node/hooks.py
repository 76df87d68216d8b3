"""Probes, lifecycle hooks and termination of running containers."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import Annotation
from pykueue.api.trees import has, mapping, member, text, whole
from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, Moment
from pykueue.kube.port import JOBS, KubeError
from pykueue.node.containers import Container, Sandbox
from pykueue.node.podplan import grace_seconds, label
from pykueue.node.prepare import JOB_NAME, NoRoomError, StartBuilder, StartFailure
from pykueue.node.probes import Answer, Kind, Prober, ask, http, port_of, within
from pykueue.node.setup.containerruntime import Runtime, container_name, remove_argv
from pykueue.node.setup.environment import strings
from pykueue.node.setup.volumes import VolumeError
from pykueue.node.spawn import Outcome, Spawner, SpawnError, Start
from pykueue.node.supervision.notifier import EVENT, PREEMPTED

LOG: Final = logging.getLogger(__name__)

HOOK_SECONDS: Final = 3600
REMOVE_SECONDS: Final = 30
CANNOT: Final = (StartFailure, VolumeError, NoRoomError, SpawnError, KubeError, OSError)


class RecordEvent(Protocol):
    """Records an Event about a pod."""

    def __call__(self, pod: Tree, reason: str, note: str, *, warning: bool = False) -> None:
        """Record it."""


class ContainerLifecycle:
    """Probes containers, runs their hooks, and stops them."""

    def __init__(
        self, clock: Clock, spawner: Spawner, builder: StartBuilder, event: RecordEvent, changed: Callable[[str], None]
    ) -> None:
        self.clock = clock
        self.spawner = spawner
        self.builder = builder
        self.event = event
        self.changed = changed
        """Called with the uid of a pod whose state changed."""

    def begin(self, sandbox: Sandbox, container: Container) -> None:
        """Start the postStart hook and the probes of a running container."""
        if has(container.spec, "lifecycle", "postStart") and not container.adopted:
            container.tasks.append(asyncio.create_task(self.after_start(sandbox, container)))
        if "startup" in container.probes:
            self.probe(sandbox, container, "startup")
        else:
            self.probe_started(sandbox, container)

    def probe_started(self, sandbox: Sandbox, container: Container) -> None:
        """Start the probes of a container that has started."""
        kinds: tuple[Kind, ...] = ("readiness", "liveness")
        for kind in kinds:
            if kind in container.probes:
                self.probe(sandbox, container, kind)

    def probe(self, sandbox: Sandbox, container: Container, kind: Kind) -> None:
        """Start one probe."""
        probe = container.probes[kind]

        async def once() -> Answer:
            async def run(command: tuple[str, ...], seconds: float) -> Outcome:
                return await self.beside(sandbox, container, command, seconds)

            return await ask(probe, container.spec, host=self.builder.host, clock=self.clock, run=run)

        def changed(kind: Kind, well: bool) -> None:
            container.probed[kind] = well
            if kind == "startup" and well:
                self.probe_started(sandbox, container)
            if not well and kind != "readiness":
                self.restart(sandbox, container, kind, whole(probe, "terminationGracePeriodSeconds"))
            self.changed(sandbox.uid)

        def failed(kind: Kind, message: str) -> None:
            self.event(sandbox.pod, "Unhealthy", f"{kind.capitalize()} probe failed: {message}".rstrip(), warning=True)

        prober = Prober(kind, probe, once, self.clock, changed=changed, failed=failed)
        container.tasks.append(asyncio.create_task(prober.run(), name=f"{kind} {container.key}"))

    def restart(self, sandbox: Sandbox, container: Container, kind: Kind, grace: int | None) -> None:
        """Stop an unhealthy container, so that it restarts if its policy allows."""
        if container.kill_at is None:
            self.event(sandbox.pod, "Killing", f"Container {container.name} failed {kind} probe, will be restarted")
            seconds = grace_seconds(sandbox.pod) if grace is None else grace
            container.kill_at = Moment(self.clock.moment() + seconds * MICROS)

    async def beside(self, sandbox: Sandbox, container: Container, command: tuple[str, ...], seconds: float) -> Outcome:
        """Run a command like the container: same user, environment, folder and limits."""
        if not command:
            return Outcome(1, "no command specified")
        try:
            start = container.start
            if start is None or not start.argv:
                start = await self.builder.start(sandbox.pod, container.spec, container.number)
                container.start = start.kept()
            runtime = self.builder.runtime
            argv = command if runtime is None else (runtime, "exec", container_name(container.key), *command)
            return await self.spawner.run_once(msgspec.structs.replace(start, argv=argv), seconds)
        except CANNOT as error:
            return Outcome(1, str(error))

    def report_back_off(self, sandbox: Sandbox, name: str) -> None:
        """Report a container's back-off, once per failure."""
        container = sandbox.containers[name]
        if container.held != container.failures:
            container.held = container.failures
            note = f"Back-off restarting failed container {name} in pod {label(sandbox.pod)}"
            self.event(sandbox.pod, "BackOff", note, warning=True)

    async def after_start(self, sandbox: Sandbox, container: Container) -> None:
        """Run the postStart hook of a container; a failure stops it."""
        answer = await self.hook(sandbox, container, "postStart", HOOK_SECONDS)
        if not answer.well and container.kill_at is None:
            self.event(
                sandbox.pod, "FailedPostStartHook", f"PostStartHook failed: {answer.message}".rstrip(), warning=True
            )
            container.kill_at = Moment(self.clock.moment() + grace_seconds(sandbox.pod) * MICROS)
            self.changed(sandbox.uid)

    def terminate_all(self, sandbox: Sandbox, due: Moment, now: Moment) -> list[Moment | None]:
        """Stop everything of a pod: first the main containers, then the sidecars."""
        mains = [container for container in sandbox.containers.values() if not container.sidecar]
        containers = mains if any(container.alive for container in mains) else list(sandbox.containers.values())
        for container in containers:
            container.kill_at = due if container.kill_at is None else min(due, container.kill_at)
        return [self.terminate(sandbox, container, now) for container in containers]

    def terminate(self, sandbox: Sandbox, container: Container, now: Moment) -> Moment | None:
        """Signal a container that has to end, and kill it when its time is over; returns when to look again."""
        if container.kill_at is None or not container.alive or container.killed:
            return None
        if container.attempt is None:
            self.spawner.withdraw(container.key)
            return None
        if not container.signalled and container.hook is None:
            self.event(sandbox.pod, "Killing", f"Stopping container {container.name}")
            container.quiet()
            container.hook = self.before_end(sandbox, container, container.kill_at)
        if not container.signalled and (container.hook is None or container.hook.done()):
            container.signalled = True
            self.spawner.send(container.attempt.supervisor, signal.SIGTERM)
        if now < container.kill_at:
            return container.kill_at
        container.killed = True
        self.spawner.send(container.attempt.supervisor, signal.SIGUSR1)
        return None

    def before_end(self, sandbox: Sandbox, container: Container, due: Moment) -> asyncio.Task[None] | None:
        """Start the preStop hook of a container, and tell its notifier of an eviction; None if it has neither."""
        hooked = has(container.spec, "lifecycle", "preStop")
        notifies = bool(text(sandbox.pod, "metadata", "annotations", Annotation.NOTIFY))
        if not (hooked or notifies) or not container.running:
            return None

        async def run() -> None:
            if notifies and await self.evicted(sandbox.pod):
                with contextlib.suppress(OSError):
                    (self.spawner.folder / container.key / EVENT).write_bytes(PREEMPTED)
            seconds = (due - self.clock.moment()) / MICROS
            if hooked and seconds > 0:
                answer = await self.hook(sandbox, container, "preStop", seconds)
                if not answer.well:
                    note = f"PreStopHook failed: {answer.message}".rstrip()
                    self.event(sandbox.pod, "FailedPreStopHook", note, warning=True)
            self.changed(sandbox.uid)

        return asyncio.create_task(run(), name=f"preStop {container.key}")

    async def evicted(self, pod: Tree) -> bool:
        """Whether a pod is stopped because its Job is suspended, and may run again later."""
        name = text(pod, "metadata", "labels", JOB_NAME)
        try:
            found: Tree = msgspec.json.decode(
                await self.builder.kube.get(JOBS, name, text(pod, "metadata", "namespace"))
            )
        except KubeError:
            return False
        return member(found, "spec", "suspend") is True and not has(found, "metadata", "deletionTimestamp")

    async def hook(self, sandbox: Sandbox, container: Container, which: str, seconds: float) -> Answer:
        """The result of a hook of a container."""
        hook = mapping(container.spec, "lifecycle", which)
        if has(hook, "exec"):
            outcome = await self.beside(sandbox, container, tuple(strings(member(hook, "exec", "command"))), seconds)
            return Answer(outcome.code == 0, outcome.output)
        try:
            if has(hook, "sleep"):
                pause = min(float(whole(hook, "sleep", "seconds") or 0), seconds)
                await self.clock.sleep(int(pause * MICROS))
            elif has(hook, "httpGet"):
                get = mapping(hook, "httpGet")
                port = port_of(container.spec, member(get, "port"))
                host = text(get, "host") or self.builder.host
                return await within(self.clock, seconds, http(host, port, get))
            return Answer(True)
        except (OSError, TimeoutError, ValueError) as error:
            return Answer(False, str(error) or "no response in time")

    async def remove_containers(self, sandbox: Sandbox, runtime: Runtime) -> None:
        """Remove a pod's containers from the runtime."""
        for container in sandbox.containers.values():
            if container.start is not None:
                start: Start = msgspec.structs.replace(container.start, argv=remove_argv(runtime, container.key))
                try:
                    await self.spawner.run_once(start, REMOVE_SECONDS)
                except SpawnError as error:
                    LOG.warning(
                        "container: cannot remove it from the runtime container=%s error=%s", container.key, error
                    )
