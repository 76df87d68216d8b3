"""Is this machine a Node, and said to be well?"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykueue.base.clock import START, ManualClock
from pykueue.base.units import MICROS, micro_time
from pykueue.kube.port import LEASES, NODES, KubeError, Patch
from pykueue.kubecontrollers.lostpods import PATIENCE_SECONDS
from pykueue.node.machine import LIMITS, Machine, NodeRegistration, find_machine, kept_name, node_name, node_tree
from pykueue.node.setup.gpus import Gpu
from tests.fakes.faulty import Faulty, settle
from tests.node.podhost import pod_api

MACHINE = Machine(3500, 8 << 30, (Gpu(0), Gpu(1)), 100 << 30)
NOW = START
LEASE = "kube-node-lease"


def empty() -> tuple[Faulty, ManualClock]:
    clock = ManualClock()
    return pod_api(clock), clock


def test_the_node_of_a_machine() -> None:
    tree: Any = node_tree("here", MACHINE, NOW, annotations={"a": "b"})
    assert tree["metadata"]["name"] == "here"
    assert tree["metadata"]["annotations"] == {"a": "b"}
    assert tree["metadata"]["labels"]["kubernetes.io/hostname"] == "here"
    amounts = {"cpu": "3500m", "memory": "8Gi", "ephemeral-storage": "100Gi", "nvidia.com/gpu": "2", "pods": "1k"}
    assert tree["status"]["capacity"] == tree["status"]["allocatable"] == amounts
    ready = {one["type"]: one["status"] for one in tree["status"]["conditions"]}
    assert ready == {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
    assert tree["status"]["addresses"][0] == {"type": "InternalIP", "address": "127.0.0.1"}


async def test_a_machine_is_found_or_given() -> None:
    found = await find_machine()
    assert found.cpus_milli >= 1000
    assert found.memory_bytes > 1 << 28
    assert "nvidia.com/gpu" not in Machine(1, 1).resources()
    given = await find_machine(cpus=1.5, memory=1 << 20, gpus=3)
    assert (given.cpus_milli, given.memory_bytes, [gpu.index for gpu in given.gpus]) == (1500, 1 << 20, [0, 1, 2])
    assert (await find_machine(gpus=0)).gpus == ()


def test_the_name_of_a_machine_is_a_name() -> None:
    name = node_name()
    assert name == name.lower().strip("-")
    assert 0 < len(name) < 64


@asynccontextmanager
async def at_work(registration: NodeRegistration) -> AsyncIterator[None]:
    task = asyncio.create_task(registration.run())
    await settle()
    yield
    task.cancel()
    await asyncio.wait((task,))


async def test_gpus_that_are_gone_are_taken_from_the_node_and_what_others_count_stays() -> None:
    api, clock = empty()
    await NodeRegistration(api, clock, "here", MACHINE, "").register()
    others = {"status": {"capacity": {"example.com/licence": "3"}}}
    await api.patch(NODES, "here", msgspec.json.encode(others), how=Patch.MERGE, subresource="status")
    await NodeRegistration(api, clock, "here", Machine(1000, 1 << 30), "").register()
    status = api.at(NODES, "here")["status"]
    assert "nvidia.com/gpu" not in status["allocatable"]
    assert "nvidia.com/gpu" not in status["capacity"]
    assert (status["capacity"]["cpu"], status["capacity"]["example.com/licence"]) == ("1", "3")


async def test_the_node_is_registered_and_its_lease_renewed() -> None:
    api, clock = empty()
    async with at_work(NodeRegistration(api, clock, "here", MACHINE, "by some means")):
        node = api.at(NODES, "here")
        assert node["metadata"]["annotations"] == {LIMITS: "by some means"}
        assert node["status"]["capacity"]["cpu"] == "3500m"
        assert clock.next_due() == NOW + 20 * MICROS, "often enough for a lease of 40 s"
        await clock.advance(60)
        assert api.at(LEASES, "here", LEASE)["spec"]["renewTime"] == micro_time(clock.now())
        # One write for each beat, and no more.
        assert [str(write) for write in api.writes].count("patch leases") == 3


async def test_a_deleted_node_is_registered_again_before_its_pods_count_as_lost() -> None:
    api, clock = empty()
    async with at_work(NodeRegistration(api, clock, "here", MACHINE, "")):
        await api.delete(NODES, "here")
        await clock.advance(PATIENCE_SECONDS - 1)
        assert api.at(NODES, "here")["status"]["capacity"]["cpu"] == "3500m"


async def test_what_others_wrote_on_the_node_stays() -> None:
    api, clock = empty()
    api.put(NODES, "here", metadata={"labels": {"disk": "fast"}}, spec={"unschedulable": True})
    async with at_work(NodeRegistration(api, clock, "here", MACHINE, "")):
        await clock.advance(60)
    node = api.at(NODES, "here")
    assert node["metadata"]["labels"]["disk"] == "fast"
    assert node["spec"] == {"unschedulable": True}


async def test_a_registration_that_fails_is_tried_again_soon() -> None:
    api, clock = empty()
    api.failures_of["create nodes"] = [KubeError("create", 500, "", "not now")]
    async with at_work(NodeRegistration(api, clock, "here", MACHINE, "")):
        assert clock.next_due() == NOW + 2 * MICROS
        await clock.advance(2)
        assert clock.next_due() == NOW + 22 * MICROS
        assert api.find(NODES, "here")


def test_a_node_keeps_its_name_when_the_machine_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    first = kept_name(data)
    assert first == node_name()
    assert (data / "node").stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    assert kept_name(data) == first
    assert kept_name(tmp_path / "other") == "another"


@pytest.mark.parametrize("content", [b"", b"../x\n", b"\xff", b"Not A Name"], ids=["empty", "path", "bytes", "words"])
def test_what_is_no_name_is_not_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "node").write_bytes(content)
    assert kept_name(tmp_path) == node_name()
    assert (tmp_path / "node").read_text() == f"{node_name()}\n"


async def test_nodes_that_this_machine_was_before_are_deleted_and_those_of_others_stay() -> None:
    api, clock = empty()
    await NodeRegistration(api, clock, "before", MACHINE, "").register()
    api.put(LEASES, "before", LEASE)
    api.put(NODES, "made-by-hand")
    await settle()
    async with at_work(NodeRegistration(api, clock, "here", MACHINE, "")):
        assert [*api.all(NODES)] == ["here", "made-by-hand"]
        assert [*api.all(LEASES)] == [f"{LEASE}/here"]
