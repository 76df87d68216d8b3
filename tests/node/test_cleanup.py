"""Is everything kept that somebody may want to read, and nothing else?"""

import os
import uuid
from pathlib import Path

import pytest

from pykueue.node.cleanup import Cleaner
from pykueue.node.supervision.removal import clean, remove_tree
from tests.clocks import SkippingClock


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


async def test_what_pods_leave(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "pods", tmp_path / "scratch"
    silent = made(folder / "silent" / "main" / "0" / "record")
    said = made(folder / "said" / "main" / "0" / "0.log")
    left = made(scratch / "said" / "main" / "result")
    gone = made(folder / "gone" / "main" / "0" / "0.log")
    gone_too = made(scratch / "gone" / "main" / "result")
    clock = SkippingClock()
    cleaner = Cleaner(clock, str(folder), str(scratch), clean)
    for uid in ("silent", "said"):
        cleaner.tidy(uid)
    for uid in ("gone", "never-there"):
        cleaner.remove(uid)
    assert cleaner.gone == ["gone"]
    assert cleaner.task is not None
    await cleaner.task
    assert clock.slept == [2.0], "those who follow have time to read"
    assert not silent.parent.parent.parent.exists()
    assert said.exists()
    assert left.exists()
    assert not gone.parent.parent.parent.exists()
    assert not gone_too.parent.parent.exists()
    cleaner.remove("said")
    await cleaner.task
    assert not said.exists()
    await cleaner.close()


async def test_what_its_follower_still_reads_is_removed_later(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "pods", tmp_path / "scratch"
    read = made(folder / "read" / "main" / "0" / "0.log")
    gone = made(folder / "gone" / "main" / "0" / "0.log")
    rounds = iter((True, True, False))
    cleaner = Cleaner(SkippingClock(), str(folder), str(scratch), clean, lambda uid: uid == "read" and next(rounds))
    cleaner.remove("read")
    cleaner.remove("gone")
    assert cleaner.task is not None
    await cleaner.task
    assert not read.exists()
    assert not gone.exists()
    assert [*rounds] == []
    await cleaner.close()


async def test_a_name_that_is_no_name_removes_nothing(tmp_path: Path) -> None:
    cleaner = Cleaner(SkippingClock(), str(tmp_path / "a"), str(tmp_path / "b"), clean)
    for uid in ("..", "", "x/../.."):
        with pytest.raises(ValueError, match="cannot be the name of a folder"):
            cleaner.remove(uid)
        with pytest.raises(ValueError, match="cannot be the name of a folder"):
            cleaner.tidy(uid)
    await cleaner.close()


def test_no_link_is_followed(tmp_path: Path) -> None:
    kept = made(tmp_path / "elsewhere" / "kept")
    made(tmp_path / "pod" / "main" / "file")
    (tmp_path / "pod" / "main" / "folder").symlink_to(kept.parent)
    (tmp_path / "pod" / "main" / "link").symlink_to(kept)
    (tmp_path / "link").symlink_to(kept.parent)
    remove_tree(str(tmp_path / "pod"))
    remove_tree(str(tmp_path / "link"))
    remove_tree(str(tmp_path / "none"))
    assert kept.exists()
    assert not (tmp_path / "pod").exists()


def test_a_tree_of_any_depth_is_removed_with_few_open_folders(tmp_path: Path) -> None:
    top = tmp_path / "pod"
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=at)
        os.close(os.open("f", os.O_CREAT, dir_fd=at))
        at, above = os.open("d", os.O_RDONLY, dir_fd=at), at
        os.close(above)
    os.close(at)
    remove_tree(str(top))
    assert not top.exists()


async def test_only_folders_with_the_uid_of_a_pod_are_swept(tmp_path: Path) -> None:
    uids = [str(uuid.UUID(int=number, version=4)) for number in range(2)]
    for name in (*uids, "notes", "u-1"):
        made(tmp_path / "scratch" / name / "main" / "file")
    cleaner = Cleaner(SkippingClock(), str(tmp_path / "pods"), str(tmp_path / "scratch"), clean)
    cleaner.sweep({uids[0]})
    assert cleaner.gone == [uids[1]]
    assert cleaner.task is not None
    await cleaner.task
    assert {path.name for path in (tmp_path / "scratch").iterdir()} == {uids[0], "notes", "u-1"}
    Cleaner(SkippingClock(), "", str(tmp_path / "none"), clean).sweep(())
    await cleaner.close()
