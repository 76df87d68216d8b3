"""Does `pykueue manifests` print an installation, and is what stands in deploy/ the same?"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pykueue.api.install.manifests import PARTS
from pykueue.cli.main import cli
from tests.kueueconfig import SHIPPED

ROOT = Path(__file__).resolve().parents[3]
HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["manifests", *arguments])


def objects(*arguments: str) -> dict[str, Any]:
    """What is printed, by kind and name."""
    done = run(*arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    trees = list(yaml.load_all(done.stdout, Loader=loader))
    found = {f"{tree['kind']} {tree['metadata']['name']}": tree for tree in trees}
    assert len(found) == len(trees)
    return found


@pytest.mark.parametrize(
    ("file", "arguments"),
    [("deploy/manifests.yaml", ()), ("deploy/crds.yaml", ("--only", "crds"))],
)
def test_what_is_kept_in_deploy_is_what_is_printed(file: str, arguments: tuple[str, ...]) -> None:
    printed = run(*arguments).stdout
    command = " ".join(("python -m pykueue manifests", *arguments))
    assert (ROOT / file).read_text() == printed, f"{file} is out of date; run `{command} > {file}`"


def test_it_prints_the_same_twice() -> None:
    assert run().stdout == run().stdout


def test_namespace_image_and_replicas_are_yours() -> None:
    found = objects("--namespace", "batch", "--image", "example.com/pykueue:7", "--replicas", "3")
    deployment = found["Deployment kueue-controller-manager"]
    assert deployment["metadata"]["namespace"] == "batch"
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/pykueue:7"
    assert "Namespace batch" in found
    assert not any("kueue-system" in str(tree) for tree in found.values())


def test_all_objects_have_the_labels_of_kueues() -> None:
    labels = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
    for name, tree in objects().items():
        assert labels.items() <= tree["metadata"].get("labels", {}).items(), name


def test_only_some_parts() -> None:
    found = objects("--only", "namespace", "--only", "flow")
    assert [*found] == [
        "Namespace kueue-system",
        "PriorityLevelConfiguration kueue-manager",
        "FlowSchema kueue-manager",
    ]


def test_the_parts_make_up_the_whole() -> None:
    assert "".join(run("--only", part).stdout for part in PARTS) == run().stdout


def test_your_configuration_is_shipped_as_you_wrote_it(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{HEAD}# why not\nwebhook: {{port: 9999}}\nmetrics: {{bindAddress: ':9000'}}\n")
    found = objects("--config", str(file))
    assert found["ConfigMap kueue-manager-config"]["data"]["controller_manager_config.yaml"] == file.read_text()
    ports = found["Deployment kueue-controller-manager"]["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert [port["containerPort"] for port in ports] == [9999, 9000, 8082]


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        pytest.param(f"{HEAD}webhok: {{}}\n", (), "webhok", id="misspelt"),
        pytest.param(
            f"{HEAD}resources: {{deviceClassMappings: [{{name: a, deviceClassNames: [b]}}]}}\n",
            (),
            "is not supported yet",
            id="not built",
        ),
        pytest.param(f"{HEAD}namespace: a\n", (), "differs from --namespace 'kueue-system'", id="another namespace"),
        pytest.param(HEAD, ("--namespace", "b"), "differs from --namespace 'b'", id="no namespace where one is needed"),
        pytest.param("\udcff", (), "not valid UTF-8; convert the file to UTF-8", id="binary"),
    ],
)
def test_a_bad_configuration_is_refused(text: str, arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    done = run("--config", str(file), *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert str(file) in done.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = run("--config", str(tmp_path / "none.yaml"))
    assert done.exit_code == 2
    assert "none.yaml: cannot be read: No such file or directory" in done.stderr


def test_kueues_own_configuration_is_installed_with_warnings(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(SHIPPED + "featureGates: {Nope: true}\n")
    done = run("--config", str(file), "--only", "manager", "--tolerate-unknown-gates")
    assert done.exit_code == 0
    assert "config.yaml: warning: integrations.frameworks: kubeflow.org/mpijob, " in done.stderr
    assert "config.yaml: warning: ignoring unrecognized feature gate: Nope" in done.stderr
    assert "- --tolerate-unknown-gates\n" in done.stdout
