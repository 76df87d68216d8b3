"""Is a tree read with care, whatever it holds?"""

import pytest

from pykueue.api.trees import amount, has, items, mapping, mappings, member, nodes, text, whole

TREE = {"spec": {"levels": [{"a": 1}, "x", {"a": 2}], "name": "n", "count": 3, "on": True, "none": None}}


def test_what_is_there_is_found() -> None:
    assert member(TREE, "spec", "count") == 3
    assert has(TREE, "spec", "on")
    assert mapping(TREE, "spec") is TREE["spec"]
    assert items(TREE, "spec", "levels") == TREE["spec"]["levels"]
    assert mappings(TREE, "spec", "levels") == [(0, {"a": 1}), (2, {"a": 2})]
    assert text(TREE, "spec", "name") == "n"
    assert whole(TREE, "spec", "count") == 3


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param(TREE, id="absent"),
        pytest.param({"no": None}, id="null"),
        pytest.param({"no": 1.5}, id="another type"),
        pytest.param([], id="a list"),
        pytest.param(None, id="nothing"),
    ],
)
def test_what_is_not_there_reads_as_empty(tree: object) -> None:
    assert mapping(tree, "no") == {}
    assert items(tree, "no") == []
    assert mappings(tree, "no") == []
    assert text(tree, "no") == ""
    assert whole(tree, "no") is None
    assert not has(tree, "no", "more")


def test_a_boolean_is_no_whole_number() -> None:
    assert whole(TREE, "spec", "on") is None


def test_nodes_of_a_schema_path() -> None:
    before = {"spec": {"name": "old", "levels": [{"a": 9}]}}
    assert list(nodes("spec.name", TREE, before)) == [("spec.name", "n", "old")]
    assert list(nodes("spec.levels[].a", TREE, before)) == [
        ("spec.levels[0].a", 1, None),
        ("spec.levels[2].a", 2, None),
    ]
    assert list(nodes("spec.none", TREE)) == []


@pytest.mark.parametrize(
    ("value", "nanos"),
    [
        pytest.param("500m", 500_000_000, id="a text"),
        pytest.param(2, 2_000_000_000, id="a number"),
        pytest.param(True, None, id="a boolean"),
        pytest.param("x", None, id="no quantity"),
        pytest.param(10**70, None, id="endless"),
    ],
)
def test_amount(value: object, nanos: int | None) -> None:
    found = amount(value)
    assert (found.nanos if found else None) == nanos
