"""Does `kubectl pykueue` name itself so, and use the server that kubectl uses?"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykueue.apiserver.auth.kubeconfigs import kubeconfig, write
from pykueue.cli.main import cli, complete
from pykueue.cli.target import chosen

PROGRAM = "import sys; sys.argv[0] = '/usr/bin/kubectl-pykueue'; from pykueue.cli.main import main; main()"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_help_and_errors_name_the_plugin() -> None:
    shown = run("list", "--help").stdout
    assert "Usage: kubectl pykueue list [OPTIONS]" in shown
    assert "    kubectl pykueue list cq -o json" in shown
    assert "kubectl kubectl" not in shown
    refused = run("lits")
    assert refused.returncode == 2
    assert "Did you mean kubectl pykueue list?" in refused.stderr


def servers(folder: Path) -> dict[str, str]:
    """An environment with a local server, and a kubeconfig of kubectl's."""
    write(folder / "pykueue" / "kubeconfig", kubeconfig("https://local:1", b"", user="me", token="t"))
    write(folder / ".kube" / "config", kubeconfig("https://cluster:1", b"", user="me", token="t"))
    return {"HOME": str(folder), "XDG_DATA_HOME": str(folder)}


def test_the_plugin_uses_kubectls_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    environment = servers(tmp_path)
    assert chosen(environment=environment, plugin=True).connection.server == "https://cluster:1"
    assert chosen(environment=environment, plugin=False).connection.server == "https://local:1"
    assert chosen(data=str(tmp_path / "pykueue"), environment=environment, plugin=True).local
    (tmp_path / ".kube" / "config").unlink()
    assert chosen(environment=environment, plugin=True).connection.server == "https://local:1"


def test_kubectl_gets_completions_in_its_own_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-pykueue", "resu"])
    complete()
    summary = cli.get_command(cli.make_context("pykueue", ["--version"], resilient_parsing=True), "resume")
    assert summary is not None
    assert capsys.readouterr().out == f"resume\t{summary.get_short_help_str()}\n:4\n"
