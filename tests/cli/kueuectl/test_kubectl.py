"""Which words does kubectl get, and what is said where there is none?"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.apiserver.auth.kubeconfigs import kubeconfig, write
from pykueue.cli.kueuectl.kubectl import qualified, split
from pykueue.cli.main import cli


@pytest.mark.parametrize(
    ("words", "chosen", "rest"),
    [
        pytest.param(["cq", "-oname"], {}, ["cq", "-oname"], id="nothing of ours"),
        pytest.param(
            ["cq", "--context", "lab", "-n", "x"], {"context": "lab"}, ["cq", "-n", "x"], id="a context apart"
        ),
        pytest.param(["--kubeconfig=f", "cq"], {"kubeconfig": "f"}, ["cq"], id="a kubeconfig with ="),
        pytest.param(["cq", "--", "--data", "d"], {}, ["cq", "--", "--data", "d"], id="after --"),
    ],
)
def test_options_that_choose_a_server_are_ours(words: list[str], chosen: dict[str, str], rest: list[str]) -> None:
    assert split(words) == (chosen, rest)


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("workload", "workloads.kueue.x-k8s.io"),
        ("kwl", "workloads.kueue.x-k8s.io"),
        ("cq/main", "clusterqueues.kueue.x-k8s.io/main"),
        ("topo", "topologies.kueue.x-k8s.io"),
        ("pods", "pods"),
        ("jobs", "jobs"),
        ("-n", "-n"),
    ],
)
def test_types_of_kueue_are_sent_with_their_group(typed: str, sent: str) -> None:
    assert qualified(typed) == sent


def stub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that prints its words, the only program on PATH."""
    program = folder / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$KUBECONFIG|$*"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["get", "cq", "-o", "yaml"], "get clusterqueues.kueue.x-k8s.io -o yaml"),
        (["describe", "kwl", "x", "-n", "team"], "describe workloads.kueue.x-k8s.io x -n team"),
        (["patch", "-lapp=hello", "cq"], "patch -lapp=hello cq"),
        (["edit", "lq/main"], "edit localqueues.kueue.x-k8s.io/main"),
        (["delete", "rf", "a", "--wait=false"], "delete resourceflavors.kueue.x-k8s.io a --wait=false"),
    ],
)
def test_words_reach_kubectl(words: list[str], sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, file = stub(tmp_path, monkeypatch), tmp_path / "kubeconfig"
    write(file, kubeconfig("https://mine:1", b"", user="me", token="t"))
    run: list[object] = []
    monkeypatch.setattr("os.execve", lambda *given: run.extend(given))
    CliRunner().invoke(cli, [*words, "--kubeconfig", str(file)])
    assert run[:2] == [str(program), ["kubectl", "--kubeconfig", str(file), *sent.split()]]


def test_without_kubectl_a_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(cli, ["describe", "cq", "main"])
    assert done.exit_code == 1
    assert done.stderr.startswith("`pykueue describe` runs `kubectl describe`, and kubectl is not on PATH; install it")


def test_our_own_help_comes_first() -> None:
    done = CliRunner().invoke(cli, ["get", "--help"])
    assert "All arguments are passed to `kubectl get`" in done.output
