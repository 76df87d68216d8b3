"""Does the log of recent changes return what comes after a version, wherever that is?"""

import pytest

from pykueue.apiserver.storage import feed
from pykueue.apiserver.storage.feed import NEAR, Log
from pykueue.apiserver.storage.records import Change, Key


def change(version: int, size: int = 10) -> Change:
    return Change(version, Key("pods", "n", "p"), "ADDED", b"x" * size, None)


@pytest.mark.parametrize("gone", [0, 1, 5, 9])
def test_the_changes_after_each_version(gone: int) -> None:
    log = Log()
    changes = [change(version) for version in range(10, 40, 3)]
    assert len(changes) > 2 * NEAR, "some places are near the end, and some are searched"
    for one in changes:
        log.append(one)
    for _ in range(gone):
        log.popleft()
    left = changes[gone:]
    for version in range(45):
        assert log.after(version) == [one for one in left if one.version > version]


def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "AT_ONCE", 3)
    monkeypatch.setattr(feed, "AT_ONCE_BYTES", 2000)
    log = Log()
    for version in range(1, 9):
        log.append(change(version, 900 if version > 4 else 0))
    assert [one.version for one in log.after(0)] == [1, 2, 3]
    assert [one.version for one in log.after(4)] == [5, 6], "it ends with the change that exceeds the size"
    assert [one.version for one in log.after(7)] == [8]
    assert log.after(8) == []
    assert Log().after(0) == []
