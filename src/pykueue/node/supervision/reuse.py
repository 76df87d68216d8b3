"""Reuse supervisors: one whose attempt has ended rests for a moment, and then supervises the next.

A new supervisor is a fork of the fork server, and copies most of the memory that it uses. For a short command, this
takes more CPU time than everything else that its supervisor does. So they are reused while many containers start.

A supervisor that rests sends the fork server one end of a socket. The fork server tells the server, and uses the socket
only after the server has confirmed that it knows of the end: from then on it no longer signals this process because of
the attempt that is over. A request travels with what a fork would inherit: the lock and the pipe of the start. If the
fork server ends, its successor therefore also waits for requests that are on their way.
"""

import marshal
import os
import select
import socket
from typing import Final

from pykueue.node.supervision.command import Request

REST_SECONDS: Final = 2.0
"""How long a supervisor waits for the next attempt before it ends."""
RESTING_MAX: Final = 16
"""How many rest at most; others end at once."""
USES_MAX: Final = 100
"""How many attempts a supervisor serves, because it collects no garbage."""
REUSE_BYTES_MAX: Final = 64 * 1024
"""The longest request to a supervisor that rests."""
REPORT_BYTES: Final = 4096


def is_plain(request: Request) -> bool:
    """Whether a supervisor that serves this request can be reused: it has no clients and no notifier."""
    return not (request.get("once") or request.get("console") or request.get("notify"))


def received(line: socket.socket, size: int, count: int) -> tuple[bytes, list[int]]:
    """A message, and the descriptors that came with it; commands do not inherit them."""
    body, fds, _, _ = socket.recv_fds(line, size, count)
    for fd in fds:
        # `recv_fds` ignores MSG_CMSG_CLOEXEC. There is no other thread that could start something in between.
        os.set_inheritable(fd, False)
    return body, fds


def next_request(reporter: socket.socket, key: str) -> tuple[Request, int, int] | None:
    """Rest until the next request arrives; returns it with the lock and the pipe to close once its command has started.

    None if none arrives for a while, or the fork server has ended.
    """
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                socket.send_fds(reporter, [marshal.dumps((os.getpid(), key))], [theirs.fileno()])
            poller = select.poll()
            poller.register(ours, select.POLLIN)
            if not poller.poll(REST_SECONDS * 1000):
                # From now on no request can be sent; one that was sent a moment ago is still served.
                ours.shutdown(socket.SHUT_RD)
            body, fds = received(ours, REUSE_BYTES_MAX, 2)
    except OSError:
        return None
    # Without descriptors to spare, the attempt is not claimed, and the server tries again.
    return (marshal.loads(body), fds[0], fds[1]) if len(fds) == 2 else None


class Resting:
    """The fork server's view of the supervisors that rest."""

    def __init__(self) -> None:
        self.reports, self.reporter = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        """Where supervisors report that they rest; all of them inherit the second socket."""
        for end in (self.reports, self.reporter):
            end.setblocking(False)
        self.lines: dict[int, socket.socket] = {}
        """How to reach those that rest, by process."""
        self.unconfirmed: dict[str, int] = {}
        """Those of which the server does not know, by the attempt that has ended."""
        self.ready: list[int] = []
        """Those that can be used, the last to rest at the end."""

    def receive(self) -> tuple[int, str] | None:
        """The next supervisor that rests, and its attempt; None if it cannot be reached, and therefore ends."""
        try:
            body, fds = received(self.reports, REPORT_BYTES, 1)
        except BlockingIOError:
            return None
        if not fds:
            return None
        pid, key = marshal.loads(body)
        line = self.lines[pid] = socket.socket(fileno=fds[0])
        line.setblocking(False)
        self.unconfirmed[key] = pid
        return pid, key

    def confirm(self, key: str) -> int:
        """Allow the use of a supervisor whose attempt the server knows to be over; its process, or 0 if it is gone."""
        pid = self.unconfirmed.pop(key, 0)
        if pid and len(self.ready) < RESTING_MAX:
            self.ready.append(pid)
        elif pid:
            self.forget(pid)
        return pid

    def use(self, request: Request, lock: int, begins: int) -> int:
        """Send a request to a supervisor that rests; its process, or 0 if there is none for it."""
        if not self.ready or not is_plain(request):
            return 0
        body = marshal.dumps(request)
        if len(body) > REUSE_BYTES_MAX:
            return 0
        while self.ready:
            pid = self.ready.pop()
            with self.lines.pop(pid) as line:
                try:
                    socket.send_fds(line, [body], [lock, begins])
                except OSError:
                    # It has just ended.
                    continue
            return pid
        return 0

    def forget(self, pid: int) -> None:
        """Forget a supervisor, which ends if it rests."""
        line = self.lines.pop(pid, None)
        if line is not None:
            line.close()
            self.ready = [one for one in self.ready if one != pid]
            self.unconfirmed = {key: one for key, one in self.unconfirmed.items() if one != pid}

    def close(self) -> None:
        """Close, in a fork, what belongs to the fork server."""
        for end in (self.reports, *self.lines.values()):
            end.close()
