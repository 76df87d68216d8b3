"""How far has the `pykueue run` that started a job read its output, and is it still connected?

A job that was started by a `run` which follows it waits when it prints faster than that `run` reads, so that no output
is removed unread. The supervisor of the job makes the file; the server keeps it up to date for a reader that shows the
secret of that `run`, and for no other. So only the creator of a job can make the job wait. The file holds the hash of
the secret, the position up to which the log was read, and when the reader was last known to be connected:

    SHA256 POSITION SECONDS
"""

import os
from typing import Final, NamedTuple

from pykueue.base.boottime import boot_nanos

ANNOTATION: Final = "pykueue.io/follower"
"""On a pod: the hash of the secret of the `run` that follows it."""
FILE: Final = "follower"
GRACE_SECONDS: Final = 30.0
"""How long a job waits for its `run` to connect again."""
DIGITS: Final = frozenset("0123456789abcdef")
DIGEST: Final = 64


class Follower(NamedTuple):
    """What is known of the `run` that follows a job."""

    digest: str
    position: int
    """Everything before this position of the log was read."""
    seconds: float
    """When it was last connected, since the machine was booted."""


def digest_of(secret: str) -> str:
    """The hash of a secret."""
    # Supervisors never need it, and import as little as they can.
    import hashlib

    return hashlib.sha256(secret.encode()).hexdigest()


def boot_seconds() -> float:
    """The seconds since the machine was booted: the same for the server and for supervisors, whatever the date is."""
    return boot_nanos() / 1e9


def read_follower(folder: str | os.PathLike[str]) -> Follower | None:
    """What is known of the follower of an attempt; None if it has none."""
    try:
        with open(os.path.join(folder, FILE), encoding="ascii") as file:
            digest, position, seconds = file.read(200).split()
        return Follower(digest, int(position), float(seconds))
    except (OSError, ValueError):
        return None


def write(folder: str | os.PathLike[str], known: Follower) -> None:
    """Write down what is known of the follower of an attempt, in one step."""
    path = os.path.join(folder, FILE)
    with open(f"{path}.new", "w", encoding="ascii") as file:
        file.write(f"{known.digest} {known.position} {known.seconds:.3f}\n")
    os.replace(f"{path}.new", path)


def connected(folder: str | os.PathLike[str], secret: str, position: int = 0) -> bool:
    """Note that the follower of an attempt is connected and has read so far; False if this is not its secret."""
    known = read_follower(folder)
    if known is None or known.digest != digest_of(secret):
        return False
    write(folder, Follower(known.digest, max(known.position, position), boot_seconds()))
    return True


class Gate:
    """Says when a supervisor has to wait for the follower of its attempt."""

    def __init__(self, folder: str, digest: str, grace: float) -> None:
        self.folder = folder
        self.grace = grace
        self.position = 0
        """How far the follower is known to have read."""
        # The annotation is what a client wrote.
        self.follows = len(digest) == DIGEST and DIGITS.issuperset(digest)
        if self.follows:
            # Until the follower has connected, it is given the same time as to connect again.
            write(folder, Follower(digest, 0, boot_seconds()))

    def closed(self, position: int) -> bool:
        """Whether the follower is there and has not read up to this position yet."""
        if not self.follows or position <= self.position:
            return False
        known = read_follower(self.folder)
        if known is None:
            return False
        self.position = known.position
        return position > known.position and boot_seconds() - known.seconds < self.grace
