"""Where does the journal go? Into a file that is set aside when it is full; each file replays by itself."""

import os
from pathlib import Path
from typing import BinaryIO, Final

FULL: Final = 64 * 1024 * 1024
KEPT: Final = 4
"""How many full files are kept beside the current one."""


class JournalFile:
    """A file of lines, and those that were full before it."""

    def __init__(self, path: Path, *, full: int = FULL, kept: int = KEPT) -> None:
        self.path = path
        self.full = full
        self.kept = kept
        self.size = 0
        self.opening = 0
        """How much of it is the picture that it begins with."""
        self.file: BinaryIO | None = None

    @property
    def is_full(self) -> bool:
        """Whether it is time to begin another file."""
        return self.size - self.opening >= max(self.full, self.opening)

    def opened(self) -> None:
        """What is written so far is what the file begins with."""
        self.opening = self.size

    def begin(self) -> None:
        """Set the current file aside, and open a new one that only its owner can read."""
        self.close()
        for number in range(self.kept, 0, -1):
            older = self.path if number == 1 else self.aside(number - 1)
            if older.exists():
                older.replace(self.aside(number))
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self.file = os.fdopen(handle, "wb", buffering=1 << 16)
        self.size = 0

    def aside(self, number: int) -> Path:
        """Where the file goes that was full so many files ago."""
        return self.path.with_name(f"{self.path.name}.{number}")

    def write(self, line: bytes) -> None:
        """Add a line."""
        if self.file is None:
            self.begin()
        assert self.file is not None, "begin opens the file"
        self.file.write(line)
        self.size += len(line)

    def flush(self) -> None:
        """Hand everything to the operating system."""
        if self.file is not None:
            self.file.flush()

    def close(self) -> None:
        """Write out what is left."""
        if self.file is not None:
            self.file.close()
            self.file = None
