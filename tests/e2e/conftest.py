"""What do stories on a real cluster share? The option to run them, the plane, and a `team` of their own.

They run by `make e2e`, or when a path under tests/e2e is named; `pytest tests` leaves them out, for they need the
control plane (minutes to build, once) and some minutes to run.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.switchboard import ADDRESS, WHO, Switchboard, Wanted, granted
from tests.e2e.team import Team
from tests.plane.plane import Plane
from tests.plane.process import stop_on_signals
from tests.plane.programs import Site

HERE = Path(__file__).resolve().parent
ASKED = "PYKUEUE_E2E"
SWITCHBOARD = pytest.StashKey[Switchboard]()
TELLING = pytest.StashKey[bool]()


def asked(config: pytest.Config) -> bool:
    """Whether somebody asked for these tests by naming them or by the variable."""
    return bool(os.environ.get(ASKED)) or any("e2e" in Path(arg.split("::")[0]).parts for arg in config.args)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "manager(config, gates, args, none, alone, webhooks): the manager that a story needs"
    )
    config.addinivalue_line("markers", "ours(why): shows where we part from Kueue, or what Kueue does not have")
    if asked(config) and ADDRESS not in os.environ:
        stop_on_signals()
        os.environ[ASKED] = "1"
        folder = tempfile.mkdtemp(prefix="e2e-")
        os.environ[ADDRESS] = str(Path(folder, "socket"))
        config.stash[SWITCHBOARD] = Switchboard(Path(folder, "socket"))
        config.stash[SWITCHBOARD].start()


def pytest_unconfigure(config: pytest.Config) -> None:
    if SWITCHBOARD in config.stash:
        config.stash[SWITCHBOARD].stop()
        path = Path(os.environ.pop(ADDRESS))
        path.unlink()
        path.parent.rmdir()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if asked(config) or collection_path.suffix != ".py":
        return None
    config.stash[TELLING] = True
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash.get(TELLING, False):
        terminalreporter.write_line("tests/e2e was left out: it needs a control plane; run it by `make e2e`")


def wanted(item: pytest.Item) -> Wanted:
    """The manager that a story needs, from its markers; the nearest one counts."""
    marker = item.get_closest_marker("manager")
    given: Mapping[str, Any] = marker.kwargs if marker else {}
    return Wanted(
        "none" if given.get("none") else "ours",
        json.dumps(given.get("config", {}), sort_keys=True),
        json.dumps(given.get("gates", {}), sort_keys=True),
        tuple(given.get("args", ())),
        bool(given.get("alone")),
        bool(given.get("webhooks", True)),
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Stories that share a manager stand together, so that it is started once. Those that need a plane of their own come
    # first: they take longest.
    first: dict[Wanted, int] = {}
    for item in items:
        if WHO == "kueue" and (marker := item.get_closest_marker("ours")):
            item.add_marker(pytest.mark.skip(reason=f"not so in Kueue: {marker.args[0]}"))
        if HERE in item.path.parents:
            first.setdefault(wanted(item), len(first))
    items.sort(key=lambda item: first.get(wanted(item), 0) if HERE in item.path.parents else -1)


@pytest.fixture(scope="session")
def planes() -> Iterator[dict[str, Plane]]:
    """Planes that this worker knows by their folder; the connections to them outlive a story."""
    known: dict[str, Plane] = {}
    yield known
    for plane in known.values():
        plane.client.close()


@pytest.fixture
def team(request: pytest.FixtureRequest, planes: dict[str, Plane]) -> Iterator[Team]:
    """A namespace and names of a story's own, on the shared plane with the manager that the story wants."""
    with granted(wanted(request.node)) as given:
        plane = planes.get(given.folder) or Plane.attached(Path(given.folder))
        planes[given.folder] = plane
        team = Team(plane, Site.attached(plane), request.node.name, given)
        try:
            yield team
            team.still_well()
        finally:
            team.leave()
