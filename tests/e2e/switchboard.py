"""Share control planes among the workers of a test run: each runs one manager configuration at a time.

Stories that want the same manager run side by side on one plane; when none of them is left there, the manager is
stopped and the next one is started. A story marked `alone` gets a plane for itself. Workers ask over a socket and hold
their plane for as long as they hold the connection, so a worker that crashes gives it back.
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

POLL = 0.05
"""Seconds between two looks at the requests."""

PLANES = 2
"""Stories that need a plane for themselves mostly wait for leases and backoffs, so a second plane saves time."""


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
    """A worker's connection: what it wants, and the plane that it was given."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.wanted: Wanted | None = None
        self.plane: SharedPlane | None = None

    def send(self, tree: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(tree).encode() + b"\n")


class SharedPlane:
    """A plane and the manager on it, started when the first story needs them."""

    def __init__(self, board: "Switchboard") -> None:
        self.board = board
        self.stack = contextlib.ExitStack()
        self.plane: Plane | None = None
        self.site: Site | None = None
        self.manager: ManagerProcess | None = None
        self.now: Wanted | None = None
        """What its users want. The manager follows, which takes seconds."""
        self.running: Wanted | None = None
        self.idle_since = 0.0
        # The kernel ends programs with the thread that started them, so one thread starts everything of a plane.
        self.thread = threading.Thread(target=self.serve, name="plane", daemon=True)

    def serve(self) -> None:
        with self.stack:
            while not self.board.over.wait(POLL):
                while (request := self.take()) is not None:
                    try:
                        self.switch()
                        self.answer(request)
                    except Exception as error:
                        # The plane itself may be what is broken, so the story is told why it gets none.
                        request.send({"error": f"{type(error).__name__}: {error}"})
                        self.now = None
            self.stop_manager()

    def take(self) -> Request | None:
        """Claim the next request for this plane, if its users leave room for one."""
        with self.board.lock:
            using = [request for request in self.board.requests if request.plane is self]
            if any(request.wanted and request.wanted.alone for request in using):
                return None
            waiting = [request for request in self.board.requests if request.wanted and request.plane is None]
            found = [request for request in waiting if self.shares(request.wanted)]
            if not found and not using and time.monotonic() - self.idle_since >= LINGER:
                others = [plane for plane in self.board.planes if plane is not self]
                found = [request for request in waiting if not any(one.shares(request.wanted) for one in others)]
            if not found:
                return None
            found[0].plane = self
            self.now = found[0].wanted
            return found[0]

    def shares(self, wanted: Wanted | None) -> bool:
        """Whether the manager that runs here serves this story beside others."""
        return wanted is not None and wanted == self.now and not wanted.alone

    def switch(self) -> None:
        """Have the manager of `now` run, and no other."""
        wanted = self.now
        assert wanted is not None
        if self.plane is None or self.site is None:
            self.plane = self.stack.enter_context(Plane.start())
            self.site = self.stack.enter_context(Site.on(self.plane, theirs() if WHO == "kueue" else ours()))
        if self.running == wanted and not wanted.alone and self.manager is not None and self.manager.alive():
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
        self.running = wanted

    def stop_manager(self) -> None:
        if self.manager is not None and self.manager.alive():
            self.manager.stop()
        self.manager = None
        self.running = None

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
        request.send(granted)


class Switchboard:
    """Takes the workers' requests, in a thread of the process that started the tests; the planes serve them."""

    def __init__(self, address: Path) -> None:
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(address))
        self.server.listen(64)
        self.server.settimeout(POLL)
        self.lock = threading.Lock()
        self.requests: list[Request] = []
        self.over = threading.Event()
        self.planes = [SharedPlane(self) for _ in range(PLANES)]
        self.thread = threading.Thread(target=self.serve, name="switchboard", daemon=True)

    def serve(self) -> None:
        while not self.over.is_set():
            with contextlib.suppress(TimeoutError):
                connection = self.server.accept()[0]
                with self.lock:
                    self.requests.append(Request(connection))
            with self.lock:
                self.listen()

    def listen(self) -> None:
        """Read what workers ask for, and drop those that are gone."""
        for request in list(self.requests):
            try:
                data = request.connection.recv(65536, socket.MSG_DONTWAIT)
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
                if request.plane is not None:
                    request.plane.idle_since = time.monotonic()

    def start(self) -> None:
        for thread in (self.thread, *(plane.thread for plane in self.planes)):
            thread.start()

    def stop(self) -> None:
        """Stop the managers and the planes."""
        self.over.set()
        for thread in (self.thread, *(plane.thread for plane in self.planes)):
            thread.join()
        self.server.close()


@contextlib.contextmanager
def granted(wanted: Wanted) -> Iterator[Granted]:
    """Hold a plane with the wanted manager until the block ends."""
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
