"""`pykueue backup` and `pykueue restore`: save and restore the data of a server."""

import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import click

from pykueue.base.datafolder import CERTIFICATE_FILES, CERTIFICATES, DATABASE, KUBECONFIG, USERS
from pykueue.base.text import printable
from pykueue.cli.serverstate import data_folder, data_option, fail, here, made, read_record

BESIDE: Final = (USERS, KUBECONFIG, *(f"{CERTIFICATES}/{name}" for name in CERTIFICATE_FILES))
"""Files in a backup besides the database; without them every kubeconfig handed out would become invalid."""


@click.command()
@click.argument("file")
@click.option("--data", metavar="DIR", help="Data directory of the server; see `pykueue up --help` for the default.")
def backup(file: str, data: str | None) -> None:
    """Write a consistent backup of a server to FILE.

    The server may be running. FILE contains all objects, the users and the keys of the server, so protect it like the
    data directory itself. The output of jobs is not included.

    \b
    Example:
      pykueue backup /backup/pykueue-monday.tar
      pykueue backup --data ~/queues queues.tar

    To restore it, stop the server and run `pykueue restore FILE`.

    Exit codes: 0, FILE is complete and synced to disk; 2, no backup was written.
    """
    from pykueue.apiserver.storage.datafile import backup as copied
    from pykueue.apiserver.storage.store import StoreError
    from pykueue.base.datafolder import synced

    folder, target = data_folder(data), here() / file
    # Exits if the directory belongs to another user.
    read_record(folder)
    if target.exists():
        fail(f"{target}: file exists; choose another name, or remove it")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".pykueue-backup-") as scratch:
            copied(folder / DATABASE, Path(scratch) / DATABASE)
            packed = Path(scratch) / "all.tar"
            handle = os.open(packed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(handle, "wb") as opened, tarfile.open(fileobj=opened, mode="w") as archive:
                archive.add(Path(scratch) / DATABASE, DATABASE)
                for name in BESIDE:
                    if (folder / name).exists():
                        archive.add(folder / name, name, recursive=False)
                archive.close()
                opened.flush()
                os.fsync(opened.fileno())
            packed.rename(target)
            synced(target.parent)
    except StoreError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{target}: cannot be written: {error.strerror}; check the directory, its permissions and its free space")
    click.echo(f"{target}: {target.stat().st_size} bytes written, from {folder}")


@click.command()
@click.argument("file")
@click.option(
    "--users-from-backup",
    is_flag=True,
    help="Also restore users and their credentials. Users who were removed since the backup regain access; asks "
    "for confirmation.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--data", metavar="DIR", help="Data directory of the server; see `pykueue up --help` for the default.")
def restore(file: str, users_from_backup: bool, yes: bool, data: str | None) -> None:
    """Restore a server from a backup FILE.

    Stop the server first with `pykueue down`. Users and their kubeconfigs are not changed: users who were removed since
    the backup stay removed, and replaced kubeconfigs stay invalid. If the data directory has no users yet, those of
    FILE are restored. Replaced files are kept next to the new ones, as pykueue.db.old, users.json.old and so on, with a
    number if such a file exists.

    \b
    Example:
      pykueue down
      pykueue restore /backup/pykueue-monday.tar
      pykueue up --detach

    Exit codes: 0, restored; 1, the server is running; 2, FILE is not a backup, or the data directory is not writable.
    """
    from pykueue.apiserver.auth.users import UsersError
    from pykueue.apiserver.storage.datafile import restore as put_back
    from pykueue.apiserver.storage.store import StoreError
    from pykueue.base.datafolder import synced
    from pykueue.cli.localserver.restoredusers import source, taken, users_in

    check_backup(file)
    folder = data_folder(data)
    standing = read_record(folder)
    if standing is not None and standing.runs:
        fail(
            f"{folder}: in use by process {standing.pid}; stop the server with `pykueue down{data_option(folder)}` "
            "first",
            1,
        )
    made(folder)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".restore-") as scratch:
            with tarfile.open(file) as archive:
                for name in (DATABASE, *BESIDE):
                    unpack(archive, name, Path(scratch))
            if users_from_backup:
                confirm(file, Path(scratch), folder, yes=yes)
            chosen = "backup" if users_from_backup else source(users_in(folder))
            replaced = taken(Path(scratch), folder, chosen)
            put_back(Path(scratch) / DATABASE, folder / DATABASE)
            for name in replaced:
                if (Path(scratch) / name).exists():
                    put_beside(Path(scratch) / name, folder / name)
            for changed in (folder, folder / CERTIFICATES):
                if changed.exists():
                    synced(changed)
    except tarfile.TarError as error:
        fail(not_a_backup(file, str(error)))
    except (StoreError, UsersError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or file}: {error.strerror}; check the path and its permissions")
    kept = {"today": "; the current users are kept", "backup but admin": "", "backup": ""}[chosen]
    click.echo(f"{folder}: restored from {file}{kept}; start the server with `pykueue up{data_option(folder)}`")


