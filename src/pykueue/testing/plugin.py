"""What does pytest get from us? The fixture `kueue`: a fresh system for each test that asks for it.

The marker `kueue(config=…, gates=…)` says with which Configuration and gates.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pykueue.testing.kueue import Kueue


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "kueue(config, gates): the Configuration, as a mapping, and the feature gates of the tested system",
    )


@pytest.fixture
def kueue(request: pytest.FixtureRequest) -> "Iterator[Kueue]":
    """A fresh system in memory, under a manual clock, with pods that do as they are told."""
    # Every run of pytest reads this module; only those that use it read the rest.
    from pykueue.testing.kueue import Kueue

    marker = request.node.get_closest_marker("kueue")
    given = dict(marker.kwargs) if marker is not None else {}
    made = Kueue(given.get("config"), given.get("gates"))
    try:
        yield made
    finally:
        made.close()
