"""What do stories share? The backend that they are told on, and a `team` of their own.

`make test` tells them on the embedded system: in this process, in memory, under a manual clock. `make e2e` tells them
on a real control plane (minutes to build, once), which all workers of the run share.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.backend import ELSEWHERE, OnPlane, on_plane
from tests.e2e.embedded import InProcess
from tests.e2e.switchboard import ADDRESS, WHO, Switchboard, Wanted, granted
from tests.e2e.team import Team
from tests.plane.plane import Plane
from tests.plane.process import stop_on_signals
from tests.plane.programs import Site

HERE = Path(__file__).resolve().parent
SWITCHBOARD = pytest.StashKey[Switchboard]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "manager(config, gates, args, none, alone, webhooks): the manager that a story needs"
    )
    config.addinivalue_line("markers", "ours(why): shows where we part from Kueue, or what Kueue does not have")
    config.addinivalue_line("markers", "plane(why): can be told on a real control plane alone")
    if on_plane() and ADDRESS not in os.environ:
        stop_on_signals()
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
    places: dict[Wanted, tuple[bool, int]] = {}
    for item in items:
        if HERE not in item.path.parents:
            continue
        if WHO == "kueue" and (marker := item.get_closest_marker("ours")):
            item.add_marker(pytest.mark.skip(reason=f"not so in Kueue: {marker.args[0]}"))
        if not on_plane() and (marker := item.get_closest_marker("plane")):
            item.add_marker(pytest.mark.skip(reason=f"{ELSEWHERE}: {marker.args[0]}"))
        needs = wanted(item)
        places.setdefault(needs, (not needs.alone, len(places)))
    if on_plane():
        # Stories that share a manager stand together, so that it is started once. Those that share with nobody come
        # before them: at the end of a run the workers would wait for each other.
        items.sort(key=lambda item: places[wanted(item)] if HERE in item.path.parents else (False, -1))


@pytest.fixture(scope="session")
def planes() -> Iterator[dict[str, Plane]]:
    """Planes that this worker knows by their folder; the connections to them outlive a story."""
    known: dict[str, Plane] = {}
    yield known
    for plane in known.values():
        plane.client.close()


@pytest.fixture
def team(request: pytest.FixtureRequest, planes: dict[str, Plane]) -> Iterator[Team]:
    """A namespace and names of a story's own, where the manager runs that the story wants."""
    needs = wanted(request.node)
    if not on_plane():
        with InProcess.started(needs) as backend:
            team = Team(backend, request.node.name)
            yield team
            team.still_well()
        return
    with granted(needs) as given:
        plane = planes.get(given.folder) or Plane.attached(Path(given.folder))
        planes[given.folder] = plane
        team = Team(OnPlane(plane, Site.attached(plane), given), request.node.name)
        try:
            yield team
            team.still_well()
        finally:
            team.leave()
