"""Does the command line teach, and cost nothing until it is used?"""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from pykueue.cli.main import COMMANDS, cli, version


def help_of(*command: str) -> str:
    found = CliRunner().invoke(cli, [*command, "--help"])
    assert found.exit_code == 0
    return found.output


@pytest.mark.parametrize("command", [*((name,) for name in COMMANDS), (), ("config", "check")], ids=" ".join)
def test_every_help_has_an_example(command: tuple[str, ...]) -> None:
    assert "Example:\n" in help_of(*command)
    assert f"pykueue {' '.join(command)}".strip() in help_of(*command)


@pytest.mark.parametrize(
    "command", [*((name,) for name in COMMANDS if name != "config"), (), ("config", "check")], ids=" ".join
)
def test_exit_codes_are_documented(command: tuple[str, ...]) -> None:
    assert "Exit codes: 0" in help_of(*command)


def test_all_commands_are_listed() -> None:
    shown = help_of()
    assert all(f"  {name} " in shown for name in COMMANDS)
    assert "..." not in shown.partition("Commands:")[2], "a first line is too long to be listed"


def test_the_version_is_said() -> None:
    found = CliRunner().invoke(cli, ["--version"])
    assert (found.exit_code, found.output) == (0, f"pykueue {version()}\n")


def test_an_unknown_command_is_a_mistake() -> None:
    found = CliRunner().invoke(cli, ["simulation"])
    assert found.exit_code == 2
    assert "No such command" in found.stderr


def test_commands_are_read_only_when_asked_for() -> None:
    code = "import sys, pykueue.cli.main; print(sum(name.startswith('pykueue.') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(("pykueue.cli", "pykueue.cli.main"))
