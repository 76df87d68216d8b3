"""Which Job, and which task of it, does a command mean?"""

from typing import Any

import pytest

from pykueue.cli.jobs.chosen import Missing, check_one_task, indexed, task_name


def job(tasks: str = "", count: int = 3, mode: str = "Indexed") -> Any:
    notes = {"pykueue.io/array": tasks} if tasks else {}
    metadata = {"namespace": "lab", "name": "sweep", "annotations": notes}
    return {"metadata": metadata, "spec": {"completionMode": mode, "completions": count}}


def test_tasks_have_the_numbers_of_the_option_array() -> None:
    tree = job("1,3,5")
    chosen = indexed(tree, 3)
    assert (chosen.index, chosen.title) == (1, "job lab/sweep, task 3")
    assert task_name(tree, 2) == "task 5"
    with pytest.raises(Missing, match="job lab/sweep has no task 2; its tasks are 1-5:2, as given with --array"):
        indexed(tree, 2)


@pytest.mark.parametrize("tasks", ["", "1-9", "no array"])
def test_tasks_of_other_jobs_have_the_numbers_of_their_indexes(tasks: str) -> None:
    assert indexed(job(tasks), 2).title == "job lab/sweep, index 2"
    with pytest.raises(Missing, match="has no index 3; use 0 to 2"):
        indexed(job(tasks), 3)


def test_a_job_without_tasks_has_no_number() -> None:
    with pytest.raises(Missing, match="it is not an array; omit the number of the task"):
        indexed(job(mode="NonIndexed"), 0)


def test_one_task_of_an_array_is_followed() -> None:
    with pytest.raises(Missing, match=r"has 3 tasks \(1-3\).* follow one with `pykueue attach sweep:1`"):
        check_one_task(indexed(job("1-3"), None))
    check_one_task(indexed(job("1-3"), 2))
    check_one_task(indexed(job(mode="NonIndexed"), None))
