"""The clients that are attached to a command: they write its standard input and read its output.

A client is a connection of the server, one for each `kubectl attach` or `exec`. To a container with `stdin` or `tty`
the server connects: its supervisor listens on a socket in the folder of the attempt, as long as the container runs,
whichever server that is. The supervisor of an `exec` connects to the server, and its command ends with that connection.
Both sides send messages of one byte for the kind, four for the length, and the payload:

    to the supervisor     I  bytes of standard input, empty at its end
                          R  columns and rows of the client's terminal, in decimal
    to the server         H  the first message: the key of the request, the pid of the supervisor and its start time
                          O  standard output; E standard error
                          X  the exit code, the last message
                          F  why the command could not be started, or the client attached, the last message

Nothing is buffered without a bound: a command whose client does not read blocks as in a pipe, and a client whose
command does not read its standard input is not read either. A container cannot be blocked for long: a client that reads
nothing for a while is disconnected.

Supervisors use it, so it imports next to nothing.
"""

import contextlib
import fcntl
import os
import select
import socket
import struct
import termios
from collections.abc import Iterator, Mapping
from typing import Final

from pykueue.node.supervision.followers import boot_seconds
from pykueue.node.supervision.logfiles import STDOUT
from pykueue.node.supervision.processes import process_start

SOCKET: Final = "attach"
"""The socket in the folder of an attempt on which its supervisor listens."""
STREAMS: Final = ".streams"
"""The socket beside the attempts on which the server accepts the supervisors of `exec`."""
HEAD: Final = struct.Struct(">cI")
INPUT: Final = b"I"
RESIZE: Final = b"R"
HELLO: Final = b"H"
OUTPUT: Final = b"O"
ERRORS: Final = b"E"
EXITED: Final = b"X"
FAILED: Final = b"F"
MESSAGE_MAX: Final = 64 * 1024
"""The longest payload."""
READ_BYTES: Final = 64 * 1024
FULL_BYTES: Final = 64 * 1024
"""Bytes that wait for a client, or for the command, at which the other side has to wait."""
DROP_BYTES: Final = 1 << 20
"""Bytes that wait for a client at which it is disconnected, because its command may not wait."""
BACKLOG_BYTES: Final = 64 * 1024
"""How much of the output that no client was attached for is kept for the next."""
CLIENTS_MAX: Final = 8
CUT_SECONDS: Final = 30.0
"""How long a container waits for a client that reads nothing."""
DRAIN_SECONDS: Final = 5.0
"""How long a supervisor waits for clients to read what a container printed at its end."""
END_OF_INPUT: Final = b"\x04"
"""What a terminal takes for the end of its input."""
SIZE: Final = struct.Struct("HHHH")
COLUMNS, ROWS = 80, 24
SIZE_MAX: Final = 0xFFFF


def message(kind: bytes, payload: bytes = b"") -> bytes:
    """A message as it is sent."""
    return HEAD.pack(kind, len(payload)) + payload


def exited_frame(code: int) -> tuple[bytes, bytes]:
    """The last message about a command that has ended."""
    return EXITED, str(code).encode()


def set_size(fd: int, columns: int, rows: int) -> None:
    """Set the size of a terminal; its foreground process group gets SIGWINCH."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, SIZE.pack(min(rows, SIZE_MAX), min(columns, SIZE_MAX), 0, 0))


class Client:
    """One connection of the server."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.stuck: float | None = None
        """Since when it has read nothing although it has to."""

    def messages(self) -> Iterator[tuple[bytes, bytes]]:
        """The complete messages that have arrived; raises `ValueError` for one that is too long."""
        while len(self.inbox) >= HEAD.size:
            kind, size = HEAD.unpack_from(self.inbox)
            if size > MESSAGE_MAX:
                raise ValueError("a message is too long")
            if len(self.inbox) < HEAD.size + size:
                return
            payload = bytes(self.inbox[HEAD.size : HEAD.size + size])
            del self.inbox[: HEAD.size + size]
            yield kind, payload

    def flush(self, now: float) -> None:
        """Send what waits, as far as there is room; nothing waits for a client that has left."""
        while self.outbox:
            try:
                sent = self.sock.send(self.outbox)
            except BlockingIOError:
                break
            except OSError:
                # What it sent before it left is still to be read.
                self.outbox.clear()
                break
            del self.outbox[:sent]
            self.stuck = now
        self.stuck = None if len(self.outbox) <= FULL_BYTES else self.stuck or now


