"""How far the `pykueue run` that started a job has read its output, and whether it is still connected.

A job that a `run` follows waits when it prints faster than that `run` reads, so that no output is removed unread. The
job's supervisor creates the file; the server updates it only for a reader that knows the secret of that `run`. So only
the creator of a job can make the job wait. The file holds the hash of the secret, the position up to which the log was
read, and when the reader was last known to be connected:

    SHA256 POSITION SECONDS
"""

import os
from typing import Final, NamedTuple

from pykueue.base.boottime import boot_nanos

ANNOTATION: Final = "pykueue.io/follower"
"""The pod annotation with the hash of the secret of the `run` that follows it."""
FILE: Final = "follower"
GRACE_SECONDS: Final = 30.0
"""How long a job waits for its `run` to reconnect."""
DIGITS: Final = frozenset("0123456789abcdef")
DIGEST: Final = 64


class Follower(NamedTuple):
    """The state of the `run` that follows a job."""

    digest: str
    position: int
    """Everything before this position of the log was read."""
    seconds: float
    """When it was last connected, in seconds since boot."""


def digest_of(secret: str) -> str:
    """The hash of a secret."""
    # Supervisors never need it, and import as little as possible.
    import hashlib

    return hashlib.sha256(secret.encode()).hexdigest()


def boot_seconds() -> float:
    """Seconds since boot: the same for the server and for supervisors, whatever the date is."""
    return boot_nanos() / 1e9


def read_follower(folder: str | os.PathLike[str]) -> Follower | None:
    """The follower of an attempt; None if it has none."""
    try:
        with open(os.path.join(folder, FILE), encoding="ascii") as file:
            digest, position, seconds = file.read(200).split()
        return Follower(digest, int(position), float(seconds))
    except (OSError, ValueError):
        return None


def write(folder: str | os.PathLike[str], known: Follower) -> None:
    """Replace the file of an attempt's follower atomically."""
    path = os.path.join(folder, FILE)
    with open(f"{path}.new", "w", encoding="ascii") as file:
        file.write(f"{known.digest} {known.position} {known.seconds:.3f}\n")
    os.replace(f"{path}.new", path)


def connected(folder: str | os.PathLike[str], secret: str, position: int = 0) -> bool:
    """Record that the follower of an attempt is connected and has read this far; False if the secret is wrong."""
    known = read_follower(folder)
    if known is None or known.digest != digest_of(secret):
        return False
    write(folder, Follower(known.digest, max(known.position, position), boot_seconds()))
    return True


class Gate:
    """Decides when a supervisor has to wait for the follower of its attempt."""

    def __init__(self, folder: str, digest: str, grace: float) -> None:
        self.folder = folder
        self.grace = grace
        self.position = 0
        """How far the follower is known to have read."""
        # A client wrote the annotation.
        self.follows = len(digest) == DIGEST and DIGITS.issuperset(digest)
        if self.follows:
            # The first connection may take as long as a reconnection.
            write(folder, Follower(digest, 0, boot_seconds()))

    def closed(self, position: int) -> bool:
        """Whether the follower is connected and has not read up to this position yet."""
        if not self.follows or position <= self.position:
            return False
        known = read_follower(self.folder)
        if known is None:
            return False
        self.position = known.position
        return position > known.position and boot_seconds() - known.seconds < self.grace
