"""Which manager runs now? One plane serves all workers of a test run; this hands it out, one configuration at a time.

Stories that want the same manager run side by side; when none of them is left, the manager is stopped and the next one
is started. A story that must be alone gets the plane for itself. Workers ask over a socket and hold the plane for as
long as they hold their connection, so a worker that crashes gives it back.
"""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pykueue.base.struct import Frozen
from tests.plane.plane import Plane
from tests.plane.programs import ManagerProcess, Site, ours, theirs

ADDRESS = "PYKUEUE_E2E_SOCKET"
"""The variable in which workers find the socket."""

WHO = os.environ.get("PYKUEUE_E2E_MANAGER", "ours")
"""`kueue` runs the stories on the real Kueue, to see whether the stories themselves are right."""

LINGER = 0.3
"""Seconds for which a manager without users is kept, in case that the next story wants it too."""


class Wanted(Frozen):
    """What a story needs: a manager of this kind, with this configuration, perhaps for itself alone."""

    manager: str = "ours"
    config: str = "{}"
    gates: str = "{}"
    args: tuple[str, ...] = ()
    alone: bool = False
    webhooks: bool = True


class Granted(Frozen):
    """Where the plane is, and the manager that runs there."""

    folder: str
    log: str = ""
    began: int = 0
    pid: int = 0
    metrics: int = 0
    """The port on which it shows its metrics."""


class Request:
    """A worker that waits for, or uses, the plane."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.wanted: Wanted | None = None
        self.granted = False


class Switchboard:
    """Owns the plane and the manager on it. Runs in a thread of the process that started the tests."""

    def __init__(self, address: Path) -> None:
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(address))
        self.server.listen(64)
        self.server.settimeout(0.05)
        self.requests: list[Request] = []
        self.stack = contextlib.ExitStack()
        self.plane: Plane | None = None
        self.site: Site | None = None
        self.manager: ManagerProcess | None = None
        self.now: Wanted | None = None
        self.idle_since = 0.0
        self.over = threading.Event()
        # The kernel ends programs with the thread that started them, so one thread starts everything.
        self.thread = threading.Thread(target=self.serve, name="switchboard", daemon=True)

    def serve(self) -> None:
        with self.stack:
            while not self.over.is_set():
                with contextlib.suppress(TimeoutError):
                    self.requests.append(Request(self.server.accept()[0]))
                self.listen()
                try:
                    self.grant()
                except Exception as error:
                    # Whoever waits is told why; the plane itself may be what is broken.
                    self.refuse(f"{type(error).__name__}: {error}")
            self.stop_manager()

    def listen(self) -> None:
        """Read what workers ask for, and notice those that are gone."""
        for request in list(self.requests):
            request.connection.setblocking(False)
            try:
                data = request.connection.recv(65536)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if data:
                tree = json.loads(data)
                request.wanted = Wanted(**{**tree, "args": tuple(tree["args"])})
            else:
                request.connection.close()
                self.requests.remove(request)
                self.idle_since = time.monotonic()

    def grant(self) -> None:
        """Give the plane to whoever may have it now."""
        using = [request for request in self.requests if request.granted]
        waiting = [request for request in self.requests if request.wanted is not None and not request.granted]
        if not waiting or any(request.wanted and request.wanted.alone for request in using):
            return
        for request in waiting:
            if using and request.wanted is not None and request.wanted == self.now and not request.wanted.alone:
                self.answer(request)
        if using:
            return
        fitting = [request for request in waiting if request.wanted == self.now]
        if not fitting and time.monotonic() - self.idle_since < LINGER:
            return
        first = (fitting or waiting)[0]
        assert first.wanted is not None
        self.switch(first.wanted)
        self.answer(first)

    def switch(self, wanted: Wanted) -> None:
        """Have the wanted manager run, and no other."""
        if self.plane is None or self.site is None:
            self.plane = self.stack.enter_context(Plane.start())
            self.site = self.stack.enter_context(Site.on(self.plane, theirs() if WHO == "kueue" else ours()))
        running = self.manager is not None and self.manager.alive()
        if running and wanted == self.now and not wanted.alone:
            return
        self.stop_manager()
        self.site.set_webhooks(wanted.webhooks)
        if wanted.manager != "none":
            config, gates = json.loads(wanted.config), json.loads(wanted.gates)
            if WHO == "kueue":
                gates = {"UnadmittedWorkloadsObservability": True, "WorkloadPriorityClassDefaulting": True, **gates}
                self.manager = self.site.kueue(config, gates=gates)
            else:
                self.manager = self.site.ours(config, gates=gates, args=wanted.args)
        self.site.await_webhooks(wanted.webhooks)
        self.now = wanted

    def stop_manager(self) -> None:
        if self.manager is not None and self.manager.alive():
            self.manager.stop()
        self.manager = None
        self.now = None

    def answer(self, request: Request) -> None:
        assert self.plane is not None
        manager = self.manager
        granted: dict[str, Any] = {"folder": str(self.plane.folder)}
        if manager is not None:
            granted |= {
                "log": str(manager.log),
                "began": manager.began,
                "pid": manager.pid,
                "metrics": manager.ports["metrics"],
            }
        self.send(request, granted)

    def send(self, request: Request, tree: dict[str, Any]) -> None:
        request.granted = True
        with contextlib.suppress(OSError):
            request.connection.setblocking(True)
            request.connection.sendall(json.dumps(tree).encode() + b"\n")

    def refuse(self, why: str) -> None:
        for request in self.requests:
            if request.wanted is not None and not request.granted:
                self.send(request, {"error": why})

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Stop the manager and the plane."""
        self.over.set()
        self.thread.join()
        self.server.close()


@contextlib.contextmanager
def granted(wanted: Wanted) -> Iterator[Granted]:
    """Hold the plane with the wanted manager until the block ends."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[ADDRESS])
        asked = {
            "manager": wanted.manager,
            "config": wanted.config,
            "gates": wanted.gates,
            "args": list(wanted.args),
            "alone": wanted.alone,
            "webhooks": wanted.webhooks,
        }
        connection.sendall(json.dumps(asked).encode())
        with connection.makefile("r") as answers:
            tree = json.loads(answers.readline())
        if "error" in tree:
            raise AssertionError(f"no manager for this story: {tree['error']}")
        yield Granted(**tree)
