"""Are taints and tolerations read, and refused, as kueuectl does?"""

from typing import Any

import pytest

from pykueue.cli.kueuectl.taints import TaintError, taints, tolerations

NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        ([""], "invalid taint spec"),
        (["NoSchedule"], "invalid taint spec: NoSchedule"),
        (["key=value"], "invalid taint spec: key=value"),
        (["key=value:NoSchedule:NoSchedule"], "invalid taint spec: key=value:NoSchedule:NoSchedule"),
        (["key=value=value:NoSchedule"], "invalid taint spec: key=value=value:NoSchedule"),
        (
            ["key=value:NoSchedule", "key=value:NoSchedule"],
            "duplicated taints with the same key and effect: {key value NoSchedule <nil>}",
        ),
        (["=value:NoSchedule"], f"invalid taint spec: =value:NoSchedule, name part must be non-empty; {NAME}"),
        (["@=value:NoSchedule"], f"invalid taint spec: @=value:NoSchedule, {NAME}"),
        (["key=@:NoSchedule"], f"invalid taint spec: key=@:NoSchedule, {VALUE}"),
        (["key=value:Invalid"], "invalid taint effect: Invalid, unsupported taint effect"),
    ],
)
def test_a_wrong_taint_has_kueuectls_error(specs: list[str], says: str) -> None:
    with pytest.raises(TaintError) as error:
        taints(specs)
    assert str(error.value) == says


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "invalid toleration spec"),
        ("key=value:NoSchedule:NoSchedule", "invalid toleration spec: key=value:NoSchedule:NoSchedule"),
        ("key=value=value:NoSchedule", "invalid toleration spec: key=value=value:NoSchedule"),
        ("=value:NoSchedule", "invalid toleration spec: =value:NoSchedule"),
        ("@=value:NoSchedule", f"invalid toleration spec: @=value:NoSchedule, {NAME}"),
        ("key=@:NoSchedule", f"invalid toleration spec: key=@:NoSchedule, {VALUE}"),
        (":Invalid", "invalid taint effect: Invalid, unsupported taint effect"),
        ("key:Invalid", "invalid taint effect: Invalid, unsupported taint effect"),
    ],
)
def test_a_wrong_toleration_has_kueuectls_error(spec: str, says: str) -> None:
    with pytest.raises(TaintError) as error:
        tolerations([spec])
    assert str(error.value) == says


def test_taints_have_their_parts() -> None:
    assert taints(["a=b:NoSchedule", "a:NoExecute"]) == [
        {"key": "a", "value": "b", "effect": "NoSchedule"},
        {"key": "a", "effect": "NoExecute"},
    ]


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        ("a=b:NoSchedule", {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}),
        ("a:NoSchedule", {"key": "a", "operator": "Exists", "effect": "NoSchedule"}),
        ("a=b", {"key": "a", "operator": "Equal", "value": "b"}),
        ("a", {"key": "a", "operator": "Exists"}),
        (":NoSchedule", {"operator": "Exists", "effect": "NoSchedule"}),
    ],
)
def test_a_toleration_without_a_value_tolerates_every_value(spec: str, made: dict[str, Any]) -> None:
    assert tolerations([spec]) == [made]
