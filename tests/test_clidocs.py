"""docs/cli.md is what the commands say."""

from tests.clidocs import page
from tests.storyfile import ROOT


def test_the_page_of_commands_is_current() -> None:
    assert (ROOT / "docs/cli.md").read_text() == page(), "write it again: make cli-docs"
