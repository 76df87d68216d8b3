"""Does a report of journals tell what was decided, from all files and from a part of them?"""

from pathlib import Path

import pytest

from pykueue.base.units import MICROS, Instant
from pykueue.cli.reports.journalled import files_in, material
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Stopped, Synced, Written
from pykueue.engine.model import Flavor, LocalQueue, Namespace, PodSet, Workload
from pykueue.engine.record.journal import JournalError, Recorder
from pykueue.reports.figures import figures
from tests.engine.record.explained import queue

START = 1_800_000_000
DAY = 24 * 3600 * MICROS


def instant(second: int) -> Instant:
    return Instant((START + second) * MICROS)


class Journals:
    """Writes journals of one engine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = Engine()
        self.recorder = Recorder(self.engine, lambda line: None)

    def begin(self, name: str) -> None:
        file = self.folder / name

        def append(line: bytes) -> None:
            with file.open("ab") as lines:
                lines.write(line)

        self.recorder = Recorder(self.engine, append)

    def see(self, *things: object) -> None:
        for thing in things:
            self.recorder.observe(Seen(thing))  # type: ignore[arg-type]  # any kind of object

    def settle(self, second: int) -> None:
        at = instant(second)
        while (wake := self.recorder.next_wake()) is not None and wake <= at:
            for one in self.recorder.decide(at):
                self.recorder.observe(Written(one.workload))

    def submit(self, key: str, second: int, priority: int = 0) -> None:
        self.see(Workload(key, key, f"{key[0]}/q", instant(second), (PodSet("main", 1, (("cpu", 2000),)),), priority))
        self.settle(second)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two journals: in the first, train starts and is preempted by urgent; in the second, it has stopped."""
    made = Journals(tmp_path)
    made.begin("journal.jsonl.1")
    made.see(Namespace("a"), Namespace("b"), Flavor("default"), queue("main", 2))
    made.see(LocalQueue("a/q", "main"), LocalQueue("b/q", "main"))
    made.recorder.observe(Synced())
    made.submit("a/job-train-1a2b3", 0)
    made.submit("b/other", 10)
    made.submit("a/urgent", 100, priority=9)
    made.begin("journal.jsonl")
    made.recorder.observe(Stopped("a/job-train-1a2b3"))
    made.settle(130)
    (tmp_path / "notes.txt").write_text("not a journal")
    return tmp_path


def test_the_lives_of_workloads_across_files(folder: Path) -> None:
    found = material(str(folder), 7 * DAY, None, 0)
    jobs = {job.name: job for job in found.jobs}
    assert set(jobs) == {"a/train", "b/other", "a/urgent"}
    train = jobs["a/train"]
    assert (train.preempted, train.lost, train.state) == (1, 100 * MICROS, "waiting")
    assert (jobs["a/urgent"].state, jobs["a/urgent"].waited) == ("running", 30 * MICROS)
    assert "needs 2" in jobs["b/other"].reason
    assert (found.period.begin, found.period.end) == (instant(0), instant(130))
    assert found.asked_since == instant(130) - 7 * DAY
    assert "2 journals" in found.source
    (use,) = figures(found).use
    assert (use.queue, use.flavor, use.share, use.used.peak) == ("main", "default", 1, 2000)


def test_a_part_of_the_time_and_one_namespace(folder: Path) -> None:
    found = material(str(folder / "journal.jsonl"), 60 * MICROS, "b", 0)
    assert [job.name for job in found.jobs] == ["b/other"]
    assert found.period.begin == instant(70)


def test_files_are_read_oldest_first_whatever_they_are_called(folder: Path) -> None:
    assert [file.name for file in files_in(str(folder))] == ["journal.jsonl.1", "journal.jsonl"]
    assert [file.name for file in files_in(str(folder / "journal.jsonl"))] == ["journal.jsonl.1", "journal.jsonl"]


def test_a_last_line_that_was_cut_off_is_left_out(folder: Path) -> None:
    whole = (folder / "journal.jsonl").read_bytes()
    (folder / "journal.jsonl").write_bytes(whole + b'{"type":"Deci')
    assert len(material(str(folder), 7 * DAY, None, 0).jobs) == 3


def test_what_is_no_journal_gets_a_sentence(tmp_path: Path, folder: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(JournalError, match="there is no journal"):
        material(str(empty), DAY, None, 0)
    with pytest.raises(FileNotFoundError):
        material(str(tmp_path / "missing"), DAY, None, 0)
    (folder / "journal.jsonl").write_bytes(b'{"type":"Journal","version":99}\n{"type":"Decided","now":1}\n')
    with pytest.raises(JournalError, match=r"journal.jsonl: line 1: format version 99"):
        material(str(folder), DAY, None, 0)
