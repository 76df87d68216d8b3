"""Is a container given to podman or docker as it should be? Only the vectors: neither can be run in our tests."""

from pathlib import Path
from typing import Any

from pykueue.local.containerruntime import remove_argv, run_argv
from pykueue.local.volumes import Mount

CONTAINER: dict[str, Any] = {
    "name": "main",
    "image": "docker.io/library/python:3.12",
    "command": ["python", "-c"],
    "args": ["print($(N))", "; rm -rf /"],
    "workingDir": "/src",
    "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
}
START = ("--rm", "--name", "pykueue-u-main-0", "--network", "host", "--log-driver", "none")


def test_the_vector_of_podman() -> None:
    mounts = (Mount("data", "/data", Path("/scratch/data"), True), Mount("odd", "/a,b", Path("/scratch/odd/x")))
    argv = run_argv("podman", "u/main/0", CONTAINER, {"N": "7", "KEY": "hush"}, mounts, gpus=(0, 2), pids_max=200)
    assert argv == (
        "podman",
        "run",
        *START,
        *("--attach", "stdout", "--attach", "stderr", "--pull", "missing"),
        *("--env", "N", "--env", "KEY"),
        *("--memory", "1073741824", "--cpus", "1.500", "--pids-limit", "200"),
        *("--device", "nvidia.com/gpu=0,2"),
        *("--mount", "type=bind,source=/scratch/data,target=/data,readonly"),
        *("--mount", 'type=bind,source=/scratch/odd/x,"target=/a,b"'),
        *("--workdir", "/src", "--entrypoint", "python"),
        "--",
        "docker.io/library/python:3.12",
        "-c",
        "print(7)",
        "; rm -rf /",
    )


def test_values_of_variables_are_not_in_the_vector() -> None:
    argv = run_argv("docker", "u/main/0", CONTAINER, {"KEY": "hush"}, ())
    assert not any("hush" in one for one in argv)


def test_docker_names_gpus_and_users_in_its_own_way() -> None:
    argv = run_argv(
        "docker", "u/main/0", {"image": "x", "imagePullPolicy": "Always"}, {}, (), gpus=(1,), user="1000:1000"
    )
    assert argv == (
        "docker",
        "run",
        *START,
        *("--attach", "stdout", "--attach", "stderr", "--pull", "always"),
        *("--user", "1000:1000", "--gpus", '"device=1"'),
        "--",
        "x",
    )


def test_what_is_left_is_removed_by_name() -> None:
    assert remove_argv("podman", "u/main/0") == ("podman", "rm", "--force", "pykueue-u-main-0")
