"""Is the output of a container read as `kubectl logs` asks for it?"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS, Instant
from pykueue.local.containerlogs import ContainerLogs, Cut, Reader
from pykueue.local.logfiles import STDOUT, LogFiles, Record
from pykueue.local.logs import LogQuery
from pykueue.local.processes import boot_id, process_start
from pykueue.local.statuses import StatusError
from tests.local.podhost import host, shell

START = 1_800_000_000 * MICROS
POD: dict[str, Any] = {"metadata": {"name": "p", "uid": "u"}, "status": {"phase": "Running"}}


def written(folder: Path, lines: list[bytes], *, size: int = 10_000, number: int = 0) -> Path:
    """An attempt that is over and printed these lines, one each second."""
    place = folder / "u" / "main" / str(number)
    place.mkdir(parents=True)
    (place / "record").write_text("supervisor 1 1 boot n/p\nrunning 1 1 1\nexited 0 0 2 0\n")
    time = [START * 1000]
    log = LogFiles(str(place), size, 100, lambda: time[0])
    for line in lines:
        log.take(STDOUT, line)
        time[0] += 1_000_000_000
    return place


def read(folder: Path, **asked: Any) -> bytes:
    async def story() -> bytes:
        pieces = await ContainerLogs(folder, SystemClock()).stream(POD, LogQuery("main", **asked))
        return b"".join([piece async for piece in pieces])

    return asyncio.run(story())


LINES = [b"one\n", b"two\n", b"three\n", b"four\n"]


@pytest.mark.parametrize("size", [10_000, 40, 80])
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        pytest.param({}, b"one\ntwo\nthree\nfour\n", id="everything"),
        pytest.param({"tail": 2}, b"three\nfour\n", id="the last lines"),
        pytest.param({"tail": 0}, b"", id="none of the last lines"),
        pytest.param({"tail": 99}, b"one\ntwo\nthree\nfour\n", id="more than there are"),
        pytest.param({"since": Instant(START + 2 * MICROS)}, b"three\nfour\n", id="since a time"),
        pytest.param({"since": Instant(START + 2 * MICROS), "tail": 1}, b"four\n", id="both"),
        pytest.param({"limit_bytes": 6}, b"one\ntw", id="so many bytes"),
        pytest.param(
            {"timestamps": True, "tail": 1}, b"2027-01-15T08:00:03.000000000Z four\n", id="with the time of each line"
        ),
    ],
)
def test_what_is_asked_for(tmp_path: Path, size: int, asked: dict[str, Any], wanted: bytes) -> None:
    written(tmp_path, LINES, size=size)
    assert read(tmp_path, **asked) == wanted


def test_a_last_line_without_end(tmp_path: Path) -> None:
    written(tmp_path, [b"a\n", b"b"])
    assert read(tmp_path) == b"a\nb"
    assert read(tmp_path, tail=1) == b"b"
    assert read(tmp_path, tail=2) == b"a\nb"


def test_the_attempt_before(tmp_path: Path) -> None:
    written(tmp_path, [b"first\n"], number=0)
    with pytest.raises(StatusError, match='previous terminated container "main" in pod "p" not found'):
        read(tmp_path, previous=True)
    written(tmp_path, [b"second\n"], number=1)
    (tmp_path / "u" / "main" / "2").mkdir()
    assert read(tmp_path, previous=True) == b"first\n"
    assert read(tmp_path) == b"second\n"


def test_a_container_that_has_not_started(tmp_path: Path) -> None:
    with pytest.raises(StatusError) as caught:
        read(tmp_path)
    assert caught.value.message == 'container "main" in pod "p" is waiting to start: ContainerCreating'
    assert caught.value.code == 400


def test_a_pod_that_is_over_and_printed_nothing(tmp_path: Path) -> None:
    logs = ContainerLogs(tmp_path, SystemClock())
    pod = {**POD, "status": {"phase": "Succeeded"}}

    async def story() -> None:
        assert [piece async for piece in await logs.stream(pod, LogQuery("main"))] == []

    asyncio.run(story())


def test_a_name_that_is_no_name_reads_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a folder"):
        asyncio.run(ContainerLogs(tmp_path, SystemClock()).stream(POD, LogQuery("../..")))


def test_following_ends_with_the_container(tmp_path: Path) -> None:
    async def story() -> None:
        async with host(tmp_path) as on:
            await on.pod("p", shell("for i in 1 2 3; do echo $i; sleep 0.1; done; printf end"))
            await on.phase("p", "Running")
            assert await on.printed("p", follow=True) == "1\n2\n3\nend"
            await on.phase("p", "Succeeded")

    asyncio.run(story())


def test_following_shows_a_line_before_its_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with host(tmp_path) as on:
            await on.pod("p", shell("printf half; sleep 1000"))
            await on.phase("p", "Running")
            pieces = await on.runner.logs.stream(on.stored("p"), LogQuery("main", follow=True))
            assert await anext(pieces) == b"half"
            await pieces.aclose()  # type: ignore[attr-defined]  # an async generator has it

    asyncio.run(story())


def test_following_goes_on_through_rotated_files(tmp_path: Path) -> None:
    place = written(tmp_path, [])
    (place / "record").write_text(f"supervisor {1} {process_start(1)} {boot_id()} n/p\n")
    log = LogFiles(str(place), 60, 3, lambda: START * 1000)

    async def story() -> None:
        pieces = await ContainerLogs(tmp_path, SystemClock()).stream(POD, LogQuery("main", follow=True))
        wanted = got = b""
        for number in range(20):
            line = b"line %d\n" % number
            log.take(STDOUT, line)
            wanted += line
            while len(got) < len(wanted):
                got += await anext(pieces)
        assert got == wanted
        (place / "record").write_text("supervisor 1 1 boot n/p\nexited 0 0 2 0\n")
        assert [piece async for piece in pieces] == []

    asyncio.run(story())


def test_following_ends_when_the_pod_is_removed(tmp_path: Path) -> None:
    async def story() -> None:
        logs = ContainerLogs(tmp_path, SystemClock())
        assert logs.over("u/main/0")

    asyncio.run(story())


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=10),
    st.integers(1, 40),
    st.booleans(),
)
def test_pieces_of_any_size_give_the_same(lines: list[bytes], size: int, timestamps: bool) -> None:
    stamp = b"2027-01-15T08:00:00.000000000Z "
    whole = b"".join(line + b"\n" for line in lines)
    cut = Cut(LogQuery("main", timestamps=timestamps))
    pieces = [Record(stamp, STDOUT, at, whole[at : at + size]) for at in range(0, len(whole), size)]
    got = b"".join(cut.take(piece) for piece in pieces)
    assert got == (b"".join(stamp + line + b"\n" for line in lines) if timestamps else whole)


@given(st.integers(0, 30), st.integers(0, 35))
def test_the_tail_is_as_long_as_asked(tmp_path_factory: pytest.TempPathFactory, count: int, tail: int) -> None:
    folder = tmp_path_factory.mktemp("tail")
    place = written(folder, [b"%d\n" % number for number in range(count)], size=150)
    reader = Reader(place)
    reader.skip_to_tail(tail)
    found = b""
    while records := reader.read():
        found += b"".join(one.data for one in records)
    assert found == b"".join(b"%d\n" % number for number in range(max(0, count - tail), count))
