"""What does the server say on the wire? Answers of HTTP/1.1, read as their bytes come, in pieces of any size."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

HEAD_MAX: Final = 64 * 1024
LINE_MAX: Final = 4 * 1024
"""Bytes of the line before a chunk, or of a line after the last one."""
BLANK: Final = b"\r\n\r\n"
BREAK: Final = b"\r\n"
BODILESS: Final = (204, 304)


class MalformedError(Exception):
    """Bytes that are no answer of HTTP/1.1."""


class Part(Enum):
    """What is read next."""

    HEAD = auto()
    BODY = auto()
    REST = auto()
    """The body, to the end of the connection."""
    SIZE = auto()
    CHUNK = auto()
    BREAK = auto()
    """The line break after a chunk."""
    TRAILER = auto()
    END = auto()


class Answer:
    """One answer as far as it has come; `take` is handed the body piece by piece."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.take = take
        self.status = 0
        """The code; 0 until the head is complete."""
        self.headers: dict[bytes, bytes] = {}
        """By their names in lower case."""
        self.part = Part.HEAD
        self.left = 0
        """Bytes that are missing of the body or chunk."""
        self.kept = b""
        """The beginning of a line, or of the head, that is not complete yet."""
        self.lasts = True
        """Whether the connection can be used again afterwards."""

    @property
    def complete(self) -> bool:
        """Whether all of it has come."""
        return self.part is Part.END

    def feed(self, data: bytes) -> None:
        """Read on."""
        if self.kept:
            data = self.kept + data
            self.kept = b""
        at, size = 0, len(data)
        while at < size:
            part = self.part
            if part is Part.CHUNK or part is Part.BODY:
                end = min(size, at + self.left)
                self.take(data[at:end])
                self.left -= end - at
                at = end
                if not self.left:
                    self.part = Part.BREAK if part is Part.CHUNK else Part.END
            elif part is Part.REST:
                self.take(data[at:])
                return
            elif part is Part.END:
                # An answer that nobody has asked for.
                raise MalformedError(f"{size - at} bytes too many")
            elif part is Part.SIZE and (after := self.whole_chunks(data, at)) > at:
                at = after
            else:
                ends = BLANK if part is Part.HEAD else BREAK
                end = data.find(ends, at)
                if end < 0:
                    self.kept = data[at:]
                    if len(self.kept) > (HEAD_MAX if part is Part.HEAD else LINE_MAX):
                        raise MalformedError("a line without an end")
                    return
                self.line(part, data[at:end])
                at = end + len(ends)

    def whole_chunks(self, data: bytes, at: int) -> int:
        """Read chunks as long as they are there as a whole; where the first one begins that is not, or is the last.

        Everything here can be read in single steps too; this is what most of a watch is, in a third of the time.
        """
        while (end := data.find(BREAK, at)) >= 0:
            begin = end + 2
            stop = begin + size_of(data[at:end])
            if stop == begin or data[stop : stop + 2] != BREAK:
                break
            self.take(data[begin:stop])
            at = stop + 2
        return at

    def finish(self) -> bool:
        """The connection has ended: whether the answer is complete."""
        if self.part is Part.REST:
            self.part = Part.END
        return self.complete

    def line(self, part: Part, line: bytes) -> None:
        """Take in the head, or a line between chunks."""
        if part is Part.HEAD:
            self.head(line)
        elif part is Part.SIZE:
            self.left = size_of(line)
            self.part = Part.CHUNK if self.left else Part.TRAILER
        elif part is Part.BREAK:
            if line:
                raise MalformedError("a chunk is longer than it says")
            self.part = Part.SIZE
        elif not line:
            self.part = Part.END

    def head(self, head: bytes) -> None:
        """Take in status and headers."""
        first, *lines = head.split(BREAK)
        version, _, rest = first.partition(b" ")
        code = rest[:3]
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or len(code) < 3 or not code.isdigit():
            raise MalformedError(f"{first[:40]!r} does not begin an answer")
        status = int(code)
        if status < 200:
            # The real answer is still to come; nothing that we send asks to switch protocols.
            return
        headers = self.headers
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        self.status = status
        said = headers.get(b"connection", b"").lower()
        self.lasts = b"close" not in said if version == b"HTTP/1.1" else b"keep-alive" in said
        self.part = self.measure(status)

    def measure(self, status: int) -> Part:
        """How the end of the body is found."""
        if status in BODILESS:
            return Part.END
        if b"chunked" in self.headers.get(b"transfer-encoding", b"").lower():
            return Part.SIZE
        length = self.headers.get(b"content-length")
        if length is None:
            self.lasts = False
            return Part.REST
        if not length.isdigit():
            raise MalformedError(f"{length[:40]!r} is no length")
        self.left = int(length)
        return Part.BODY if self.left else Part.END


def size_of(line: bytes) -> int:
    """The size that the line before a chunk names."""
    digits = line.partition(b";")[0].strip()
    # Signs and underscores, which Python would take for part of a number, are none here.
    if not digits.isalnum():
        raise MalformedError(f"{line[:40]!r} is no size of a chunk")
    try:
        return int(digits, 16)
    except ValueError:
        raise MalformedError(f"{line[:40]!r} is no size of a chunk") from None
