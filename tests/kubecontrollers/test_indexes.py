"""Are sets of indexes read, written and compared as Kubernetes does it?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.kubecontrollers.indexes import (
    gaps,
    holds,
    merged,
    overlap,
    read_indexes,
    total,
    with_indexes,
    write_indexes,
)

SETS = st.sets(st.integers(0, 30))


@pytest.mark.parametrize(
    ("text", "completions", "expected"),
    [
        pytest.param("", 5, (), id="nothing"),
        pytest.param("0,2-4,6", 10, ((0, 0), (2, 4), (6, 6)), id="single ones and a range"),
        pytest.param("0,1,2", 10, ((0, 2),), id="neighbours are one range"),
        pytest.param("2-9", 5, ((2, 4),), id="cut off at the number of completions"),
        pytest.param("1,7-9", 5, ((1, 1),), id="beyond it nothing counts"),
        pytest.param("1,x,3-y,5-4,8", 10, ((1, 1), (8, 8)), id="nonsense is passed over"),
    ],
)
def test_read(text: str, completions: int, expected: tuple[tuple[int, int], ...]) -> None:
    assert read_indexes(text, completions) == expected


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        pytest.param((), "", id="nothing"),
        pytest.param((3,), "3", id="one"),
        pytest.param((3, 4), "3,4", id="two in a row are listed"),
        pytest.param((0, 3, 4, 5, 9), "0,3-5,9", id="three in a row are a range"),
    ],
)
def test_write(indexes: tuple[int, ...], expected: str) -> None:
    assert write_indexes(with_indexes((), indexes)) == expected


@given(SETS, SETS, st.integers(0, 35))
def test_they_are_sets(one: set[int], other: set[int], most: int) -> None:
    left, right = with_indexes((), one), with_indexes((), other)
    assert read_indexes(write_indexes(left), 31) == left
    assert total(merged((*left, *right))) == len(one | other)
    assert with_indexes(left, other) == with_indexes((), one | other)
    assert overlap(left, right) == len(one & other)
    assert [index for index in range(31) if holds(left, index)] == sorted(one)
    assert gaps(left, 25, most) == [index for index in range(25) if index not in one][:most]
