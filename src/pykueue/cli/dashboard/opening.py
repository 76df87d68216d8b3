"""Open a browser with a one-time code that no other user can read.

The arguments of a process are visible to everyone on a machine, so the browser gets the path of a file that only this
user can read; the file sends the code with POST.
"""

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import Final

from pykueue.base.datafolder import FILE_MODE, FOLDER_MODE

FOLDER: Final = "pykueue-dashboard"
PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>pykueue</title></head>
<body><form method="post" action="{address}"><input type="hidden" name="code" value="{code}">
<button>Open the dashboard</button></form><script>document.forms[0].submit()</script></body></html>
"""


class OpeningFile:
    """A file that exchanges a code for a session when a browser opens it."""

    def __init__(self, folder: Path, *, own: bool) -> None:
        self.folder = folder
        self.own = own
        """Whether the folder was made for this file alone."""
        self.path: Path | None = None

    @classmethod
    def in_runtime_folder(cls, runtime: str = "") -> "OpeningFile":
        """A file in the user's runtime folder, or in a temporary one."""
        base = Path(runtime or os.environ.get("XDG_RUNTIME_DIR", ""))
        if base.is_absolute() and is_private(base):
            folder = base / FOLDER
            with contextlib.suppress(OSError):
                folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
                if is_private(folder):
                    return cls(folder, own=False)
        return cls(Path(tempfile.mkdtemp(prefix=f"{FOLDER}-")), own=True)

    def write(self, address: str, code: str) -> Path:
        """Write the file for a code; raises `OSError`."""
        self.remove()
        path = self.folder / f"open-{secrets.token_hex(8)}.html"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(PAGE.format(address=escape(address, quote=True), code=escape(code, quote=True)))
        self.path = path
        return path

    def remove(self) -> None:
        """Remove the file, if there is one."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self.path = None

    def close(self) -> None:
        """Remove the file, and the folder if it was made for it."""
        self.remove()
        if self.own:
            shutil.rmtree(self.folder, ignore_errors=True)


def is_private(folder: Path) -> bool:
    """Whether only this user can enter a folder."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def open_browser(path: Path) -> bool:
    """Open a file in the user's browser; whether one was found."""
    try:
        return webbrowser.open(path.as_uri())
    except webbrowser.Error:
        return False
