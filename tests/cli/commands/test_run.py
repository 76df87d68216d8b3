"""What does `pykueue run` submit? The Job, and what is refused before anybody is asked."""

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykueue.cli.commands.run import environment, has_input, job, resources, seconds, stem
from pykueue.cli.main import cli


def made(*command: str, **how: Any) -> Any:
    given: dict[str, Any] = {
        "queue": "team-a",
        "resources": {},
        "name": None,
        "priority": None,
        "environment": {},
        "image": "local",
        "seconds": None,
        "umask": 0o022,
        **how,
    }
    return job(command, **given)


def test_a_command_runs_once_where_it_was_submitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    tree = made("python", "train.py", "--cost", "$5 $(HOME)", priority="urgent", seconds=90)
    assert tree["metadata"]["generateName"] == "python-"
    assert tree["metadata"]["labels"] == {
        "kueue.x-k8s.io/queue-name": "team-a",
        "kueue.x-k8s.io/priority-class": "urgent",
    }
    assert (tree["spec"]["backoffLimit"], tree["spec"]["activeDeadlineSeconds"]) == (0, 90)
    pod = tree["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["containers"][0]["workingDir"] == str(tmp_path)
    assert pod["containers"][0]["command"] == ["python", "train.py", "--cost", "$$5 $$(HOME)"]


def test_a_name_that_is_given_is_the_jobs_own() -> None:
    assert made("true", name="x")["metadata"]["name"] == "x"
    assert "generateName" not in made("true", name="x")["metadata"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        pytest.param("/usr/bin/python3.11", "python3-11", id="without its folder"),
        pytest.param("./Train_Model.sh", "train-model-sh", id="in letters that a name may have"),
        pytest.param("...", "run", id="nothing of it"),
        pytest.param("x" * 200, "x" * 40, id="not too long"),
    ],
)
def test_a_job_is_named_after_its_command(command: str, name: str) -> None:
    assert stem(command) == name


def test_gpus_and_memory_are_limits_too() -> None:
    assert resources("500m", "2Gi", 1) == {
        "requests": {"cpu": "500m", "memory": "2Gi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "2Gi", "nvidia.com/gpu": "1"},
    }
    assert resources("1", None, 0) == {"requests": {"cpu": "1"}}


def test_the_terminals_variables_are_taken_along_as_far_as_a_program_needs_them() -> None:
    here = {"PATH": "/bin", "SECRET": "s", "LC_ALL": "C", "CONDA_PREFIX": "/c", "SEED": "1"}
    assert environment((), here) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "CONDA_PREFIX": "/c",
        "PYTHONUNBUFFERED": "1",
    }
    assert environment((), {"SHELL": "/bin/zsh"})["SHELL"] == "/bin/zsh"
    assert environment(("SEED", "PATH=/mine", "EMPTY="), here)["SEED"] == "1"
    assert environment(("SEED", "PATH=/mine", "EMPTY="), here)["PATH"] == "/mine"
    assert environment(("EMPTY=",), here)["EMPTY"] == ""


@pytest.mark.parametrize(
    ("given", "here", "value"),
    [
        pytest.param((), {}, "1", id="not set"),
        pytest.param((), {"PYTHONUNBUFFERED": ""}, "", id="set to nothing, which is off"),
        pytest.param(("PYTHONUNBUFFERED=",), {}, "", id="turned off for this job"),
    ],
)
def test_python_does_not_buffer_unless_the_user_says_so(
    given: tuple[str, ...], here: dict[str, str], value: str
) -> None:
    assert environment(given, here)["PYTHONUNBUFFERED"] == value


def test_a_job_runs_again_after_its_machine_went_down_unless_it_must_not() -> None:
    rules = made("true")["spec"]["podFailurePolicy"]["rules"]
    assert rules == [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    assert "podFailurePolicy" not in made("true", requeue=False)["spec"]
    assert made("true", retries=3)["spec"]["backoffLimit"] == 3


def test_without_a_queue_the_label_is_left_to_the_submission() -> None:
    assert made("true", queue=None)["metadata"]["labels"] == {}


@pytest.mark.parametrize("flag", ["--cpu", "--cpus", "-c"])
def test_cores_are_asked_for_as_in_other_tools(flag: str) -> None:
    done = CliRunner().invoke(cli, ["run", "-q", "q", flag, "many", "--", "true"])
    assert "--cpu: 'many' is not a quantity" in done.output


def test_a_timeout_is_whole_seconds() -> None:
    assert seconds("1h30m") == 5400
    assert seconds(None) is None


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param(["--cpu", "many"], "--cpu: 'many' is not a quantity", id="no quantity"),
        pytest.param(["--cpu", "-1"], "--cpu: '-1' is negative; use 0 or more", id="less than nothing"),
        pytest.param(["--memory", "8 GB"], "--memory: '8 GB' is not a quantity; write 8Gi", id="no memory"),
        pytest.param(["--memory", "1"], "--memory: '1' is less than 6Mi", id="too little memory"),
        pytest.param(["--timeout", "10"], "--timeout: '10' has no unit; write 10s, 10m or 10h", id="no unit"),
        pytest.param(["--mem", "8Gi"], "--memory", id="an option of another tool"),
        pytest.param(["--timeout", "soon"], "--timeout: 'soon' is not a duration", id="no duration"),
        pytest.param(["--timeout", "1ms"], "--timeout: '1ms' is too short; use 1s or more", id="too short"),
        pytest.param(["--env", "=x"], "--env: '=x' does not start with a valid variable name", id="no name"),
        pytest.param(["--env", "NOT_SET_HERE"], "--env: NOT_SET_HERE is not set in this environment", id="not set"),
        pytest.param(["--kubeconfig", "/nowhere"], "/nowhere: cannot be read", id="no kubeconfig"),
    ],
)
def test_what_is_wrong_is_said_with_its_flag(flags: list[str], says: str) -> None:
    done = CliRunner().invoke(cli, ["run", "-q", "q", *flags, "--", "true"])
    assert done.exit_code == 2
    assert says in done.output


def test_without_a_server_it_says_how_to_get_one(tmp_path: Path) -> None:
    done = CliRunner(env={"KUBECONFIG": "", "HOME": str(tmp_path)}).invoke(
        cli, ["run", "-q", "q", "--data", str(tmp_path / "none"), "--", "true"]
    )
    assert done.exit_code == 2
    assert "start one with `pykueue up`" in done.output


def test_input_that_would_be_lost_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("x")
    with file.open() as given, open(os.devnull) as null:
        assert has_input(given.fileno())
        assert not has_input(null.fileno())
        given.read()
        assert not has_input(given.fileno())
    reading, writing = os.pipe()
    assert not has_input(reading)
    os.write(writing, b"x")
    assert has_input(reading)
    os.read(reading, 1)
    os.close(writing)
    assert not has_input(reading)
    os.close(reading)
    assert not has_input(reading)
