"""Tests of label and field selectors."""

import pytest

from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.kinds.selectors import requirements, selection
from pykueue.apiserver.wire.statuserrors import StatusError

PODS = Catalog().find("", "v1", "pods")
JOBS = Catalog().find("batch", "v1", "jobs")
CONFIGS = Catalog().find("", "v1", "configmaps")
EVENTS = Catalog().find("events.k8s.io", "v1", "events")
WORKLOADS = Catalog().find("kueue.x-k8s.io", "v1beta2", "workloads")


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in ()", {"a": ""}, True),
        ("a notin (b, c)", {"a": "d"}, True),
        ("a notin (b)", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": "x"}, False),
        ("a,!b", {"a": "x"}, True),
        ("a=", {"a": ""}, True),
        ("a>3", {"a": "10"}, True),
        ("a>3", {"a": "1_0"}, False),
        ("a>3", {"a": "9" * 50}, False),
        ("a<3", {"a": "x"}, False),
        ("in=in", {"in": "in"}, True),
        ("x.io/y in (1)", {"x.io/y": "1"}, True),
        ("", {}, True),
    ],
)
def test_a_label_selector_selects(selector: str, labels: dict[str, str], selected: bool) -> None:
    assert all(one.holds(labels) for one in requirements(selector)) is selected


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a,", "found '', expected: identifier after ','"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a>x", "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a/b/c=d", 'unable to parse requirement: <nil>: Invalid value: "a/b/c": a qualified name'),
        ("a=$", 'unable to parse requirement: values[0][a]: Invalid value: "$": a valid label must'),
    ],
)
def test_a_label_selector_that_makes_no_sense_is_refused(selector: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        list(requirements(selector))
    assert refused.value.code == 400
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("kind", "selector", "message"),
    [
        ("pods", "spec.image=x", "field label not supported: spec.image"),
        ("jobs", "spec.x=1", 'field label "spec.x" not supported for Job'),
        ("configmaps", "data=x", '"data" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ("workloads", "spec.queueName=x", "field label not supported: spec.queueName"),
        ("pods", "status.phase", "invalid selector: 'status.phase'; can't understand 'status.phase'"),
        ("pods", r"status.phase=a\b", r"invalid field selector: invalid escape sequence: \b"),
        ("pods", "status.phase=a=b", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_a_field_selector_that_is_not_offered_is_refused(kind: str, selector: str, message: str) -> None:
    served = {"pods": PODS, "jobs": JOBS, "configmaps": CONFIGS, "workloads": WORKLOADS}[kind]
    assert served is not None
    with pytest.raises(StatusError) as refused:
        selection(served, fields=selector)
    assert (refused.value.code, refused.value.message) == (400, message)


def test_fields_are_called_differently_in_other_versions() -> None:
    assert EVENTS is not None
    body = b'{"involvedObject":{"name":"p"},"source":{"component":"x"}}'
    assert selection(EVENTS, fields="regarding.name=p").meets(body)
    assert not selection(EVENTS, fields="regarding.name=q").meets(body)


def test_a_value_may_hold_a_comma_behind_a_backslash() -> None:
    assert PODS is not None
    assert selection(PODS, fields=r"spec.nodeName=a\,b,status.phase!=Failed").meets(b'{"spec":{"nodeName":"a,b"}}')
