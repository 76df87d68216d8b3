"""What does a shell offer, and is it quiet where the server is away?"""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from pykueue.api.trees import Tree
from pykueue.apiserver.auth.kubeconfigs import kubeconfig, write
from pykueue.apiserver.auth.users import Users
from pykueue.cli import completion
from pykueue.cli.main import COMMANDS, cli
from tests.cli.clusters import kubeconfig_of
from tests.fakes.tinyapi import in_background


def offered(*words: str) -> list[str]:
    *typed, last = words
    return [one.value for one in ShellComplete(cli, {}, "pykueue", "").get_completions(typed, last)]


def queue(name: str, policy: str = "None") -> Tree:
    return {"metadata": {"name": name}, "spec": {"stopPolicy": policy}}


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with some objects."""
    there: dict[str, list[Tree]] = {
        "CLUSTER_QUEUES": [queue("main"), queue("held", "Hold"), queue("drained", "HoldAndDrain")],
        "WORKLOADS": [
            {"metadata": {"name": "on"}},
            {"metadata": {"name": "off"}, "spec": {"active": False}},
            *({"metadata": {"name": f"x{number}"}} for number in range(150)),
        ],
        "NAMESPACES": [{"metadata": {"name": "default"}}],
        "LOCAL_QUEUES": [queue("team-a"), queue("team-b")],
        "WORKLOAD_PRIORITY_CLASSES": [{"metadata": {"name": "urgent"}}],
        "JOBS": [
            {"metadata": {"name": "runs"}},
            {"metadata": {"name": "held", "annotations": {"pykueue.io/hold": "true"}}},
            {"metadata": {"name": "failed"}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}},
        ],
    }
    monkeypatch.setattr(
        completion, "first_of", lambda params, resource, wanted: [one for one in there[resource] if wanted(one)]
    )


def test_commands_and_options_are_offered_without_importing_them() -> None:
    assert offered("") == sorted(COMMANDS)
    assert offered("--ver") == ["--version"]
    assert "--dry-run" in offered("stop", "cq", "--d")
    assert "clusterqueue" in offered("list", "")


@pytest.mark.usefixtures("objects")
def test_stop_offers_what_runs_and_resume_what_is_stopped() -> None:
    assert offered("stop", "cq", "") == ["main"]
    assert offered("resume", "cq", "") == ["held", "drained"]
    assert offered("stop", "kwl", "o") == ["on"]
    assert offered("resume", "kwl", "") == ["off"]


@pytest.mark.usefixtures("objects")
def test_names_are_offered_for_options_and_for_kubectls_words() -> None:
    assert offered("list", "lq", "-c", "m") == ["main"]
    assert offered("list", "lq", "-n", "") == ["default"]
    assert offered("get", "cq", "h") == ["held"]
    assert offered("create", "cq", "x", "--dry-run", "s") == ["server"]


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("run -q", ["team-a", "team-b"]),
        ("run --cpu 2 --queue", ["team-a", "team-b"]),
        ("run --priority", ["urgent"]),
        ("run -n", ["default"]),
        ("run --after", ["runs", "held"]),
        ("run --after runs --after-ok", ["runs", "held"]),
        ("run --after runs --after", ["held"]),
        ("jobs -q", ["team-a", "team-b"]),
        ("squeue --queue", ["team-a", "team-b"]),
        ("logs", ["runs", "held", "failed"]),
        ("logs runs", ["held", "failed"]),
        ("attach", ["runs", "held", "failed"]),
        ("wait", ["runs", "held", "failed"]),
        ("cancel", ["runs", "held"]),
        ("hold", ["runs", "held"]),
        ("requeue", ["runs", "held"]),
        ("release", ["held"]),
        ("queue set", ["main", "held", "drained"]),
        ("queue remove", ["main", "held", "drained"]),
        ("queue add x -n", ["default"]),
    ],
)
def test_queues_and_jobs_are_offered_where_they_are_named(words: str, names: list[str]) -> None:
    assert offered(*words.split(), "") == names


def test_users_are_offered_to_the_administrator_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert offered("user", "remove", "--data", str(tmp_path / "missing"), "") == []
    Users(tmp_path).add("alice")
    assert offered("user", "remove", "--data", str(tmp_path), "a") == ["alice"]
    assert offered("user", "rotate", "--data", str(tmp_path), "b") == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("objects")
def test_at_most_a_hundred_names_and_none_twice() -> None:
    assert len(offered("list", "kwl", "--for", "x")) == 0
    assert len(offered("delete", "kwl", "x")) == 100
    assert "x1" not in offered("delete", "kwl", "x1", "x1")


def test_a_job_of_which_a_pod_has_succeeded_is_offered_behind_many_that_have_ended(tmp_path: Path) -> None:
    ended = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
    with in_background() as api:
        api.objects["jobs"] = {
            f"default/{name}": {"metadata": {"name": name, "namespace": "default"}, "status": state}
            for name, state in ((*((f"x{number}", ended) for number in range(600)), ("y", {"succeeded": 1})))
        }
        assert offered("cancel", "--kubeconfig", str(kubeconfig_of(api, tmp_path)), "") == ["y"]


def test_a_server_that_is_away_is_not_mentioned(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        write(tmp_path / "away", kubeconfig(f"https://127.0.0.1:{taken.getsockname()[1]}", b"", user="me", token="t"))
        assert offered("stop", "cq", "--kubeconfig", str(tmp_path / "away"), "") == []
    assert offered("stop", "cq", "--kubeconfig", str(tmp_path / "missing"), "") == []
    assert capfd.readouterr() == ("", "")


def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "WAIT_SECONDS", 0.1)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        write(tmp_path / "deaf", kubeconfig(f"https://127.0.0.1:{deaf.getsockname()[1]}", b"", user="me", token="t"))
        assert offered("stop", "cq", "--kubeconfig", str(tmp_path / "deaf"), "") == []


def test_contexts_are_those_of_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("contexts: [{name: lab}, {name: cloud}]")
    assert offered("list", "cq", "--kubeconfig", str(tmp_path / "config"), "--context", "l") == ["lab"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_the_shell(shell: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert done.exit_code == 0
    assert f"_PYKUEUE_COMPLETE={shell}_complete" in done.output
    if shutil.which(shell) is None:
        return
    script = tmp_path / "script"
    script.write_text(done.output)
    subprocess.run([shell, "-n", str(script)], check=True, timeout=30)


def test_bash_gets_words_from_the_program() -> None:
    words = {"_PYKUEUE_COMPLETE": "bash_complete", "COMP_WORDS": "pykueue resu", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pykueue"], env=words, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "plain,resume\n"


def test_words_of_an_option_are_offered() -> None:
    ctx = click.Context(cli)
    assert completion.one_of("all", "none")(ctx, cli.params[0], "a") == ["all"]


@pytest.mark.parametrize("words", ["run ./jo", "run -q a ./jo", "run --output ./jo"])
def test_files_are_left_to_the_shell(words: str) -> None:
    *before, last = words.split()
    found = ShellComplete(cli, {}, "pykueue", "").get_completions(before, last)
    assert [(one.type, one.value) for one in found] == [("file", "./jo")]
