"""Report whether `pykueue up` started, on the terminal or to the parent of a detached server."""

import contextlib
import json
import os
import socket
import sys
from typing import NoReturn

import click

from pykueue.cli.serverstate import fail


class Report:
    """Tells the caller whether the server started: on the terminal, or through a pipe."""

    def __init__(self, handle: int | None) -> None:
        self.handle = handle

    def fail(self, text: str, code: int = 2) -> NoReturn:
        """Report why the server does not start, and exit."""
        self.send({"code": code, "text": text})
        if self.handle is None:
            fail(text, code)
        sys.exit(code)

    def ready(self, text: str) -> None:
        """Report that the server is up, and what to do next."""
        self.send({"code": 0, "text": text})
        notify_systemd("READY=1")
        if self.handle is None:
            click.echo(text)

    def send(self, said: dict[str, object]) -> None:
        """Write to the pipe, if there is one."""
        if self.handle is not None:
            os.write(self.handle, json.dumps(said).encode())
            os.close(self.handle)
            self.handle = -1


def notify_systemd(state: str) -> None:
    """Tell systemd, if it waits for that (sd_notify)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            # A leading @ stands for an abstract address.
            notices.connect("\0" + address[1:] if address.startswith("@") else address)
            notices.send(state.encode())
