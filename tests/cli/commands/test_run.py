"""What does `pykueue run` submit? The Job, and what is refused before anybody is asked."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from pykueue.base.clock import START
from pykueue.cli.arrays import array_of
from pykueue.cli.follow.terminal import has_input
from pykueue.cli.main import cli
from pykueue.cli.run.job import (
    environment,
    is_job_name,
    job,
    labels_of,
    limit,
    needs,
    per_core,
    resources,
    seconds,
    stem,
)
from tests.cli.clusters import kubeconfig_of
from tests.fakes.tinyapi import in_background, status


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
    ("name", "similar"),
    [
        ("Foo_Bar", "foo-bar"),
        ("-train-", "train"),
        ("a..b", "a.b"),
        ("Café 2", "cafe-2"),
        ("x" * 64, "x" * 63),
        ("", "job"),
        ("日本", "job"),
    ],
)
def test_a_name_that_no_job_can_have_is_answered_with_one_that_it_can(name: str, similar: str) -> None:
    done = CliRunner().invoke(cli, ["run", "-q", "q", "--name", name, "--", "true"])
    assert done.exit_code == 2
    assert f"--name: {name!r} is not a valid Job name: use at most 63 lower-case letters" in done.output
    assert done.output.endswith(f"; for example {similar}\n")
    assert is_job_name(similar)


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


def test_an_array_is_an_indexed_job_that_starts_with_as_many_tasks_as_fit() -> None:
    tree = made("true", array=array_of("0-9"), retries=2, seconds=60)
    notes, spec = tree["metadata"]["annotations"], tree["spec"]
    assert (notes["pykueue.io/array"], notes["kueue.x-k8s.io/job-min-parallelism"]) == ("0-9", "1")
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 10, 10)
    assert (spec["backoffLimitPerIndex"], "backoffLimit" in spec) == (2, False)
    # Each task has its time, not all of them together.
    assert (spec["template"]["spec"]["activeDeadlineSeconds"], "activeDeadlineSeconds" in spec) == (60, False)
    limited = made("true", array=array_of("0-9%4"))
    assert limited["spec"]["parallelism"] == 4
    assert "kueue.x-k8s.io/job-min-parallelism" not in limited["metadata"]["annotations"]
    # Kueue rejects a minimum that is not below the parallelism.
    assert "kueue.x-k8s.io/job-min-parallelism" not in made("true", array=array_of("0"))["metadata"]["annotations"]


def variables(tree: Any) -> dict[str, Any]:
    return {one["name"]: one for one in tree["spec"]["template"]["spec"]["containers"][0]["env"]}


def test_a_job_knows_its_name_and_a_script_for_slurm_what_it_expects() -> None:
    plain = variables(made("true", environment={"PYKUEUE_JOB_NAME": "mine"}))
    assert plain == {"PYKUEUE_JOB_NAME": {"name": "PYKUEUE_JOB_NAME", "value": "mine"}}
    found = variables(made("true", resources=resources("2500m", None, 0), slurm=True, array=array_of("0-9")))
    assert found["SLURM_CPUS_PER_TASK"]["value"] == "2"
    assert found["SLURM_SUBMIT_DIR"]["value"] == str(Path.cwd())
    assert found["SLURM_JOB_ID"]["value"] == "$(SLURM_ARRAY_JOB_ID)_$(PYKUEUE_ARRAY_INDEX)"
    field = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    assert found["SLURM_ARRAY_TASK_ID"]["valueFrom"] == found["PYKUEUE_ARRAY_TASK_ID"]["valueFrom"] == field
    assert found["SLURM_ARRAY_TASK_MAX"]["value"] == "9"


def test_slurm_calls_a_job_by_the_name_that_was_given() -> None:
    assert variables(made("true", slurm=True, resources=resources("1", None, 0), prefix="train"))["SLURM_JOB_NAME"] == {
        "name": "SLURM_JOB_NAME",
        "value": "train",
    }
    plain = made("/bin/sh", "/x/job.sh", typed=("./job.sh",), slurm=True, resources=resources("1", None, 0))
    assert variables(plain)["SLURM_JOB_NAME"]["value"] == "job.sh"


def test_labels_are_those_that_were_given_and_those_of_options() -> None:
    labels = made("true", labels=labels_of(("sweep=7", "who=")))["metadata"]["labels"]
    assert labels == {"sweep": "7", "who": "", "kueue.x-k8s.io/queue-name": "team-a"}


def test_the_whole_environment_is_passed_on_where_that_is_asked_for() -> None:
    here = {"PATH": "/bin", "TOKEN": "x", "SHLVL": "2", "BASH_FUNC_f%%": "() { :; }"}
    assert environment((), here) == {"PATH": "/bin", "PYTHONUNBUFFERED": "1"}
    assert environment((), here, whole=True) == {"PATH": "/bin", "TOKEN": "x", "PYTHONUNBUFFERED": "1"}


def test_a_job_that_waits_is_gated() -> None:
    notes = made("true", needs=needs(("a", "b"), ("c",), "2027-01-31T12:00:00Z", START))["metadata"]["annotations"]
    assert notes == {
        "pykueue.io/command": "true",
        "kueue.x-k8s.io/admission-gated-by": "pykueue.io/dependencies",
        "pykueue.io/after": "a,b",
        "pykueue.io/after-ok": "c",
        "pykueue.io/begin": "2027-01-31T12:00:00Z",
    }
    assert needs((), (), None, START) is None


def test_a_script_is_what_the_job_is_named_after() -> None:
    tree = made("/bin/bash", "/home/me/train.sh", typed=("train.sh",))
    assert tree["metadata"]["generateName"] == "train-sh-"
    assert tree["metadata"]["annotations"]["pykueue.io/command"] == "train.sh"
    assert made("true", prefix="My Job")["metadata"]["generateName"] == "my-job-"


def test_memory_per_core_is_multiplied() -> None:
    assert per_core("2Gi", "4") == "8192Mi"
    assert per_core("100Mi", "1500m") == "150Mi"


def test_a_limit_is_read_by_its_option() -> None:
    assert (limit("2h", None), limit(None, "10"), limit(None, None), limit(None, "0")) == (7200, 600, None, None)


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
        pytest.param(["--time", "10", "--timeout", "1h"], "--time: cannot be combined with --timeout", id="two limits"),
        pytest.param(["--time", "2h"], "--time: '2h' is not a time limit; write minutes", id="no limit of Slurm"),
        pytest.param(
            ["--array", "0-999999"], "--array: '0-999999' has 1,000,000 tasks; Kubernetes runs", id="a million"
        ),
        pytest.param(["--begin", "soon"], "--begin: 'soon' is not a time; write now+1hour", id="no time"),
        pytest.param(["--after", "A b"], "--after: 'A b' is not the name of a Job", id="no name of a job"),
        pytest.param(["--after-ok", ""], "--after-ok: '' is not the name of a Job", id="an empty name of a job"),
        pytest.param(
            [*(word for number in range(100) for word in ("--after", f"j{number}")), "--after-ok", "k"],
            "--after, --after-ok: 101 Jobs; a Job can wait for at most 100",
            id="too many jobs",
        ),
        pytest.param(
            ["--array", "0-1", "--output", "x"],
            "--output: all tasks would write to the same file",
            id="one file for many",
        ),
        pytest.param(["--output"], "--output: the name of the file is missing", id="no file"),
        pytest.param(["--output", "%N.out"], "--output: %N is not supported; use %x", id="no pattern"),
        pytest.param(["--label", "sweep"], "--label: 'sweep' is not a label; use KEY=VALUE", id="no label"),
        pytest.param(["--label", "kueue.x-k8s.io/queue-name=a"], "is set by --queue; use that", id="another option"),
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


def test_on_a_cluster_the_image_has_its_own_environment_and_directory() -> None:
    here = {"PATH": "/bin", "LC_ALL": "C", "TERM": "xterm", "SEED": "1"}
    assert environment(("SEED", "HOME=/x"), here, cluster=True) == {
        "SEED": "1",
        "HOME": "/x",
        "PYTHONUNBUFFERED": "1",
    }
    assert environment((), here, cluster=True, interactive=True)["TERM"] == "xterm"
    (container,) = made("true", cluster=True, slurm=True, resources=resources("1", None, 0))["spec"]["template"][
        "spec"
    ]["containers"]
    assert "workingDir" not in container
    assert "SLURM_SUBMIT_DIR" not in {one["name"] for one in container["env"]}


@pytest.mark.parametrize(
    ("version", "image", "code"),
    [
        pytest.param("v1.36.3", (), 2, id="a cluster needs an image"),
        pytest.param("v1.36.3", ("--image", "busybox"), 0, id="a cluster with one"),
        pytest.param("v1.36.3+pykueue", (), 0, id="the embedded server runs commands itself"),
    ],
)
def test_a_cluster_is_known_by_its_version(tmp_path: Path, version: str, image: tuple[str, ...], code: int) -> None:
    async def answer(request: web.Request) -> web.Response | None:
        if request.path.endswith("/workloadpriorityclasses/urgent"):
            return status(403, "Forbidden", 'workloadpriorityclasses is forbidden: User "ann" cannot get it')
        return web.json_response({"gitVersion": version}) if request.path == "/version" else None

    with in_background() as api:
        api.accident = answer
        metadata = {"name": "main", "namespace": "default"}
        api.objects["localqueues"] = {"default/main": {"kind": "LocalQueue", "metadata": metadata}}
        lease = {"holderIdentity": "", "renewTime": "2026-01-01T00:00:00.000000Z"}
        name = {"name": "c1f6bfd2.kueue.x-k8s.io", "namespace": "kueue-system"}
        api.objects["leases"] = {"/".join(reversed(name.values())): {"metadata": name, "spec": lease}}
        flags = ("--detach", "--name", "x", "--priority", "urgent", *image)
        done = pykueue(kubeconfig_of(api, tmp_path), "run", *flags, "--", "true")
        created = api.objects.get("jobs", {})
    assert done.returncode == code, done.stderr
    if code:
        assert "--image: this server is a cluster" in done.stderr
        assert created == {}
        return
    assert "--priority: cannot check whether WorkloadPriorityClass 'urgent' exists" in done.stderr
    assert ("no manager is running" in done.stderr) is ("pykueue" not in version)
    (container,) = created["default/x"]["spec"]["template"]["spec"]["containers"]
    assert ("workingDir" in container) is ("pykueue" in version)
    assert ("PATH" in {one["name"] for one in container["env"]}) is ("pykueue" in version)


def pykueue(kubeconfig: Path, verb: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """What a command says to a server."""
    return subprocess.run(
        [sys.executable, "-m", "pykueue", verb, "--kubeconfig", str(kubeconfig), *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_without_a_server_it_says_how_to_get_one(tmp_path: Path) -> None:
    done = CliRunner(env={"KUBECONFIG": "", "HOME": str(tmp_path)}).invoke(
        cli, ["run", "-q", "q", "--data", str(tmp_path / "none"), "--", "true"]
    )
    assert done.exit_code == 2
    assert f"start one with `pykueue up --data {tmp_path}/none`" in done.output


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
