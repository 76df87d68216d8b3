"""Tests of what is wrong with objects of the smaller kinds."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.desk import Desk, refusal


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        yield made


def test_a_secret_keeps_texts_as_data(desk: Desk) -> None:
    made = desk.create("secrets", {"metadata": {"name": "s"}, "stringData": {"a": "text"}})
    assert (made["data"], made["type"]) == ({"a": "dGV4dA=="}, "Opaque")
    assert "stringData" not in made


@pytest.mark.parametrize(
    ("kind", "tree", "error"),
    [
        ("configmaps", {"data": {"a b": "c"}}, 'data[a b]: Invalid value: "a b": a valid config key must consist'),
        ("configmaps", {"data": {"..": "c"}}, "data[..]: Invalid value: \"..\": must not be '..'"),
        ("configmaps", {"data": {"a": "x" * 1048577}}, "[]: Too long: may not be more than 1048576 bytes"),
        ("secrets", {"data": {"a": "%%"}}, "illegal base64 data at input byte 0"),
        ("secrets", {"type": "kubernetes.io/tls"}, "data[tls.crt]: Required value"),
        (
            "priorityclasses",
            {"value": 2000000000},
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            "leases",
            {"spec": {"leaseDurationSeconds": 0}},
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        ("runtimeclasses", {}, "handler: Required value"),
        (
            "limitranges",
            {"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}},
            'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
        ),
        (
            "events",
            {"involvedObject": {"namespace": "other"}},
            'involvedObject.namespace: Invalid value: "other": does not match event.namespace',
        ),
    ],
)
def test_what_breaks_rules_is_refused(desk: Desk, kind: str, tree: Any, error: str) -> None:
    namespace = "default" if desk.served(kind).resource.namespaced else ""
    refused = refusal(lambda: desk.create(kind, {"metadata": {"name": "x"}, **tree}, namespace))
    assert error in refused.message


@pytest.mark.parametrize(
    ("kind", "tree", "patch", "error"),
    [
        (
            "configmaps",
            {"immutable": True, "data": {"a": "b"}},
            {"data": {"a": "c"}},
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        ("secrets", {}, {"type": "other"}, 'type: Invalid value: "other": field is immutable'),
        ("priorityclasses", {"value": 1}, {"value": 2}, "value: Forbidden: may not be changed in an update."),
        ("runtimeclasses", {"handler": "a"}, {"handler": "b"}, 'handler: Invalid value: "b": field is immutable'),
    ],
)
def test_what_is_fixed_stays(desk: Desk, kind: str, tree: Any, patch: Any, error: str) -> None:
    namespace = "default" if desk.served(kind).resource.namespaced else ""
    desk.create(kind, {"metadata": {"name": "x"}, **tree}, namespace)
    assert error in refusal(lambda: desk.patch(kind, "x", patch, namespace)).message


def test_a_namespace_cannot_be_called_anything(desk: Desk) -> None:
    refused = refusal(lambda: desk.create("namespaces", {"metadata": {"name": "with.dots"}}, ""))
    assert (
        refused.message
        == 'Namespace "with.dots" is invalid: metadata.name: Invalid value: "with.dots": must not contain dots'
    )
