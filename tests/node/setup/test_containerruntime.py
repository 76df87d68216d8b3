"""Is a container given to podman or docker as it should be? Only the vectors: neither can be run in our tests."""

from pathlib import Path
from typing import Any

import pytest

from pykueue.node.setup.accounts import Account
from pykueue.node.setup.containerruntime import Inside, Runtime, exec_argv, inside_of, remove_argv, run_argv
from pykueue.node.setup.volumes import Mount

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


def test_a_users_container_is_not_root_of_the_machine() -> None:
    root, ann = Account(0, 0, (0,), "root", "/root"), Account(1001, 1001, (20, 1001), "ann", "/home/ann")
    other = Account(4711, 5, (5, 6), "4711", "/", asked=True)
    named = Account(1001, 1001, (20, 1001), "ann", "/home/ann", asked=True)
    assert inside_of("docker", root, root) == Inside()
    assert inside_of("podman", root, root) == Inside()
    assert inside_of("docker", ann, ann) == Inside("1001:1001", (20,))
    assert inside_of("podman", ann, ann) == Inside(), "podman starts it as ann, whatever it is called inside"
    assert inside_of("podman", ann, named) == Inside("1001:1001", (20,), keep_ids=True)
    assert inside_of("podman", root, other) == Inside("4711:5", (6,))
    argv = run_argv("podman", "u/main/0", {"image": "x"}, {}, (), user="1001:1001", groups=(20,), keep_ids=True)
    assert argv[-8:] == ("--user", "1001:1001", "--group-add", "20", "--userns", "keep-id", "--", "x")


@pytest.mark.parametrize("runtime", ["podman", "docker"])
def test_a_command_in_a_container(runtime: Runtime) -> None:
    argv = exec_argv(runtime, "u/main/0", ("sh", "-c", "x"), stdin=True, tty=True)
    assert argv == (runtime, "exec", "--interactive", "--tty", "pykueue-u-main-0", "sh", "-c", "x")
    assert exec_argv(runtime, "u/main/0", ("ls",), stdin=False, tty=False) == (
        runtime,
        "exec",
        "pykueue-u-main-0",
        "ls",
    )
