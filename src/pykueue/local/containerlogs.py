"""What did a container print? Its log files, read as `kubectl logs` asks for them."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.trees import mappings, text
from pykueue.base.clock import Clock
from pykueue.base.units import Instant, micro_time
from pykueue.local import attempts
from pykueue.local.logfiles import STAMP
from pykueue.local.logs import LogQuery
from pykueue.local.statuses import bad_request

BLOCK: Final = 1 << 18
LAST_LINES: Final = 80
LAST_BYTES: Final = 2048
LOOK_MICROS: Final = 100_000
"""How often a log that is followed is looked at."""


class Cut:
    """Takes the lines that are wanted out of what the files hold, which comes in pieces of any size."""

    def __init__(self, asked: LogQuery) -> None:
        self.timestamps = asked.timestamps
        self.since = b"" if asked.since is None else (micro_time(asked.since)[:-1] + "000Z").encode()
        self.left = asked.limit_bytes
        """How much may still be given; None: anything."""
        self.rest = b""
        """The beginning of a line, too short to know its time."""
        self.inside = False
        """Whether the next byte goes on with a line whose beginning was given or passed over."""
        self.passing = False
        """Whether that line is passed over."""

    def take(self, data: bytes) -> bytes:
        """What is wanted of the next piece."""
        *lines, last = (self.rest + data).split(b"\n")
        self.rest = b""
        wanted = [part for line in lines if (part := self.line(line, b"\n")) is not None]
        if last:
            if self.inside or len(last) >= STAMP:
                part = self.line(last, b"")
                wanted.append(part or b"")
                self.inside = True
            else:
                self.rest = last
        found = b"".join(wanted)
        if self.left is not None:
            found = found[: self.left]
            self.left -= len(found)
        return found

    def line(self, line: bytes, end: bytes) -> bytes | None:
        """A line, or the part of it that came, as it is given; None if it is passed over."""
        if not self.inside:
            self.passing = line[: STAMP - 1] < self.since
            if not self.timestamps:
                line = line[STAMP:]
        self.inside = False
        return None if self.passing else line + end


class Reader:
    """Reads the files of one attempt, the oldest first, as far as they go now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = -1
        self.offset = 0

    def files(self) -> list[int]:
        """The files that there are, in order."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        return sorted(int(name[:-4]) for name in names if name.endswith(".log") and name[:-4].isdecimal())

    def blocks(self) -> Iterator[bytes]:
        """What has come since the last call."""
        for number in self.files():
            if number < self.number:
                continue
            if number > self.number:
                self.number, self.offset = number, 0
            try:
                with open(self.folder / f"{number}.log", "rb") as file:
                    file.seek(self.offset)
                    while block := file.read(BLOCK):
                        self.offset += len(block)
                        yield block
            except FileNotFoundError:
                # The oldest file was removed while we read: that part is lost to us.
                continue

    def skip_to_tail(self, lines: int) -> None:
        """Go to where only so many lines are left."""
        files = self.files()
        if not files:
            return
        wanted = lines
        for number in reversed(files):
            path = self.folder / f"{number}.log"
            try:
                found = tail_offset(path, wanted)
            except FileNotFoundError:
                break
            self.number, self.offset, wanted = number, found[0], wanted - found[1]
            if wanted <= 0:
                break


def tail_offset(path: Path, lines: int) -> tuple[int, int]:
    """Where the last so many lines of a file begin, and how many of them it has; a last line may lack its end."""
    with open(path, "rb") as file:
        size = position = file.seek(0, os.SEEK_END)
        if size == 0 or lines == 0:
            return size, 0
        file.seek(size - 1)
        # The newline that ends the last line begins none.
        newlines = -1 if file.read(1) == b"\n" else 0
        while position > 0:
            step = min(BLOCK, position)
            position -= step
            file.seek(position)
            block = file.read(step)
            within = block.count(b"\n")
            if newlines + within < lines:
                newlines += within
                continue
            at = len(block)
            while newlines < lines:
                at = block.rindex(b"\n", 0, at)
                newlines += 1
            return position + at + 1, lines
        return 0, newlines + 1


class ContainerLogs:
    """Has the output of the containers of this machine; a `LogSource`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self.clock = clock

    async def stream(self, pod: Tree, asked: LogQuery) -> AsyncIterator[bytes]:
        """The output in pieces; with `follow` until the container has ended."""
        uid, name = text(pod, "metadata", "uid"), text(pod, "metadata", "name")
        known = attempts.numbers(self.folder, uid, asked.container)
        known = [
            number for number in known if attempts.claimed(self.folder, attempts.key_of(uid, asked.container, number))
        ]
        if asked.previous:
            if len(known) < 2:
                raise bad_request(f'previous terminated container "{asked.container}" in pod "{name}" not found')
            known.pop()
        if not known and (reason := waiting_reason(pod, asked.container)):
            raise bad_request(f'container "{asked.container}" in pod "{name}" is waiting to start: {reason}')
        if not known:
            # What printed nothing leaves nothing behind.
            return nothing()
        key = attempts.key_of(uid, asked.container, known[-1])
        return self.pieces(key, asked)

    async def pieces(self, key: str, asked: LogQuery) -> AsyncIterator[bytes]:
        """The output of one attempt."""
        reader = Reader(self.folder / key)
        cut = Cut(asked)
        if asked.tail is not None:
            reader.skip_to_tail(asked.tail)
        while True:
            # Asked before the files are read: what comes before the end is then read after it.
            ended = not asked.follow or self.over(key)
            for block in reader.blocks():
                piece = cut.take(block)
                if piece:
                    yield piece
                if cut.left == 0:
                    return
            if ended:
                return
            await self.clock.sleep_until(Instant(self.clock.now() + LOOK_MICROS))

    def over(self, key: str) -> bool:
        """Whether nothing more will come of an attempt."""
        attempt = attempts.read(self.folder, key)
        return attempt is None or attempt.over or attempts.abandoned(attempt)


def last_words(folder: Path, key: str) -> str:
    """The end of what an attempt printed, as much of it as a status may hold."""
    reader = Reader(folder / key)
    reader.skip_to_tail(LAST_LINES)
    cut = Cut(LogQuery(""))
    return b"".join(cut.take(block) for block in reader.blocks())[-LAST_BYTES:].decode(errors="replace")


async def nothing() -> AsyncIterator[bytes]:
    """No output."""
    pieces: tuple[bytes, ...] = ()
    for piece in pieces:
        yield piece


def waiting_reason(pod: Tree, container: str) -> str:
    """Why a container has not started; empty if it has, once."""
    for field in ("containerStatuses", "initContainerStatuses"):
        for _, status in mappings(pod, "status", field):
            if text(status, "name") == container:
                return text(status, "state", "waiting", "reason")
    over = text(pod, "status", "phase") in ("Succeeded", "Failed")
    return "" if over else "ContainerCreating"
