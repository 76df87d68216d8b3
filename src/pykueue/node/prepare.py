"""Prepare a container's start: its environment, folders, GPUs and limits, as one `Start`."""

import asyncio
import contextlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import GPU, GPU_SHARE, Annotation
from pykueue.api.trees import amount, member, text, whole
from pykueue.base.struct import Frozen
from pykueue.base.units import Quantity
from pykueue.kube.port import SECRETS, Kube, NotFoundError, Resource
from pykueue.node.attempts import checked, key_of
from pykueue.node.podstatus import LOCALHOST, specs
from pykueue.node.setup.accounts import Account
from pykueue.node.setup.containerruntime import Runtime, inside_of, run_argv
from pykueue.node.setup.environment import ConfigError, Holdings, Source, command_line, environment, held, sources_of
from pykueue.node.setup.gpus import Shares
from pykueue.node.setup.limits import Limits
from pykueue.node.setup.securitycontext import RefusedError, Scope, account_for, several_users
from pykueue.node.setup.volumes import (
    link_mounts,
    make_passable,
    make_volumes,
    mounts_of,
    volume_sources,
    volume_variables,
)
from pykueue.node.spawn import Console, SpawnError, Start
from pykueue.node.supervision.followers import ANNOTATION, GRACE_SECONDS
from pykueue.node.supervision.processes import MARK
from pykueue.node.supervision.supervisor import UMASK

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", True)
PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SSL_CERT_FILE")
"""The variables that processes of our own user inherit."""
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
TERM: Final = "xterm"
"""The terminal type of a container with a terminal, unless it names another."""
OCTAL: Final = re.compile(r"0?[0-7]{3}", re.ASCII)
VARIABLES: Final = 500
"""Up to this many variables are expanded on the event loop."""
HELD_BYTES_MAX: Final = 32 * 1024 * 1024
"""The most that the ConfigMaps and Secrets that a container and its pod refer to may hold together."""
HOLDERS: Final = 8
"""The most starts at a time that hold the content of ConfigMaps and Secrets in memory."""
VOLUMES: Final = ".volumes"
"""The folder of a pod's volumes; no container can have this name."""
NO_COMMAND: Final = (
    "no command specified: local pods run as processes and do not look into images; give the container a command, "
    "or start pykueue with --container-runtime"
)
NO_CREATOR: Final = (
    "the creator of this pod is not a user of this machine, so there is no account to run it as; "
    "have an administrator add them with `pykueue user add`"
)


