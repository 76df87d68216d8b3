"""The pytest plugin: the fixture `kueue`, a fresh system for each test.

The marker `kueue(config=…, gates=…)` sets its Configuration and feature gates.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pykueue.testing.kueue import Kueue


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "kueue(config, gates): set the Configuration (a mapping) and the feature gates of the `kueue` fixture",
    )


@pytest.fixture
def kueue(request: pytest.FixtureRequest) -> "Iterator[Kueue]":
    """A fresh in-memory system with a manual clock and scripted pods."""
    # Every pytest run imports this module; only tests that use the fixture import the rest.
    from pykueue.testing.kueue import Kueue

    marker = request.node.get_closest_marker("kueue")
    given = dict(marker.kwargs) if marker is not None else {}
    made = Kueue(given.get("config"), given.get("gates"), folder=request.path.parent)
    try:
        yield made
    finally:
        made.close()
