"""Does `pykueue config check` say what is wrong with a Configuration?"""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykueue.cli.main import cli
from tests.kueueconfig import ADDED, SHIPPED, shipped_with

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def check(text: str | bytes, folder: Path, *options: str) -> Result:
    file = folder / "config.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return CliRunner().invoke(cli, ["config", "check", str(file), *options])


def test_a_good_file_can_be_used(tmp_path: Path) -> None:
    found = check(HEAD, tmp_path)
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout.endswith("config.yaml: valid\n")


def test_warnings_do_not_refuse_it(tmp_path: Path) -> None:
    found = check(HEAD.replace("v1beta2", "v1beta1"), tmp_path)
    assert found.exit_code == 0
    assert "warning: apiVersion" in found.stderr


@pytest.mark.parametrize("path", ADDED)
def test_kueues_own_file_can_be_used_with_warnings(path: str, tmp_path: Path) -> None:
    found = check(shipped_with(ADDED[path]), tmp_path)
    assert found.exit_code == 0
    assert found.stdout.endswith("config.yaml: valid\n")
    assert f"config.yaml: warning: {path}: " in found.stderr
    assert "config.yaml: warning: integrations.frameworks: kubeflow.org/mpijob, " in found.stderr


def test_an_unknown_gate_can_be_tolerated(tmp_path: Path) -> None:
    found = check(SHIPPED + "featureGates: {Nope: true}\n", tmp_path, "--tolerate-unknown-gates")
    assert found.exit_code == 0
    assert "warning: ignoring unrecognized feature gate: Nope; remove it" in found.stderr


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        pytest.param("", (), "the file is not a mapping", id="empty"),
        pytest.param(b"\xff\xfe", (), "is not UTF-8", id="binary"),
        pytest.param(HEAD + "webhok: {}\n", (), "webhok", id="misspelt"),
        pytest.param(
            HEAD + "resources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}\n",
            (),
            "is not supported yet",
            id="not built, and changes decisions",
        ),
        pytest.param(HEAD, ("--feature-gates", "Nope=true"), "Nope", id="unknown gate"),
    ],
)
def test_a_bad_file_is_refused_in_words(text: str | bytes, options: tuple[str, ...], says: str, tmp_path: Path) -> None:
    found = check(text, tmp_path, *options)
    assert (found.exit_code, found.stdout) == (2, "")
    assert says in found.stderr
    assert "config.yaml: " in found.stderr


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    found = check(HEAD + "webhok: {}\nresources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}\n", tmp_path)
    assert found.exit_code == 2
    assert [word in found.stderr for word in ("webhok", "resources.deviceClassMappings: Forbidden")] == [True, True]


def test_a_missing_file_is_refused_in_words() -> None:
    found = CliRunner().invoke(cli, ["config", "check", "nowhere.yaml"])
    assert found.exit_code == 2
    assert "nowhere.yaml: cannot be read: No such file or directory" in found.stderr
