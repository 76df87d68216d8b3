"""How do I not lose it? `pykueue backup`, while it runs, and `pykueue restore`."""

import os
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import click

from pykueue.base.datafolder import CERTIFICATE_FILES, CERTIFICATES, DATABASE, KUBECONFIG, USERS
from pykueue.cli.serverstate import data_folder, fail, here, made, read_standing

BESIDE: Final = (USERS, KUBECONFIG, *(f"{CERTIFICATES}/{name}" for name in CERTIFICATE_FILES))
"""What belongs to a backup beside the database: without it no kubeconfig that was given out would be good any more."""


@click.command()
@click.argument("file")
@click.option("--data", metavar="DIR", help="The data folder, if not the usual one.")
def backup(file: str, data: str | None) -> None:
    """Write everything that is kept to FILE, while it runs.

    All of it is as it was at one moment. FILE holds the secrets of the data folder too: objects, users, and the keys of
    the server. The output of jobs is not in it.

    \b
    Example:
      pykueue backup /backup/pykueue-monday.tar
      pykueue backup --data ~/queues queues.tar

    To restore: stop it, then `pykueue restore FILE`.

    Exit codes: 0, FILE is complete and on the disk; 2, it is not there.
    """
    from pykueue.apiserver.storage.datafile import backup as copied
    from pykueue.apiserver.storage.store import StoreError
    from pykueue.base.datafolder import synced

    folder, target = data_folder(data), here() / file
    # Of another user's folder this says so.
    read_standing(folder)
    if target.exists():
        fail(f"{target}: exists already; give another name, or remove it")
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
        fail(f"{target}: cannot be written: {error.strerror}; check the folder, your rights to it, and its disk")
    click.echo(f"{target}: {target.stat().st_size} bytes, from {folder}")


@click.command()
@click.argument("file")
@click.option("--data", metavar="DIR", help="The data folder, if not the usual one.")
def restore(file: str, data: str | None) -> None:
    """Put what `pykueue backup` wrote back in its place.

    What was there is kept beside it: pykueue.db.old, users.json.old and so on, with a number where there are such
    already. Stop it before with `pykueue down`.

    \b
    Example:
      pykueue down
      pykueue restore /backup/pykueue-monday.tar
      pykueue up --detach

    Exit codes: 0, restored; 1, it runs; 2, FILE is none, or the folder cannot be written.
    """
    from pykueue.apiserver.storage.datafile import restore as put_back
    from pykueue.apiserver.storage.store import StoreError
    from pykueue.base.datafolder import synced

    if not Path(file).exists():
        fail(f"{file}: is not there; give a file that `pykueue backup` wrote")
    folder = made(data_folder(data))
    standing = read_standing(folder)
    if standing is not None and standing.runs:
        fail(f"{folder}: in use by process {standing.pid}; stop it with `pykueue down` first", 1)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".restore-") as scratch:
            with tarfile.open(file) as archive:
                for name in (DATABASE, *BESIDE):
                    unpack(archive, name, Path(scratch))
            if not (Path(scratch) / DATABASE).exists():
                fail(f"{file}: holds no {DATABASE}; give a file that `pykueue backup` wrote")
            put_back(Path(scratch) / DATABASE, folder / DATABASE)
            for name in BESIDE:
                if (Path(scratch) / name).exists():
                    put_beside(Path(scratch) / name, folder / name)
            for changed in (folder, folder / CERTIFICATES):
                if changed.exists():
                    synced(changed)
    except tarfile.TarError as error:
        # What it has tried comes in further lines.
        fail(f"{file}: {str(error).partition(chr(10))[0].rstrip(':')}; give a file that `pykueue backup` wrote")
    except StoreError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or file}: {error.strerror}; check the names and your rights to them")
    click.echo(f"{folder}: restored from {file}; start it with `pykueue up`")


def put_beside(fresh: Path, place: Path) -> None:
    """Put a file in its place; what was there is kept beside it."""
    from pykueue.apiserver.storage.datafile import aside

    place.parent.mkdir(mode=0o700, exist_ok=True)
    if place.exists():
        # A second name, so that at no moment the file is missing.
        aside(place).hardlink_to(place)
    fresh.replace(place)


def unpack(archive: tarfile.TarFile, name: str, scratch: Path) -> None:
    """Take one plain file out of an archive, by the name that we expect and no other."""
    try:
        member = archive.getmember(name)
    except KeyError:
        return
    content = archive.extractfile(member)
    if content is None:
        raise tarfile.ReadError(f"{name} in it is no plain file")
    target = scratch / name
    target.parent.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as opened:
        while piece := content.read(1 << 20):
            opened.write(piece)
        opened.flush()
        os.fsync(opened.fileno())
