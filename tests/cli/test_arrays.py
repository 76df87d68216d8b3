"""Which tasks does `--array` name, and does each get its number?"""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.cli.arrays import Array, ArrayError, Run, array_of, numbered, numbering, runs_of


@pytest.mark.parametrize(
    ("text", "tasks", "at_once"),
    [
        pytest.param("0-3", [0, 1, 2, 3], None, id="a range"),
        pytest.param("0-99%4", list(range(100)), 4, id="four at a time"),
        pytest.param("0-1%10", [0, 1], 2, id="no more at a time than there are"),
        pytest.param("7", [7], None, id="one"),
        pytest.param("1,3,5-7", [1, 3, 5, 6, 7], None, id="a list"),
        pytest.param("0-30:10", [0, 10, 20, 30], None, id="every tenth"),
        pytest.param("3,1,1-2", [1, 2, 3], None, id="each once, in order"),
    ],
)
def test_tasks_are_named_as_in_slurm(text: str, tasks: list[int], at_once: int | None) -> None:
    found = array_of(text)
    assert (found.tasks(), found.count, found.at_once) == (tasks, len(tasks), at_once)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("0-999999", "has 1,000,000 tasks; Kubernetes runs at most 100,000 in one Job", id="a million"),
        pytest.param("0-999999999:1,0-999999999", "has 2,000,000,000 tasks", id="without counting them one by one"),
        pytest.param("a-b", "'a-b' is not a list of tasks; write 0-99", id="no numbers"),
        pytest.param("", "is not a list of tasks", id="nothing"),
        pytest.param("-1", "is not a list of tasks", id="negative"),
        pytest.param("5-1", "'5-1' ends before it begins; write 1-5", id="backwards"),
        pytest.param("0-5:0", "has a step of 0", id="no step"),
        pytest.param("0-5%0", "'0' after % is not a number of tasks", id="none at a time"),
        pytest.param("0-5%x", "'x' after % is not a number of tasks", id="no limit"),
        pytest.param(",".join(str(one * one) for one in range(1500)), "more than 1,000 ranges", id="no order at all"),
    ],
)
def test_what_is_no_array_is_refused(text: str, says: str) -> None:
    with pytest.raises(ArrayError, match=says):
        array_of(text)


def test_the_largest_array_of_kubernetes_is_accepted() -> None:
    assert array_of("0-99999").count == 100_000


def test_each_task_is_retried_on_its_own() -> None:
    fields = {"completionMode": "Indexed", "completions": 8, "parallelism": 3, "backoffLimitPerIndex": 2}
    assert array_of("0-7%3").fields(2) == fields
    assert array_of("0-7").fields(0)["parallelism"] == 8


def test_a_plain_array_needs_no_shell() -> None:
    assert numbered(["true"], array_of("0-7"), ("T",)) == ["true"]
    assert numbered(["true"], array_of("1-8"), ("T",))[0] == "/bin/sh"


def number(array: Array, index: int) -> str:
    return subprocess.run(
        ["/bin/sh", "-c", numbering(array, ("T", "U")), "x", "/bin/sh", "-c", 'echo "$T $U $1"', "y", "a b$c"],
        env={"JOB_COMPLETION_INDEX": str(index)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_shell_computes_the_number_of_each_task_and_leaves_the_command_alone() -> None:
    array = array_of("1,3,5-7,20-40:10")
    assert [number(array, index) for index in range(array.count)] == [f"{one} {one} a b$c\n" for one in array.tasks()]


@given(st.sets(st.integers(0, 200), min_size=1))
def test_runs_are_the_numbers_they_were_made_of(numbers: set[int]) -> None:
    array = Array(runs_of(sorted(numbers)))
    assert array.tasks() == sorted(numbers)
    assert array_of(str(array)) == array
    assert [array.index(one) for one in array.tasks()] == list(range(array.count))
    assert all(array.index(one) is None for one in range(200) if one not in numbers)
    assert array.plain is (array.runs == (Run(0, 1, len(numbers)),))
