"""The pytest plugin: the fixture `kueue`, a fresh system for each test.

The marker `kueue(config=…, gates=…)` sets its Configuration and feature gates.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pykueue.testing.kueue import Kueue

SETTINGS: Final = ("config", "gates")
"""The keywords of the marker."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "kueue(config, gates): set the Configuration (a mapping) and the feature gates of the `kueue` fixture",
    )


def settings(marker: pytest.Mark) -> dict[str, Any]:
    """The settings of a marker; raises `TypeError` for those that do not exist."""
    if marker.args:
        raise TypeError("marker kueue: settings are keywords; write kueue(config=...) or kueue(gates=...)")
    for name in marker.kwargs:
        if name not in SETTINGS:
            near = get_close_matches(name, SETTINGS, n=1)
            advice = f"did you mean {near[0]}?" if near else f"use {' or '.join(SETTINGS)}"
            raise TypeError(f"marker kueue: unknown keyword {name!r}; {advice}")
    return dict(marker.kwargs)


@pytest.fixture
def kueue(request: pytest.FixtureRequest) -> "Iterator[Kueue]":
    """A fresh in-memory system with a manual clock and scripted pods."""
    # Every pytest run imports this module; only tests that use the fixture import the rest.
    from pykueue.testing.kueue import Kueue

    marker = request.node.get_closest_marker("kueue")
    given = settings(marker) if marker is not None else {}
    made = Kueue(given.get("config"), given.get("gates"), folder=request.path.parent)
    try:
        yield made
    finally:
        made.close()
