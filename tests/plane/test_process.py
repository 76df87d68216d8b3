"""Is nothing left of what a test started, and does the stand-in for the network do what a network does?"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import soon
from tests.plane.plane import ROOT
from tests.plane.process import Program
from tests.plane.proxy import Proxy

STARTER = """
import pathlib, signal, sys, time
from tests.plane.process import Program, stop_on_signals
# Whoever was started in the background does not hear Ctrl-C, and neither would this.
signal.signal(signal.SIGINT, signal.default_int_handler)
stop_on_signals()
print(Program("sleeper", ["sleep", "60"], pathlib.Path(sys.argv[1])).pid, flush=True)
time.sleep(60)
"""


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=["killed", "ended", "Ctrl-C"])
def test_a_program_ends_with_whoever_started_it(number: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "log")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        sleeper = int(starter.stdout.readline())
        while Path(f"/proc/{sleeper}/comm").read_text() != "sleep\n":
            # It has yet to ask the kernel to let it die with its parent.
            time.sleep(0.01)
        os.kill(starter.pid, number)
        starter.wait(10)
    assert soon(lambda: not runs(sleeper))


def test_a_program_that_does_not_end_is_killed_and_told_of(tmp_path: Path) -> None:
    program = Program("stubborn", ["sh", "-c", "trap '' TERM; echo here; while :; do sleep 1; done"], tmp_path / "log")
    while "here" not in program.logged():
        time.sleep(0.02)
    with pytest.raises(AssertionError, match=r"stubborn did not end within 0\.3 s of SIGTERM:\nhere"):
        program.stop(0.3)
    assert not program.alive()


def test_a_proxy_passes_on_stalls_when_cut_and_passes_on_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Proxy(lambda: [server.getsockname()[1]]) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port)) as near, server.accept()[0] as far:
            near.sendall(b"hello")
            assert far.recv(5) == b"hello"
            proxy.cut()
            time.sleep(0.1)
            near.sendall(b"lost")
            far.settimeout(0.2)
            with pytest.raises(TimeoutError):
                far.recv(4)
        proxy.mend()
        with socket.create_connection(("127.0.0.1", proxy.port)) as near, server.accept()[0] as far:
            far.sendall(b"again")
            assert near.recv(5) == b"again"
