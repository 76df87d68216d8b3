"""Do stories come out the same whatever happens to us? Restarts, refused writes, and the journal, over every story."""

from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from pykueue.engine.engine import Engine
from pykueue.engine.model import Workload
from pykueue.engine.record.checkpoint import checkpoint, restore
from pykueue.engine.record.journal import Recorder
from pykueue.engine.record.journal import replay as replayed
from tests.story import Story
from tests.storyfile import Told, Tree, begin, stories, story_files, take

ALL = [pytest.param(told, id=f"{told.path.stem}:{told.name}") for path in story_files() for told in stories(path)]
LIVES = [
    p
    for p in ALL
    if isinstance(p.id, str) and p.id.split(":")[0] in {"lifecycle", "podsready", "requeue", "checks", "pastuse"}
]
"""Stories of the lives of workloads, which no restart and no refusal may change."""


def steps(told: Told) -> list[Tree]:
    """What happens in a story, in order."""
    return cast(list[Tree], told.tree["steps"])


def interruptible(told: Told) -> bool:
    """Whether a story can be interrupted at any step: it leaves no write on its way, and its leadership alone."""
    words = str(steps(told))
    return not any(word in words for word in ("delay", "leading", "'cycles'", "restart", "refuse", "unsynced"))


def decided(told: Told, restart_before: int | None = None) -> list[str]:
    """What a story decides beside waits, in order; perhaps with a restart before one of its steps."""
    story = begin(told.tree)
    lines = []
    for index, step in enumerate(steps(told)):
        if index == restart_before:
            story.do("restart")
            story.decide()
            lines += story.told
        lines += take(story, step)
    return [str(line) for line in lines if line.verb != "wait"]


@pytest.mark.parametrize("told", LIVES)
def test_a_restart_changes_no_life(told: Told) -> None:
    if interruptible(told):
        undisturbed = decided(told)
        for index in range(1, len(steps(told))):
            assert decided(told, restart_before=index) == undisturbed, f"a restart before step {index + 1} changes it"


def end(told: Told, refused: int | None = None) -> dict[str, Workload]:
    """How a story leaves its workloads, but for what was last said of them; perhaps with writes refused in one step."""
    story = begin(told.tree)
    for index, step in enumerate(steps(told)):
        if index == refused:
            story.do(*(f"refuse {key.removeprefix('ns/')}" for key in story.workloads()))
        take(story, step)
        story.refusing.clear()
    names = [key.removeprefix("ns/") for key in story.workloads()]
    return {name: replace(story.workload(name), waiting=None) for name in names}


@pytest.mark.parametrize("told", LIVES)
def test_refused_writes_change_no_end(told: Told) -> None:
    if interruptible(told):
        undisturbed = end(told)
        for index in range(1, len(steps(told))):
            assert end(told, refused=index) == undisturbed, f"writes refused in step {index + 1} change it"


class Recording:
    """An engine that is recorded, for a story that looks inside it."""

    def __init__(self, engine: Engine, lines: list[bytes]) -> None:
        self.engine = engine
        self.recorder = Recorder(engine, lines.append)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorder if name in ("observe", "decide") else self.engine, name)


@pytest.mark.parametrize("told", ALL)
def test_a_journal_replays_to_the_byte(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[bytes] = []
    monkeypatch.setattr("tests.story.Engine", lambda options: Recording(Engine(options), lines))
    story = begin(told.tree)
    for step in steps(told):
        take(story, step)
        recording: Any = story.engine
        recording.recorder.put(checkpoint(recording.engine))
    assert list(replayed(lines)) == []


def test_a_checkpoint_of_what_was_restored_is_the_same() -> None:
    for path in story_files():
        for told in stories(path):
            story: Story = begin(told.tree)
            for step in steps(told):
                take(story, step)
                saved = checkpoint(story.engine)
                assert checkpoint(restore(saved)) == saved, f"{Path(path).stem}: {told.name}"
