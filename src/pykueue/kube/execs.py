"""The port to running containers, for `kubectl exec`, `attach` and `cp`; and the channels of its wire protocol.

The wire protocol is Kubernetes' own: WebSocket messages whose first byte is a channel. Version 5 adds `CLOSED`, by
which a client ends the standard input.
"""

from collections.abc import Awaitable
from typing import Final, Protocol

from pykueue.api.core import Tree
from pykueue.base.struct import Frozen

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
PROTOCOLS: Final = (V5, V4)
"""In order of preference."""

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
ERROR: Final = 3
"""The channel of the Status with which the server ends the stream."""
RESIZE: Final = 4
CLOSED: Final = 255
"""Its payload is the channel that is closed; only in version 5."""

NON_ZERO: Final = "NonZeroExitCode"
EXIT_CODE: Final = "ExitCode"


class ExecError(Exception):
    """A container cannot be entered, and the HTTP status of the refusal."""

    def __init__(self, message: str, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


class ExecQuery(Frozen):
    """What to connect to in a pod."""

    container: str
    command: tuple[str, ...] = ()
    """The command to run; empty to attach to the container's own."""
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


class ExecEnd(Frozen):
    """How a session ended."""

    code: int = 0
    """The exit code of the command; 0 for an attached one, which may still run."""
    problem: str = ""
    """Why there is no exit code; empty if there is one."""

    def status(self) -> Tree:
        """The Status for the client, as the kubelet writes it."""
        if self.problem:
            message = f"Internal error occurred: {self.problem}"
            return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
        if not self.code:
            return {"metadata": {}, "status": "Success"}
        return {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {self.code}",
            "reason": NON_ZERO,
            "details": {"causes": [{"reason": EXIT_CODE, "message": str(self.code)}]},
        }


class ExecSession(Protocol):
    """A connection to a command in a container."""

    def receive(self) -> Awaitable[tuple[int, bytes] | ExecEnd]:
        """The next output with its channel, or how it ended."""

    def send(self, data: bytes) -> Awaitable[None]:
        """Write standard input, and wait until there is room for more."""

    def end_input(self) -> None:
        """End the standard input."""

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal."""

    def close(self) -> None:
        """Disconnect; a command that was started for this session is told to end."""


class ExecSource(Protocol):
    """The containers of this machine."""

    def check(self, pod: Tree, asked: ExecQuery) -> None:
        """Raise an `ExecError` if this container cannot be connected to."""

    def open(self, pod: Tree, asked: ExecQuery) -> Awaitable[ExecSession]:
        """Connect to it; raises an `ExecError` if that fails."""
