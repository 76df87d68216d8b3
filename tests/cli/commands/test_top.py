"""`pykueue top` on a real server and a real terminal."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.machine import Machine, machine_in
from tests.patience import soon


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_in(tmp_path) as made:
        made.up()
        yield made


def drawn(master: int, until: bytes) -> bytes:
    """What the terminal shows until it has shown this."""
    found = b""

    def more() -> bool:
        nonlocal found
        while select.select([master], [], [], 0.1)[0]:
            found += os.read(master, 65536)
        return until in found

    assert soon(more), found
    return found


def test_use_is_shown_once_live_and_through_a_restart(machine: Machine) -> None:
    machine.run("run", "-q", "team-a", "--cpu", "3", "--detach", "--", "sleep", "600")

    def borrowed() -> object:
        items = json.loads(machine.run("top", "-o", "json").stdout)["items"]
        return next(one["borrowed"] for one in items if (one["name"], one["resource"]) == ("team-a", "cpu"))

    assert soon(lambda: borrowed() == "1")
    plain = machine.run("top")
    assert plain.stdout.startswith("NAME")
    assert "\x1b" not in plain.stdout
    assert any(line.split()[:1] == ["team-a"] and "#++" in line for line in plain.stdout.splitlines())
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    watching = subprocess.Popen(
        machine.command("top", "--interval", "0.3"), stdin=slave, stdout=slave, stderr=slave, env=machine.environment
    )
    try:
        assert b"\x1b[?1049h" in drawn(master, b"Ctrl-C to stop")
        machine.run("down")
        drawn(master, b"out of date, the server does not respond")
        machine.up()
        drawn(master, b"Ctrl-C to stop")
        start = time.monotonic()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0, time.monotonic() - start
        drawn(master, b"\x1b[?1049l")
    finally:
        watching.kill()
        os.close(master)
        os.close(slave)
