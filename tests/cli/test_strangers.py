"""Can a client without a token keep the administrator of `pykueue up` out? A real server with few descriptors."""

import contextlib
import os
import resource
import socket
from pathlib import Path

import pytest

from tests.cli.machine import machine_in

DESCRIPTORS = 256


@pytest.mark.slow("waits until idle connections are closed")
def test_idle_connections_without_a_token_do_not_lock_the_administrator_out(tmp_path: Path) -> None:
    with machine_in(tmp_path) as machine, contextlib.ExitStack() as stack:
        machine.up()
        resource.prlimit(machine.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        port = int((machine.data / "kubeconfig").read_text().split("https://127.0.0.1:")[1].split()[0].strip("\"'"))
        for _ in range(2 * DESCRIPTORS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        assert machine.kubectl("get", "nodes", "-o", "name").startswith("node/")
        assert len(os.listdir(f"/proc/{machine.pid}/fd")) < DESCRIPTORS
