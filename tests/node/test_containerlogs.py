"""Is the output of a container read as `kubectl logs` asks for it?"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS, Instant
from pykueue.kube.logs import LogError, LogQuery
from pykueue.node.containerlogs import BLOCK, PART_BYTES, ContainerLogs, Cut, Reader, last_output, log_end
from pykueue.node.supervision.logfiles import STDERR, STDOUT, LogFiles, Record
from pykueue.node.supervision.processes import boot_id, process_start
from tests.node.podhost import host, shell

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


async def read(folder: Path, **asked: Any) -> bytes:
    pieces = await ContainerLogs(folder, SystemClock()).stream(POD, LogQuery("main", **asked))
    return b"".join([piece async for piece in pieces])


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
async def test_what_is_asked_for(tmp_path: Path, size: int, asked: dict[str, Any], wanted: bytes) -> None:
    written(tmp_path, LINES, size=size)
    assert await read(tmp_path, **asked) == wanted


async def test_a_last_line_without_end(tmp_path: Path) -> None:
    written(tmp_path, [b"a\n", b"b"])
    assert await read(tmp_path) == b"a\nb"
    assert await read(tmp_path, tail=1) == b"b"
    assert await read(tmp_path, tail=2) == b"a\nb"


async def test_the_attempt_before(tmp_path: Path) -> None:
    written(tmp_path, [b"first\n"], number=0)
    with pytest.raises(LogError, match='previous terminated container "main" in pod "p" not found'):
        await read(tmp_path, previous=True)
    written(tmp_path, [b"second\n"], number=1)
    (tmp_path / "u" / "main" / "2").mkdir()
    assert await read(tmp_path, previous=True) == b"first\n"
    assert await read(tmp_path) == b"second\n"


async def test_a_container_that_has_not_started(tmp_path: Path) -> None:
    with pytest.raises(LogError) as caught:
        await read(tmp_path)
    assert str(caught.value) == 'container "main" in pod "p" is waiting to start: ContainerCreating'
    assert not caught.value.gone


async def test_following_waits_while_a_container_is_created(tmp_path: Path) -> None:
    following = asyncio.create_task(read(tmp_path, follow=True))
    await asyncio.sleep(0.2)
    assert not following.done()
    place = written(tmp_path, LINES)
    record = (place / "record").read_text()
    (place / "record").write_text("")
    await asyncio.sleep(0.2)
    assert not following.done()
    (place / "record").write_text(record)
    assert await following == b"".join(LINES)


async def test_following_a_container_that_cannot_start_is_refused(tmp_path: Path) -> None:
    waiting = {"name": "main", "state": {"waiting": {"reason": "CreateContainerError"}}}
    pod = {**POD, "status": {"phase": "Pending", "containerStatuses": [waiting]}}
    with pytest.raises(LogError, match="is waiting to start: CreateContainerError"):
        await ContainerLogs(tmp_path, SystemClock()).stream(pod, LogQuery("main", follow=True))


async def test_the_tail_of_a_log_that_grows_is_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = written(tmp_path, LINES)
    skip_to_tail = Reader.skip_to_tail

    def grow_and_skip(self: Reader, lines: int, end: int) -> None:
        LogFiles(str(place), 10_000, 100, lambda: START * 1000).take(STDOUT, b"five\nsix\nseven\n")
        skip_to_tail(self, lines, end)

    monkeypatch.setattr(Reader, "skip_to_tail", grow_and_skip)
    assert (await read(tmp_path, tail=2)).startswith(b"three\nfour\n")


async def test_a_pod_that_is_over_and_printed_nothing(tmp_path: Path) -> None:
    logs = ContainerLogs(tmp_path, SystemClock())
    pod = {**POD, "status": {"phase": "Succeeded"}}
    assert [piece async for piece in await logs.stream(pod, LogQuery("main"))] == []


async def test_a_name_that_is_no_name_reads_nothing(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="cannot be the name of a folder") as raised:
        await ContainerLogs(tmp_path, SystemClock()).stream(POD, LogQuery("../.."))
    assert not raised.value.gone
    assert not ContainerLogs(tmp_path, SystemClock()).follows("../../tmp", "secret")


async def test_following_ends_with_the_container(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("for i in 1 2 3; do echo $i; sleep 0.1; done; printf end"))
        await on.phase("p", "Running")
        assert await on.printed("p", follow=True) == "1\n2\n3\nend"
        await on.phase("p", "Succeeded")


async def test_following_shows_a_line_before_its_end(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("printf half; sleep 1000"))
        await on.phase("p", "Running")
        pieces = await on.runner.logs.stream(on.stored("p"), LogQuery("main", follow=True))
        assert await anext(pieces) == b"half"
        await pieces.aclose()  # type: ignore[attr-defined]  # an async generator has it


async def test_following_goes_on_through_rotated_files(tmp_path: Path) -> None:
    place = written(tmp_path, [])
    (place / "record").write_text(f"supervisor {1} {process_start(1)} {boot_id()} n/p\n")
    log = LogFiles(str(place), 60, 3, lambda: START * 1000)
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


async def test_following_ends_when_the_pod_is_removed(tmp_path: Path) -> None:
    logs = ContainerLogs(tmp_path, SystemClock())
    assert logs.over("u/main/0")


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
    reader.skip_to_tail(tail, log_end(place))
    found = b""
    while records := reader.read():
        found += b"".join(one.data for one in records)
    assert found == b"".join(b"%d\n" % number for number in range(max(0, count - tail), count))


async def test_reading_a_full_log_gives_way_to_other_work_after_each_bounded_piece(tmp_path: Path) -> None:
    place = written(tmp_path, [])
    log = LogFiles(str(place), 10 << 20, 5, lambda: START * 1000)
    block = b"a line of output\n" * 15_000
    while log.removes() is None:
        log.take(STDOUT, block)
    turns, over = 0, False

    async def other_work() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other_work())
    await asyncio.sleep(0)
    asked_for = (
        LogQuery("main"),
        LogQuery("main", follow=True),
        LogQuery("main", tail=2_000_000),
        LogQuery("main", timestamps=True),
    )
    for asked in asked_for:
        before, total = turns, 0
        async for piece in await ContainerLogs(tmp_path, SystemClock()).stream(POD, asked):
            assert turns > before, "something else could run since the piece before"
            assert len(piece) <= BLOCK
            before, total = turns, total + len(piece)
        assert total > 20 << 20
    over = True
    await beside


async def test_a_part_of_a_log_is_bounded_and_the_next_begins_where_it_ended(tmp_path: Path) -> None:
    place = written(tmp_path, [])
    log = LogFiles(str(place), 1 << 20, 100, lambda: START * 1000)
    for number in range(100):
        log.take(STDOUT if number % 2 else STDERR, b"%d\n" % number * 20_000)
    logs, position, whole, sizes = ContainerLogs(tmp_path, SystemClock()), 0, b"", []
    while not (part := await logs.part(POD, LogQuery("main", position=position))).ended:
        assert part.position == position
        position += len(part.data)
        whole += part.data
        sizes.append(len(part.data))
    assert max(sizes) <= PART_BYTES
    assert len(sizes) >= 5
    files = sorted(place.glob("*.log"), key=lambda path: int(path.stem))
    assert whole == b"".join(path.read_bytes() for path in files)


async def test_a_part_of_output_that_is_no_longer_kept_is_not_found(tmp_path: Path) -> None:
    written(tmp_path, [b"printed\n"]).joinpath("0.log").unlink()
    logs = ContainerLogs(tmp_path, SystemClock())
    with pytest.raises(LogError, match="no longer kept") as raised:
        await logs.part(POD, LogQuery("main", position=5))
    assert raised.value.gone


async def test_both_streams_are_shown_as_they_came(tmp_path: Path) -> None:
    place = written(tmp_path, [])
    time = [START * 1000]
    log = LogFiles(str(place), 10_000, 5, lambda: time[0])
    for stream, text in ((STDOUT, b"one\ntw"), (STDOUT, b"o\n"), (STDERR, b"oh\n"), (STDOUT, b"three")):
        log.take(stream, text)
        time[0] += 1_000_000_000
    assert await read(tmp_path) == b"one\ntwo\noh\nthree"
    assert await read(tmp_path, tail=3) == b"two\noh\nthree"
    assert await read(tmp_path, tail=2, timestamps=True) == (
        b"2027-01-15T08:00:02.000000000Z oh\n2027-01-15T08:00:03.000000000Z three"
    )
    assert await read(tmp_path, since=Instant(START + MICROS)) == b"oh\nthree", "a line came when it began"


async def test_what_rotation_removed_is_said_in_its_place(tmp_path: Path) -> None:
    place = written(tmp_path, [])
    log = LogFiles(str(place), 10, 2, lambda: START * 1000)
    for number in range(5):
        log.take(STDOUT, b"%d\n" % number)
    assert await read(tmp_path) == b"[6 bytes of output are lost here: log rotation removed them]\n3\n4\n"
    assert await read(tmp_path, tail=1) == b"4\n"
    cut = Cut(LogQuery("main", follow=True))
    assert cut.take(Record(b"", STDOUT, 0, b"half")) == b"half"
    wanted = b"\n[96 bytes of output are lost here: log rotation removed them]\nwhole\n"
    assert cut.take(Record(b"", STDOUT, 100, b"whole\n")) == wanted


def test_the_last_words_of_a_container(tmp_path: Path) -> None:
    written(tmp_path, [b"%d\n" % number for number in range(5000)])
    wanted = "".join(f"{number}\n" for number in range(4920, 5000))
    assert last_output(tmp_path, "u/main/0") == wanted
    written(tmp_path, [b"x" * 200_000], number=1)
    assert last_output(tmp_path, "u/main/1") == "x" * 2048