class Console:
    """The standard input of one command, and the clients attached to it; without either, it does nothing."""

    def __init__(self, *, terminal: bool = False, stdin: bool = False, once: bool = False) -> None:
        self.terminal = terminal
        self.stdin = stdin
        self.once = once
        """Whether the standard input ends with that of the first client."""
        self.input = self.input_end = -1
        """The end of the standard input that is written to, and the one that the command reads; -1 for none."""
        self.pending = bytearray()
        """Standard input that the command has not read."""
        self.ended = False
        """Whether the standard input ends after that."""
        self.clients: dict[int, Client] = {}
        self.listener: socket.socket | None = None
        self.backlog: list[tuple[bytes, bytes]] = []
        self.kept = 0
        """The size of the backlog."""
        self.hangup_seconds: float | None = None
        """How long after its last client has left the command is told to end; None for never."""
        self.left: float | None = None
        """When the last client has left; None while there is one, or need not be one yet."""
        if stdin and not terminal:
            self.input_end, self.input = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self.input, False)

    def listen(self, folder: str, *, hangup: float | None, expected: bool) -> None:
        """Let clients attach through the socket in a folder; with `expected`, the first has to come in time, too."""
        self.hangup_seconds = hangup
        self.left = boot_seconds() if expected else None
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Socket paths are limited in length.
            self.listener.bind(f"/proc/self/fd/{handle}/{SOCKET}")
        finally:
            os.close(handle)
        self.listener.listen(CLIENTS_MAX)

    def connect(self, key: str) -> None:
        """Connect to the server that requested this command, which ends with that connection."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(STREAMS)
        own = os.getpid()
        self.hangup_seconds = 0.0
        self.clients[sock.fileno()] = Client(sock)
        self.queue(HELLO, f"{key} {own} {process_start(own)}".encode())

    def begin(self, output: int) -> None:
        """Write to this side of the command's terminal, if it has one."""
        if self.terminal:
            # A descriptor of its own, so that each direction is polled for itself.
            self.input = os.dup(output)
            set_size(self.input, COLUMNS, ROWS)

    def close_end(self) -> None:
        """Close the command's end of its standard input, once the command has it."""
        if self.input_end >= 0:
            os.close(self.input_end)
            self.input_end = -1

    @property
    def full(self) -> bool:
        """Whether the command has to wait until a client has read more."""
        return any(client.stuck is not None for client in self.clients.values())

    def register(self, poller: "select.poll") -> None:
        """Wait for whatever is next."""
        if self.listener is not None:
            poller.register(self.listener, select.POLLIN)
        reads = select.POLLIN if len(self.pending) < FULL_BYTES else 0
        for fd, client in self.clients.items():
            poller.register(fd, reads | (select.POLLOUT if client.outbox else 0))
        if self.pending and self.input >= 0:
            poller.register(self.input, select.POLLOUT)

    def dues(self) -> list[float]:
        """When to look again although nothing happens."""
        dues = [client.stuck + CUT_SECONDS for client in self.clients.values() if client.stuck and self.listener]
        if self.left is not None and self.hangup_seconds is not None:
            dues.append(self.left + self.hangup_seconds)
        return dues

    def hung_up(self) -> bool:
        """Whether the last client left so long ago that the command has to end; True once."""
        if self.left is None or self.hangup_seconds is None or boot_seconds() < self.left + self.hangup_seconds:
            return False
        self.hangup_seconds = None
        return True

    def handle(self, ready: Mapping[int, int]) -> None:
        """Handle what was waited for."""
        now = boot_seconds()
        if self.listener is not None and self.listener.fileno() in ready:
            self.accept()
        for fd, client in list(self.clients.items()):
            events = ready.get(fd, 0)
            alive = True
            if events & select.POLLOUT:
                client.flush(now)
            if events & select.POLLIN:
                alive = self.receive(client)
            elif events & (select.POLLHUP | select.POLLERR):
                alive = False
            if client.stuck is not None and self.listener is not None and now - client.stuck >= CUT_SECONDS:
                alive = False
            if not alive:
                self.drop(client)
        if self.pending:
            self.feed()

    def accept(self) -> None:
        """Accept a client; it gets the output that no other client has got."""
        assert self.listener is not None
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return
        if len(self.clients) >= CLIENTS_MAX:
            with contextlib.suppress(OSError):
                sock.send(message(FAILED, b"too many clients are attached to this container; end one of them"))
            sock.close()
            return
        self.clients[sock.fileno()] = Client(sock)
        self.left = None
        self.queue(HELLO)
        backlog, self.backlog, self.kept = self.backlog, [], 0
        for kind, part in backlog:
            self.queue(kind, part)

    def receive(self, client: Client) -> bool:
        """Read from a client; False if it has left."""
        try:
            block = client.sock.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        client.inbox += block
        try:
            for kind, payload in client.messages():
                self.obey(kind, payload)
        except ValueError:
            return False
        return bool(block)

    def obey(self, kind: bytes, payload: bytes) -> None:
        """Handle a message of a client; raises `ValueError` if it is malformed. Unknown kinds are ignored."""
        if kind == RESIZE and self.terminal:
            columns, rows = payload.split()
            set_size(self.input, int(columns), int(rows))
        elif kind == INPUT and self.stdin and self.input >= 0 and not self.ended:
            self.pending += payload
            if not payload and self.once:
                self.end_input()
            self.feed()

    def end_input(self) -> None:
        """End the standard input after what was sent so far."""
        if self.terminal:
            self.pending += END_OF_INPUT
        else:
            self.ended = True

    def feed(self) -> None:
        """Write what clients sent to the standard input, as far as there is room."""
        try:
            while self.pending and self.input >= 0:
                del self.pending[: os.write(self.input, self.pending[:READ_BYTES])]
        except BlockingIOError:
            return
        except OSError:
            # The command does not read its standard input any more.
            self.pending.clear()
            self.ended = not self.terminal
        if self.ended and self.input >= 0:
            os.close(self.input)
            self.input = -1
            self.pending.clear()

    def send(self, stream: bytes, block: bytes) -> None:
        """Pass output on to the clients; without any, keep some of it for the next."""
        kind = OUTPUT if stream == STDOUT else ERRORS
        for at in range(0, len(block), MESSAGE_MAX // 2):
            part = block[at : at + MESSAGE_MAX // 2]
            if self.clients:
                self.queue(kind, part)
            elif self.listener is not None:
                self.backlog.append((kind, part))
                self.kept += len(part)
                while self.kept > BACKLOG_BYTES:
                    self.kept -= len(self.backlog.pop(0)[1])

    def queue(self, kind: bytes, payload: bytes = b"") -> None:
        """Send a message to every client."""
        now, data = boot_seconds(), message(kind, payload)
        for client in list(self.clients.values()):
            client.outbox += data
            client.flush(now)
            if len(client.outbox) > DROP_BYTES:
                self.drop(client)

    def drop(self, client: Client) -> None:
        """Disconnect a client."""
        if self.clients.pop(client.sock.fileno(), None) is None:
            return
        client.sock.close()
        if not self.clients:
            self.left = boot_seconds()
            if self.once and self.hangup_seconds is None and self.input >= 0:
                self.end_input()
                self.feed()

    def finish(self, kind: bytes, payload: bytes) -> None:
        """Send the last message, and wait until the clients have read everything; not for long after a container."""
        self.queue(kind, payload)
        while any(client.outbox for client in self.clients.values()):
            poller = select.poll()
            for fd, client in self.clients.items():
                poller.register(fd, select.POLLOUT if client.outbox else 0)
            events = poller.poll(DRAIN_SECONDS * 1000 if self.listener is not None else None)
            if not events:
                return
            self.handle({fd: event & ~select.POLLIN for fd, event in events})
