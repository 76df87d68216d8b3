"""Arrays: which tasks `--array` asks for, and the Indexed Job that runs them.

Kubernetes counts the indexes of a Job from 0. If the tasks are numbered otherwise, a line of `sh` in front of the
command computes the number of the task from the index.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from pykueue.api.core import Tree
from pykueue.base.struct import Frozen

TASKS_MAX: Final = 100_000
"""The most completions of an Indexed Job with a limit of failures per index, in Kubernetes."""
PARTS_MAX: Final = 1_000
"""The most runs of numbers; the line of `sh` has one condition for each."""
PART: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
LIMIT: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
SYNTAX: Final = "write 0-99, 0-99%4 for four at a time, 0-30:10 for every tenth, or 1,3,5-7"
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
"""The variable that the Job controller sets."""


class ArrayError(ValueError):
    """The text is not an array that can run."""


class Run(Frozen):
    """Equidistant task numbers."""

    first: int
    step: int
    count: int

    @property
    def last(self) -> int:
        """The last of them."""
        return self.first + self.step * (self.count - 1)

    def __str__(self) -> str:
        if self.count == 1:
            return str(self.first)
        return f"{self.first}-{self.last}{'' if self.step == 1 else f':{self.step}'}"


class Array(Frozen):
    """The tasks of an array, in ascending order, each once."""

    runs: tuple[Run, ...]
    at_once: int | None = None
    """The most tasks that run at the same time; None for no limit."""

    @property
    def count(self) -> int:
        """The number of tasks."""
        return sum(one.count for one in self.runs)

    @property
    def plain(self) -> bool:
        """Whether the number of each task is its index."""
        return self.runs == (Run(0, 1, self.count),)

    def tasks(self) -> list[int]:
        """The number of each task, by index."""
        return [number for one in self.runs for number in range(one.first, one.last + 1, one.step)]

    def task(self, index: int) -> int:
        """The number of the task with an index."""
        for one in self.runs:
            if index < one.count:
                return one.first + index * one.step
            index -= one.count
        raise IndexError(index)

    def index(self, task: int) -> int | None:
        """The index of a task; None if it is not one of these."""
        before = 0
        for one in self.runs:
            if one.first <= task <= one.last and (task - one.first) % one.step == 0:
                return before + (task - one.first) // one.step
            before += one.count
        return None

    def fields(self, retries: int) -> Tree:
        """The fields of the Job's spec that make it an array; each task is retried on its own."""
        return {
            "completionMode": "Indexed",
            "completions": self.count,
            "parallelism": self.count if self.at_once is None else self.at_once,
            "backoffLimitPerIndex": retries,
        }

    def __str__(self) -> str:
        return ",".join(map(str, self.runs))


def array_of(text: str) -> Array:
    """The array that a text such as `0-99%4` names; raises `ArrayError`."""
    listed, percent, limit = text.partition("%")
    if percent and (not LIMIT.fullmatch(limit) or int(limit) == 0):
        raise ArrayError(f"{limit!r} after % is not a number of tasks; {SYNTAX}")
    ranges = [one for part in listed.split(",") for one in (range_of(part, text),)]
    if sum(map(len, ranges)) > TASKS_MAX:
        raise ArrayError(
            f"{text!r} has {sum(map(len, ranges)):,} tasks; Kubernetes runs at most {TASKS_MAX:,} in one Job, so split "
            "it, or let each task do more"
        )
    runs = runs_of(sorted({number for one in ranges for number in one}))
    if len(runs) > PARTS_MAX:
        raise ArrayError(
            f"it has more than {PARTS_MAX:,} ranges; use fewer, or let the command read its number from a file"
        )
    count = sum(one.count for one in runs)
    return Array(runs, min(int(limit), count) if percent else None)


def range_of(part: str, text: str) -> range:
    """The numbers in one part of a list."""
    found = PART.fullmatch(part.strip())
    if found is None:
        raise ArrayError(f"{text!r} is not a list of tasks; {SYNTAX}")
    first, step = int(found[1]), int(found[3] or 1)
    last = int(found[2] or first)
    if last < first:
        raise ArrayError(f"{part!r} ends before it begins; write {last}-{first}")
    if step == 0:
        raise ArrayError(f"{part!r} has a step of 0; {SYNTAX}")
    return range(first, last + 1, step)


def runs_of(numbers: Sequence[int]) -> tuple[Run, ...]:
    """Ascending numbers as few equidistant runs."""
    found: list[Run] = []
    at = 0
    while at < len(numbers):
        end = at + 1
        step = numbers[end] - numbers[at] if end < len(numbers) else 1
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        if end - at == 2 and step > 1:
            # Two numbers that are apart: the second may begin a longer run.
            end -= 1
        found.append(Run(numbers[at], step if end - at > 1 else 1, end - at))
        at = end
    return tuple(found)


def numbered(command: Sequence[str], array: Array, names: Iterable[str]) -> list[str]:
    """The command with its task number in these variables."""
    if array.plain:
        return list(command)
    return ["/bin/sh", "-c", numbering(array, names), "pykueue-array", *command]


def numbering(array: Array, names: Iterable[str]) -> str:
    """A line of `sh` that sets variables to the number of the task, and runs the command."""
    tests, before = [], 0
    for one in array.runs:
        tests.append(f"[ $i -lt {before + one.count} ]; then t=$(({one.first} + (i - {before}) * {one.step}))")
        before += one.count
    exports = " ".join(f"{name}=$t" for name in names)
    return f'i=${INDEX_VARIABLE}; if {"; elif ".join(tests)}; fi; export {exports}; exec "$@"'
