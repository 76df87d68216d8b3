"""The manager says what is wrong with its flags and its Configuration before it touches a cluster."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.app.controllers import CONTROLLERS
from pykueue.cli.commands.manager import choose
from pykueue.cli.main import cli


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["manager", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("*", set(CONTROLLERS), id="everything"),
        pytest.param("*,-jobs,-webhooks", {"scheduling", "workloads", "checks", "status", "pods"}, id="all but two"),
        pytest.param("scheduling", {"scheduling"}, id="one"),
        pytest.param(" * , -status ", set(CONTROLLERS) - {"status"}, id="with spaces"),
    ],
)
def test_parts_are_chosen(text: str, expected: set[str]) -> None:
    assert choose(text) == (frozenset(expected), "")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param("*,-job", "unknown controller 'job'", id="an unknown part"),
        pytest.param("", "the list selects no controller", id="nothing"),
        pytest.param("jobs,-jobs", "the list selects no controller", id="nothing left"),
    ],
)
def test_a_bad_choice_is_refused(text: str, wrong: str) -> None:
    code, output = run(f"--controllers={text}")
    assert code == 2
    assert wrong in output


def test_an_unknown_field_is_refused_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nwebhook: {prot: 1}\n")
    code, output = run("--config", str(file))
    assert code == 2
    assert "webhook.prot" in output


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, output = run("--config", str(tmp_path / "none.yaml"))
    assert code == 2
    assert "none.yaml: cannot be read" in output


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, output = run("--kubeconfig", str(tmp_path / "none"))
    assert code == 2
    assert str(tmp_path / "none") in output


def test_a_gate_that_does_not_exist_is_named() -> None:
    code, output = run("--feature-gates", "NoSuchGate=true")
    assert code == 2
    assert "NoSuchGate" in output
