"""Does a journal tell everything that was decided about a job, and what is said where it does not?"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.base.units import MICROS, Instant
from pykueue.cli.main import cli
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced, Written
from pykueue.engine.model import Flavor, LocalQueue, Namespace, PodSet, Workload
from pykueue.engine.record.journal import Recorder
from tests.engine.record.explained import queue

START = 1_800_000_000


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader an hour ahead of UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC-1")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Three workloads in two namespaces; the one of the Job `train` is preempted."""
    written: list[bytes] = []
    recorder = Recorder(Engine(), written.append)
    for thing in (Namespace("a"), Namespace("b"), Flavor("default"), queue("main", 2)):
        recorder.observe(Seen(thing))
    for namespace in ("a", "b"):
        recorder.observe(Seen(LocalQueue(f"{namespace}/q", "main")))
    recorder.observe(Synced())
    for number, (key, priority) in enumerate((("a/job-train-1a2b3", 0), ("b/train", 0), ("a/urgent", 9))):
        at = Instant((START + number) * MICROS)
        pods = (PodSet("main", 1, (("cpu", 2000),)),)
        recorder.observe(Seen(Workload(key, key, f"{key[0]}/q", at, pods, priority)))
        while (wake := recorder.next_wake()) is not None and wake <= at:
            for one in recorder.decide(at):
                recorder.observe(Written(one.workload))
    file = tmp_path / "journal.jsonl"
    file.write_bytes(b"".join(written))
    return file


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["history", *map(str, words)])
    return done.exit_code, done.output


def test_all_decisions_about_a_job_are_listed_in_order(journal: Path) -> None:
    code, text = run("train", "--journal", journal, "-n", "a")
    assert code == 0
    assert text.splitlines() == [
        "2027-01-15 09:00:00  starts: takes 2 cpu of flavor default in ClusterQueue main",
        "2027-01-15 09:00:02  is preempted: a/urgent goes before it in the same ClusterQueue and needs its room; "
        "it is queued again by itself",
    ]


def test_without_a_namespace_all_are_searched(journal: Path) -> None:
    code, text = run("train", "--journal", journal)
    assert code == 0
    assert [line for line in text.splitlines() if line.endswith(":")] == [
        "Workload a/job-train-1a2b3:",
        "Workload b/train:",
    ]
    found = json.loads(run("train", "--journal", journal, "-o", "json")[1])
    assert [(one["workload"], one["decisions"][0]["kind"]) for one in found] == [
        ("a/job-train-1a2b3", "Admit"),
        ("b/train", "Wait"),
    ]


def test_a_journal_that_was_cut_off_is_read_as_far_as_it_goes(journal: Path) -> None:
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-10])
    assert run("train", "--journal", journal, "-n", "a")[0] == 0
    journal.write_bytes(whole[whole.index(b"\n") + 1 :])
    code, text = run("train", "--journal", journal)
    assert (code, "no format version" in text) == (2, True)


def test_what_is_not_there_gets_a_sentence(journal: Path, tmp_path: Path) -> None:
    assert run("other", "--journal", journal) == (
        1,
        f"no decision about 'other' in {journal}; older decisions are in rotated files\n",
    )
    code, text = run("train", "--journal", tmp_path / "none")
    assert (code, "No such file" in text) == (2, True)
    code, text = run("queue/main", "--journal", journal)
    assert (code, text) == (2, "'queue/main' is a queue; specify a job\n")
