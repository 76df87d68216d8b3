"""Volumes of a process: folders of its pod, linked under their mount paths in its working folder.

A process has the file system of the machine, so nothing can be mounted for it alone. A volume mounted at `/data/in` is
found at `data/in` in the container's working folder, and by the variable `PYKUEUE_VOLUME_<NAME>`. Pure except for
`make_volumes` and `link_mounts`.
"""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.trees import has, mapping, mappings, member, text, whole
from pykueue.base.struct import Frozen
from pykueue.base.units import Quantity
from pykueue.node.setup.accounts import Account
from pykueue.node.setup.environment import ConfigError, Holdings, Source, field_value, resource_value

KINDS: Final = ("configMap", "secret", "downwardAPI", "projected")
MODE: Final = 0o644
VARIABLE: Final = "PYKUEUE_VOLUME_"
FILES_BYTES_MAX: Final = 32 * 1024 * 1024
"""The most that the files of all volumes of a pod may take; each file and folder counts as a block more."""
BLOCK_BYTES: Final = 4096


class VolumeError(Exception):
    """A volume cannot be created; the message is that of the event."""


class File(Frozen):
    """A file of a volume."""

    path: str
    content: bytes
    mode: int = MODE


def volume_sources(pod: Tree) -> set[Source]:
    """The ConfigMaps and Secrets that the volumes of a pod refer to."""
    found = set()
    for _, volume in mappings(pod, "spec", "volumes"):
        for origin in origins(volume):
            if has(origin, "configMap"):
                found.add(Source("ConfigMap", text(origin, "configMap", "name")))
            elif has(origin, "secret"):
                found.add(Source("Secret", secret_name(origin)))
    return found


def secret_name(origin: Mapping[str, object]) -> str:
    """The Secret of a volume, or of a part of one; the two fields have different names."""
    return text(origin, "secret", "secretName") or text(origin, "secret", "name")


