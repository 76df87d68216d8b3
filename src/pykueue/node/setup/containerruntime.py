"""Run containers by podman or docker: the argument vector, built without a shell.

It does not contain the values of variables, which other users could see there: the runtime takes them from its own
environment.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from pykueue.api.trees import amount, member, text
from pykueue.base.struct import Frozen
from pykueue.node.setup.accounts import Account
from pykueue.node.setup.environment import expanded_all, strings
from pykueue.node.setup.volumes import Mount

Runtime: TypeAlias = Literal["podman", "docker"]


def container_name(key: str) -> str:
    """The name of an attempt in the runtime."""
    return "pykueue-" + key.replace("/", "-")


def run_argv(
    runtime: Runtime,
    key: str,
    container: Mapping[str, object],
    variables: Mapping[str, str],
    mounts: Iterable[Mount],
    *,
    gpus: tuple[int, ...] = (),
    pids_max: int = 0,
    user: str = "",
    groups: Iterable[int] = (),
    keep_ids: bool = False,
) -> tuple[str, ...]:
    """The command that runs a container in the foreground."""
    argv = [runtime, "run", "--rm", "--name", container_name(key), "--network", "host", "--log-driver", "none"]
    argv += ["--attach", "stdout", "--attach", "stderr", "--pull", pull_policy(container)]
    if container.get("stdin") is True:
        argv += ["--attach", "stdin", "--interactive"]
    if container.get("tty") is True:
        argv.append("--tty")
    for name in variables:
        argv += ["--env", name]
    memory, cpu = (amount(member(container, "resources", "limits", name)) for name in ("memory", "cpu"))
    if memory is not None:
        argv += ["--memory", str(memory.whole())]
    if cpu is not None:
        argv += ["--cpus", f"{cpu.milli() / 1000:.3f}"]
    if pids_max:
        argv += ["--pids-limit", str(pids_max)]
    if user:
        argv += ["--user", user]
    for group in groups:
        argv += ["--group-add", str(group)]
    if keep_ids:
        argv += ["--userns", "keep-id"]
    if gpus:
        shown = ",".join(str(index) for index in gpus)
        argv += ["--device", "nvidia.com/gpu=" + shown] if runtime == "podman" else ["--gpus", f'"device={shown}"']
    for mount in mounts:
        argv += ["--mount", mount_argument(mount)]
    folder = text(container, "workingDir")
    if folder:
        argv += ["--workdir", folder]
    command, args = (strings(member(container, field)) for field in ("command", "args"))
    words = expanded_all((*command, *args), variables)
    if command:
        # The runtimes take one word as the entry point; the rest of it goes before the arguments.
        argv += ["--entrypoint", words[0]]
        words = words[1:]
    return (*argv, "--", text(container, "image"), *words)


class Inside(Frozen):
    """The user inside a container; empty for the user of its image."""

    user: str = ""
    groups: tuple[int, ...] = ()
    keep_ids: bool = False
    """Whether rootless podman has to map the ids inside to the same ids outside."""


def inside_of(runtime: Runtime, starter: Account, account: Account) -> Inside:
    """The user inside a container that one account starts and that runs as another.

    Docker's daemon starts all containers as root: those of a user get the user's ids. Podman starts a user's containers
    as that user, and ids matter only if a securityContext names some.
    """
    if not account.asked and (starter.uid == 0 or runtime == "podman"):
        return Inside()
    further = tuple(group for group in account.groups if group != account.gid)
    return Inside(f"{account.uid}:{account.gid}", further, runtime == "podman" and starter.uid != 0)


def mount_argument(mount: Mount) -> str:
    """A volume as an argument; fields are comma-separated, so a comma within one is quoted as in CSV."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.path}"]
    if mount.read_only:
        fields.append("readonly")
    return ",".join('"' + one.replace('"', '""') + '"' if "," in one or '"' in one else one for one in fields)


def pull_policy(container: Mapping[str, object]) -> str:
    """When to pull the image."""
    return {"Always": "always", "Never": "never"}.get(text(container, "imagePullPolicy"), "missing")


def exec_argv(runtime: Runtime, key: str, command: Iterable[str], *, stdin: bool, tty: bool) -> tuple[str, ...]:
    """The command that runs another one in an attempt's container."""
    flags = (*(("--interactive",) if stdin else ()), *(("--tty",) if tty else ()))
    return (runtime, "exec", *flags, container_name(key), *command)


def remove_argv(runtime: Runtime, key: str) -> tuple[str, ...]:
    """The command that stops and removes an attempt's container."""
    return (runtime, "rm", "--force", container_name(key))
