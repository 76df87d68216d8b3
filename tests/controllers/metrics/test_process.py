"""Is what the process takes of its machine told, and nothing where that cannot be known?"""

import os
import resource
from pathlib import Path

import pytest

from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS
from pykueue.controllers.metrics import process
from tests.prometheus import Page


def shown() -> Page:
    lines: list[str] = []
    process.write(lines)
    return Page("\n".join(lines))


def test_the_process_is_told_under_the_names_that_all_exporters_use() -> None:
    found = shown()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    assert found["process_cpu_seconds_total"] == pytest.approx(usage.ru_utime + usage.ru_stime, abs=0.5)
    assert 0 < found["process_resident_memory_bytes"] <= usage.ru_maxrss * 1024
    assert found["process_resident_memory_bytes"] < found["process_virtual_memory_bytes"]
    assert SystemClock().now() / MICROS - 24 * 3600 < found["process_start_time_seconds"]
    assert found["process_start_time_seconds"] <= SystemClock().now() / MICROS + 1
    assert 3 <= found["process_open_fds"] < found["process_max_fds"]


def test_an_open_file_is_counted() -> None:
    before = shown()["process_open_fds"]
    with Path(os.devnull).open():
        assert shown()["process_open_fds"] == before + 1


def test_a_system_without_proc_tells_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    process.write(lines, tmp_path)
    assert lines == []
