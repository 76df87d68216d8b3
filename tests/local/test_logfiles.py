"""Is output kept whole, dated, and within bounds?"""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.local.logfiles import STAMP, Capture, LogFiles

NANOS = 1_800_000_000_123_456_789
NOW = b"2027-01-15T08:00:00.123456789Z "


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def log(folder: Path, size: int = 1000, files: int = 3) -> LogFiles:
    return LogFiles(str(folder), size, files, lambda: NANOS)


@pytest.mark.parametrize(
    ("blocks", "wanted"),
    [
        pytest.param([b"a\nb\n"], NOW + b"a\n" + NOW + b"b\n", id="each line has its time"),
        pytest.param([b"a", b"b\n"], NOW + b"ab\n", id="a line that comes in pieces has one"),
        pytest.param([b"a\n", b"\n", b"\n\n"], NOW + b"a\n" + (NOW + b"\n") * 3, id="empty lines too"),
        pytest.param([b"no end"], NOW + b"no end", id="a last line may lack its end"),
        pytest.param([b"\r\0\xff\n"], NOW + b"\r\0\xff\n", id="any bytes"),
    ],
)
def test_lines(tmp_path: Path, blocks: list[bytes], wanted: bytes) -> None:
    writer = log(tmp_path)
    for block in blocks:
        writer.take(block)
    assert kept(tmp_path) == {"0.log": wanted}


def test_without_output_there_is_no_file(tmp_path: Path) -> None:
    log(tmp_path)
    assert kept(tmp_path) == {}


def test_only_the_last_files_are_kept(tmp_path: Path) -> None:
    writer = log(tmp_path, size=STAMP + 2, files=3)
    for number in range(6):
        writer.take(b"%d\n" % number)
    assert kept(tmp_path) == {f"{number}.log": NOW + b"%d\n" % number for number in (3, 4, 5)}


def test_a_line_stays_in_one_file(tmp_path: Path) -> None:
    writer = log(tmp_path, size=STAMP + 10)
    writer.take(b"0123456789")
    writer.take(b"abc")
    writer.take(b"def\nnext\n")
    assert kept(tmp_path) == {"0.log": NOW + b"0123456789abcdef\n", "1.log": NOW + b"next\n"}


def test_a_line_without_end_does_not_fill_the_disk(tmp_path: Path) -> None:
    writer = log(tmp_path, size=100, files=2)
    for _ in range(1000):
        writer.take(b"x" * 50)
    assert sum(len(content) for content in kept(tmp_path).values()) < 2 * 3 * 100
    assert len(kept(tmp_path)) == 2


def test_what_the_disk_does_not_take_is_counted_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = log(tmp_path)
    writer.take(b"before\n")
    real = os.write

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    writer.take(b"lost\n")
    writer.take(b"lost too\n")
    monkeypatch.setattr(os, "write", real)
    writer.take(b"after\n")
    assert kept(tmp_path)["0.log"].splitlines() == [
        NOW + b"before",
        NOW + b"[14 bytes of output are lost here: No space left on device]",
        NOW + b"after",
    ]


def test_a_folder_that_is_gone_loses_output_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    writer = log(folder, size=STAMP + 2)
    writer.take(b"0\n")
    folder.rename(tmp_path / "elsewhere")
    writer.take(b"1\n")
    writer.take(b"2\n")
    (tmp_path / "elsewhere").rename(folder)
    writer.take(b"3\n")
    assert b"[4 bytes of output are lost here: No such file or directory]" in kept(folder)["1.log"]
    assert kept(folder)["1.log"].endswith(NOW + b"3\n")


@given(st.lists(st.binary(min_size=1, max_size=40).map(lambda data: data.replace(b"x", b"\n")), max_size=30))
def test_nothing_is_lost_or_moved_within_the_bounds(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    writer = LogFiles(str(folder), 100, 1000, lambda: NANOS)
    for block in blocks:
        writer.take(block)
    whole = b"".join(path.read_bytes() for path in sorted(folder.iterdir(), key=lambda path: int(path.stem)))
    assert b"\n".join(line[STAMP:] for line in whole.split(b"\n")) == b"".join(blocks)


def test_a_capture_keeps_the_beginning() -> None:
    capture = Capture()
    for _ in range(100):
        capture.take(b"x" * 1000)
    assert len(capture.text) == 10 * 1024
