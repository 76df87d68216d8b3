"""Does a server that systemd starts leave its jobs alone when it is restarted? With a real systemd in namespaces."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import soon

pytestmark = pytest.mark.slow("starts a systemd, and a server under it twice")

SYSTEMD = Path("/lib/systemd/systemd")
BEGIN = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
umount -R -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /etc/systemd/system
for name in sysinit multi-user shutdown network umount; do
    printf '[Unit]\\nDefaultDependencies=no\\n' > /etc/systemd/system/$name.target
done
printf '[Unit]\\nRequires=sysinit.target\\n' > /etc/systemd/system/basic.target
exec /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=no
"""
"""Units of this machine are hidden, so that systemd starts none of them."""
ENVIRONMENT = {**os.environ, "container": "pykueue-test", "SYSTEMD_UNIT_PATH": "/etc/systemd/system"}


def cgroup_mount() -> Path | None:
    """Where cgroup v2 is mounted."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup2 " in line:
            return Path(line.split()[4])
    return None


class Systemd:
    """A systemd with a process, mount and cgroup namespace of its own."""

    def __init__(self, init: int) -> None:
        self.init = init

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside."""
        inside = ["nsenter", "--target", str(self.init), "--mount", "--pid", "--cgroup", "--", *words]
        return subprocess.run(
            inside, env=ENVIRONMENT, capture_output=True, text=True, timeout=180, check=False, stdin=subprocess.DEVNULL
        )

    def succeed(self, *words: str) -> str:
        """Run a command inside that must succeed; returns its output."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    programs = ("unshare", "nsenter", "systemctl", "systemd-run")
    if os.geteuid() != 0 or not SYSTEMD.exists() or not all(map(shutil.which, programs)):
        pytest.skip("needs root, systemd and util-linux")
    mount = cgroup_mount()
    if mount is None or not os.access(mount, os.W_OK):
        pytest.skip("needs cgroup v2")
    group = mount / f"pykueue-test-{os.getpid()}"
    group.mkdir()
    enter = f'echo $$ > {group}/cgroup.procs; exec unshare --fork --pid --mount --cgroup --kill-child sh -c "$0"'
    log = (tmp_path / "systemd.log").open("wb")
    began = subprocess.Popen(
        ["sh", "-c", enter, BEGIN], env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True
    )
    try:
        children = Path(f"/proc/{began.pid}/task/{began.pid}/children")

        def runs() -> Systemd | None:
            with contextlib.suppress(OSError, IndexError):
                made = Systemd(int(children.read_text().split()[0]))
                if made.run("systemctl", "is-system-running").stdout.strip() == "running":
                    return made
            return None

        made = soon(lambda: began.poll() is not None or runs())
        if not isinstance(made, Systemd):
            pytest.skip(f"systemd does not run in namespaces here: {(tmp_path / 'systemd.log').read_text()[-300:]}")
        yield made
    finally:
        # The kernel ends everything in the namespace with its first process.
        began.send_signal(signal.SIGKILL)
        began.wait()
        log.close()
        for _ in range(100):
            for folder in sorted(group.rglob("*/"), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            with contextlib.suppress(OSError):
                group.rmdir()
            if not group.exists():
                break
            time.sleep(0.05)


def test_jobs_outlive_a_restart_of_the_service(systemd: Systemd, tmp_path: Path) -> None:
    data = tmp_path / 'da ta$x%y"z'
    go = tmp_path / "go"

    def pykueue(*words: str) -> str:
        return systemd.succeed(sys.executable, "-m", "pykueue", *words)

    given = ("--data", str(data))
    said = pykueue("up", "--install", *given, "--port", "0", "--cpus", "4", "--gpus", "0", "--example")
    assert "systemctl start pykueue" in said
    assert systemd.succeed("systemctl", "is-enabled", "pykueue") == "enabled\n"
    # It returns once the server is ready.
    systemd.succeed("systemctl", "start", "pykueue")
    script = f"cat /proc/self/cgroup; until [ -e '{go}' ]; do sleep 0.1; done; exit 3"
    pykueue("run", *given, "-q", "team-a", "--detach", "--name", "long", "--", "sh", "-c", script)
    assert soon(lambda: "0::/" in systemd.run(sys.executable, "-m", "pykueue", "logs", *given, "long").stdout)
    systemd.succeed("systemctl", "restart", "pykueue")
    # Installing the same again beside the running service changes nothing.
    pykueue("up", "--install", *given, "--port", "0", "--cpus", "4", "--gpus", "0", "--example")
    go.touch()
    assert systemd.run(sys.executable, "-m", "pykueue", "wait", *given, "long").returncode == 3
    group = next(line for line in pykueue("logs", *given, "long").splitlines() if line.startswith("0::"))
    assert group.startswith("0::/pykueue.slice/pykueue-jobs.slice/pykueue-jobs-")
    pykueue("up", "--uninstall")
    assert systemd.run("systemctl", "is-enabled", "pykueue").returncode != 0
    systemd.succeed("systemctl", "stop", "pykueue")
    assert soon(lambda: ".scope" not in systemd.succeed("systemctl", "list-units", "--plain", "pykueue-jobs-*"))
