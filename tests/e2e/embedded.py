"""How is a story told on the embedded system? In this process, in memory, under a manual clock, a fresh one for each.

To wait is to turn the clock: to the next timer, but not by more than a tenth of a second, and to look again. So a story
that waits for seconds takes milliseconds, and what came too late by a second is late here too.
"""

import asyncio
import contextlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any

import pytest

from pykueue.apiserver.auth.authority import Authority
from pykueue.apiserver.auth.kubeconfigs import kubeconfig
from pykueue.apiserver.http.front import Front
from pykueue.apiserver.http.server import Server
from pykueue.apiserver.wire.messages import Request
from pykueue.app.embedded import PARTS
from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS, Instant
from pykueue.kube.port import Resource
from pykueue.testing.embedded import Embedded
from tests.e2e.switchboard import Wanted
from tests.plane.client import WAIT, Calls, Tree, path_of, resource_of
from tests.plane.programs import merged
from tests.plane.stages import PREFIX

STEP = MICROS // 10
"""By so much the clock is turned at most between two looks."""
CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "integrations": {"frameworks": ["batch/job"]},
}
TICK = 0.01
"""Seconds after which the clock is set while a program outside is at work."""
KUBECONFIG = "{kubeconfig}"
"""Stands for the file in the words of a program."""
HASTE = 10
"""How much faster than the world's the clock goes then."""
CAPACITY = {"cpu": "100k", "memory": "1Pi", "example.com/gpu": "100k"}


