"""Do selectors select, and do mistakes read as Kubernetes words them?"""

import msgspec
import pytest

from pykueue.api.core import LabelSelector, LabelSelectorRequirement, ObjectMeta, matches
from pykueue.api.fields import (
    FieldError,
    aggregate,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
    too_many,
    wrong_type,
)

LABELS = {"team": "a", "tier": "gold", "empty": ""}


def asks(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, False, id="no selector selects nothing"),
        pytest.param(LabelSelector(), True, id="an empty one everything"),
        pytest.param(LabelSelector(match_labels={"team": "a"}), True, id="equal"),
        pytest.param(LabelSelector(match_labels={"team": "b"}), False, id="not equal"),
        pytest.param(LabelSelector(match_labels={"team": "a", "zone": "x"}), False, id="one of two is not enough"),
        pytest.param(LabelSelector(match_labels={"zone": ""}), False, id="absent is not empty"),
        pytest.param(asks("team", "In", "a", "b"), True, id="in"),
        pytest.param(asks("team", "In", "b"), False, id="not in the list"),
        pytest.param(asks("zone", "In", ""), False, id="absent is in no list"),
        pytest.param(asks("team", "NotIn", "b"), True, id="not in"),
        pytest.param(asks("team", "NotIn", "a"), False, id="in the list of those not wanted"),
        pytest.param(asks("zone", "NotIn", "a"), True, id="absent is not in"),
        pytest.param(asks("empty", "Exists"), True, id="exists though empty"),
        pytest.param(asks("zone", "Exists"), False, id="does not exist"),
        pytest.param(asks("zone", "DoesNotExist"), True, id="absent as wanted"),
        pytest.param(asks("team", "DoesNotExist"), False, id="unwanted"),
        pytest.param(asks("team", "Gt", "1"), False, id="an unknown operator selects nothing"),
        pytest.param(
            LabelSelector({"team": "a"}, (LabelSelectorRequirement("tier", "In", ("silver",)),)),
            False,
            id="labels match and expressions do not",
        ),
    ],
)
def test_matches(selector: LabelSelector | None, expected: bool) -> None:
    assert matches(selector, LABELS) is expected


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(invalid("a.b", "x", "no good"), 'a.b: Invalid value: "x": no good', id="a text"),
        pytest.param(invalid("a.b", -1, "no good"), "a.b: Invalid value: -1: no good", id="a number"),
        pytest.param(invalid("a", True, "no good"), "a: Invalid value: true: no good", id="a boolean"),
        pytest.param(invalid("a", None, "no good"), 'a: Invalid value: "null": no good', id="nothing"),
        pytest.param(invalid("a", {"k": [1]}, "no good"), 'a: Invalid value: {"k":[1]}: no good', id="an object"),
        pytest.param(invalid("a", 'q"\n', "no"), 'a: Invalid value: "q\\"\\n": no', id="a text with quotes"),
        pytest.param(invalid("a", "é", "no"), 'a: Invalid value: "é": no', id="a text beyond ASCII"),
        pytest.param(invalid("a", object(), "no"), 'a: Invalid value: "object": no', id="a value beyond JSON"),
        pytest.param(required("a.b"), "a.b: Required value", id="required"),
        pytest.param(required("a.b", "why"), "a.b: Required value: why", id="required and why"),
        pytest.param(forbidden("a", "why"), "a: Forbidden: why", id="forbidden"),
        pytest.param(duplicate("a[1]", "x"), 'a[1]: Duplicate value: "x"', id="duplicate"),
        pytest.param(not_found("a", "x"), 'a: Not found: "x"', id="not found"),
        pytest.param(
            not_supported("a", "x", ["p", "q"]), 'a: Unsupported value: "x": supported values: "p", "q"', id="none of"
        ),
        pytest.param(too_many("a", 17, 16), "a: Too many: 17: must have at most 16 items", id="too many"),
        pytest.param(too_long("a", 253), "a: Too long: may not be more than 253 bytes", id="too long"),
        pytest.param(
            wrong_type("a.b", wanted="integer", found="string"),
            'a.b: Invalid value: "string": a.b in body must be of type integer: "string"',
            id="of the wrong type",
        ),
        pytest.param(
            wrong_type("", wanted="object", found="array"),
            'Invalid value: "array": body must be of type object: "array"',
            id="the whole object of the wrong type",
        ),
    ],
)
def test_texts(error: FieldError, text: str) -> None:
    assert str(error) == text


def test_long_values_are_cut() -> None:
    assert len(str(invalid("a", "x" * 10**6, "too much"))) < 1100


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        pytest.param([required("a")], "a: Required value", id="one stands alone"),
        pytest.param([required("a"), required("b")], "[a: Required value, b: Required value]", id="two in brackets"),
        pytest.param([required("a"), required("a")], "a: Required value", id="the same twice is one"),
    ],
)
def test_aggregate(errors: list[FieldError], text: str) -> None:
    assert aggregate(errors) == text


def test_metadata_is_read_from_the_wire() -> None:
    raw = b'{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"u"}],"managedFields":[{}]}'
    meta = msgspec.json.decode(raw, type=ObjectMeta)
    assert (meta.name, meta.owner_references[0].uid, meta.labels) == ("a", "u", {})
