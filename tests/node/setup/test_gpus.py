"""Does each container get GPUs of its own?"""

from pathlib import Path

import pytest

from pykueue.node.setup.gpus import Gpu, Shares, find_gpus, parse_gpus, share_errors

LISTING = "0, GPU-aa, NVIDIA H200, 143771\n1, GPU-bb, NVIDIA H200, [N/A]\n"


def test_the_answer_of_nvidia_smi_is_read() -> None:
    assert parse_gpus(LISTING) == (Gpu(0, "GPU-aa", "NVIDIA H200", 143771), Gpu(1, "GPU-bb", "NVIDIA H200"))
    assert parse_gpus("No devices were found\n") == ()


async def test_gpus_are_found_by_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    shown = LISTING.replace("\n", "\\n")
    program.write_text(f"#!/bin/sh\n[ $1 = --query-gpu=index,uuid,name,memory.total ] && printf '{shown}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert [gpu.uuid for gpu in await find_gpus()] == ["GPU-aa", "GPU-bb"]


async def test_without_the_program_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await find_gpus() == ()


def test_no_gpu_has_two_owners(tmp_path: Path) -> None:
    shares = Shares(tmp_path, [Gpu(index) for index in range(4)])
    assert shares.take("one", {"a": 2}) == {"a": (0, 1)}
    assert shares.take("two", {"a": 1, "b": 1}) == {"a": (2,), "b": (3,)}
    assert shares.take("three", {"a": 1}) is None
    assert shares.take("four", {"a": 0}) == {}
    assert shares.take("one", {"a": 2}) == {"a": (0, 1)}
    shares.release("one")
    assert shares.free() == [0, 1]
    assert shares.take("three", {"a": 1}) == {"a": (0,)}


def test_a_restart_keeps_what_a_pod_has(tmp_path: Path) -> None:
    gpus = [Gpu(index) for index in range(2)]
    Shares(tmp_path, gpus).take("one", {"a": 1})
    later = Shares(tmp_path, gpus)
    later.restore("one")
    later.restore("nobody")
    assert later.free() == [1]
    later.release("one")
    assert list((tmp_path / "one").iterdir()) == []


def test_a_container_without_a_gpu_sees_none(tmp_path: Path) -> None:
    shares = Shares(tmp_path, [Gpu(0), Gpu(1)])
    assert shares.variables((0, 1))["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert shares.variables(())["CUDA_VISIBLE_DEVICES"] == ""
    assert shares.variables(())["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert Shares(tmp_path, []).variables(()) == {}


def test_shares_come_from_gpus_of_their_own_and_never_exceed_one(tmp_path: Path) -> None:
    shares = Shares(tmp_path, [Gpu(index) for index in range(3)], 2)
    assert shares.take("whole", {"a": 2}) is None
    assert shares.take("whole", {"a": 1}) == {"a": (0,)}
    assert shares.take("one", {}, {"a": 600}) == {"a": (1,)}
    assert shares.take("two", {}, {"a": 600}) == {"a": (2,)}
    assert shares.take("three", {}, {"a": 500}) is None
    assert shares.room() == 400
    assert shares.take("three", {}, {"a": 300}) == {"a": (1,)}
    # The fullest that has room: the other keeps 400.
    assert shares.take("four", {}, {"a": 100}) == {"a": (1,)}
    assert shares.room() == 400
    shares.release("two")
    assert shares.room() == 1000
    assert shares.take("both", {}, {"a": 500, "b": 500}) == {"a": (2,), "b": (2,)}


def test_a_restart_keeps_shares(tmp_path: Path) -> None:
    gpus = [Gpu(0), Gpu(1)]
    Shares(tmp_path, gpus, 1).take("one", {"a": 1}, {"a": 250})
    later = Shares(tmp_path, gpus, 1)
    later.restore("one")
    assert later.held == {"one": {"a": (0, 1)}}
    assert (later.free(), later.room()) == ([], 750)
    # A GPU that was shared and is now given out whole is not free before its last share is.
    assert Shares(tmp_path, gpus).free() == [0, 1]
    other = Shares(tmp_path, gpus)
    other.restore("one")
    assert other.free() == []
    later.release("one")
    assert list((tmp_path / "one").iterdir()) == []
    assert later.room() == 1000


def test_a_share_is_told_to_the_job(tmp_path: Path) -> None:
    shares = Shares(tmp_path, [Gpu(0), Gpu(1, memory_mib=8000)], 1)
    found = shares.variables((1,), 250)
    assert found["CUDA_VISIBLE_DEVICES"] == "1"
    assert (found["PYKUEUE_GPU_SHARE"], found["PYKUEUE_GPU_MEMORY_MIB"]) == ("0.25", "2000")
    assert "PYKUEUE_GPU_SHARE" not in shares.variables((0,))


def test_more_than_one_gpu_is_no_share() -> None:
    def spec(amount: object) -> dict[str, object]:
        return {"containers": [{"resources": {"limits": {"pykueue.io/gpu-share": amount}}}]}

    assert share_errors(spec("1000"), "spec") == []
    [error] = share_errors(spec(1001), "spec")
    assert str(error) == (
        "spec.containers[0].resources.limits[pykueue.io/gpu-share]: Forbidden: a share is at most 1000, one GPU; "
        "ask for nvidia.com/gpu instead"
    )
