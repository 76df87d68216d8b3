"""What do tests of `pykueue up` share? A data folder of a test's own, and commands on it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOON = 60.0
"""Seconds that a command which is to end has for it, also on a busy machine."""


class Machine:
    """A data folder, and commands on it."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.cwd: Path | None = None
        self.said = ""
        """What was said when its server was started."""
        self.environment = {
            **{key: value for key, value in os.environ.items() if key != "KUBECONFIG"},
            "HOME": str(folder / "home"),
        }

    def command(self, *words: str) -> list[str]:
        """A command of ours, on this machine's data."""
        name = 2 if words[0] in ("queue", "user", "list", "create", "stop", "resume", "delete") else 1
        return [sys.executable, "-m", "pykueue", *words[:name], "--data", str(self.data), *words[name:]]

    def run(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            cwd=self.cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*words), env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def up(self, *flags: str) -> subprocess.CompletedProcess[str]:
        """Start a server with the example's queues for 4 cpu, on a free port the first time and on that ever after."""
        port = () if (self.data / "up.json").exists() else ("--port", "0")
        done = self.run("up", "--detach", *port, "--cpus", "4", "--gpus", "0", "--example", *flags)
        assert done.returncode == 0, done.stderr
        return done

    def kubectl(self, *words: str) -> str:
        """What kubectl prints, as the admin."""
        if shutil.which("kubectl") is None:
            pytest.skip("kubectl is not installed")
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.data / "kubeconfig"), *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def pid(self) -> int:
        return int(json.loads((self.data / "up.json").read_text())["pid"])

    @property
    def port(self) -> int:
        return int(json.loads((self.data / "up.json").read_text())["port"])


@contextlib.contextmanager
def machine_in(folder: Path) -> Iterator[Machine]:
    """A machine of a test's own; whatever runs on it at the end is stopped."""
    made = Machine(folder)
    try:
        yield made
    finally:
        made.run("down")
        with contextlib.suppress(OSError, ValueError, KeyError):
            os.kill(made.pid, signal.SIGKILL)
