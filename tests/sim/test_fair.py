"""Does the simulator decide by shares, and do previews and estimates that start from a state know them?"""

from pathlib import Path

import pytest

from pykueue.base.units import MICROS, Instant
from pykueue.engine.record.checkpoint import checkpoint, restore
from pykueue.sim.trace import Setting, read_trace
from pykueue.sim.world import World
from tests.storyfile import ROOT

EXAMPLE = ROOT / "examples/fair-sharing"
TEAMS = ("vision", "speech", "robots")


def world(*assignments: str, without: str = "") -> World:
    """The example after 45 minutes."""
    files = [(file.name, file.read_bytes()) for file in sorted(Path(EXAMPLE).glob("*.yaml")) if file.name != without]
    made = World(read_trace(files, Setting(assignments=assignments)))
    made.proceed(Instant(made.trace.start + 45 * 60 * MICROS), bounded=False)
    return made


def shares(made: World) -> list[int | None]:
    found = [made.engine.share_of_queue(team) for team in TEAMS]
    return [None if share is None else share.rounded for share in found]


def test_shares_become_equal() -> None:
    assert shares(world()) == [143, 143, 143]


def test_weights_can_be_assigned() -> None:
    assert shares(world("clusterqueue/robots.fairSharing.weight=1")) == [286, 143, 143]
    assert shares(world("cohort/lab.fairSharing.weight=3")) == [143, 143, 143], "a root has no share"


def test_without_the_section_there_are_no_shares() -> None:
    assert shares(world(without="configuration.yaml")) == [None, None, None]


@pytest.mark.parametrize("name", ["vision", "lab", "nobody"])
def test_a_state_that_is_restored_has_the_same_shares(name: str) -> None:
    engine = world().engine
    again = restore(checkpoint(engine))
    assert again.options.fair_sharing == engine.options.fair_sharing
    for one, two in (
        (engine.share_of_queue(name), again.share_of_queue(name)),
        (engine.share_of_cohort(name), again.share_of_cohort(name)),
    ):
        assert (None if one is None else one.standing) == (None if two is None else two.standing)
