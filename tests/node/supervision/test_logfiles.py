"""Is output kept whole, dated, apart by stream, and within bounds?"""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.node.supervision.logfiles import HEADER, STDERR, STDOUT, Capture, LogFiles, Record, Records

NANOS = 1_800_000_000_123_456_789
NOW = b"2027-01-15T08:00:00.123456789Z "


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir(), key=lambda path: int(path.stem))}


def log(folder: Path, size: int = 1000, files: int = 3) -> LogFiles:
    return LogFiles(str(folder), size, files, lambda: NANOS)


def printed(folder: Path) -> list[Record]:
    """The records that are kept; their time is that of the test."""
    return [*Records().feed(b"".join(kept(folder).values()))]


def record(before: int, data: bytes, stream: bytes = STDOUT) -> bytes:
    return b"%s%s %015d %07d\n%s" % (NOW, stream, before, len(data), data)


def test_each_piece_of_output_has_its_time_and_its_stream(tmp_path: Path) -> None:
    writer = log(tmp_path)
    for stream, block in ((STDOUT, b"a\nb\n"), (STDERR, b"oh\n"), (STDOUT, b"\r\0\xff"), (STDERR, b"no end")):
        writer.take(stream, block)
    wanted = record(0, b"a\nb\n") + record(4, b"oh\n", STDERR) + record(7, b"\r\0\xff")
    assert kept(tmp_path) == {"0.log": wanted + record(10, b"no end", STDERR)}
    assert printed(tmp_path) == [
        Record(NOW, STDOUT, 0, b"a\nb\n"),
        Record(NOW, STDERR, 4, b"oh\n"),
        Record(NOW, STDOUT, 7, b"\r\0\xff"),
        Record(NOW, STDERR, 10, b"no end"),
    ]


def test_without_output_there_is_no_file(tmp_path: Path) -> None:
    log(tmp_path)
    assert kept(tmp_path) == {}


def test_only_the_last_files_are_kept_and_each_is_named_after_where_it_begins(tmp_path: Path) -> None:
    writer = log(tmp_path, size=HEADER + 2, files=3)
    for number in range(6):
        assert (writer.removes() is not None) is (number >= 3)
        writer.take(STDOUT, b"%d\n" % number)
    size = HEADER + 2
    assert kept(tmp_path) == {f"{size * number}.log": record(2 * number, b"%d\n" % number) for number in (3, 4, 5)}
    assert writer.removes() == size * 4, "what the next one removes ends where the second oldest begins"


def test_a_line_without_end_does_not_fill_the_disk(tmp_path: Path) -> None:
    writer = log(tmp_path, size=1000, files=2)
    for _ in range(1000):
        writer.take(STDOUT, b"x" * 50)
    assert sum(len(content) for content in kept(tmp_path).values()) < 2 * (1000 + HEADER + 50)
    assert len(kept(tmp_path)) == 2


def test_what_is_to_be_kept_is_kept_until_the_log_is_twice_as_large(tmp_path: Path) -> None:
    writer = log(tmp_path, size=HEADER + 2, files=2)
    for number in range(20):
        writer.take(STDOUT, b"%d\n" % (number % 10), keep=number > 1)
        assert sum(len(content) for content in kept(tmp_path).values()) <= 2 * 2 * (HEADER + 2)
        if number == 2:
            assert [one.data for one in printed(tmp_path)] == [b"0\n", b"1\n", b"2\n"]


def test_what_the_disk_does_not_take_is_counted_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = log(tmp_path)
    writer.take(STDOUT, b"before\n")
    writer.take(STDERR, b"half")
    real = os.write

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    writer.take(STDOUT, b"lost\n")
    writer.take(STDOUT, b"lost too\n")
    writer.take(STDERR, b"lost as well\n")
    monkeypatch.setattr(os, "write", real)
    writer.take(STDOUT, b"after\n")
    found = printed(tmp_path)
    assert [(one.stream, one.data) for one in found] == [
        (STDOUT, b"before\n"),
        (STDERR, b"half"),
        (STDOUT, b"[14 bytes of output are lost here: No space left on device]\n"),
        (STDERR, b"\n[13 bytes of output are lost here: No space left on device]\n"),
        (STDOUT, b"after\n"),
    ]
    before = 0
    for one in found:
        assert one.printed == before, "readers see no gap where the log itself speaks of one"
        before += len(one.data)


def test_a_record_that_the_disk_took_in_part_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = log(tmp_path)
    real = os.write
    room = [HEADER + 3]

    def little(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken, room[0] = min(room[0], len(data)), max(0, room[0] - len(data))
        return real(fd, data[:taken])

    monkeypatch.setattr(os, "write", little)
    writer.take(STDOUT, b"in part\n")
    assert [one.data for one in printed(tmp_path)] == [b"in "]
    writer.take(STDOUT, b"lost\n")
    monkeypatch.setattr(os, "write", real)
    writer.take(STDOUT, b"after\n")
    wanted = b"in part\n[5 bytes of output are lost here: No space left on device]\nafter\n"
    assert b"".join(one.data for one in printed(tmp_path)) == wanted


def test_a_folder_that_is_gone_loses_output_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    writer = log(folder, size=HEADER + 2)
    writer.take(STDOUT, b"0\n")
    folder.rename(tmp_path / "elsewhere")
    writer.take(STDOUT, b"1\n")
    writer.take(STDOUT, b"2\n")
    (tmp_path / "elsewhere").rename(folder)
    writer.take(STDOUT, b"3\n")
    assert [one.data for one in printed(folder)] == [
        b"0\n",
        b"[4 bytes of output are lost here: No such file or directory]\n",
        b"3\n",
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from((STDOUT, STDERR)),
            st.binary(min_size=1, max_size=40).map(lambda data: data.replace(b"x", b"\n")),
        ),
        max_size=30,
    ),
    st.integers(1, 200),
)
def test_nothing_is_lost_or_moved_within_the_bounds(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[tuple[bytes, bytes]], size: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    writer = LogFiles(str(folder), 100, 1000, lambda: NANOS)
    for stream, block in blocks:
        writer.take(stream, block)
    whole = b"".join(kept(folder).values())
    records = Records()
    # It may be read in pieces of any size.
    found = [one for at in range(0, len(whole), size) for one in records.feed(whole[at : at + size])]
    for stream in (STDOUT, STDERR):
        wanted = b"".join(block for name, block in blocks if name == stream)
        assert b"".join(one.data for one in found if one.stream == stream) == wanted
    assert b"".join(one.data for one in found) == b"".join(block for _, block in blocks)


def test_what_is_no_log_of_ours_is_passed_on_as_it_is() -> None:
    text = b"2027-01-15T08:00:00.123456789Z a line that an earlier version of pykueue wrote\nand so on"
    records = Records()
    assert b"".join(one.data for piece in (text[:70], text[70:]) for one in records.feed(piece)) == text


def test_a_capture_keeps_the_beginning() -> None:
    capture = Capture()
    for _ in range(100):
        capture.take(STDOUT, b"x" * 1000)
    assert len(capture.text) == 10 * 1024
