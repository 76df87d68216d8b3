"""A tree is held against a struct, and every difference is named."""

import pytest

from pykueue.api.config.decode import Mistake, brief, decode, encodable, unknown_field
from pykueue.api.config.types import Configuration, Section
from pykueue.api.core import Json
from pykueue.api.trees import member
from pykueue.api.yamltext import Misread


class Shelf(Section):
    """Something with a field for each sort of value."""

    book_count: int = 1
    labels: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("tree", "expected", "paths"),
    [
        pytest.param({}, Shelf(), [], id="nothing"),
        pytest.param({"bookCount": 2, "labels": ["a"]}, Shelf(2, ("a",)), [], id="camelCase in the tree"),
        pytest.param({"book_count": 2}, Shelf(), ["book_count"], id="snake_case is unknown"),
        pytest.param({"labels": ["a", 1, "b"]}, Shelf(1, ("a", "b")), ["labels[1]"], id="the well formed items stay"),
        pytest.param({"bookCount": "x", "labels": 1}, Shelf(), ["bookCount", "labels"], id="two mistakes"),
        pytest.param([1], Shelf(), [""], id="no mapping at all"),
        pytest.param({"": 1, "a b": 2}, Shelf(), ["[]", "[a b]"], id="keys that are no words"),
    ],
)
def test_reading_goes_on_after_a_mistake(tree: Json, expected: Shelf, paths: list[str]) -> None:
    mistakes: list[Mistake] = []
    assert decode(tree, Shelf, mistakes) == expected
    assert [mistake.path for mistake in mistakes] == paths


def test_an_unreadable_key_of_a_map_is_left_out() -> None:
    mistakes: list[Mistake] = []
    assert decode({"featureGates": {"\ud800": True}}, Configuration, mistakes).feature_gates == {}
    assert mistakes == [
        Misread("featureGates[\\ud800]", "the key is not valid Unicode; write it without surrogate escapes")
    ]


@pytest.mark.parametrize(
    ("key", "so_far", "expected"),
    [
        pytest.param("Timout", 0, "unknown field; did you mean timeout?", id="near"),
        pytest.param("zzz", 0, "unknown field; here are known: other, timeout", id="far"),
        pytest.param("Timout", 50, "unknown field", id="one of very many"),
        pytest.param("t" * 81, 0, "unknown field", id="too long to compare"),
    ],
)
def test_an_unknown_key_gets_advice(key: str, so_far: int, expected: str) -> None:
    assert unknown_field(key, ("timeout", "other"), so_far) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("a", "a", id="a text"),
        pytest.param("x" * 81, "x" * 80 + "...", id="a long text"),
        pytest.param("a\n\x1b", "a\\n\\x1b", id="what a terminal would act on"),
        pytest.param({"a": 1}, "a mapping", id="a mapping"),
        pytest.param([1], "a list", id="a list"),
        pytest.param(None, "null", id="null"),
        pytest.param(1.5, 1.5, id="a number"),
    ],
)
def test_a_value_is_shown_briefly(value: Json, expected: object) -> None:
    assert brief(value) == expected


def test_half_a_character_cannot_be_written() -> None:
    assert encodable("a\N{GRINNING FACE}")
    assert not encodable("a\udfff")


def test_a_member_is_found_by_its_keys() -> None:
    assert member({"a": {"b": 1}}, "a", "b") == 1
    assert member({"a": 1}, "a", "b") is None