def check_backup(file: str) -> None:
    """Exit with an error if this file cannot be a backup."""
    if not Path(file).exists():
        fail(f"{file}: no such file; name a file written by `pykueue backup`")
    try:
        with tarfile.open(file) as archive:
            if DATABASE not in archive.getnames():
                fail(not_a_backup(file, f"contains no {DATABASE}"))
    except tarfile.TarError as error:
        fail(not_a_backup(file, str(error)))
    except OSError as error:
        fail(f"{file}: {error.strerror}; check the path and its permissions")


def not_a_backup(file: str, why: str) -> str:
    """The error for a file that is not a backup."""
    # Further lines list the compression methods that were tried.
    first = why.partition("\n")[0].rstrip(":")
    return f"{file}: not a backup of pykueue: {first}; name a file written by `pykueue backup`"


def confirm(file: str, scratch: Path, folder: Path, *, yes: bool) -> None:
    """Print whose access the users of a backup change, and ask; exits unless that is confirmed."""
    from pykueue.apiserver.auth.users import UsersError
    from pykueue.base.clock import SystemClock
    from pykueue.cli.localserver.restoredusers import differences, users_in

    if not (scratch / USERS).exists():
        fail(f"{file}: contains no users; omit --users-from-backup")
    then, now = users_in(scratch), SystemClock().now()
    try:
        lines = differences(users_in(folder), then, now)
    except UsersError as error:
        # Users that cannot be read cannot be compared.
        lines = [str(error), *differences({}, then, now)]
    if not lines:
        return
    click.echo(f"The users of {file} replace the current users:")
    for line in lines:
        click.echo(f"  {printable(line)}")
    if yes:
        return
    if not sys.stdin.isatty():
        fail("nothing was changed; confirm with --yes, or omit --users-from-backup to keep the current users")
    if not click.confirm("Continue?"):
        fail("nothing was changed")


def put_beside(fresh: Path, place: Path) -> None:
    """Move a file into place and keep the one it replaces."""
    from pykueue.apiserver.storage.datafile import aside

    place.parent.mkdir(mode=0o700, exist_ok=True)
    if place.exists():
        # A hard link, so that the file never is missing.
        aside(place).hardlink_to(place)
    fresh.replace(place)


def unpack(archive: tarfile.TarFile, name: str, scratch: Path) -> None:
    """Extract one regular file with an expected name from an archive."""
    try:
        member = archive.getmember(name)
    except KeyError:
        return
    content = archive.extractfile(member) if member.isreg() else None
    if content is None:
        raise tarfile.ReadError(f"{name} is not a regular file")
    target = scratch / name
    target.parent.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as opened:
        while piece := content.read(1 << 20):
            opened.write(piece)
        opened.flush()
        os.fsync(opened.fileno())
