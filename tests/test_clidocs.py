"""docs/cli.md is what the commands say."""

import subprocess
import sys

from tests.storyfile import ROOT


def test_the_page_of_commands_is_current() -> None:
    # In a process of its own: click keeps the help option of a command as its first use made it, in some other test.
    made = subprocess.run([sys.executable, "-m", "tests.clidocs"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ROOT / "docs/cli.md").read_text() == made.stdout, "write it again: make cli-docs"
