"""Read the output of containers for `kubectl logs` and `pykueue run`.

Files are read in bounded pieces and in a thread, so that the event loop never waits for a log.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.trees import mappings, text
from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, micro_time
from pykueue.kube.logs import LogError, LogPart, LogQuery
from pykueue.node import attempts
from pykueue.node.supervision import followers
from pykueue.node.supervision.logfiles import SUFFIX, Record, Records, lost_line

BLOCK: Final = 1 << 18
PART_BYTES: Final = 1 << 20
"""The most bytes in one response to a reader by position."""
LAST_LINES: Final = 80
LAST_BYTES: Final = 2048
LAST_WINDOW: Final = 1 << 16
LOOK_MICROS: Final = 100_000
"""How often a followed log is read."""
WAIT_MICROS: Final = 20 * MICROS
"""How long a reader by position waits for more output before it gets an empty response."""
START_MICROS: Final = 10 * MICROS
"""How long a request to follow waits for a container that is being created."""
HOLD_MICROS: Final = 2 * MICROS
"""How often the presence of a follower is recorded."""
HELD_SECONDS: Final = 10.0
"""After this long without a sign of it, a follower counts as gone, and the output of a deleted pod is removed."""
RECORD_HEAD: Final = re.compile(rb"[-0-9]{10}T[:0-9]{8}\.[0-9]{9}Z std(?:out|err) [0-9]{15} [0-9]{7}\n")


class Cut:
    """Selects the requested output from the records of a log."""

    def __init__(self, asked: LogQuery) -> None:
        self.timestamps = asked.timestamps
        self.since = b"" if asked.since is None else (micro_time(asked.since)[:-1] + "000Z").encode()
        self.left = asked.limit_bytes
        """How much may still be returned; None is unlimited."""
        self.inside = False
        """Whether the next byte continues a line whose beginning was returned or skipped."""
        self.passing = False
        """Whether that line is skipped."""
        self.expected = 0 if asked.tail is None and asked.since is None else None
        """How many bytes of output should precede the next record; None if unknown."""

    def take(self, record: Record) -> bytes:
        """The requested part of the next record."""
        found, data = b"", record.data
        if self.expected is not None and record.printed > self.expected:
            found = lost_line(record.printed - self.expected, inside=self.inside)
            self.inside = False
        self.expected = record.printed + len(data)
        if self.inside:
            end = data.find(b"\n") + 1 or len(data)
            self.inside = data[end - 1] != ord("\n")
            found, data = (b"" if self.passing else data[:end]), data[end:]
        if data:
            self.inside = data[-1] != ord("\n")
            self.passing = record.stamp[:-1] < self.since
            found += b"" if self.passing else self.stamped(record.stamp, data)
        if self.left is not None:
            found = found[: self.left]
            self.left -= len(found)
        return found

    def stamped(self, stamp: bytes, data: bytes) -> bytes:
        """Some lines, with timestamps if requested."""
        if not self.timestamps:
            return data
        ends = data.endswith(b"\n")
        return stamp + (data[:-1] if ends else data).replace(b"\n", b"\n" + stamp) + (b"\n" if ends else b"")


class Reader:
    """Reads the log of one attempt from its beginning to its present end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.position = 0
        self.skip = 0
        """Bytes of output to skip in the next record."""
        self.records = Records()

    def read(self) -> list[Record]:
        """The next records; empty if nothing is new."""
        while True:
            position, data = read_part(self.folder, self.position, BLOCK)
            if position != self.position:
                self.records = Records()
            self.position = position + len(data)
            found = list(self.records.feed(data))
            if self.skip and found:
                first = found[0]
                left_out, self.skip = self.skip, 0
                shorter = Record(first.stamp, first.stream, first.printed + left_out, first.data[left_out:])
                found[:1] = [shorter] if shorter.data else []
            if found or not data:
                return found

    def cut(self, cut: Cut) -> bytes | None:
        """The requested part of the next records; None if there are none now."""
        found = self.read()
        return b"".join([cut.take(one) for one in found]) if found else None

    def skip_to_tail(self, lines: int, end: int) -> None:
        """Skip to the last lines before a position."""
        if lines == 0:
            self.position = end
            return
        newlines: int | None = None
        for begin in reversed(begins(self.folder)):
            for position, printed in reversed(whole_file(self.folder, begin, end)):
                if newlines is None:
                    # The newline that ends the last line does not begin another.
                    newlines = -1 if printed.endswith(b"\n") else 0
                newlines += printed.count(b"\n")
                self.position = position
                if newlines >= lines:
                    at = -1
                    for _ in range(newlines - lines + 1):
                        at = printed.index(b"\n", at + 1)
                    self.skip = at + 1
                    return


