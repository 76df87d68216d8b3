"""Does every switch make the difference it claims? Each has a pair of stories in `tests/scenarios/ours.yaml`."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from pykueue.engine.model import KUEUE_SETTING, Options
from tests.storyfile import ROOT, STORIES, Told, begin, stories, take

PAIRS = stories(ROOT / STORIES / "ours.yaml")
SWITCHES = [field.name for field in msgspec.structs.fields(Options) if field.type is bool]
CLUSTER = ("flavors", "cohorts", "queues", "locals", "namespaces", "checks")
FACTS = ("after", "do", "cycles")
"""What a step tells the engine, as opposed to what it asks of it."""


def chosen(told: Told) -> Mapping[str, object]:
    """The options that a story writes down."""
    options = told.tree.get("options")
    return options if isinstance(options, dict) else {}


def situation(told: Told, switch: str) -> object:
    """All that a story tells the engine, but for one switch."""
    steps = told.tree["steps"]
    assert isinstance(steps, list)
    return (
        {field: value for field, value in chosen(told).items() if field != switch},
        {word: told.tree.get(word) for word in CLUSTER},
        [{word: step.get(word) for word in FACTS} for step in steps],
    )


def decided(told: Told) -> list[list[str]]:
    """What the engine decides in each step of a story."""
    story = begin(told.tree)
    steps = told.tree["steps"]
    assert isinstance(steps, list)
    return [[str(line) for line in take(story, step)] for step in steps]


def pairs(switch: str, told: Iterable[Told]) -> Iterator[tuple[Told, Told]]:
    """The stories that turn a switch on and off, and tell the same otherwise."""
    sides: dict[bool, list[Told]] = {True: [], False: []}
    for one in told:
        value = chosen(one).get(switch)
        if isinstance(value, bool) and one.name.startswith(f"{switch} {'on' if value else 'off'}, "):
            sides[value].append(one)
    for on in sides[True]:
        for off in sides[False]:
            if situation(on, switch) == situation(off, switch):
                yield on, off


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_has_a_pair_of_stories_and_makes_a_difference(switch: str) -> None:
    found = list(pairs(switch, PAIRS))
    assert found, (
        f"ours.yaml: no pair for {switch}; write two stories '{switch} on, ...' and '{switch} off, ...' "
        f"with `options: {{{switch}: true}}` and `options: {{{switch}: false}}` and the same facts"
    )
    for on, off in found:
        assert decided(on) != decided(off), f"{on.where} and {off.where}: the same decisions, so {switch} does nothing"


def test_every_story_is_half_of_a_pair() -> None:
    paired = {told.name for switch in SWITCHES for pair in pairs(switch, PAIRS) for told in pair}
    alone = [told.where for told in PAIRS if told.name not in paired]
    assert not alone, f"no counterpart with the same cluster and facts: {', '.join(alone)}"


def test_every_difference_from_kueue_is_a_switch() -> None:
    # A difference that is no switch could not be told in a pair.
    ours, theirs = msgspec.structs.asdict(Options()), msgspec.structs.asdict(KUEUE_SETTING)
    assert {field for field in ours if ours[field] != theirs[field]} <= set(SWITCHES)


TWO = """
- name: partial_admission on, fewer pods
  options: {partial_admission: true}
  queues: [main cpu=1]
  steps: [{do: [queue w main 2x cpu=1 min=1]}]
- name: partial_admission off, all pods
  options: {partial_admission: false}
  queues: [main cpu=1]
  steps: [{do: [queue w main 2x cpu=1 min=1]}]
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        pytest.param("", "", 1, id="the same facts"),
        pytest.param("options: {partial_admission: true}", "", 0, id="on by default only"),
        pytest.param("{partial_admission: true}", "{partial_admission: false}", 0, id="one side only"),
        pytest.param("{partial_admission: true}", "{partial_admission: true, seed: 1}", 0, id="another option too"),
        pytest.param("partial_admission on,", "something", 0, id="a name that does not say it"),
        pytest.param("main cpu=1]", "main cpu=2]", 0, id="another cluster"),
        pytest.param("2x cpu=1", "3x cpu=1", 0, id="another fact"),
    ],
)
def test_a_pair_differs_in_its_switch_alone(old: str, new: str, count: int, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(TWO.replace(old, new, 1))
    assert len(list(pairs("partial_admission", stories(path)))) == count
