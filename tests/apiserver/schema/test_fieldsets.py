"""Sets of fields, beside the plainest model of them: a Python set of paths."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.apiserver.schema.fieldsets import (
    DEPTH_MAX,
    LEAF,
    SELF,
    FieldSet,
    FieldSetError,
    Path,
    difference,
    fitted,
    intersection,
    key_step,
    named,
    parsed,
    path_text,
    paths,
    union,
    value_step,
    within,
    without,
)
from pykueue.apiserver.schema.schemas import builtin, of_crd

STEPS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
PATHS = st.sets(st.lists(STEPS, min_size=1, max_size=4).map(tuple), max_size=8)


def made(wanted: set[Path]) -> FieldSet:
    """The set of these paths, one by one."""
    fields: FieldSet = {}
    for path in wanted:
        one: FieldSet = LEAF
        for step in reversed(path):
            one = {step: one}
        fields = union(fields, one)
    return fields


def listed(fields: FieldSet) -> set[Path]:
    return set(paths(fields))


def is_proper(fields: FieldSet) -> bool:
    """Whether nothing below a step is an empty shell: a step itself and nothing else is written `{}`."""
    return all(set(below) != {SELF} and (not below or is_proper(below)) for below in fields.values())


@given(PATHS)
def test_a_set_holds_what_was_put_in(wanted: set[Path]) -> None:
    assert listed(made(wanted)) == wanted
    assert is_proper(made(wanted))


@given(PATHS, PATHS)
def test_union_difference_and_intersection_are_those_of_sets(one: set[Path], other: set[Path]) -> None:
    left, right = made(one), made(other)
    for ours, plain in (
        (union(left, right), one | other),
        (difference(left, right), one - other),
        (intersection(left, right), one & other),
    ):
        assert listed(ours) == plain
        assert is_proper(ours)
    assert within(left, right) == (one <= other)
    assert (listed(left), listed(right)) == (one, other), "operations leave what they are given"


@given(PATHS, PATHS)
def test_without_takes_everything_below_a_field_too(one: set[Path], other: set[Path]) -> None:
    def is_gone(path: Path) -> bool:
        return any(path[:length] in other for length in range(1, len(path) + 1))

    left = without(made(one), made(other))
    assert listed(left) == {path for path in one if not is_gone(path)}
    assert is_proper(left)


@given(PATHS)
def test_a_set_is_read_as_it_is_written(wanted: set[Path]) -> None:
    fields = made(wanted)
    if fields:
        assert parsed(fields) == fields  # type: ignore[arg-type]  # a table gives it as an object


def test_steps_are_read_in_any_spelling() -> None:
    raw: dict[str, Any] = {'k:{"protocol":"TCP", "port":80}': {"f:name": {}}, 'v: "x"': {}, "z:later": {}, "i:3": {}}
    assert parsed(raw) == {'k:{"port":80,"protocol":"TCP"}': {"f:name": {}}, 'v:"x"': {}, "i:3": {}}


@pytest.mark.parametrize("step", ["x", "fx", "k:{", "v:", "k:3"], ids=repr)
def test_what_is_no_step_is_refused(step: str) -> None:
    with pytest.raises(FieldSetError):
        parsed({step: {}})


def test_a_set_that_goes_too_deep_is_refused() -> None:
    fields: dict[str, Any] = {}
    for _ in range(DEPTH_MAX):
        fields = {"f:a": fields}
    assert parsed(fields) == fields
    with pytest.raises(FieldSetError, match="nested deeper"):
        parsed({"f:a": fields})


def test_steps_escape_what_the_server_escapes() -> None:
    assert value_step("a<b>&c") == 'v:"a\\u003cb\\u003e\\u0026c"'
    assert key_step({"name": "x", "age": 3, "ok": True}) == 'k:{"age":3,"name":"x","ok":true}'


def test_paths_read_as_in_messages_and_come_in_order() -> None:
    fields: FieldSet = {
        "f:spec": {
            "f:ports": {
                'k:{"port":443,"protocol":"TCP"}': {SELF: LEAF, "f:name": LEAF},
                'k:{"port":80,"protocol":"TCP"}': LEAF,
            }
        },
        "f:data": LEAF,
        "f:metadata": {"f:finalizers": {'v:"x"': LEAF}},
    }
    assert [path_text(path) for path in paths(fields)] == [
        ".data",
        '.metadata.finalizers[="x"]',
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.ports[port=443,protocol="TCP"]',
        '.spec.ports[port=443,protocol="TCP"].name',
    ]


def test_named_fields_join_those_they_hold_and_map_keys_do_not() -> None:
    schema = builtin("v1", "ConfigMap")
    assert schema is not None
    fields: FieldSet = {"f:metadata": {"f:labels": {"f:a": LEAF}}, "f:data": {"f:x": LEAF}}
    assert named(fields, schema.node) == {
        "f:metadata": {SELF: LEAF, "f:labels": {SELF: LEAF, "f:a": LEAF}},
        "f:data": {SELF: LEAF, "f:x": LEAF},
    }


def test_fields_of_a_list_that_became_one_value_become_the_list() -> None:
    def schema(kind: str) -> FieldSet:
        listing = {"x-kubernetes-list-type": kind}
        if kind == "map":
            listing |= {"x-kubernetes-list-map-keys": ["name"]}  # type: ignore[dict-item]  # decoded JSON is Json
        item = {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}}
        spec = {"type": "object", "properties": {"items": {"type": "array", "items": item, **listing}}}
        node = of_crd({"type": "object", "properties": {"spec": spec}}).node  # type: ignore[dict-item]  # decoded JSON is Json
        return fitted({"f:spec": {"f:items": {'k:{"name":"x"}': {SELF: LEAF, "f:size": LEAF}}}}, node)

    assert schema("atomic") == {"f:spec": {"f:items": LEAF}}
    assert schema("map") == {"f:spec": {"f:items": {'k:{"name":"x"}': {SELF: LEAF, "f:size": LEAF}}}}