def begins(folder: Path) -> list[int]:
    """The positions at which the files of a log begin, in order."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    size = len(SUFFIX)
    return sorted(int(name[:-size]) for name in names if name.endswith(SUFFIX) and name[:-size].isdecimal())


def log_end(folder: Path) -> int:
    """The position at which a log ends now."""
    for begin in reversed(begins(folder)):
        try:
            return begin + (folder / f"{begin}{SUFFIX}").stat().st_size
        except FileNotFoundError:
            continue
    return 0


def read_part(folder: Path, position: int, most: int) -> tuple[int, bytes]:
    """A part of a log from a position on, or from the oldest that is kept; and where that part begins."""
    while known := begins(folder):
        begin = max((one for one in known if one <= position), default=known[0])
        start = max(begin, position)
        try:
            with open(folder / f"{begin}{SUFFIX}", "rb", buffering=0) as file:
                file.seek(start - begin)
                return start, file.read(most)
        except FileNotFoundError:
            # It was the oldest file, and was just removed.
            continue
    return position, b""


def whole_file(folder: Path, begin: int, end: int) -> list[tuple[int, bytes]]:
    """The records of one log file up to the present end, each with its position and output."""
    position, data = read_part(folder, begin, max(0, end - begin))
    if position != begin:
        return []
    found, at = [], 0
    while head := RECORD_HEAD.match(data, at):
        at = head.end() + int(data[head.end() - 8 : head.end() - 1])
        if printed := data[head.end() : at]:
            found.append((begin + head.start(), printed))
    return found


class ContainerLogs:
    """The output of the containers of this machine; a `LogSource`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self.clock = clock
        self.hold_micros = HOLD_MICROS
        self.connected: dict[str, float] = {}
        """By the uid of a pod: when its follower was last known to be connected, in seconds since boot."""

    async def stream(self, pod: Tree, asked: LogQuery) -> AsyncIterator[bytes]:
        """The output in pieces; with `follow` until the container has ended."""
        key = await self.started(pod, asked) if asked.follow else self.key(pod, asked)
        if asked.hold:
            return self.hold(key, asked.secret)
        # A container without output has no files.
        return self.pieces(key, asked) if key else nothing()

    async def started(self, pod: Tree, asked: LogQuery) -> str:
        """The attempt to follow. `kubectl logs -f job/…` asks as soon as the pod exists, so its start is waited for."""
        until = self.clock.moment() + START_MICROS
        while True:
            try:
                return self.key(pod, asked)
            except LogError:
                if waiting_reason(pod, asked.container) != "ContainerCreating" or self.clock.moment() >= until:
                    raise
            await self.clock.sleep(LOOK_MICROS)

    def key(self, pod: Tree, asked: LogQuery) -> str:
        """The attempt whose output is requested; empty if the container has ended without any."""
        uid, name = text(pod, "metadata", "uid"), text(pod, "metadata", "name")
        try:
            known = attempts.numbers(self.folder, uid, asked.container)
        except ValueError as error:
            # For a deleted pod, the follower names the container.
            raise LogError(str(error)) from error
        # The record is empty for a moment after its creation; such an attempt has not started.
        keys = {number: attempts.key_of(uid, asked.container, number) for number in known}
        known = [number for number, key in keys.items() if attempts.read_attempt(self.folder, key) is not None]
        if asked.previous:
            if len(known) < 2:
                raise LogError(f'previous terminated container "{asked.container}" in pod "{name}" not found')
            known.pop()
        if not known and (reason := waiting_reason(pod, asked.container)):
            raise LogError(f'container "{asked.container}" in pod "{name}" is waiting to start: {reason}')
        return attempts.key_of(uid, asked.container, known[-1]) if known else ""

    async def pieces(self, key: str, asked: LogQuery) -> AsyncIterator[bytes]:
        """The output of one attempt."""
        reader, cut = Reader(self.folder / key), Cut(asked)
        end = await asyncio.to_thread(log_end, reader.folder)
        if asked.tail is not None:
            await asyncio.to_thread(reader.skip_to_tail, asked.tail, end)
        while True:
            # Checked before reading: output from before the end is then read after this check.
            ended = self.over(key)
            while asked.follow or reader.position < end:
                piece = await asyncio.to_thread(reader.cut, cut)
                if piece is None:
                    break
                for at in range(0, len(piece), BLOCK):
                    # With timestamps, the result may be many times larger than what was read.
                    yield piece[at : at + BLOCK]
                    await asyncio.sleep(0)
                if cut.left == 0:
                    return
            if ended or not asked.follow:
                return
            await self.clock.sleep(LOOK_MICROS)

    async def part(self, pod: Tree, asked: LogQuery) -> LogPart:
        """The log from a position on, up to one response; with `follow`, waits a while if there is nothing yet."""
        key, position = self.key(pod, asked), asked.position or 0
        end = await asyncio.to_thread(log_end, self.folder / key) if key and not position else None
        if asked.secret and key:
            self.note(key, asked.secret, position)
        until = self.clock.moment() + WAIT_MICROS
        while True:
            ended = not key or self.over(key)
            start, data = await asyncio.to_thread(read_part, self.folder / key, position, PART_BYTES)
            if ended and position and not data and not begins(self.folder / key):
                raise LogError("the output of this container is no longer kept", gone=True)
            if data or ended or not asked.follow or self.clock.moment() >= until:
                return LogPart(start, data, ended and not data, end)
            await self.clock.sleep(LOOK_MICROS)

    async def hold(self, key: str, secret: str) -> AsyncIterator[bytes]:
        """An empty stream: as long as it is read, the job waits for this follower, and its output is kept."""
        pieces: tuple[bytes, ...] = ()
        try:
            while self.note(key, secret):
                for piece in pieces:
                    yield piece
                await self.clock.sleep(self.hold_micros)
        finally:
            self.note(key, secret)

    def note(self, key: str, secret: str, position: int = 0) -> bool:
        """Record that the follower of an attempt is connected and has read this far; False if the secret is wrong."""
        known = followers.connected(self.folder / key, secret, position)
        if known:
            now = followers.boot_seconds()
            self.connected = {uid: when for uid, when in self.connected.items() if now - when < HELD_SECONDS}
            self.connected[key.partition("/")[0]] = now
        return known

    def follows(self, uid: str, secret: str) -> bool:
        """Whether this is the secret of the follower of a pod's output."""
        digest = followers.digest_of(secret)
        if attempts.UID.fullmatch(uid) is None:
            return False
        keys = [
            attempts.key_of(uid, container, number)
            for container in attempts.containers(self.folder, uid)
            for number in attempts.numbers(self.folder, uid, container)
        ]
        known = [followers.read_follower(self.folder / key) for key in keys]
        return any(one is not None and one.digest == digest for one in known)

    def held(self, uid: str) -> bool:
        """Whether the follower of a pod's output is connected."""
        return followers.boot_seconds() - self.connected.get(uid, -HELD_SECONDS) < HELD_SECONDS

    def over(self, key: str) -> bool:
        """Whether an attempt has no more output."""
        attempt = attempts.read_attempt(self.folder, key)
        return attempt is None or attempt.over or attempts.abandoned(attempt)


def last_output(folder: Path, key: str) -> str:
    """The end of an attempt's output, as much as a status may hold."""
    end = log_end(folder / key)
    position, data = max(0, end - LAST_WINDOW), b""
    while position < end and (part := read_part(folder / key, position, end - position))[1]:
        position, data = part[0] + len(part[1]), data + part[1]
    first = RECORD_HEAD.search(data)
    # Search backwards for headers, since counting would need the whole file.
    words = RECORD_HEAD.sub(b"", data[first.start() :] if first else data)
    return b"".join(words.splitlines(keepends=True)[-LAST_LINES:])[-LAST_BYTES:].decode(errors="replace")


async def nothing() -> AsyncIterator[bytes]:
    """An empty stream."""
    pieces: tuple[bytes, ...] = ()
    for piece in pieces:
        yield piece


def waiting_reason(pod: Tree, container: str) -> str:
    """Why a container has not started; empty if it has."""
    for field in ("containerStatuses", "initContainerStatuses"):
        for _, status in mappings(pod, "status", field):
            if text(status, "name") == container:
                return text(status, "state", "waiting", "reason")
    over = text(pod, "status", "phase") in ("Succeeded", "Failed")
    return "" if over else "ContainerCreating"
