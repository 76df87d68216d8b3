"""Probes, lifecycle hooks and termination of running containers."""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from pykueue.api.core import Tree
from pykueue.api.trees import has, mapping, member, text, whole
from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, Moment
from pykueue.kube.port import KubeError
from pykueue.node.containerruntime import Runtime, container_name, remove_argv
from pykueue.node.containers import Box, Life
from pykueue.node.environment import strings
from pykueue.node.podplan import grace_seconds
from pykueue.node.prepare import NoRoomError, StartFailure, Workshop
from pykueue.node.probes import Answer, Kind, Prober, ask, http, port_of, probes_of, within
from pykueue.node.spawn import Outcome, Spawner, SpawnError, Start
from pykueue.node.volumes import VolumeError

LOG: Final = logging.getLogger(__name__)

HOOK_SECONDS: Final = 3600
REMOVE_SECONDS: Final = 30
CANNOT: Final = (StartFailure, VolumeError, NoRoomError, SpawnError, KubeError, OSError)


class Say(Protocol):
    """Reports an event of a pod."""

    def __call__(self, pod: Tree, reason: str, note: str, *, warning: bool = False) -> None:
        """Say it."""


class Tending:
    """Probes containers, runs their hooks, and stops them."""

    def __init__(
        self, clock: Clock, spawner: Spawner, workshop: Workshop, say: Say, changed: Callable[[str], None]
    ) -> None:
        self.clock = clock
        self.spawner = spawner
        self.workshop = workshop
        self.say = say
        self.changed = changed
        """Called with the uid of a pod whose state changed."""

    def begin(self, box: Box, life: Life) -> None:
        """Start the postStart hook and the probes of a running container."""
        if has(life.spec, "lifecycle", "postStart") and not life.adopted:
            life.tasks.append(asyncio.create_task(self.after_start(box, life)))
        asked = probes_of(life.spec)
        if "startup" in asked:
            self.probe(box, life, "startup")
        else:
            self.probe_started(box, life)

    def probe_started(self, box: Box, life: Life) -> None:
        """Start the probes of a container that has started."""
        kinds: tuple[Kind, ...] = ("readiness", "liveness")
        for kind in kinds:
            if kind in probes_of(life.spec):
                self.probe(box, life, kind)

    def probe(self, box: Box, life: Life, kind: Kind) -> None:
        """Start one probe."""
        probe = probes_of(life.spec)[kind]

        async def once() -> Answer:
            async def run(command: tuple[str, ...], seconds: float) -> Outcome:
                return await self.beside(box, life, command, seconds)

            return await ask(probe, life.spec, host=self.workshop.host, clock=self.clock, run=run)

        def changed(kind: Kind, well: bool) -> None:
            life.probed[kind] = well
            if kind == "startup" and well:
                self.probe_started(box, life)
            if not well and kind != "readiness":
                self.restart(box, life, kind, whole(probe, "terminationGracePeriodSeconds"))
            self.changed(box.uid)

        def failed(kind: Kind, message: str) -> None:
            self.say(box.pod, "Unhealthy", f"{kind.capitalize()} probe failed: {message}".rstrip(), warning=True)

        prober = Prober(kind, probe, once, self.clock, changed=changed, failed=failed)
        life.tasks.append(asyncio.create_task(prober.run(), name=f"{kind} {life.key}"))

    def restart(self, box: Box, life: Life, kind: Kind, grace: int | None) -> None:
        """Stop an unhealthy container, so that it restarts if its policy allows."""
        if life.kill_at is None:
            self.say(box.pod, "Killing", f"Container {life.name} failed {kind} probe, will be restarted")
            seconds = grace_seconds(box.pod) if grace is None else grace
            life.kill_at = Moment(self.clock.moment() + seconds * MICROS)

    async def beside(self, box: Box, life: Life, command: tuple[str, ...], seconds: float) -> Outcome:
        """Run a command like the container: same user, environment, folder and limits."""
        if not command:
            return Outcome(1, "no command specified")
        try:
            start = life.start = life.start or await self.workshop.start(box.pod, life.spec, life.number)
            runtime = self.workshop.runtime
            argv = command if runtime is None else (runtime, "exec", container_name(life.key), *command)
            return await self.spawner.run_once(msgspec.structs.replace(start, argv=argv), seconds)
        except CANNOT as error:
            return Outcome(1, str(error))

    async def after_start(self, box: Box, life: Life) -> None:
        """Run the postStart hook of a container; a failure stops it."""
        answer = await self.hook(box, life, "postStart", HOOK_SECONDS)
        if not answer.well and life.kill_at is None:
            self.say(box.pod, "FailedPostStartHook", f"PostStartHook failed: {answer.message}".rstrip(), warning=True)
            life.kill_at = Moment(self.clock.moment() + grace_seconds(box.pod) * MICROS)
            self.changed(box.uid)

    def press_all(self, box: Box, due: Moment, now: Moment) -> list[Moment | None]:
        """Stop everything of a pod: first the main containers, then the sidecars."""
        mains = [life for life in box.lives.values() if not life.sidecar]
        lives = mains if any(life.alive for life in mains) else list(box.lives.values())
        for life in lives:
            life.kill_at = due if life.kill_at is None else min(due, life.kill_at)
        return [self.press(box, life, now) for life in lives]

    def press(self, box: Box, life: Life, now: Moment) -> Moment | None:
        """Signal a container that has to end, and kill it when its time is over; returns when to look again."""
        if life.kill_at is None or not life.alive or life.attempt is None or life.killed:
            return None
        if not life.told and life.hook is None:
            self.say(box.pod, "Killing", f"Stopping container {life.name}")
            life.quiet()
            life.hook = self.before_end(box, life, life.kill_at)
        if not life.told and (life.hook is None or life.hook.done()):
            life.told = True
            self.spawner.send(life.attempt.supervisor, signal.SIGTERM)
        if now < life.kill_at:
            return life.kill_at
        life.killed = True
        self.spawner.send(life.attempt.supervisor, signal.SIGUSR1)
        return None

    def before_end(self, box: Box, life: Life, due: Moment) -> asyncio.Task[None] | None:
        """Start the preStop hook of a container; None if it has none."""
        if not has(life.spec, "lifecycle", "preStop") or not life.running:
            return None

        async def run() -> None:
            seconds = (due - self.clock.moment()) / MICROS
            if seconds > 0:
                answer = await self.hook(box, life, "preStop", seconds)
                if not answer.well:
                    note = f"PreStopHook failed: {answer.message}".rstrip()
                    self.say(box.pod, "FailedPreStopHook", note, warning=True)
            self.changed(box.uid)

        return asyncio.create_task(run(), name=f"preStop {life.key}")

    async def hook(self, box: Box, life: Life, which: str, seconds: float) -> Answer:
        """The result of a hook of a container."""
        hook = mapping(life.spec, "lifecycle", which)
        if has(hook, "exec"):
            outcome = await self.beside(box, life, tuple(strings(member(hook, "exec", "command"))), seconds)
            return Answer(outcome.code == 0, outcome.output)
        try:
            if has(hook, "sleep"):
                pause = min(float(whole(hook, "sleep", "seconds") or 0), seconds)
                await self.clock.sleep(int(pause * MICROS))
            elif has(hook, "httpGet"):
                get = mapping(hook, "httpGet")
                port = port_of(life.spec, member(get, "port"))
                host = text(get, "host") or self.workshop.host
                return await within(self.clock, seconds, http(host, port, get))
            return Answer(True)
        except (OSError, TimeoutError, ValueError) as error:
            return Answer(False, str(error) or "no response in time")

    async def remove_containers(self, box: Box, runtime: Runtime) -> None:
        """Remove a pod's containers from the runtime."""
        for life in box.lives.values():
            if life.start is not None:
                start: Start = msgspec.structs.replace(life.start, argv=remove_argv(runtime, life.key))
                try:
                    await self.spawner.run_once(start, REMOVE_SECONDS)
                except SpawnError as error:
                    LOG.warning("container: cannot remove it from the runtime container=%s error=%s", life.key, error)
