"""Keeps disk space for the database that nothing else can take.

Blocks are allocated behind the end of the database and in its WAL, without changing their sizes. SQLite then writes
there even if jobs or other programs have filled the disk, so that objects can be deleted and states be recorded.
"""

import contextlib
import ctypes
import errno
import logging
import os
from pathlib import Path
from typing import Final

from pykueue.apiserver.storage.records import FullError, Key
from pykueue.base.boottime import boot_nanos

LOG: Final = logging.getLogger(__name__)

DATABASE_BYTES: Final = 32 * 1024 * 1024
WAL_BYTES: Final = 20 * 1024 * 1024
"""A little more than the size at which SQLite checkpoints the WAL."""
DISK_SHARE: Final = 16
"""Of a small disk, each of the two takes this fraction at most."""
AGAIN_NANOS: Final = 1_000_000_000
"""How often the reserve is completed while there are writes."""
PIECE_BYTES: Final = 64 * 1024
KEEP_SIZE: Final = 1
"""FALLOC_FL_KEEP_SIZE"""
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Reserve:
    """The space that is kept for one database file, as long as the process runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Stays open beside SQLite's own descriptors: closing any descriptor of the file releases SQLite's locks on it.
        self.handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        disk = os.fstatvfs(self.handle)
        self.share = disk.f_blocks * disk.f_frsize // DISK_SHARE
        self.low = False
        """Whether the disk is full up to the reserve, which is left for deletions and the server's own updates."""
        self.seen = 0
        self.hold()

    def keep(self) -> None:
        """Complete the reserve after writes, unless that was done a moment ago."""
        if self.low or boot_nanos() - self.seen >= AGAIN_NANOS:
            self.hold()

    def refusal(self, key: Key) -> FullError:
        """The error for an object that would use the reserve."""
        return FullError(
            f"{key}: not stored, because the disk of {self.path} is full but for a reserve that is kept for the "
            "database; delete objects or files that are not needed, and check the disk and its free space"
        )

    def hold(self) -> None:
        """Allocate what is missing of the reserve, or as much as there is room for."""
        self.seen = boot_nanos()
        size = os.fstat(self.handle).st_size
        held = allocated(self.handle, size, min(DATABASE_BYTES, self.share))
        # There may be no WAL yet; SQLite locks nothing in it.
        with contextlib.suppress(OSError):
            wal = os.open(f"{self.path}-wal", os.O_RDWR | os.O_CLOEXEC)
            try:
                held = allocated(wal, 0, min(WAL_BYTES, self.share)) and held
            finally:
                os.close(wal)
        if held == self.low:
            what = "has room again" if held else "is full up to the reserve, rejecting new objects"
            LOG.warning("store: the disk %s file=%s", what, self.path)
        self.low = not held

    def close(self) -> None:
        """Close the file, after SQLite has; the reserve is dropped when the file is next truncated."""
        os.close(self.handle)


def allocated(handle: int, start: int, size: int) -> bool:
    """Allocate a range of a file without changing its size, or as much as there is room for; False if not all of it."""
    allocate = getattr(LIBC, "fallocate64", None)
    if allocate is None or size < PIECE_BYTES:
        return True
    complete = True
    while size >= PIECE_BYTES:
        if allocate(handle, KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(size)) == 0:
            if complete:
                return True
            start += size
        elif ctypes.get_errno() not in FULL:
            # Some file systems cannot do this; there is no reserve on them.
            return True
        complete = False
        size //= 2
    return False
