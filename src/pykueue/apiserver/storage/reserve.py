"""Keeps disk space for the database that nothing else can take.

Blocks are allocated behind the end of the database and in its WAL, without changing their sizes. SQLite then writes
there even if jobs or other programs have filled the disk, so that objects can be deleted and states be recorded. A file
beside the database keeps space for the next start, which releases it if the disk is full by then.
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
START_BYTES: Final = 2 * WAL_BYTES
"""A start needs one half to open the database, and has the other for the rest."""
FILES_BYTES: Final = 1024 * 1024
"""Of a full disk, this much is left to the other files of the data directory."""
MARGIN_BYTES: Final = 32 * 1024 * 1024
"""New objects are refused when less than this is free beside the reserve, so that few writes need the reserve."""
LOG_BYTES: Final = 8 * 1024 * 1024
"""How much of the watch log is kept while there is less than the margin."""
DISK_SHARE: Final = 16
"""Of a small disk, each of them takes this fraction at most."""
SMALL_SHARE: Final = 16
"""Of a part of the reserve of a small disk, the log and a commit take this fraction at most."""
PAGE_BYTES: Final = 4096 + 24
"""A page in the WAL."""
CHECKPOINT_PAGES: Final = 4_000
CHECKPOINT_PAGES_MIN: Final = 256
"""The size of the WAL at which SQLite checkpoints by itself, if no idle moment came earlier: 16 MiB, less on a small
disk."""
AGAIN_NANOS: Final = 1_000_000_000
"""How often the reserve is completed while there are writes."""
PIECE_BYTES: Final = 64 * 1024
BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`."""
KEEP_SIZE: Final = 1
"""FALLOC_FL_KEEP_SIZE"""
START: Final = ".reserve"
"""The suffix of the file that keeps space for the next start."""
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Reserve:
    """The space that is kept for one database file, as long as the process runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Stays open beside SQLite's own descriptors: closing any descriptor of the file releases SQLite's locks on it.
        self.handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.share = share(self.handle)
        self.free = 0
        """The bytes of free pages in the database, which new rows use before the file grows."""
        self.holds = False
        """Whether there should be blocks behind the end of the database."""
        self.low = False
        """Whether the disk is full up to the reserve, which is left for deletions and the server's own updates."""
        self.seen = 0
        self.hold()
        if self.low:
            # What is left of the space for a start is for the other files that a start writes.
            release(path, 0)

    @property
    def margin(self) -> int:
        """New objects are refused when less than this is free beside the reserve."""
        return min(MARGIN_BYTES, self.share)

    @property
    def log_bytes(self) -> int:
        """How much of the watch log is kept while there is less than the margin."""
        return min(LOG_BYTES, self.share // SMALL_SHARE)

    def batch_bytes(self, usual: int) -> int:
        """How large a commit may be while there is less than the margin."""
        return min(usual, self.share // SMALL_SHARE)

    def short(self, unwritten: int = 0) -> bool:
        """Whether less than the margin remains when this many bytes have been written."""
        return self.low or room(self.handle) + self.free < self.margin + 2 * unwritten

    def checkpoint_pages(self, batch_bytes: int) -> int:
        """The number of pages at which the WAL must be checkpointed, so that one more batch fits into its reserve."""
        fitting = (min(WAL_BYTES, self.share) - batch_bytes) // PAGE_BYTES
        return max(CHECKPOINT_PAGES_MIN, min(CHECKPOINT_PAGES, fitting))

    def keep(self) -> None:
        """Complete the reserve after writes, unless that was done a moment ago and no checkpoint has dropped it."""
        if self.low or boot_nanos() - self.seen >= AGAIN_NANOS or self.is_dropped():
            self.hold()

    def is_dropped(self) -> bool:
        """Whether the database has no blocks behind its end: SQLite truncates it when it checkpoints the WAL."""
        found = os.fstat(self.handle)
        return self.holds and found.st_blocks * BLOCK_BYTES <= found.st_size

    def refusal(self, key: Key) -> FullError:
        """The error for an object that would use the reserve."""
        return FullError(
            f"{key}: not stored, because the disk of {self.path} is full but for a reserve that is kept for the "
            "database; delete objects or files that are not needed, and check the disk and its free space"
        )

    def hold(self) -> None:
        """Allocate what is missing of the reserve, or as much as there is room for."""
        self.seen = boot_nanos()
        # The WAL first: free pages of the database can replace the blocks behind its end, but nothing replaces the WAL.
        held = self.hold_wal()
        found = os.fstat(self.handle)
        wanted = min(DATABASE_BYTES, self.share) - self.free
        # Small files beside the database need a little, too.
        possible = found.st_blocks * BLOCK_BYTES - found.st_size + max(0, room(self.handle) - FILES_BYTES)
        held = allocated(self.handle, found.st_size, min(wanted, possible)) and possible >= wanted and held
        if held == self.low:
            what = "has room again" if held else "is full up to the reserve, rejecting new objects"
            LOG.warning("store: the disk %s file=%s", what, self.path)
        self.low = not held
        after = os.fstat(self.handle)
        self.holds = after.st_blocks * BLOCK_BYTES > after.st_size
        if held and room(self.handle) > self.margin:
            self.hold_start()

    def hold_wal(self) -> bool:
        """Allocate the WAL; False if there is no room for all of it."""
        # There may be none yet; SQLite locks nothing in it.
        with contextlib.suppress(OSError):
            wal = os.open(f"{self.path}-wal", os.O_RDWR | os.O_CLOEXEC)
            try:
                return allocated(wal, 0, min(WAL_BYTES, self.share))
            finally:
                os.close(wal)
        return True

    def hold_start(self) -> None:
        """Allocate the space for the next start, or as much as there is room for."""
        size = min(START_BYTES, 2 * self.share)
        with contextlib.suppress(OSError):
            file = os.open(f"{self.path}{START}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(file).st_size < size:
                    allocated(file, 0, size, mode=0)
            finally:
                os.close(file)

    def close(self) -> None:
        """Close the file, after SQLite has, and keep the space of its WAL for the next start."""
        self.hold_start()
        os.close(self.handle)


def share(handle: int) -> int:
    """The most that each part of the reserve takes of the disk of an open file."""
    disk = os.fstatvfs(handle)
    return disk.f_blocks * disk.f_frsize // DISK_SHARE


def room(handle: int) -> int:
    """How many bytes this process can still allocate on the disk of an open file."""
    disk = os.fstatvfs(handle)
    return (disk.f_bavail if os.geteuid() else disk.f_bfree) * disk.f_frsize


def release_half(path: Path) -> None:
    """If the disk is full, release a half of the space that is kept for a start; opening the database needs some."""
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            short = room(folder) < min(MARGIN_BYTES, share(folder))
        finally:
            os.close(folder)
        if short:
            release(path, os.stat(f"{path}{START}").st_size // 2)


def release(path: Path, size: int) -> None:
    """Reduce the space that is kept for a start to this size."""
    with contextlib.suppress(OSError):
        os.truncate(f"{path}{START}", size)


def allocated(handle: int, start: int, size: int, mode: int = KEEP_SIZE) -> bool:
    """Allocate a range of a file, or as much as there is room for; False if not all of it. The file keeps its size."""
    allocate = getattr(LIBC, "fallocate64", None)
    if allocate is None or size < PIECE_BYTES:
        return True
    complete = True
    while size >= PIECE_BYTES:
        if allocate(handle, mode, ctypes.c_int64(start), ctypes.c_int64(size)) == 0:
            if complete:
                return True
            start += size
        elif ctypes.get_errno() not in FULL:
            # Some file systems cannot do this; there is no reserve on them.
            return True
        complete = False
        size //= 2
    return False
