"""On what is a story told? A `Backend`: an API, nodes, a manager, and the time that passes there.

`make e2e` tells the stories on a real control plane (`OnPlane`), `make test` on the embedded system in this process
(`embedded.InProcess`). A story that cannot be told there is marked `plane(why)`, and a module of such stories
calls `only_on_plane(why)`.
"""

import os
import ssl
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.e2e.switchboard import Granted
from tests.plane.client import Calls, Client
from tests.plane.plane import Plane
from tests.plane.programs import ManagerProcess, Site

CHOICE = "PYKUEUE_E2E_BACKEND"
"""The variable that chooses: `plane`, or `embedded`, which is meant where it is not set."""
ELSEWHERE = "told by `make e2e` alone"


def on_plane() -> bool:
    """Whether stories are to be told on a real control plane."""
    chosen = os.environ.get(CHOICE, "embedded")
    if chosen not in ("plane", "embedded"):
        raise ValueError(f"{CHOICE}={chosen}: say plane or embedded")
    return chosen == "plane"


def only_on_plane(why: str) -> None:
    """Leave out the module that calls this at its head, where its stories cannot be told."""
    if not on_plane():
        pytest.skip(f"{ELSEWHERE}: {why}", allow_module_level=True)


class Running(Protocol):
    """A manager that runs until the block ends, or somebody ends it."""

    def __enter__(self) -> "Running": ...

    def __exit__(self, *_error: object) -> None: ...

    def stop(self) -> float:
        """Have it end in an orderly way."""

    def kill(self) -> None:
        """End it outright."""


class Backend(Protocol):
    """Where a story takes place."""

    @property
    def client(self) -> Calls:
        """Calls as an administrator."""

    def add_node(self, name: str, labels: Mapping[str, str], pods: int) -> None:
        """Add a node that holds this many pods and more than enough of everything else, and is ready."""

    def now(self) -> float:
        """Seconds since 1970."""

    def manager(self, config: Mapping[str, Any] | None = None, *, without: str = "") -> Running:
        """A manager, for a story that starts and ends it itself; `without` names a part that is turned off."""

    def kubectl(self, *args: str | Path, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl prints; with `check` a failure is an error that shows what it said."""

    def metrics(self) -> str:
        """The manager's metrics, as Prometheus reads them."""

    def log(self) -> str:
        """What the manager has logged since it started."""

    def ended(self) -> str:
        """What became of the manager where it is no longer there; empty where it is, or where none is wanted."""


class OnPlane:
    """A real control plane, that other stories use too, and the manager that runs there now."""

    def __init__(self, plane: Plane, site: Site, given: Granted) -> None:
        self.plane = plane
        self.site = site
        self.given = given
        self.served_by = given.pid

    @property
    def client(self) -> Client:
        return self.plane.client

    def watched(self, manager: ManagerProcess) -> ManagerProcess:
        """Have error messages show the log of a manager that the story started itself."""
        self.given = Granted(str(self.plane.folder), str(manager.log), manager.began, manager.pid)
        return manager

    def add_node(self, name: str, labels: Mapping[str, str], pods: int) -> None:
        self.plane.add_node(name, labels, pods=pods)

    def now(self) -> float:
        return time.time()  # noqa: TID251  # the world's own time is the one that passes here

    def manager(self, config: Mapping[str, Any] | None = None, *, without: str = "") -> ManagerProcess:
        args = (f"--controllers=*,-{without}",) if without else ()
        return self.watched(self.site.ours(config, args=args))

    def kubectl(self, *args: str | Path, stdin: str | None = None, check: bool = True) -> str:
        return self.plane.kubectl(*args, stdin=stdin, check=check)

    def metrics(self) -> str:
        # Its certificate is for its Service's name; who asks is what is checked here.
        unchecked = ssl._create_unverified_context()
        asked = urllib.request.Request(
            f"https://127.0.0.1:{self.given.metrics}/metrics",
            headers={"Authorization": self.client.headers["Authorization"]},
        )
        with urllib.request.urlopen(asked, timeout=10, context=unchecked) as answer:
            text: str = answer.read().decode()
        return text

    def log(self) -> str:
        if not self.given.log:
            return "No manager runs."
        with Path(self.given.log).open("rb") as file:
            file.seek(self.given.began)
            return file.read().decode(errors="replace")

    def ended(self) -> str:
        if not self.served_by or Path(f"/proc/{self.served_by}").exists():
            return ""
        return "the manager ended"
