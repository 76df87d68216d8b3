"""Is the record of an attempt read for what it is?"""

import os
import subprocess
from pathlib import Path

import pytest

from pykueue.base.units import Instant
from pykueue.node import attempts
from pykueue.node.attempts import Attempt, Process, key_of, lost, parse, still_running
from pykueue.node.podstatus import Ended, Running, Waiting
from pykueue.node.supervision.processes import boot_id, process_start

HEAD = "supervisor 10 5 boot n/p\n"
SUPERVISOR = Process(10, 5, "boot")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("", None, id="nobody has claimed it"),
        pytest.param("supervisor 10 5 bo", None, id="half a line is no line"),
        pytest.param(HEAD, Attempt(SUPERVISOR, pod="n/p"), id="claimed"),
        pytest.param(
            HEAD + "running 11 6 7000\n",
            Attempt(SUPERVISOR, Process(11, 6, "boot"), Instant(7), pod="n/p"),
            id="running",
        ),
        pytest.param(
            HEAD + "running 11 6 7000\nexited 137 9 9000 1\n",
            Attempt(SUPERVISOR, Process(11, 6, "boot"), Instant(7), Instant(9), 137, 9, True, pod="n/p"),
            id="ended",
        ),
        pytest.param(
            HEAD + "exited 143 15 9000 2\n",
            Attempt(SUPERVISOR, ended=Instant(9), code=143, signal=15, terminated=True, pod="n/p"),
            id="ended because its supervisor was told to",
        ),
        pytest.param(
            HEAD + "failed 9000 no such thing\n",
            Attempt(SUPERVISOR, ended=Instant(9), problem="no such thing", pod="n/p"),
            id="never began",
        ),
        pytest.param(HEAD + "nonsense\nexited x y z 0\n", Attempt(SUPERVISOR, pod="n/p"), id="nonsense says nothing"),
    ],
)
def test_records(text: str, wanted: Attempt | None) -> None:
    assert parse(text) == wanted


def test_how_a_container_stands_by_its_record() -> None:
    claimed = Attempt(SUPERVISOR)
    began = Attempt(SUPERVISOR, SUPERVISOR, Instant(1))
    assert claimed.state() == Waiting()
    assert began.state() == Running(Instant(1))
    assert Attempt(SUPERVISOR, None, Instant(1), Instant(2), 3).state() == Ended(3, Instant(1), Instant(2))
    oom = Attempt(SUPERVISOR, None, Instant(1), Instant(2), 137, 9, True).state()
    assert oom == Ended(137, Instant(1), Instant(2), "OOMKilled", "", 9)
    failed = Attempt(SUPERVISOR, ended=Instant(2), problem="no x").state()
    assert failed == Ended(128, Instant(2), Instant(2), "StartError", "failed to start: no x")
    assert lost(began, Instant(9)).code == 137
    assert lost(None, Instant(9)).began == 9


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "a" * 64, "-a", "a\n", "ü"])
def test_names_that_are_no_folders(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a folder"):
        key_of(name, "main", 0)
    with pytest.raises(ValueError, match="cannot be the name of a folder"):
        key_of("uid", name, 0)


def test_a_process_is_told_from_another_of_its_number() -> None:
    own = Process(os.getpid(), process_start(os.getpid()), boot_id())
    assert own.alive(boot_id())
    assert not own.alive("another boot")
    assert not Process(own.pid, own.start + 1, own.boot).alive(boot_id())
    ended = subprocess.Popen(["true"])
    start = process_start(ended.pid)
    ended.wait()
    assert not Process(ended.pid, start, boot_id()).alive(boot_id())


def test_what_lies_on_disk(tmp_path: Path) -> None:
    folder = attempts.folder_of(tmp_path)
    own = f"supervisor {os.getpid()} {process_start(os.getpid())} {boot_id()} n/p\n"
    for key, text in {"u1/a/0": HEAD + "exited 0 0 9000 0\n", "u1/a/10": own, "u2/b/0": HEAD}.items():
        (folder / key).mkdir(parents=True)
        (folder / key / "record").write_text(text)
    (folder / "u1" / "a" / "2").mkdir()
    (folder / ".lock").touch()
    (folder / "u1" / "gpus.json").touch()
    assert attempts.pods(folder) == ["u1", "u2"]
    assert list(attempts.containers(folder, "u1")) == ["a"]
    assert attempts.numbers(folder, "u1", "a") == [0, 2, 10]
    assert attempts.read_attempt(folder, "u1/a/2") is None
    assert not attempts.claimed(folder, "u1/a/2")
    assert attempts.claimed(folder, "u2/b/0")
    found = still_running(tmp_path)
    assert [(one.pod, one.uid, one.container, one.pid) for one in found] == [("n/p", "u1", "a", os.getpid())]
    forgotten = attempts.read_attempt(folder, "u2/b/0")
    assert forgotten is not None
    assert attempts.abandoned(forgotten)
    attempts.drop(folder, "u1", "a", keep=(10,))
    assert attempts.numbers(folder, "u1", "a") == [10]
    assert attempts.pods(tmp_path / "none") == []


def test_a_pod_whose_files_were_just_removed_has_no_containers(tmp_path: Path) -> None:
    (tmp_path / "u" / "main").mkdir(parents=True)
    (tmp_path / "u" / "gpus.json").touch()
    (tmp_path / "file").touch()
    assert attempts.containers(tmp_path, "u") == ["main"]
    assert attempts.containers(tmp_path, "gone") == attempts.containers(tmp_path, "file") == []
