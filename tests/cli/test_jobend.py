"""Is the end of a Job, and of one index of it, read from its status?"""

import pytest

from pykueue.api.core import Tree
from pykueue.cli.jobend import code_of, codes_of, contains, end_of, pods_of, timed_out


@pytest.mark.parametrize(
    ("indexes", "index", "found"),
    [
        ("", 0, False),
        ("0", 0, True),
        ("1", 0, False),
        ("0,3-5,7", 4, True),
        ("0,3-5,7", 6, False),
        ("10-12", 1, False),
    ],
)
def test_an_index_is_found_in_a_list_of_ranges(indexes: str, index: int, found: bool) -> None:
    assert contains(indexes, index) == found


FAILED: Tree = {"conditions": [{"type": "Failed", "status": "True", "reason": "X", "message": "too many"}]}


@pytest.mark.parametrize(
    ("status", "index", "end"),
    [
        pytest.param({}, None, None, id="the Job runs"),
        pytest.param(FAILED, None, "too many", id="the Job failed"),
        pytest.param({"completedIndexes": "0-3"}, 2, "", id="the index is complete while the Job runs"),
        pytest.param({"failedIndexes": "2"}, 2, "the task failed", id="the index failed"),
        pytest.param({"completedIndexes": "0,1"}, 2, None, id="the index runs"),
        pytest.param({"completedIndexes": "2", **FAILED}, 2, "", id="the index is complete, and the Job failed"),
        pytest.param(FAILED, 2, "too many", id="the Job failed before the index ended"),
    ],
)
def test_the_end_of(status: Tree, index: int | None, end: str | None) -> None:
    assert end_of({"status": status}, index) == end


def test_exit_codes_are_in_the_order_of_the_ends() -> None:
    def pod(code: int, at: str) -> Tree:
        return {"status": {"containerStatuses": [{"state": {"terminated": {"exitCode": code, "finishedAt": at}}}]}}

    assert codes_of([pod(2, "2026-01-01T00:00:02Z"), pod(1, "2026-01-01T00:00:01Z"), {}]) == [1, 2]


def test_the_pods_of_one_index_are_selected_by_its_label() -> None:
    assert pods_of("u") == "batch.kubernetes.io/controller-uid=u"
    assert pods_of("u", 3).endswith(",batch.kubernetes.io/job-completion-index=3")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        pytest.param('failed to start: exec: "x": executable file not found in $PATH', 127, id="no such command"),
        pytest.param('failed to start: exec: "./x": no such file or directory', 127, id="no such file"),
        pytest.param('failed to start: exec: "./x": permission denied', 126, id="not executable"),
        pytest.param('failed to start: exec: "./x": exec format error', 126, id="no program"),
        pytest.param(
            'runc create failed: unable to start container process: exec: "/x": stat /x: no such file or directory',
            127,
            id="on a cluster",
        ),
        pytest.param('failed to start: chdir to cwd ("/x") failed: no such file or directory', 128, id="no folder"),
    ],
)
def test_a_command_that_cannot_be_executed_has_the_exit_code_that_shells_give_it(message: str, code: int) -> None:
    assert code_of({}, {"exitCode": 128, "reason": "StartError", "message": message}) == code
    assert code_of({}, {"exitCode": 128, "reason": "Error", "message": message}) == 128


def test_a_time_limit_has_the_exit_code_of_timeout() -> None:
    assert code_of({"status": {"reason": "DeadlineExceeded"}}, {"exitCode": 143}) == 124
    condition = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
    assert timed_out({"status": {"conditions": [condition]}})
    assert not timed_out({"status": FAILED})