class Direct(Calls):
    """Calls to the embedded API without a socket."""

    def __init__(self, system: Embedded) -> None:
        super().__init__()
        self.system = system

    def raw(
        self, verb: str, path: str, body: object = None, content_type: str = "application/json", timeout: float = 30.0
    ) -> tuple[int, bytes]:
        """Code and body of an answer; others go on with what they do only until it is there."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        asked = self.system.asked(verb, path, data, content_type)
        task = self.system.loop.create_task(whole(self.system.front, asked))
        self.turns(task.done)
        while not task.done() and self.system.step():
            pass
        return task.result()

    def soon(self, holds: Callable[[], bool], timeout: float = WAIT) -> bool:
        """Whether something comes true before so many seconds have passed on the clock.

        It is asked again after each write, so that what is so for a moment only is seen too, and time passes only when
        nobody has anything left to do.
        """
        clock, store = self.system.clock, self.system.local.store
        end = Instant(clock.now() + round(timeout * MICROS))
        while not holds():
            version = store.version
            if self.turns(lambda: store.version != version):  # noqa: B023  # it is asked in this round alone
                continue
            if clock.now() >= end:
                return False
            due = clock.next_due()
            latest = Instant(clock.now() + STEP)
            clock.turn_to(latest if due is None else min(latest, due))
        return True

    def turns(self, enough: Callable[[], bool]) -> bool:
        """Let everyone take turns at this instant; whether it was enough before nobody had anything left to do."""
        return self.system.loop.run_until_complete(taken(enough))

    def sleep(self, seconds: float) -> None:
        """Let time pass on the clock."""
        self.system.advance(seconds)

    @contextlib.contextmanager
    def following(self, named: str | Resource, namespace: str, tell: Callable[[Tree], None]) -> Iterator[None]:
        """Have every event of a watch told until the block ends."""
        path = f"{path_of(resource_of(named), namespace)}?watch=1&timeoutSeconds=3600"
        with contextlib.closing(self.system.watch(path)) as watch:
            yield
            for event in watch.events():
                tell(event)


async def whole(front: Front, asked: Request) -> tuple[int, bytes]:
    """Code and body of an answer, the pieces of which are put together."""
    answer = await front.answer(asked)
    if isinstance(answer.body, bytes):
        return answer.code, answer.body
    return answer.code, b"".join([piece async for piece in answer.body])


async def taken(enough: Callable[[], bool]) -> bool:
    """Whether there was enough before the loop had nothing left to do."""
    # Asyncio's own loop shows what is ready, as `ManualClock.settle` has it.
    ready: Sized = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # the stock loop has it, and says so nowhere
    while not enough():
        await asyncio.sleep(0)
        if not ready:
            return enough()
    return True


class Heard(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class Controlling:
    """Our controllers, started by a story that ends them too."""

    def __init__(self, system: Embedded, config: Mapping[str, Any], parts: frozenset[str]) -> None:
        self.system = system
        system.restart_manager(config, controllers=parts)

    def __enter__(self) -> "Controlling":
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()

    def stop(self) -> float:
        """Seconds that it took on the clock; writes on their way arrive first."""
        began = self.system.clock.now()
        self.system.call(self.system.local.controllers.shut_down())
        return (self.system.clock.now() - began) / MICROS

    def kill(self) -> None:
        """End them, in the middle of whatever they do."""
        controllers = self.system.local.controllers
        controllers.stopping = True
        self.system.call(controllers.end(*controllers.tasks))
        controllers.pump.writes.abandon()


class InProcess:
    """The embedded system of one story."""

    def __init__(self, system: Embedded, heard: Heard) -> None:
        self.system = system
        self.heard = heard
        self.calls = Direct(system)

    @classmethod
    @contextlib.contextmanager
    def started(cls, wanted: Wanted) -> "Iterator[InProcess]":
        """A fresh system, with the manager that a story wants, until the block ends."""
        assert not wanted.args, "there is no command line here"
        log, heard = logging.getLogger("pykueue"), Heard()
        level = log.level
        log.addHandler(heard)
        log.setLevel(logging.INFO)
        try:
            with contextlib.closing(
                Embedded(
                    merged(CONFIGURATION, json.loads(wanted.config)),
                    gates=json.loads(wanted.gates),
                    admission=wanted.webhooks,
                    nodes=False,
                    prefix=PREFIX,
                )
            ) as system:
                backend = cls(system, heard)
                backend.add_node("node-0", {}, 10_000)
                if wanted.manager == "none":
                    system.call(system.local.controllers.shut_down())
                yield backend
        finally:
            log.removeHandler(heard)
            log.setLevel(level)

    @property
    def client(self) -> Calls:
        return self.calls

    def add_node(self, name: str, labels: Mapping[str, str], pods: int) -> None:
        capacity = {**CAPACITY, "pods": str(pods)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        self.client.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
                "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
            }
        )

    def now(self) -> float:
        return self.system.clock.now() / MICROS

    def manager(self, config: Mapping[str, Any] | None = None, *, without: str = "") -> "Controlling":
        return Controlling(self.system, merged(CONFIGURATION, config or {}), PARTS - {without})

    def metrics(self) -> str:
        return self.system.metrics()

    def log(self) -> str:
        return "\n".join(self.heard.lines)

    def ended(self) -> str:
        try:
            self.system.failed()
        except Exception as error:
            return f"the manager ended: {type(error).__name__}: {error}"
        return ""

    def kubectl(self, *args: str | Path, stdin: str | None = None, check: bool = True) -> str:
        """What the kubectl of this machine prints, which speaks to the same API over a socket."""
        program = shutil.which("kubectl")
        if program is None:
            pytest.skip("there is no kubectl on this machine")
        code, out, err = self.command([program, f"--kubeconfig={KUBECONFIG}", *map(str, args)], stdin or "")
        if check and code:
            raise AssertionError(f"kubectl {' '.join(map(str, args))}: {err}{out}")
        return out if check else out + err

    def command(self, words: list[str], stdin: str = "") -> tuple[int, str, str]:
        """Code and words of a program that speaks to the API; KUBECONFIG in its words is the name of such a file."""
        found = self.system.loop.run_until_complete(self.served(words, stdin))
        self.system.settle()
        return found

    async def served(self, words: list[str], stdin: str) -> tuple[int, str, str]:
        """Code and words of a program that speaks to the API; the clock goes on with the world's meanwhile."""
        system, world = self.system, SystemClock()
        authority = Authority.open(None, world.now())
        server = Server(system.front, authority.context())
        await server.start()
        try:
            with tempfile.TemporaryDirectory(prefix="kubectl-") as folder:
                file = Path(folder, "config")
                url = f"https://127.0.0.1:{server.port}"
                file.write_text(kubeconfig(url, authority.certificate, user="admin", token=system.token))
                process = await asyncio.create_subprocess_exec(
                    *(word.replace(KUBECONFIG, str(file)) for word in words),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env={"HOME": folder, "PATH": os.environ["PATH"]},
                )
                talk = asyncio.ensure_future(process.communicate(stdin.encode()))
                began, start = world.now(), system.clock.now()
                while not talk.done():
                    await asyncio.wait([talk], timeout=TICK)
                    system.clock.turn_to(Instant(start + HASTE * (world.now() - began)))
                out, err = talk.result()
                assert process.returncode is not None
                return process.returncode, out.decode(), err.decode()
        finally:
            await server.stop()
