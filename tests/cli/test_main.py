"""Does the command line teach, and cost nothing until it is used?"""

import subprocess
import sys
import tomllib
from importlib import import_module

import click
import pytest
from click.testing import CliRunner

from pykueue.cli.groups import close_options
from pykueue.cli.main import COMMANDS, OTHER_NAMES, SUMMARIES, cli, version
from tests.storyfile import ROOT

VERBS = ("list", "create", "stop", "resume", "delete")
"""Groups with a command for each type of object."""


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


@pytest.mark.parametrize("verb", VERBS)
def test_the_commands_of_a_verb_teach_too(verb: str) -> None:
    group = getattr(import_module(COMMANDS[verb]), verb)
    assert isinstance(group, click.Group)
    for name in group.commands:
        shown = help_of(verb, name)
        assert f"pykueue {verb} {name}" in shown.partition("Example")[2], name
        assert "Exit codes: 0" in shown


def test_summaries_are_the_first_sentences_of_the_commands() -> None:
    found = {name: getattr(import_module(module), name).get_short_help_str(200) for name, module in COMMANDS.items()}
    assert found == SUMMARIES


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


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        pytest.param("stauts", "No such command 'stauts'. Did you mean pykueue status?", id="misspelt"),
        pytest.param("ps", "No such command 'ps'. Did you mean pykueue jobs?", id="as in Docker"),
        pytest.param("sbatch", "No such command 'sbatch'. Did you mean pykueue run --detach?", id="as in Slurm"),
        pytest.param("add", "No such command 'add'. Did you mean pykueue run?", id="as in pueue"),
        pytest.param("scancel", "No such command 'scancel'. Did you mean pykueue cancel?", id="of a verb in Slurm"),
        pytest.param("-n x list", "No such option: -n; it goes after the command, as in", id="as kubectl takes it"),
        pytest.param("list jbos", "Use clusterqueue, localqueue, workload, pods", id="nothing of a verb is close"),
        pytest.param("stop workloda", "Did you mean pykueue stop workload?", id="a misspelt type"),
        pytest.param("xyzzy", "No such command 'xyzzy'.\n", id="nothing is close"),
    ],
)
def test_a_misspelt_command_gets_a_suggestion(typed: str, says: str) -> None:
    found = CliRunner().invoke(cli, typed.split())
    assert found.exit_code == 2
    assert says in found.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["user", "rm"], "No such command 'rm'. Did you mean pykueue user remove?", id="as in a shell"),
        pytest.param(["user", "rotat"], "Did you mean pykueue user rotate?", id="misspelt"),
        pytest.param(["queue", "create"], "Did you mean pykueue queue add?", id="as in kubectl"),
        pytest.param(["config", "validate"], "Did you mean pykueue config check?", id="another word"),
        pytest.param(["queue", "xyzzy"], "Use one of: add, remove, set.", id="nothing is close"),
    ],
)
def test_a_misspelt_command_of_a_group_gets_a_suggestion(words: list[str], says: str) -> None:
    found = CliRunner().invoke(cli, words)
    assert found.exit_code == 2
    assert says in found.stderr


@pytest.mark.parametrize("other", [*OTHER_NAMES.values()])
def test_a_suggested_command_exists(other: str) -> None:
    assert other.split()[0] in COMMANDS


@pytest.mark.parametrize(
    ("words", "option"),
    [
        pytest.param(["run", "--cpuss", "1"], "--cpu", id="run"),
        pytest.param(["up", "--cpu", "1"], "--cpus", id="up"),
        pytest.param(["simulate", "--unitl", "1h"], "--until", id="simulate"),
        pytest.param(["list", "kwl", "--cluster-queue", "x"], "--clusterqueue", id="list"),
        pytest.param(["stop", "cq", "--keep-already-runing", "x"], "--keep-already-running", id="stop"),
    ],
)
def test_a_misspelt_option_gets_a_suggestion(words: list[str], option: str) -> None:
    found = CliRunner().invoke(cli, words)
    assert found.exit_code == 2
    assert f"'{option}'" in found.stderr.replace(f" {option}", f" '{option}'")


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        pytest.param("--mem", ["--memory"], id="the beginning of one"),
        pytest.param("--memry", ["--memory"], id="misspelt"),
        pytest.param("--nam", ["--name"], id="another beginning"),
        pytest.param("--zzz", [], id="nothing is close"),
    ],
)
def test_only_close_options_are_suggested(typed: str, near: list[str]) -> None:
    assert close_options(typed, ["--memory", "--image", "--name"]) == near


def test_a_misspelt_option_gets_no_far_suggestion() -> None:
    found = CliRunner().invoke(cli, ["run", "--mem", "1Gi", "--", "true"])
    assert found.exit_code == 2
    assert "No such option '--mem'. Did you mean '--memory'?" in found.stderr


@pytest.mark.parametrize("command", [(name,) for name in COMMANDS], ids=" ".join)
def test_help_refers_to_what_is_there(command: tuple[str, ...]) -> None:
    # The description comes before the options, so an option refers to what is above it.
    assert "see below" not in help_of(*command).lower()


def test_commands_are_read_only_when_asked_for() -> None:
    code = "import sys, pykueue.cli.main; print(sum(name.startswith('pykueue.') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(("pykueue.cli", "pykueue.cli.main", "pykueue.cli.groups", "pykueue.cli.plugin"))


def test_ctrl_c_during_imports_prints_nothing() -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from pykueue.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_installed_command_starts_at_the_entry_point_that_handles_ctrl_c() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["scripts"]["pykueue"] == "pykueue.__main__:main"


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from pykueue.cli.main import cli; cli(['--help'], standalone_mode=False); "
        "print([name for name in sys.modules if name.startswith(('pykueue.cli.commands', 'msgspec', 'aiohttp'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
