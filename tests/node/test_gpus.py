"""Does each container get GPUs of its own?"""

from pathlib import Path

import pytest

from pykueue.node.gpus import Gpu, Shares, find_gpus, parse_gpus

LISTING = "0, GPU-aa, NVIDIA H200\n1, GPU-bb, NVIDIA H200\n"


def test_the_answer_of_nvidia_smi_is_read() -> None:
    assert parse_gpus(LISTING) == (Gpu(0, "GPU-aa", "NVIDIA H200"), Gpu(1, "GPU-bb", "NVIDIA H200"))
    assert parse_gpus("No devices were found\n") == ()


async def test_gpus_are_found_by_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    shown = LISTING.replace("\n", "\\n")
    program.write_text(f"#!/bin/sh\n[ $1 = --query-gpu=index,uuid,name ] && printf '{shown}'\n")
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
