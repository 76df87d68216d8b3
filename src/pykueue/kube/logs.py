"""Container output: what a client may ask for, and who serves it."""

from collections.abc import AsyncIterator, Awaitable
from typing import Final, Protocol

from pykueue.api.core import Tree
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant

POSITION: Final = "pykueuePosition"
HOLD: Final = "pykueueHold"
SECRET: Final = "pykueueSecret"
POD_UID: Final = "pykueueUid"
"""Parameters of our own, which other servers ignore; an answer to the first has the header `PART_HEADER`."""
PART_HEADER: Final = "Pykueue-Log-Part"


class LogError(Exception):
    """Output that cannot be served; `gone` if it is no longer kept, otherwise the request is at fault."""

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


class LogQuery(Frozen):
    """Which part of a container's output is wanted."""

    container: str
    follow: bool = False
    previous: bool = False
    """Of the run before the present one."""
    timestamps: bool = False
    since: Instant | None = None
    tail: int | None = None
    limit_bytes: int | None = None
    position: int | None = None
    """Our own: the part of the log that begins there, as records (`logfiles`), which also says what was read."""
    hold: bool = False
    """Our own: no output, but the job waits for its follower as long as this is read."""
    secret: str = ""
    """Our own: what shows that the `run` that started the job is reading."""


class LogPart(Frozen):
    """A part of a log."""

    position: int
    """Where it begins: later than was asked for if that is no longer kept."""
    data: bytes
    ended: bool
    """Whether nothing more will come."""

    def body(self) -> bytes:
        """As it is sent, with a first line of fixed length."""
        return b"%020d %d\n%s" % (self.position, self.ended, self.data)


PART_HEAD: Final = len(b"00000000000000000000 0\n")


def part_of(body: bytes) -> LogPart:
    """A part of a log as it was sent."""
    position, ended = body[:PART_HEAD].split()
    return LogPart(int(position), body[PART_HEAD:], ended == b"1")


class LogSource(Protocol):
    """Who has the output of containers."""

    def stream(self, pod: Tree, asked: LogQuery) -> Awaitable[AsyncIterator[bytes]]:
        """The output in pieces of whole lines; with `follow` until the container has ended.

        A failure before the first piece is raised as a `LogError`.
        """

    def part(self, pod: Tree, asked: LogQuery) -> Awaitable[LogPart]:
        """The log from `position` on, up to the size of one response."""

    def follows(self, uid: str, secret: str) -> bool:
        """Whether this is the secret of the `run` that follows the output of the pod with this uid."""
