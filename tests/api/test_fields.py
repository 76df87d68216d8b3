"""Does a mistake read as Kubernetes would put it, and help where Kubernetes has no words?"""

import msgspec
import pytest

from pykueue.api.fields import NAME_MAX, FieldError, aggregate, invalid, located, nearest, shown, unknown
from pykueue.base.struct import Wire


class Inner(Wire):
    some_count: int


class Outer(Wire):
    inner: tuple[Inner, ...] = ()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        pytest.param("request", "requests", id="a letter"),
        pytest.param("REQUESTS", "requests", id="capitals"),
        pytest.param("zebra", None, id="nothing near"),
        pytest.param("", None, id="nothing"),
        pytest.param("requests" + "s" * NAME_MAX, None, id="too long to be looked for"),
    ],
)
def test_nearest(name: str, near: str | None) -> None:
    assert nearest(name, ["limits", "requests", "claims"]) == near


def test_an_unknown_field_comes_with_advice() -> None:
    assert (
        str(unknown("spec.request", "request", ["requests"])) == "spec.request: unknown field; did you mean requests?"
    )
    assert str(unknown("spec.z", "z", ["a"])) == "spec.z: unknown field; correct its name or remove it"


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        pytest.param(b'{"inner":[{"someCount":"x"}]}', ("inner[0].someCount", "Expected `int`, got `str`"), id="below"),
        pytest.param(b"[]", ("", "Expected `object`, got `array`"), id="at the top"),
    ],
)
def test_located(raw: bytes, where: tuple[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(raw, type=Outer)
    assert located(refused.value) == where


def test_a_long_value_is_cut_and_an_odd_one_named() -> None:
    assert len(shown("x" * 5_000)) < 1_100
    assert shown(object()) == '"object"'
    assert shown(None) == '"null"'


def test_several_mistakes_are_one_text() -> None:
    one = invalid("a", 1, "no")
    assert aggregate([one]) == "a: Invalid value: 1: no"
    assert aggregate([one, one, FieldError("b", "Required")]) == "[a: Invalid value: 1: no, b: Required value]"
