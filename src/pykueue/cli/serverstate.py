"""Where is the system of this machine? Its data folder, and what it wrote there about itself."""

import os
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
"""Where `pykueue user add` puts a user's kubeconfig, from their home folder."""
UNAUTHORIZED: Final = 401
HOW_TO_GET_ONE: Final = (
    "start it with `pykueue up`, or, where an admin has started one for all, have them run `pykueue user add`"
)


def data_folder(given: str | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """The data folder: the one given, or the usual one of whoever asks."""
    if given:
        named = Path(given).expanduser()
        return named if named.is_absolute() else here() / named
    if os.geteuid() == 0:
        return Path("/var/lib/pykueue")
    base = environment.get("XDG_DATA_HOME", "")
    # The rule for such variables is that a relative path is as good as none.
    chosen = Path(base) if base.startswith("/") else Path(environment.get("HOME") or "/") / ".local/share"
    return chosen / "pykueue"


def here() -> Path:
    """The present folder; says so and ends if it is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        fail("the present folder is there no more; change to one that is")


def made(folder: Path) -> Path:
    """The folder, for its owner alone; says what is wrong and ends if it cannot be had."""
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if not folder.is_dir():
            fail(f"{folder}: is no folder; give another one with --data")
        found = folder.stat()
        if found.st_uid != os.geteuid():
            fail(f"{folder}: belongs to another user; give a folder of your own with --data")
        if found.st_mode & 0o077:
            folder.chmod(FOLDER_MODE)
        probe = folder / f".probe-{os.getpid()}"
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        probe.unlink()
    except OSError as error:
        fail(
            f"{folder}: cannot be written: {error.strerror}; make it writable for this user and see that its disk has "
            "room, or give another folder with --data"
        )
    return folder


class Standing(Frozen):
    """What a running `pykueue up` says about itself in its data folder."""

    pid: int
    born: int
    """When the process was started, as the kernel counts: numbers of processes are used again."""
    server: str
    port: int
    since: Instant

    @property
    def runs(self) -> bool:
        """Whether it still does."""
        return bool(self.pid) and process_start(self.pid) == self.born


def read_standing(folder: Path) -> Standing | None:
    """What was written last; None where nothing was, or it says nothing; ends if the folder is another user's."""
    try:
        return msgspec.json.decode((folder / STANDING).read_bytes(), type=Standing)
    except PermissionError:
        anothers(folder)
    except (OSError, msgspec.DecodeError):
        return None


def anothers(folder: Path) -> NoReturn:
    """Say that a folder is another user's, and end."""
    fail(f"{folder}: belongs to another user; do this as that user, or have an admin run `pykueue user add` for you")


def write_standing(folder: Path, standing: Standing) -> None:
    """Say where we are to be found."""
    put(folder / STANDING, msgspec.json.encode(standing))


def accepted_no_more(file: str) -> str:
    """What to say to whoever is not let in."""
    return f"{file}: is accepted no more; have an admin run `pykueue user add NAME`, which writes a new one"


def fail(text: str, code: int = 2) -> NoReturn:
    """Say what is wrong, and end."""
    click.echo(printable(text), err=True)
    sys.exit(code)
