"""Locate the local server: its data directory, and the process and address recorded there."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import click
import msgspec

from pykueue.base.datafolder import FILE_MODE, FOLDER_MODE, put
from pykueue.base.struct import Frozen
from pykueue.base.text import printable
from pykueue.base.units import Instant
from pykueue.node.supervision.processes import process_start

STANDING: Final = "up.json"
OWN_KUBECONFIG: Final = Path(".config/pykueue/kubeconfig")
"""Where `pykueue user add` writes a user's kubeconfig, relative to their home directory."""
UNAUTHORIZED: Final = 401


def data_folder(given: str | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """The data directory: the one given, or the default of this user."""
    if given:
        named = Path(given).expanduser()
        return named if named.is_absolute() else here() / named
    if os.geteuid() == 0:
        return Path("/var/lib/pykueue")
    base = environment.get("XDG_DATA_HOME", "")
    # The XDG specification says to ignore relative paths.
    chosen = Path(base) if base.startswith("/") else Path(environment.get("HOME") or "/") / ".local/share"
    return chosen / "pykueue"


def data_option(folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """What a suggested command needs after its name to mean this data directory; empty for the default one."""
    return "" if folder == data_folder(None, environment) else f" --data {shlex.quote(str(folder))}"


def here() -> Path:
    """The current directory; exits with an error if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        fail("the current directory no longer exists; change to another one")


def made(folder: Path) -> Path:
    """Create the directory with mode 0700; exits with an error if that fails."""
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if not folder.is_dir():
            fail(f"{folder}: not a directory; choose another one with --data")
        found = folder.stat()
        if found.st_uid != os.geteuid():
            fail(f"{folder}: belongs to another user; choose a directory of your own with --data")
        if found.st_mode & 0o077:
            folder.chmod(FOLDER_MODE)
        probe = folder / f".probe-{os.getpid()}"
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        probe.unlink()
    except OSError as error:
        fail(
            f"{folder}: cannot be written: {error.strerror}; check that this user can write to it and that the disk is "
            "not full, or choose another directory with --data"
        )
    return folder


class ServerRecord(Frozen):
    """What a running server records in its data directory."""

    pid: int
    born: int
    """The start time of the process in kernel ticks: process ids are reused."""
    server: str
    port: int
    since: Instant

    @property
    def runs(self) -> bool:
        """Whether the process still runs."""
        return bool(self.pid) and process_start(self.pid) == self.born


def read_record(folder: Path) -> ServerRecord | None:
    """The record in a data directory, None if missing or invalid; exits if the directory belongs to another user."""
    try:
        return msgspec.json.decode((folder / STANDING).read_bytes(), type=ServerRecord)
    except PermissionError:
        exit_not_owner(folder)
    except (OSError, msgspec.DecodeError):
        return None


def exit_not_owner(folder: Path) -> NoReturn:
    """Exit because a directory belongs to another user."""
    fail(f"{folder}: belongs to another user; run this as that user, or ask an administrator to run `pykueue user add`")


def write_record(folder: Path, standing: ServerRecord) -> None:
    """Record the process and address of this server."""
    put(folder / STANDING, msgspec.json.encode(standing))


def rejected_credentials(file: str, context: str | None = None, message: str = "") -> str:
    """The error for a kubeconfig whose credentials the server rejects, with this message."""
    from pykueue.kube.client.kubeconfig import user_of

    name = shlex.quote(user_of(tuple(map(Path, file.split(os.pathsep))), context) or "NAME")
    expired = message.partition("Unauthorized: ")[2]
    if expired:
        return f"{file}: {expired}; ask an administrator to run `pykueue user rotate {name} --expires 30d`"
    return (
        f"{file}: the server rejected these credentials; ask an administrator to run `pykueue user rotate {name}`, or "
        f"`pykueue user add {name}` if that user was removed"
    )


def fail(text: str, code: int = 2) -> NoReturn:
    """Print an error and exit."""
    click.echo(printable(text), err=True)
    sys.exit(code)
