"""Tests of whether a body is what it should be."""

import pytest

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.verbs.bodies import check_kind, json_in, uncoded, yaml_in
from pykueue.apiserver.wire.statuserrors import StatusError
from tests.apiserver.desk import refusal

PODS = Catalog().find("", "v1", "pods")
QUEUES = Catalog().find("kueue.x-k8s.io", "v1beta2", "localqueues")


def test_a_built_in_object_need_not_say_what_it_is() -> None:
    assert PODS is not None
    assert check_kind(PODS, {"metadata": {}}) == {"apiVersion": "v1", "kind": "Pod", "metadata": {}}


@pytest.mark.parametrize(
    ("kind", "tree", "message"),
    [
        ("pods", {"kind": "Odd"}, 'no kind "Odd" is registered for version "v1" in scheme'),
        ("pods", {"kind": "Secret"}, "converting (v1.Secret) to (core.Pod): unknown conversion"),
        ("pods", {"kind": 7}, "json: cannot unmarshal number into Go struct field .kind of type string"),
        ("queues", {}, "Object 'Kind' is missing in '{}'"),
        (
            "queues",
            {"kind": "LocalQueue"},
            "the API version in the data () does not match the expected API version (kueue.x-k8s.io/v1beta2)",
        ),
        (
            "queues",
            {"kind": "Odd", "apiVersion": "kueue.x-k8s.io/v1beta2"},
            'Odd.kueue.x-k8s.io "" is invalid: kind: Invalid value: "Odd": must be LocalQueue',
        ),
    ],
)
def test_an_object_of_another_kind_is_refused(kind: str, tree: Tree, message: str) -> None:
    served = PODS if kind == "pods" else QUEUES
    assert served is not None
    assert message in refusal(lambda: check_kind(served, tree)).message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "error decoding patch: unexpected end of JSON input"),
        (b"}", "error decoding patch: invalid character '}' looking for beginning of value"),
        (b"\xff", "error decoding patch: "),
    ],
)
def test_what_is_no_json_is_a_bad_request(body: bytes, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        json_in(body)
    assert refused.value.code == 400
    assert refused.value.message.startswith(message)


def test_yaml_is_read_as_json_could_say_it() -> None:
    assert yaml_in(b"a: 2026-01-01\n1: yes") == {"a": "2026-01-01", "1": True}
    assert yaml_in(b'{"a":1}') == {"a": 1}
    with pytest.raises(StatusError, match="error decoding YAML: error converting YAML to JSON: yaml: "):
        yaml_in(b"a: [")


@pytest.mark.parametrize(("text", "place"), [("AAAA", None), ("AA==", None), ("%%", 0), ("AAA%", 3), ("AAAAA", 4)])
def test_bytes_that_are_none_are_found(text: str, place: int | None) -> None:
    expected = "" if place is None else f"illegal base64 data at input byte {place}"
    assert uncoded("data", {"data": {"a": text}}) == expected