def origins(volume: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The sources of a volume: itself, or the parts of a projected one."""
    if has(volume, "projected"):
        for _, part in mappings(volume, "projected", "sources"):
            yield part
    else:
        yield volume


def files_of(
    pod: Tree,
    volume: Mapping[str, object],
    holdings: Holdings,
    node: Mapping[str, Quantity],
    host: str,
    most: int = FILES_BYTES_MAX,
) -> list[File]:
    """The files of a volume; raises `VolumeError` if one cannot be provided, or if they take more than `most`."""
    mode = next((whole(volume, kind, "defaultMode") for kind in KINDS if has(volume, kind)), None)
    found: list[File] = []
    for origin in origins(volume):
        for file in part_files(pod, origin, holdings, node, host):
            found.append(File(safe_path(file.path), file.content, file.mode or mode or MODE))
            most -= taken(found[-1])
            if most < 0:
                raise VolumeError(
                    f"the volumes of a pod can hold {FILES_BYTES_MAX >> 20} MiB, and its files need more; "
                    "name fewer items, or let the command read the data from a file system"
                )
    return found


def taken(file: File) -> int:
    """About how many bytes of a disk a file and its folders take."""
    return len(file.content) + BLOCK_BYTES * (file.path.count("/") + 1)


def part_files(
    pod: Tree, origin: Mapping[str, object], holdings: Holdings, node: Mapping[str, Quantity], host: str
) -> Iterator[File]:
    """The files of one part of a volume; a mode of 0 stands for the default."""
    if has(origin, "configMap"):
        yield from held_files(
            pod, "ConfigMap", text(origin, "configMap", "name"), mapping(origin, "configMap"), holdings
        )
    elif has(origin, "secret"):
        yield from held_files(pod, "Secret", secret_name(origin), mapping(origin, "secret"), holdings)
    elif has(origin, "downwardAPI"):
        for _, item in mappings(origin, "downwardAPI", "items"):
            try:
                if has(item, "fieldRef"):
                    value = field_value(pod, text(item, "fieldRef", "fieldPath"), host=host)
                else:
                    value = resource_value(pod, {}, mapping(item, "resourceFieldRef"), node)
            except ConfigError as error:
                raise VolumeError(str(error)) from error
            yield File(text(item, "path"), value.encode(), whole(item, "mode") or 0)
    else:
        kind = next((name for name in origin if name != "name"), "nothing")
        raise VolumeError(
            f"local pods do not support volumes of kind {kind}; use emptyDir, configMap, secret, downwardAPI, "
            "projected or hostPath"
        )


def held_files(pod: Tree, kind: str, name: str, origin: Mapping[str, object], holdings: Holdings) -> Iterator[File]:
    """The files of a ConfigMap or Secret."""
    held = holdings.get(Source(kind, name))
    optional = member(origin, "optional") is True
    if held is None:
        if optional:
            return
        raise VolumeError(f'{kind.lower()} "{name}" not found')
    items = mappings(origin, "items")
    if not items:
        for key, content in held.items():
            yield File(key, content, 0)
    for _, item in items:
        key = text(item, "key")
        if key in held:
            yield File(text(item, "path"), held[key], whole(item, "mode") or 0)
        elif not optional:
            namespace = text(pod, "metadata", "namespace")
            raise VolumeError(f"{kind.lower()} {namespace}/{name} references non-existent {kind.lower()} key: {key}")


def safe_path(path: str) -> str:
    """A path that stays inside its volume; raises `VolumeError` for any other."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise VolumeError(f"{path!r} is not a path within a volume; write one without .. and without a leading /")
    return "/".join(parts)


def make_volumes(
    pod: Tree,
    folder: Path,
    holdings: Holdings,
    *,
    node: Mapping[str, Quantity],
    host: str,
    account: Account | None,
    may_mount: bool,
    group: int | None = None,
    shared: bool = False,
) -> dict[str, Path]:
    """Create the volumes of a pod, each as a folder; existing ones stay unchanged.

    They belong to an account, and to a group (`fsGroup`) that may write in them; a pod whose containers run as several
    users shares them with all.
    """
    made = {}
    left = FILES_BYTES_MAX
    volumes = [volume for _, volume in mappings(pod, "spec", "volumes")]
    complete = all((folder / text(volume, "name")).exists() for volume in volumes if not has(volume, "hostPath"))
    for volume in volumes:
        name = text(volume, "name")
        try:
            if has(volume, "hostPath"):
                made[name] = host_path(volume, may_mount=may_mount)
            else:
                made[name] = folder / name
                empty = has(volume, "emptyDir")
                # Those that exist count, too, until all do.
                files = [] if empty or complete else files_of(pod, volume, holdings, node, host, left)
                left -= sum(map(taken, files))
                if not made[name].exists():
                    mode = (0o777 if empty else 0o755) if shared else 0o700
                    make_volume(made[name], files, account, group, mode)
        except VolumeError as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error
        except OSError as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {error.strerror}') from error
    return made


def host_path(volume: Mapping[str, object], *, may_mount: bool) -> Path:
    """The folder of a hostPath volume."""
    path = Path(text(volume, "hostPath", "path"))
    kind = text(volume, "hostPath", "type")
    if not may_mount:
        raise VolumeError("hostPath volumes are for administrators; use emptyDir, or name the path in the command")
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(mode=0o644)
    if kind in ("Directory", "DirectoryOrCreate") and not path.is_dir():
        raise VolumeError(f"hostPath type check failed: {path} is not a directory")
    if kind in ("File", "FileOrCreate") and not path.is_file():
        raise VolumeError(f"hostPath type check failed: {path} is not a file")
    return path


def make_passable(folder: Path, account: Account | None, *, shared: bool = False) -> None:
    """Create a folder of ours that another user can traverse if theirs is in it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if shared or (account is not None and not account.is_own()):
        folder.chmod(0o711)


def make_volume(folder: Path, files: list[File], account: Account | None, group: int | None, mode: int) -> None:
    """Write a volume to a temporary place and rename it; the user owns it only afterwards."""
    shared = group is not None or mode != 0o700
    make_passable(folder.parent.parent, account, shared=shared)
    make_passable(folder.parent, account, shared=shared)
    partial = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    for file in files:
        path = partial / file.path
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as stream:
            stream.write(file.content)
            os.fchmod(descriptor, file.mode & 0o777)
    give(partial, account, group)
    # As in the kubelet, files of a volume with a group belong to the group too.
    partial.chmod(mode if group is None else mode | 0o2070)
    partial.rename(folder)


def give(folder: Path, account: Account | None, group: int | None) -> None:
    """Give a folder and its content to a user and a group, and let the group read it."""
    foreign = account is not None and not account.is_own()
    if not foreign and group is None:
        return
    uid = account.uid if foreign and account is not None else -1
    gid = group if group is not None else account.gid if account is not None else -1
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(parent) / name
            os.chown(path, uid, gid, follow_symlinks=False)
            if group is not None:
                path.chmod(path.stat().st_mode & 0o7777 | (0o2070 if path.is_dir() else 0o040))
    os.chown(folder, uid, gid)


class Mount(Frozen):
    """A volume, or a part of it, at a path of a container."""

    volume: str
    path: str
    """The mount path, as the container names it."""
    source: Path
    read_only: bool = False


def mounts_of(container: Mapping[str, object], volumes: Mapping[str, Path]) -> list[Mount]:
    """The mounts of a container; raises `VolumeError` for one that leaves its volume or does not exist here."""
    found = []
    for _, mount in mappings(container, "volumeMounts"):
        name = text(mount, "name")
        place = volumes.get(name)
        if text(mount, "subPathExpr"):
            raise VolumeError(f'volume "{name}": local pods do not support subPathExpr; write the path as subPath')
        if place is not None:
            source = part_of(place, text(mount, "subPath"))
            found.append(Mount(name, text(mount, "mountPath"), source, member(mount, "readOnly") is True))
    return found


def part_of(place: Path, inner: str) -> Path:
    """A part of a volume, which must be inside it whatever links another container may have created."""
    if not inner:
        return place
    found, whole = os.path.realpath(place / safe_path(inner)), os.path.realpath(place)
    if not found.startswith(whole + "/"):
        raise VolumeError(f"{inner!r} leaves the volume; name a part of it that is not a link to elsewhere")
    return Path(found)


def volume_variables(container: Mapping[str, object], volumes: Mapping[str, Path]) -> dict[str, str]:
    """The variables with the paths of a container's volumes."""
    return {
        VARIABLE + "".join(one if one.isalnum() else "_" for one in mount.volume).upper(): str(mount.source)
        for mount in mounts_of(container, volumes)
    }


def link_mounts(container: Mapping[str, object], folder: Path, volumes: Mapping[str, Path]) -> None:
    """Link the mounts of a container under its working folder, which no other user can write to yet."""
    for mount in mounts_of(container, volumes):
        where = safe_path(mount.path.lstrip("/") or mount.volume)
        link = folder / where
        inner = [folder / above for above in PurePosixPath(where).parents if above.name]
        try:
            # Never through a mount: its volume belongs to the user, whose links could lead us, as root, anywhere.
            if any(above.is_symlink() for above in inner):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            link.symlink_to(mount.source)
        except OSError as error:
            raise VolumeError(
                f'volume "{mount.volume}" cannot be linked at {where} in the working folder: {error.strerror}; '
                "mount volumes beside each other, not into each other"
            ) from error