class StartFailure(Exception):
    """A container cannot be created; the reason and message of its waiting state."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class NoRoomError(Exception):
    """The GPUs that a pod requests are still in use."""


class StartBuilder(Frozen):
    """Prepares containers."""

    kube: Kube
    shares: Shares
    limits: Limits
    scratch: Path
    scope: Callable[[Tree], Scope]
    """The account of a pod, and the users that it may name."""
    may_mount: Callable[[Tree], bool]
    node: Mapping[str, Quantity]
    """The node's resources."""
    passed: Mapping[str, str]
    """The variables that a process of our own user inherits."""
    runtime: Runtime | None = None
    host: str = LOCALHOST
    grace_seconds: float = GRACE_SECONDS
    """How long a job waits for the `run` that follows it to reconnect."""
    holders: asyncio.Semaphore = msgspec.field(default_factory=partial(asyncio.Semaphore, HOLDERS))

    async def start(self, pod: Tree, container: Mapping[str, object], number: int) -> Start:
        """A container's start; raises `StartFailure`, `VolumeError` or `NoRoomError` if it cannot start."""
        many = has_many_variables(container)
        named = await asyncio.to_thread(sources_of, container) if many else sources_of(container)
        named |= volume_sources(pod)
        try:
            async with self.holders if named else contextlib.nullcontext():
                return await self.built(pod, container, number, named)
        except (ConfigError, RefusedError) as error:
            raise StartFailure("CreateContainerConfigError", str(error)) from error

    async def built(self, pod: Tree, container: Mapping[str, object], number: int, named: set[Source]) -> Start:
        """A container's start, which refers to these ConfigMaps and Secrets."""
        uid, name = text(pod, "metadata", "uid"), text(container, "name")
        scope = self.scope(pod)
        if scope.account is None:
            raise StartFailure("CreateContainerError", NO_CREATOR)
        account = account_for(pod, container, scope)
        key = key_of(uid, name, number)
        holdings = await self.holdings(text(pod, "metadata", "namespace"), named)
        folder = f"{self.scratch}/{checked(uid)}/{checked(name)}"
        volumes: Mapping[str, Path] = {}
        if specs(pod, "volumes"):
            # Volumes wait for the disk, so a thread makes them; the supervisor makes a plain folder.
            volumes = await asyncio.to_thread(self.prepare_volumes, pod, container, holdings, account, scope)
        work = partial(environment, pod, container, holdings, node=self.node, host=self.host)
        asked = await asyncio.to_thread(work) if has_many_variables(container) else work()
        gpus = self.gpus(pod, name)
        fence = self.limits.fence(container, key=key, uid=account.uid)
        # A manifest must not choose the GPUs.
        given = self.shares.variables(gpus, self.shares.parts.get(uid, {}).get(name, 0))
        own = {**volume_variables(container, volumes), **asked, **given}
        variables = {**self.basics(pod, account), **own, MARK: key}
        if container.get("tty") is True:
            variables.setdefault("TERM", TERM)
        if self.runtime is None:
            argv = command_line(container, own)
            if not argv:
                raise StartFailure("CreateContainerError", NO_COMMAND)
            cwd = text(container, "workingDir") or folder
        else:
            mounts = mounts_of(container, volumes)
            # A container has only its own GPUs, which have other numbers inside.
            inside = {name: value for name, value in asked.items() if name not in given}
            seen = inside_of(self.runtime, scope.account, account)
            argv = run_argv(
                self.runtime,
                key,
                container,
                inside,
                mounts,
                gpus=gpus,
                pids_max=self.limits.pids_max,
                user=seen.user,
                groups=seen.groups,
                keep_ids=seen.keep_ids,
            )
            cwd = folder
        if any("\0" in one for one in (*argv, *variables, *variables.values(), cwd)):
            raise StartFailure("CreateContainerError", "a NUL byte in a command, argument, variable or folder")
        label = f"{text(pod, 'metadata', 'namespace')}/{text(pod, 'metadata', 'name')}"
        return Start(
            key,
            argv,
            variables,
            cwd,
            label,
            # The creator starts the runtime, whatever user the container runs as.
            account if self.runtime is None else scope.account,
            folder,
            umask=umask_of(pod) if self.runtime is None else UMASK,
            rlimits=fence.rlimits if self.runtime is None else (),
            cgroup=fence.cgroup if self.runtime is None else "",
            cgroup_limits=fence.cgroup_limits,
            follower=text(pod, "metadata", "annotations", ANNOTATION),
            grace_seconds=self.grace_seconds,
            console=console_of(pod, container, self.grace_seconds),
            notify=notify_of(pod, container),
            notify_env={
                "PYKUEUE_JOB": text(pod, "metadata", "labels", JOB_NAME) or text(pod, "metadata", "name"),
                "PYKUEUE_NAMESPACE": text(pod, "metadata", "namespace"),
            },
        )

    def prepare_volumes(
        self, pod: Tree, container: Mapping[str, object], holdings: Holdings, account: Account, scope: Scope
    ) -> Mapping[str, Path]:
        """Create the volumes of a pod, and link those of a container into its working folder."""
        uid = text(pod, "metadata", "uid")
        volumes = make_volumes(
            pod,
            self.scratch / checked(uid) / VOLUMES,
            holdings,
            node=self.node,
            host=self.host,
            account=account,
            group=whole(pod, "spec", "securityContext", "fsGroup"),
            shared=several_users(pod, scope),
            may_mount=self.may_mount(pod),
        )
        folder = self.folder(uid, text(container, "name"))
        if not folder.exists():
            make_folder(folder, container, volumes, account)
        return volumes

    def folder(self, uid: str, container: str) -> Path:
        """The default working folder of a container."""
        return self.scratch / checked(uid) / checked(container)

    def basics(self, pod: Tree, account: Account) -> dict[str, str]:
        """The variables of every process."""
        return {
            "PATH": SYSTEM_PATH,
            **(self.passed if account.is_own() else {}),
            "HOME": account.home,
            "USER": account.name,
            "LOGNAME": account.name,
            "SHELL": account.shell or "/bin/sh",
            "HOSTNAME": text(pod, "spec", "hostname") or text(pod, "metadata", "name"),
        }

    def gpus(self, pod: Tree, container: str) -> tuple[int, ...]:
        """The GPUs of a container; raises `NoRoomError` while there are too few."""
        uid = text(pod, "metadata", "uid")
        held = self.shares.held.get(uid)
        if held is not None:
            return held.get(container, ())
        wanted, parts = asked_of(pod, GPU), asked_of(pod, GPU_SHARE)
        shares = self.shares.take(uid, wanted, parts)
        if shares is None:
            free = f"{sum(wanted.values())} requested, {len(self.shares.free())} free"
            share = f"a share of {max(parts.values(), default=0)} requested, {self.shares.room()} free on one GPU"
            raise NoRoomError(share if parts and sum(wanted.values()) <= len(self.shares.free()) else free)
        return shares.get(container, ())

    async def holdings(self, namespace: str, sources: Iterable[Source]) -> Holdings:
        """The content of ConfigMaps and Secrets; raises `ConfigError` if they hold too much together."""
        found: dict[Source, Mapping[str, bytes] | None] = {}
        left = HELD_BYTES_MAX
        for source in sources:
            resource = CONFIG_MAPS if source.kind == "ConfigMap" else SECRETS
            try:
                raw = await self.kube.get(resource, source.name, namespace)
            except NotFoundError:
                found[source] = None
            else:
                left -= len(raw)
                if left < 0:
                    raise ConfigError(
                        f"the ConfigMaps and Secrets of the pod hold more than {HELD_BYTES_MAX >> 20} MiB together; "
                        "refer to fewer, or let the command read the data from a file system"
                    )
                tree: Tree = msgspec.json.decode(raw)
                found[source] = held({**tree, "kind": source.kind})
        return found


