"""Does the engine tell every story as it is written? `--rewrite` writes what it tells instead."""

import pytest

from tests.storyfile import Told, check, rewrite, stories, story_files
from tests.storywords import StoryError

ALL = [pytest.param(told, id=f"{told.path.stem}:{told.name}") for path in story_files() for told in stories(path)]


@pytest.mark.parametrize("told", ALL)
def test_the_engine_tells(told: Told, request: pytest.FixtureRequest) -> None:
    otherwise = ""
    try:
        if request.config.getoption("--rewrite"):
            # An earlier story of the file may have been rewritten, so its lines are where they are only now.
            rewrite(next(fresh for fresh in stories(told.path) if fresh.name == told.name))
        else:
            check(told)
    except StoryError as error:
        otherwise = str(error)
    # Not in the handler, or the same words would be printed twice.
    if otherwise:
        pytest.fail(otherwise, pytrace=False)


def test_there_are_stories() -> None:
    assert ALL, "no file in tests/scenarios tells a story"
