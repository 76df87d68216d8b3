"""Is nothing run twice, and nothing left running, when the server is killed at any moment?"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pykueue.apiserver.storage.datafile import backup
from pykueue.base.units import Instant
from pykueue.kube.port import PODS
from pykueue.node import attempts, containers
from pykueue.node.machine import Machine
from pykueue.node.runner import Runner, Settings
from pykueue.node.setup.gpus import Gpu
from pykueue.node.supervision.processes import process_start
from tests.node.podhost import NODE, Host, host, pod_api, shell
from tests.patience import overdue

SERVER = """
import asyncio, sys
from pathlib import Path
from tests.node.test_runner_restart import serve
asyncio.run(serve(Path(sys.argv[1])))
"""


async def phases(folder: Path) -> list[str]:
    """The phases of the pods, from a copy of what a server that runs or was killed has stored."""
    copy = folder / "copy"
    copy.unlink(missing_ok=True)
    backup(folder / "objects", copy)
    api = pod_api(path=copy)
    found = [tree["status"]["phase"] for tree in api.all(PODS).values()]
    await api.registry.store.close()
    return found


async def serve(folder: Path) -> None:
    """Run the pods of a folder until killed."""
    api = pod_api(path=folder / "objects")
    writes = (folder / "writes").open("ab", buffering=0)
    api.after = lambda what: writes.write(b".")
    machine = Machine(2000, 1 << 30, (Gpu(0),), 1 << 30)
    runner = Runner(api, api.clock, lambda notice: None, Settings(folder / "data", node=NODE), machine)
    await runner.open()
    await runner.run()


def begin(folder: Path) -> subprocess.Popen[bytes]:
    """A server in a process of its own."""
    root = Path(__file__).parent.parent.parent
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.Popen([sys.executable, "-c", SERVER, str(folder)], env=environment)


def kill_at_work(folder: Path, seconds: float) -> None:
    """Start a server, and kill it so long after it has begun to start or to write something."""
    before = traces(folder)
    server = begin(folder)
    deadline = time.monotonic() + 10
    while traces(folder) == before and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(seconds)
    server.kill()
    server.wait()


def traces(folder: Path) -> int:
    """A number that grows as pods are run."""
    begun = len(attempts.pods(attempts.folder_of(folder / "data")))
    return begun + sum(path.stat().st_size for path in (folder / "writes", folder / "ran") if path.exists())


def disruption(on: Host, name: str) -> str:
    """The reason of a pod's DisruptionTarget condition; empty if it has none."""
    found = {one["type"]: one for one in on.status(name)["conditions"]}
    condition = found.get("DisruptionTarget", {"status": "False"})
    return str(condition["reason"]) if condition["status"] == "True" else ""


async def test_a_process_is_found_again_and_its_end_is_heard(tmp_path: Path) -> None:
    api = pod_api()
    first = Host(tmp_path, api)
    await first.begin()
    uid = await first.pod("p", shell(f"echo x >> {tmp_path}/count; sleep 0.6; exit 9"))
    await first.phase("p", "Running")
    await first.end()
    async with host(tmp_path, api) as second:
        assert second.runner.sandboxes[uid].containers["main"].alive
        status = await second.phase("p", "Failed")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 9
        assert status["containerStatuses"][0]["restartCount"] == 0
    assert (tmp_path / "count").read_text() == "x\n"


async def test_what_ended_meanwhile_is_written_and_not_run_again(tmp_path: Path) -> None:
    api = pod_api()
    first = Host(tmp_path, api)
    await first.begin()
    await first.pod("p", shell(f"echo x >> {tmp_path}/count; sleep 0.2; exit 4"))
    await first.phase("p", "Running")
    await first.end()
    await asyncio.sleep(0.4)
    async with host(tmp_path, api) as second:
        status = await second.phase("p", "Failed")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
    assert (tmp_path / "count").read_text() == "x\n"


async def test_a_pod_that_was_deleted_meanwhile_is_ended(tmp_path: Path) -> None:
    api = pod_api()
    first = Host(tmp_path, api)
    await first.begin()
    uid = await first.pod("p", shell("trap '' TERM; echo $$$$; while :; do sleep 0.02; done"))
    await first.phase("p", "Running")
    pid = int(await first.printed("p"))
    await first.end()
    await api.delete(PODS, "p", "default", grace=0)
    async with host(tmp_path, api) as second:
        await second.until(lambda: not process_start(pid))
        await second.until(lambda: not (second.runner.folder / uid).exists())


async def test_a_gpu_stays_with_its_pod(tmp_path: Path) -> None:
    asks: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    api = pod_api()
    first = Host(tmp_path, api, gpus=1)
    await first.begin()
    await first.pod("p", shell("sleep 0.6", **asks))
    await first.phase("p", "Running")
    await first.end()
    async with host(tmp_path, api, gpus=1) as second:
        assert second.runner.shares.free() == []
        await second.pod("q", shell(f"date +%s%N > {tmp_path}/began", **asks))
        ended = (await second.phase("p", "Succeeded"))["containerStatuses"][0]["state"]["terminated"]
        await second.phase("q", "Succeeded")
        assert ended["exitCode"] == 0
        assert second.runner.shares.free() == [0]


