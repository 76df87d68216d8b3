"""HTTP/1.1 responses, parsed incrementally from pieces of any size."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

HEAD_MAX: Final = 64 * 1024
LINE_MAX: Final = 4 * 1024
"""The most bytes of a line before a chunk, or of a trailer line."""
BLANK: Final = b"\r\n\r\n"
BREAK: Final = b"\r\n"
BODILESS: Final = (204, 304)


class MalformedError(Exception):
    """The bytes are not an HTTP/1.1 response."""


class Part(Enum):
    """The part that is parsed next."""

    HEAD = auto()
    BODY = auto()
    REST = auto()
    """The body, until the connection ends."""
    SIZE = auto()
    CHUNK = auto()
    BREAK = auto()
    """The line break after a chunk."""
    TRAILER = auto()
    END = auto()


class Answer:
    """One response as far as it has arrived; `take` is called with each piece of the body."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.take = take
        self.status = 0
        """The status code; 0 until the head is complete."""
        self.headers: dict[bytes, bytes] = {}
        """By name in lower case."""
        self.part = Part.HEAD
        self.left = 0
        """Bytes that are missing of the body or chunk."""
        self.kept = b""
        """An incomplete line or head."""
        self.lasts = True
        """Whether the connection can be reused afterwards."""

    @property
    def complete(self) -> bool:
        """Whether the response is complete."""
        return self.part is Part.END

    def feed(self, data: bytes) -> None:
        """Parse more bytes."""
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
                # A response without a request.
                raise MalformedError(f"{size - at} surplus bytes")
            elif part is Part.SIZE and (after := self.whole_chunks(data, at)) > at:
                at = after
            else:
                ends = BLANK if part is Part.HEAD else BREAK
                end = data.find(ends, at)
                if end < 0:
                    self.kept = data[at:]
                    if len(self.kept) > (HEAD_MAX if part is Part.HEAD else LINE_MAX):
                        raise MalformedError("a line is too long")
                    return
                self.line(part, data[at:end])
                at = end + len(ends)

    def whole_chunks(self, data: bytes, at: int) -> int:
        """Parse complete chunks; returns the position of the first that is incomplete or the last.

        The step-by-step parser could do this too; most of a watch takes this path, in a third of the time.
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
        """Handle the end of the connection; returns whether the response is complete."""
        if self.part is Part.REST:
            self.part = Part.END
        return self.complete

    def line(self, part: Part, line: bytes) -> None:
        """Parse the head, or a line between chunks."""
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
        """Parse the status line and the headers."""
        first, *lines = head.split(BREAK)
        version, _, rest = first.partition(b" ")
        code = rest[:3]
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or len(code) < 3 or not code.isdigit():
            raise MalformedError(f"{first[:40]!r} is not a status line")
        status = int(code)
        if status < 200:
            # An interim response; we never ask to switch protocols.
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
        """Determine how the body ends."""
        if status in BODILESS:
            return Part.END
        if b"chunked" in self.headers.get(b"transfer-encoding", b"").lower():
            return Part.SIZE
        length = self.headers.get(b"content-length")
        if length is None:
            self.lasts = False
            return Part.REST
        if not length.isdigit():
            raise MalformedError(f"{length[:40]!r} is not a length")
        self.left = int(length)
        return Part.BODY if self.left else Part.END


def size_of(line: bytes) -> int:
    """The size in the line before a chunk."""
    digits = line.partition(b";")[0].strip()
    # Python's int() accepts signs and underscores, which are not allowed here.
    if not digits.isalnum():
        raise MalformedError(f"{line[:40]!r} is not a chunk size")
    try:
        return int(digits, 16)
    except ValueError:
        raise MalformedError(f"{line[:40]!r} is not a chunk size") from None
