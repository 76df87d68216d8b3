"""Sets of completion indexes of a Job as ordered intervals, in the text format of a Job's status."""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

Intervals: TypeAlias = tuple[tuple[int, int], ...]
"""First and last of each interval; ascending, with a gap between any two."""

NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def read_number(text: str) -> int | None:
    """The whole number in a text; None if malformed."""
    return int(text) if NUMBER.fullmatch(text) else None


def read_indexes(text: str, completions: int) -> Intervals:
    """The indexes below `completions` in a text such as `0,3-5,7`; malformed intervals are skipped."""
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        start, dash, end = part.partition("-")
        first = read_number(start)
        last = read_number(end) if dash else first
        if first is None or last is None or last < first:
            continue
        if first >= completions:
            break
        found.append((first, min(last, completions - 1)))
    return merged(found)


def merged(intervals: Iterable[tuple[int, int]]) -> Intervals:
    """The same indexes as disjoint intervals, in order."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if result and first <= result[-1][1] + 1:
            if last > result[-1][1]:
                result[-1] = (result[-1][0], last)
        else:
            result.append((first, last))
    return tuple(result)


def with_indexes(intervals: Intervals, indexes: Iterable[int]) -> Intervals:
    """The intervals with these indexes added."""
    added = [(index, index) for index in indexes]
    return merged((*intervals, *added)) if added else intervals


def total(intervals: Intervals) -> int:
    """How many indexes there are."""
    return sum(last - first + 1 for first, last in intervals)


def holds(intervals: Intervals, index: int) -> bool:
    """Whether an index is included."""
    return any(first <= index <= last for first, last in intervals)


def write_indexes(intervals: Intervals) -> str:
    """The text for these indexes; two in a row are listed, more are written as a range."""
    parts: list[str] = []
    for first, last in intervals:
        if last == first:
            parts.append(f"{first}")
        else:
            parts.append(f"{first},{last}" if last == first + 1 else f"{first}-{last}")
    return ",".join(parts)


def gaps(intervals: Intervals, completions: int, most: int) -> list[int]:
    """The first indexes below `completions` that are not included, at most `most`."""
    found: list[int] = []
    candidate = 0
    for first, last in (*intervals, (completions, completions)):
        end = min(first, completions, candidate + most - len(found))
        found += range(candidate, end)
        candidate = max(candidate, last + 1)
    return found


def overlap(one: Intervals, other: Intervals) -> int:
    """How many indexes are in both."""
    common = 0
    left, right = list(one), list(other)
    while left and right:
        common += max(0, min(left[0][1], right[0][1]) - max(left[0][0], right[0][0]) + 1)
        # The one that ends first cannot overlap anything more.
        (left if left[0][1] <= right[0][1] else right).pop(0)
    return common
