"""The journal's file, with rotation; each file can be replayed by itself."""

import os
from pathlib import Path
from typing import BinaryIO, Final

FULL: Final = 64 * 1024 * 1024
KEPT: Final = 4
"""How many full files are kept beside the current one."""


class JournalFile:
    """The current file of lines, and the rotated ones."""

    def __init__(self, path: Path, *, full: int = FULL, kept: int = KEPT) -> None:
        self.path = path
        self.full = full
        self.kept = kept
        self.size = 0
        self.opening = 0
        """The size of the snapshot at its beginning."""
        self.file: BinaryIO | None = None

    @property
    def is_full(self) -> bool:
        """Whether to begin another file."""
        return self.size - self.opening >= max(self.full, self.opening)

    def opened(self) -> None:
        """Mark the end of the snapshot at the beginning of the file."""
        self.opening = self.size

    def begin(self) -> None:
        """Rotate the current file, and open a new one that only its owner can read."""
        self.close()
        for number in range(self.kept, 0, -1):
            older = self.path if number == 1 else self.aside(number - 1)
            if older.exists():
                older.replace(self.aside(number))
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self.file = os.fdopen(handle, "wb", buffering=1 << 16)
        self.size = 0

    def aside(self, number: int) -> Path:
        """The path of a rotated file, by its age."""
        return self.path.with_name(f"{self.path.name}.{number}")

    def write(self, line: bytes) -> None:
        """Add a line."""
        if self.file is None:
            self.begin()
        assert self.file is not None, "begin opens the file"
        self.file.write(line)
        self.size += len(line)

    def flush(self) -> None:
        """Flush to the operating system."""
        if self.file is not None:
            self.file.flush()

    def close(self) -> None:
        """Flush and close."""
        if self.file is not None:
            self.file.close()
            self.file = None
