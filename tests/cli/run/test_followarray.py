"""What is said of the progress of an array?"""

from typing import Any

import pytest

from pykueue.cli.arrays import array_of
from pykueue.cli.run.followarray import failed_tasks, listed, progress


def job(**status: Any) -> Any:
    return {"status": status}


@pytest.mark.parametrize(
    ("status", "says"),
    [
        pytest.param({}, "", id="nothing yet"),
        pytest.param({"active": 4}, "0 of 10 tasks succeeded, 4 running", id="started"),
        pytest.param({"succeeded": 3, "active": 4}, "3 of 10 tasks succeeded, 4 running", id="on its way"),
        pytest.param(
            {"succeeded": 3, "active": 1, "failedIndexes": "1,3-5"},
            "3 of 10 tasks succeeded, 1 running, 4 failed (2, 4-6)",
            id="some failed",
        ),
    ],
)
def test_progress_is_one_line(status: dict[str, Any], says: str) -> None:
    assert progress(job(**status), array_of("1-10")) == says


def test_failed_tasks_are_named_by_their_number() -> None:
    assert failed_tasks(job(failedIndexes="0,2"), array_of("10-50:10")) == [10, 30]
    assert failed_tasks(None, array_of("0-9")) == []


def test_a_long_list_is_cut() -> None:
    assert listed(one * one for one in range(100)).endswith(", …")
