"""How does a test set the clocks of a process that runs? By Debian's `faketime`, or by a shim of our own.

Both are loaded into the process in front of the C library, and leave the clocks of everything else alone. `faketime`
sets the wall clock. The shim (`clockshim.c`) can also pretend a suspend: the wall clock and CLOCK_BOOTTIME go on, and
CLOCK_MONOTONIC does not.
"""

import functools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tests.lacking import lacking

SOURCE = Path(__file__).with_name("clockshim.c")
LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
NANOS = 1_000_000_000


class WallClock(Protocol):
    """The wall clock of a process."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What the process is to be started with."""

    def step(self, seconds: float) -> None:
        """Set it forward, or back where that is below zero."""


@functools.cache
def faketime() -> Path | None:
    """The library of Debian's faketime."""
    found = [path for folder in LIBRARIES for path in sorted(Path(folder).glob("**/faketime/libfaketime.so.1"))]
    return found[0] if found else None


@functools.cache
def shim() -> Path | None:
    """Our own library, compiled once for all tests of a process."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    made = Path(tempfile.mkdtemp(prefix="clockshim-")) / "clockshim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", made, SOURCE], check=True)
    return made


class FakeTime:
    """Debian's faketime."""

    def __init__(self, folder: Path) -> None:
        library = faketime()
        if library is None:
            lacking("faketime is not installed; as root: apt-get install faketime")
        self.file = folder / "faketime"
        self.seconds = 0.0
        self.step(0)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, seconds: float) -> None:
        self.seconds += seconds
        whole = self.file.with_suffix(".new")
        whole.write_text(f"{self.seconds:+}\n")
        whole.replace(self.file)


class Shim:
    """Our own library, which knows suspends too."""

    def __init__(self, folder: Path) -> None:
        library = shim()
        if library is None:
            lacking("there is no C compiler; as root: apt-get install gcc libc6-dev")
        self.file = folder / "clocks"
        self.file.write_bytes(struct.pack("=qq", 0, 0))
        self.moved = [0, 0]
        self.environment = {"LD_PRELOAD": str(library), "CLOCKSHIM_FILE": str(self.file)}

    def move(self, which: int, seconds: float) -> None:
        self.moved[which] += int(seconds * NANOS)
        with self.file.open("r+b") as file:
            os.pwrite(file.fileno(), struct.pack("=q", self.moved[which]), which * 8)

    def step(self, seconds: float) -> None:
        self.move(1, seconds)

    def suspend(self, seconds: float) -> None:
        """Have the machine be suspended for so long."""
        self.move(0, seconds)
