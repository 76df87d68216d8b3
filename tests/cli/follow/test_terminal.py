"""Is one's terminal connected to a job, and kubectl to its pod? Real servers, terminals and processes."""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.machine import SOON, Machine, machine_in
from tests.patience import soon

SLEEPER = """
apiVersion: batch/v1
kind: Job
metadata: {name: sleeper, namespace: default, labels: {kueue.x-k8s.io/queue-name: team-a}}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: x, command: [sleep, "1000"], resources: {requests: {cpu: 1}}}
"""

READER = """
apiVersion: batch/v1
kind: Job
metadata: {name: reader, namespace: default, labels: {kueue.x-k8s.io/queue-name: team-a}}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: calculator
        image: x
        command: [sh, -c, "echo first; cat; echo over >&2; exit 4"]
        stdin: true
        stdinOnce: true
        resources: {requests: {cpu: 1}}
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine_in(tmp_path_factory.mktemp("terminal")) as made:
        made.up()
        yield made


class Screen:
    """A terminal with a command of ours in the foreground."""

    def __init__(self, machine: Machine, *words: str) -> None:
        self.fd, end = pty.openpty()
        self.resize(132, 43)
        self.before = termios.tcgetattr(self.fd)
        self.printed = b""

        def own() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            machine.command(*words),
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
            preexec_fn=own,  # noqa: PLW1509  # the test has no threads
            env=machine.environment | {"TERM": "vt100"},
        )
        os.close(end)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: bytes) -> None:
        os.write(self.fd, text)

    def read(self) -> None:
        while self.fd >= 0 and select.select([self.fd], [], [], 0)[0]:
            try:
                block = os.read(self.fd, 1 << 16)
            except OSError:
                return
            self.printed += block

    def shows(self, text: bytes) -> None:
        """Wait for a text, and forget everything up to its end."""

        def there() -> bool:
            self.read()
            return text in self.printed

        assert soon(there, SOON), (text, self.printed)
        self.printed = self.printed.partition(text)[2]

    def ends(self) -> int:
        def over() -> bool:
            self.read()
            return self.process.poll() is not None

        assert soon(over, SOON), self.printed
        self.read()
        return int(self.process.returncode)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@pytest.fixture
def screens() -> Iterator[list[Screen]]:
    made: list[Screen] = []
    yield made
    for one in made:
        one.close()
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


def job(machine: Machine, name: str, path: str) -> str:
    return machine.kubectl("get", "job", name, "-o", f"jsonpath={{{path}}}")


def test_a_shell_in_the_queue(machine: Machine, screens: list[Screen]) -> None:
    screen = Screen(machine, "run", "-q", "team-a", "--name", "shell", "--interactive", "--", "sh", "-i")
    screens.append(screen)
    screen.shows(b"submitted to queue team-a")
    screen.type(b"PS1=; stty size; echo $TERM; stty -echo; echo re''ady\n")
    screen.shows(b"43 132\r\n")
    screen.shows(b"vt100\r\n")
    screen.shows(b"ready\r\n")
    assert termios.tcgetattr(screen.fd)[3] & termios.ICANON == 0, "every key is passed on"
    screen.resize(100, 30)
    assert soon(lambda: shown_after(screen, b"stty size\n", b"30 100"), SOON)
    screen.type(b"echo slee''ps; sleep 1000\n")
    screen.shows(b"sleeps\r\n")
    time.sleep(0.3)
    screen.type(b"\x03")
    screen.type(b"echo code $?\n")
    screen.shows(b"code 130\r\n")
    screen.type(b"exit 7\n")
    assert screen.ends() == 7
    assert termios.tcgetattr(screen.fd) == screen.before, "the terminal is as it was"


def shown_after(screen: Screen, typed: bytes, text: bytes) -> bool:
    screen.type(typed)
    time.sleep(0.2)
    screen.read()
    return text in screen.printed


def test_it_waits_in_the_queue_where_ctrl_c_deletes_it(machine: Machine, screens: list[Screen]) -> None:
    screen = Screen(machine, "run", "-q", "team-a", "--cpu", "99", "--name", "large", "-i", "--", "sh")
    screens.append(screen)
    screen.shows(b"can never start")
    screen.type(b"\x03")
    assert screen.ends() == 130
    assert machine.kubectl("get", "jobs", "--ignore-not-found", "large") == ""


@pytest.mark.parametrize("how", ["closed", "terminated"])
def test_without_its_terminal_a_job_does_not_stay(machine: Machine, screens: list[Screen], how: str) -> None:
    """The grace is thirty seconds; `tests/node/test_execs.py` sees the end of it with a shorter one."""
    screen = Screen(machine, "run", "-q", "team-a", "--name", how, "--pty", "--", "sh", "-c", "echo up; sleep 1000")
    screens.append(screen)
    screen.shows(b"up\r\n")
    if how == "closed":
        screen.close()
        assert screen.ends() == 128 + signal.SIGHUP
    else:
        screen.process.send_signal(signal.SIGTERM)
        assert screen.ends() == 128 + signal.SIGTERM
        assert termios.tcgetattr(screen.fd) == screen.before
    assert job(machine, how, ".status.active") == "1", "somebody may attach again"
    again = Screen(machine, "attach", how)
    screens.append(again)
    time.sleep(0.5)
    assert soon(lambda: termios.tcgetattr(again.fd)[3] & termios.ICANON == 0, SOON), "every key is passed on"
    again.type(b"\x03")
    assert again.ends() == 130
    assert termios.tcgetattr(again.fd) == again.before
    machine.kubectl("delete", "job", how)


def test_standard_input_is_passed_on_to_a_job_that_has_one(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "reader.yaml"
    file.write_text(READER)
    machine.kubectl("create", "-f", str(file))
    shown = machine.start("attach", "--no-stdin", "reader")
    done = subprocess.run(
        machine.command("attach", "reader"),
        env=machine.environment,
        input=b"x" * 300_000 + b"\n",
        capture_output=True,
        timeout=SOON,
        check=False,
    )
    assert (done.returncode, done.stderr) == (4, b"over\n")
    assert done.stdout == b"first\n" + b"x" * 300_000 + b"\n"
    assert shown.communicate(timeout=SOON)[0].encode() == done.stdout
    machine.kubectl("delete", "-f", str(file))


def test_that_standard_input_is_not_read_is_said_only_where_there_is_some(machine: Machine) -> None:
    assert machine.run("run", "-q", "team-a", "--name", "none", "--", "true").returncode == 0
    said = "standard input is not passed to the command; redirect inside the command"
    for given, says in (("some", True), ("", False)):
        done = subprocess.run(
            machine.command("attach", "none"),
            check=True,
            env=machine.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=SOON,
        )
        assert (said in done.stderr) is says, done.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--interactive",), "standard input and output must be a terminal"),
        (("--interactive", "--detach"), "cannot be combined with --detach"),
        (("--interactive", "--retries", "1"), "cannot be combined with --retries"),
    ],
)
def test_what_cannot_be_interactive(machine: Machine, flags: tuple[str, ...], says: str) -> None:
    done = machine.run("run", *flags, "--", "sh")
    assert (done.returncode, says in done.stderr) == (2, True)


class Kubectl:
    """kubectl as one user."""

    def __init__(self, machine: Machine, config: Path) -> None:
        self.machine = machine
        self.config = config

    def __call__(self, *words: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["kubectl", "--kubeconfig", str(self.config), *words],
            env=self.machine.environment,
            capture_output=True,
            timeout=SOON,
            check=False,
            **more,
        )


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_enters_a_pod(machine: Machine, tmp_path: Path) -> None:
    kubectl = Kubectl(machine, machine.data / "kubeconfig")
    assert kubectl("create", "-f", "-", input=SLEEPER.encode()).returncode == 0
    chosen = ("-l", "job-name=sleeper")
    assert soon(lambda: kubectl("get", "pods", *chosen, "-o", "jsonpath={.items[*].status.phase}").stdout == b"Running")
    name = kubectl("get", "pods", *chosen, "-o", "jsonpath={.items[0].metadata.name}").stdout.decode()

    done = kubectl("exec", name, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.stdout, done.returncode) == (b"out\n", 3)
    assert done.stderr == b"err\ncommand terminated with exit code 3\n"
    done = kubectl("exec", "-i", name, "--", "wc", "-c", input=b"x" * 300_000)
    assert int(done.stdout) == 300_000, done.stderr

    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(os.urandom(1_000_000))
    done = kubectl("cp", str(sent), f"{name}:copied")
    assert done.returncode == 0, done.stderr
    done = kubectl("cp", f"{name}:copied", str(back))
    assert done.returncode == 0, done.stderr
    assert back.read_bytes() == sent.read_bytes()

    done = kubectl("exec", name, "--", "nonesuch")
    assert b'exec: "nonesuch": executable file not found in $PATH' in done.stderr
    machine.environment["KUBECTL_REMOTE_COMMAND_WEBSOCKETS"] = "false"
    try:
        assert b"use kubectl 1.31 or later" in kubectl("exec", name, "--", "true").stderr
    finally:
        del machine.environment["KUBECTL_REMOTE_COMMAND_WEBSOCKETS"]

    with subprocess.Popen(
        ["kubectl", "--kubeconfig", str(kubectl.config), "attach", name],
        env=machine.environment,
        stderr=subprocess.PIPE,
    ) as attached:
        time.sleep(0.5)
        assert attached.poll() is None
        assert kubectl("delete", "job", "sleeper").returncode == 0
        assert attached.wait(SOON) == 0
