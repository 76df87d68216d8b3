"""The files of a data folder: their names, and durable writes."""

import os
import tempfile
from pathlib import Path
from typing import Final

DATABASE: Final = "pykueue.db"
KUBECONFIG: Final = "kubeconfig"
"""Credentials of the user who started the server."""
USERS: Final = "users.json"
CERTIFICATES: Final = "tls"
"""A folder that holds the files below."""
CERTIFICATE_FILES: Final = ("ca.crt", "ca.key", "server.crt", "server.key")
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


def put(path: Path, content: bytes) -> None:
    """Replace a file atomically and durably, readable by its owner only."""
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            os.fchmod(file.fileno(), FILE_MODE)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    synced(path.parent)


def synced(path: Path) -> None:
    """Flush a file or a folder to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
