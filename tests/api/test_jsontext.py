"""JSON is read in one pass, with the same result as by a walk through all of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.jsontext import json_tree, unusual_json
from pykueue.api.yamltext import DEPTH_MAX, Tree

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
KEYS = st.sampled_from(["a", "b", "c"])


def written(value: object) -> str:
    """A list of pairs as a JSON object, which may repeat a key."""
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{json.dumps(key)}: {written(inner)}" for key, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value).replace("Infinity", "1e999")


TEXTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.lists(st.tuples(KEYS, inner), max_size=4).map(tuple)
).map(written)


@given(TEXTS)
def test_any_value_is_read_as_by_the_walk(text: str) -> None:
    assert json_tree(text) == unusual_json(text)


@pytest.mark.parametrize("around", ["[]", "{}"])
@pytest.mark.parametrize("inner", ["1", "[]", "[1]"])
@pytest.mark.parametrize("depth", range(DEPTH_MAX - 2, DEPTH_MAX + 3))
def test_any_depth_is_read_as_by_the_walk(around: str, inner: str, depth: int) -> None:
    opening = "[" if around == "[]" else '{"a":'
    text = opening * depth + inner + around[1] * depth
    assert json_tree(text) == unusual_json(text)


@pytest.mark.parametrize("digits", [39, 40, 41, 48, 49, 60])
def test_a_number_of_any_length_is_read_as_by_the_walk(digits: int) -> None:
    for text in ("9" * digits, "-" + "9" * digits, "1" + "0" * digits):
        assert json_tree(text) == unusual_json(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="an open object"),
        pytest.param('{"a": 1, "a": 2', id="an open object with a duplicate key"),
        pytest.param("[NaN]", id="a constant that JSON does not have"),
        pytest.param("9" * 5000, id="a number that Python does not read"),
        pytest.param("[" * 100_000, id="a nesting that Python does not read"),
    ],
)
def test_what_is_not_json_is_left_to_the_yaml_reader(text: str) -> None:
    assert json_tree(text) is None


def test_a_duplicate_key_has_its_path() -> None:
    found = json_tree('{"a": [{"b": 1, "b": 2}]}')
    assert found is not None
    assert found.value == {"a": [{"b": 1}]}
    assert list(map(str, found.mistakes)) == ["a[0].b: duplicate key; keep one"]
    assert json_tree('{"a": [{"b": 1}]}') == Tree({"a": [{"b": 1}]})