def console_of(pod: Tree, container: Mapping[str, object], hangup_seconds: float) -> Console | None:
    """How clients can attach to a container; None if it has neither a standard input nor a terminal."""
    stdin, terminal, once = (container.get(name) is True for name in ("stdin", "tty", "stdinOnce"))
    if not stdin and not terminal:
        return None
    if text(pod, "metadata", "annotations", Annotation.INTERACTIVE) == "true":
        return Console(terminal, stdin, once, hangup_seconds, expected=True)
    return Console(terminal, stdin, once)


def umask_of(pod: Tree) -> int:
    """The umask that `pykueue run` asks for; a container's usual one for other pods, and if it is invalid."""
    asked = text(pod, "metadata", "annotations", Annotation.UMASK)
    return int(asked, 8) if OCTAL.fullmatch(asked) else UMASK


def notify_of(pod: Tree, container: Mapping[str, object]) -> tuple[str, ...]:
    """The notification command of a pod, which its first container has; none if it is invalid."""
    asked = text(pod, "metadata", "annotations", Annotation.NOTIFY)
    if not asked or text(container, "name") != text(specs(pod, "containers")[0], "name"):
        return ()
    try:
        words = msgspec.json.decode(asked, type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()
    return words if not any("\0" in word for word in words) else ()


def has_many_variables(container: Mapping[str, object]) -> bool:
    """Whether a container has so many variables that a thread must expand them."""
    variables = container.get("env")
    return isinstance(variables, list) and len(variables) > VARIABLES


def passed_on() -> dict[str, str]:
    """The variables that a process of our own user inherits."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def make_scratch(folder: Path) -> None:
    """Create the folder of pods' folders; raises `SpawnError` if another user owns it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise SpawnError(
            f"{folder}: must be a folder of the server's user, since pods run there, but it is not a folder or belongs "
            f"to user {found.st_uid}; move it away, or use another data folder"
        )
    if os.geteuid() == 0:
        folder.chmod(0o711)


def make_folder(folder: Path, container: Mapping[str, object], volumes: Mapping[str, Path], account: Account) -> None:
    """Create the working folder of a container, with its mounts."""
    make_passable(folder.parent, account)
    partial = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    link_mounts(container, partial, volumes)
    if not account.is_own():
        # Change the owner last: while the folder is ours, no other user can replace anything in it.
        os.chown(partial, account.uid, account.gid)
    partial.rename(folder)


def asked_of(pod: Tree, resource: str) -> dict[str, int]:
    """How much of a resource each container of a pod requests; without those that request none."""
    found = {}
    for field in ("containers", "initContainers"):
        for spec in specs(pod, field):
            if not spec.get("resources"):
                continue
            asked = amount(member(spec, "resources", "limits", resource))
            asked = asked or amount(member(spec, "resources", "requests", resource))
            if asked is not None and asked.nanos > 0:
                found[text(spec, "name")] = asked.whole()
    return found