async def test_after_a_reboot_what_ran_is_lost_and_said_to_be(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        uid = f"{random.getrandbits(32):08x}"
        # The record of another boot: the number of its supervisor may be anybody's now.
        folder = on.runner.folder / uid / "main" / "0"
        folder.mkdir(parents=True)
        own = os.getpid()
        (folder / "record").write_text(f"supervisor {own} {process_start(own)} other-boot n/p\nrunning 1 1 1000\n")
        await on.pod("p", shell(f"touch {tmp_path}/ran"), uid=uid)
        await on.phase("p", "Failed")
        ended = on.state("p")["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
        assert disruption(on, "p") == "TerminationByKubelet"
        assert not (tmp_path / "ran").exists()


async def test_what_a_shutdown_of_the_machine_ends_is_marked_as_disrupted(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        for name, script in (("stopped", "sleep 60"), ("failed", "kill -TERM $$$$")):
            uid = await on.pod(name, shell(script))
            if name == "stopped":
                await on.phase(name, "Running")
                attempt = on.runner.sandboxes[uid].containers["main"].attempt
                assert attempt is not None
                os.kill(attempt.supervisor.pid, signal.SIGTERM)
            await on.phase(name, "Failed")
            assert on.state(name)["terminated"]["exitCode"] == 143
        assert disruption(on, "stopped") == "TerminationByKubelet"
        assert disruption(on, "failed") == ""


async def test_what_the_stop_of_the_server_ends_is_marked_as_disrupted(tmp_path: Path) -> None:
    async with host(tmp_path, on_stop="terminate") as on:
        await on.pod("p", shell("sleep 60"))
        await on.phase("p", "Running")
        await on.runner.stop()
        assert on.status("p")["reason"] == "Terminated"
        assert disruption(on, "p") == "TerminationByKubelet"


async def test_an_attempt_that_nobody_claimed_is_begun(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        uid = f"{random.getrandbits(32):08x}"
        (on.runner.folder / uid / "main" / "0").mkdir(parents=True)
        await on.pod("p", shell("exit 0"), uid=uid)
        status = await on.phase("p", "Succeeded")
        assert status["containerStatuses"][0]["restartCount"] == 0


async def test_killed_at_any_moment_nothing_runs_twice_and_nothing_is_left(tmp_path: Path) -> None:
    rng = random.Random(2)
    tag = f"{random.getrandbits(32):08x}"
    pods = 60
    trees = []
    for number in range(pods):
        # Each attempt leaves one line with its key; a pod that is restarted has more than one attempt.
        script = f'echo "$PYKUEUE_ATTEMPT" >> {tmp_path}/ran; sleep {rng.choice((0, 0.05, 0.4))}'
        uid = f"{tag}-{number}"
        tree = {
            "metadata": {"name": f"p{number}", "namespace": "default", "uid": uid, "generation": 1},
            "spec": {"nodeName": NODE, "restartPolicy": "Never", "containers": [shell(script)]},
            "status": {"phase": "Pending"},
        }
        trees.append(tree)

    async def store() -> None:
        api = pod_api(path=tmp_path / "objects")
        for tree in trees:
            api.store(PODS, tree)
        await api.registry.store.close()

    await store()
    for _ in range(5):
        kill_at_work(tmp_path, rng.uniform(0, 0.1))
    server = begin(tmp_path)
    try:
        start = time.monotonic()
        while {"Pending", "Running"} & set(found := await phases(tmp_path)) and not overdue(start, 60):
            time.sleep(0.1)
        assert found == ["Succeeded"] * pods
        ran = (tmp_path / "ran").read_text().split()
        assert sorted(ran) == sorted(f"{tag}-{number}/main/0" for number in range(pods))
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
    assert attempts.still_running(tmp_path / "data") == []


async def test_what_failed_meanwhile_says_why(tmp_path: Path) -> None:
    api = pod_api()
    first = Host(tmp_path, api)
    await first.begin()
    asks: dict[str, Any] = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    await first.pod("p", shell("echo no memory; sleep 0.2; exit 4", **asks))
    await first.phase("p", "Running")
    await first.end()
    await asyncio.sleep(0.4)
    async with host(tmp_path, api) as second:
        await second.phase("p", "Failed")
        assert second.state("p")["terminated"]["message"] == "no memory\n"


def test_only_after_a_reboot_nothing_is_looked_for_that_lives_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(containers, "end_marked", looked.append)
    for boot in ("earlier", "now"):
        folder = tmp_path / boot / "main" / "0"
        folder.mkdir(parents=True)
        (folder / "record").write_text(f"supervisor 1 1 {boot} n/p\nrunning 1 1 1000\n")
        container = containers.Container(boot, {"name": "main"}, init=False)
        container.restore(tmp_path, "now", Instant(5))
        assert container.end is not None
        assert container.end.code == 137
    assert looked == ["now/main/0"]
