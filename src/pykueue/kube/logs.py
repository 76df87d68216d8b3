"""Container output: the query of a client, and the interface that serves it."""

from collections.abc import AsyncIterator, Awaitable
from typing import Final, Protocol

from pykueue.api.core import Tree
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant

POSITION: Final = "pykueuePosition"
HOLD: Final = "pykueueHold"
SECRET: Final = "pykueueSecret"
POD_UID: Final = "pykueueUid"
"""Parameters of our own, which other servers ignore; a response to the first has the header `PART_HEADER`."""
PART_HEADER: Final = "Pykueue-Log-Part"
END_HEADER: Final = "Pykueue-Log-End"
"""In a response with the beginning of a log: the position at which the log ends now."""


class LogError(Exception):
    """The output cannot be served; `gone` if it is no longer kept, otherwise the request is wrong."""

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


class LogQuery(Frozen):
    """Which part of a container's output is wanted."""

    container: str
    follow: bool = False
    previous: bool = False
    """The output of the previous run."""
    timestamps: bool = False
    since: Instant | None = None
    tail: int | None = None
    limit_bytes: int | None = None
    position: int | None = None
    """Our own: the part of the log from there on, as records (`logfiles`), which also acknowledges what was read."""
    hold: bool = False
    """Our own: no output, but the job waits for its follower as long as this stream is read."""
    secret: str = ""
    """Our own: proof that the reader is the `run` that started the job."""


class LogPart(Frozen):
    """A part of a log."""

    position: int
    """Where it begins: later than requested if that is no longer kept."""
    data: bytes
    ended: bool
    """Whether the log is complete."""
    end: int | None = None
    """Where the log ends now; only with its beginning, and not part of the body."""

    def body(self) -> bytes:
        """The wire format, with a first line of fixed length."""
        return b"%020d %d\n%s" % (self.position, self.ended, self.data)


PART_HEAD: Final = len(b"00000000000000000000 0\n")


def part_of(body: bytes) -> LogPart:
    """Decode a part of a log."""
    position, ended = body[:PART_HEAD].split()
    return LogPart(int(position), body[PART_HEAD:], ended == b"1")


class LogSource(Protocol):
    """The source of containers' output."""

    def stream(self, pod: Tree, asked: LogQuery) -> Awaitable[AsyncIterator[bytes]]:
        """The output in pieces of whole lines; with `follow` until the container has ended.

        A failure before the first piece is raised as a `LogError`.
        """

    def part(self, pod: Tree, asked: LogQuery) -> Awaitable[LogPart]:
        """The log from `position` on, up to the size of one response."""

    def follows(self, uid: str, secret: str) -> bool:
        """Whether this is the secret of the `run` that follows the output of the pod with this uid."""
