"""Whose names a caller may read."""

from pykueue.controllers.queries.readable import NAMESPACES_MAX, readable
from tests.controllers.queries.callers import Reader


async def test_one_who_may_list_everything_is_asked_once() -> None:
    reader = Reader("")
    assert await readable(reader, "mine", ("a", "b")) == {"a", "b"}
    assert reader.asked == [""]


async def test_rights_are_asked_by_namespace_and_never_without_need() -> None:
    reader = Reader("mine", "b")
    assert await readable(reader, "mine", ("a", "b", "b", "mine")) == {"mine", "b"}
    assert reader.asked == ["", "mine", "a", "b"]
    assert await readable(unasked := Reader(), "mine", ()) == frozenset()
    assert unasked.asked == []


async def test_rights_are_asked_in_a_limited_number_of_namespaces_the_own_first() -> None:
    many = [f"n-{number:03}" for number in range(NAMESPACES_MAX * 2)]
    reader = Reader("mine", *many)
    assert await readable(reader, "mine", (*many, "mine")) == {"mine", *many[: NAMESPACES_MAX - 1]}
    assert len(reader.asked) == NAMESPACES_MAX + 1
