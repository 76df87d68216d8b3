"""A `pykueue up` for benchmarks: started in a folder of its own, used over TLS, stopped at the end."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import clock_gettime, monotonic, sleep
from typing import Any, Final

import msgspec

from pykueue.base.clock import SystemClock
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.kubeconfig import connection
from pykueue.kube.port import Resource

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 20.0
CPU_CLOCK: Final = 2
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", True)
QUEUE: Final = "bench"
NARROW: Final = "narrow"
"""The queue in which jobs wait for one another."""
ROOM: Final = 1_000_000
"""The cores of the queue and the Node, so many that no job waits for another."""
NARROW_ROOM: Final = 2
QUEUES: Final = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: machine}
""" + "".join(
    f"""---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: machine, resources: [{{name: cpu, nominalQuota: {room}}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}, namespace: default}}
spec: {{clusterQueue: {name}}}
"""
    for name, room in ((QUEUE, ROOM), (NARROW, NARROW_ROOM))
)


class Server:
    """A running server."""

    def __init__(self, folder: Path, popen: "subprocess.Popen[bytes]") -> None:
        self.folder = folder
        self.pid = popen.pid

    @property
    def connection(self) -> Connection:
        """The connection of its admin."""
        return connection(str(self.folder / "kubeconfig"))

    def kube(self) -> HttpKube:
        """A client; the caller closes it."""
        return HttpKube(self.connection, SystemClock(), agent="bench")

    def cpu_seconds(self) -> float:
        """The CPU seconds of its process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def work_seconds(self) -> float:
        """The CPU seconds of its process so far, as exact as the kernel counts them."""
        # The clock of another process, as clock_getcpuclockid(3) would return it.
        return clock_gettime(~self.pid << 3 | CPU_CLOCK)

    def memory(self) -> float:
        """The resident memory of its process in megabytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextlib.contextmanager
def serving(folder: Path | None = None, *, log_level: str = "warning") -> Iterator[Server]:
    """A server until the end of the block, in the given folder or a new one; running jobs are then ended."""
    with contextlib.ExitStack() as stack:
        data = folder or Path(stack.enter_context(TemporaryDirectory(prefix="bench-up-"))) / "data"
        data.mkdir(mode=0o700, exist_ok=True)
        manifests = data.parent / "queues.yaml"
        manifests.write_text(QUEUES)
        log = stack.enter_context((data.parent / "up.log").open("wb"))
        command = [sys.executable, "-m", "pykueue", "up", f"--data={data}", "--port=0", f"--apply={manifests}"]
        command += [f"--cpus={ROOM}", "--on-stop=terminate", f"--log-level={log_level}"]
        popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        stack.callback(ended, popen)
        assert popen.stdout is not None
        # It prints the next commands once it is up.
        if not popen.stdout.readline():
            raise RuntimeError(f"pykueue up did not start: {Path(log.name).read_text()[-2000:]}")
        yield Server(data, popen)


def ended(popen: "subprocess.Popen[bytes]") -> None:
    """Stop a server; kill it if it takes too long."""
    with popen:
        popen.send_signal(signal.SIGTERM)
        due = monotonic() + STOP_SECONDS
        while popen.poll() is None and monotonic() < due:
            sleep(0.05)
        popen.kill()


def job(name: str, command: list[str], queue: str = QUEUE, **spec: Any) -> bytes:
    """A Job of one pod in a queue."""
    container = {"name": "main", "image": "none", "command": command, "resources": {"requests": {"cpu": "1"}}}
    return msgspec.json.encode(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"kueue.x-k8s.io/queue-name": queue},
            },
            "spec": {
                "backoffLimit": 0,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
                **spec,
            },
        }
    )
