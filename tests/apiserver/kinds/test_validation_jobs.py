"""Tests of what is wrong with Jobs, new or changed, and of what the server writes into them."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pykueue.apiserver.kinds.validation_jobs import counted
from tests.apiserver.desk import Desk, job, refusal


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        yield made


def test_a_job_shows_what_was_filled_in(desk: Desk) -> None:
    made = desk.create("jobs", job("x"))
    spec, uid = made["spec"], made["metadata"]["uid"]
    labels = {
        "job-name": "x",
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": uid,
        "batch.kubernetes.io/controller-uid": uid,
    }
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["suspend"], spec["manualSelector"]) == ("NonIndexed", False, False)
    assert spec["podReplacementPolicy"] == "TerminatingOrFailed"
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == labels
    assert made["metadata"]["labels"] == labels
    assert made["status"] == {}


def test_a_job_with_labels_keeps_them(desk: Desk) -> None:
    tree = job("x")
    made = desk.create("jobs", {**tree, "metadata": {"name": "x", "labels": {"own": "yes"}}})
    assert made["metadata"]["labels"] == {"own": "yes"}


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ({"parallelism": 3}, "completions", None),
        ({"backoffLimitPerIndex": 1, "completionMode": "Indexed", "completions": 2}, "backoffLimit", 2147483647),
        (
            {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "A"}]}]}},
            "podReplacementPolicy",
            "Failed",
        ),
    ],
)
def test_what_is_filled_in_depends_on_the_rest(desk: Desk, spec: Any, field: str, value: Any) -> None:
    assert desk.create("jobs", job("x", **spec))["spec"].get(field) == value


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"completionMode": "Odd"},
            'spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed"',
        ),
        (
            {"completionMode": "Indexed", "parallelism": 2},
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        ({"maxFailedIndexes": 1}, "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
        (
            {"managedBy": "me"},
            'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        (
            {"podReplacementPolicy": "Odd"},
            'spec.podReplacementPolicy: Unsupported value: "Odd": supported values: "Failed", "TerminatingOrFailed"',
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "Ignore"}]}},
            "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is "
            "required",
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "Fail", "onExitCodes": {"operator": "In", "values": [0]}}]}},
            'spec.podFailurePolicy.rules[0].action: Unsupported value: "Fail": supported values: "Count", "FailIndex", '
            '"FailJob", "Ignore"',
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [3, 2]}}]}},
            "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,2]: must be ordered",
        ),
        (
            {"successPolicy": {"rules": [{"succeededCount": 1}]}},
            'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires '
            "indexed completion mode",
        ),
        (
            {"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "1-7"}]}},
            'error parsing succeededIndexes: too large index: "7"',
        ),
        ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector: Invalid value: "),
    ],
)
def test_a_job_that_breaks_rules_is_refused(desk: Desk, spec: Any, error: str) -> None:
    refused = refusal(lambda: desk.create("jobs", job("x", **spec)))
    assert refused.code == 422
    assert error in refused.message


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        ("Always", 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'),
        ("Odd", 'spec.template.spec.restartPolicy: Unsupported value: "Odd": supported values: "OnFailure", "Never"'),
    ],
)
def test_a_job_does_not_start_its_containers_for_ever(desk: Desk, policy: str, error: str) -> None:
    tree: Any = job("x")
    tree["spec"]["template"]["spec"]["restartPolicy"] = policy
    assert error in refusal(lambda: desk.create("jobs", tree)).message


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ({"completions": 2}, "spec.completions: Invalid value: 2: field is immutable"),
        ({"completionMode": "Indexed"}, 'spec.completionMode: Invalid value: "Indexed": field is immutable'),
        ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector: Invalid value"),
        ({"template": {"spec": {"hostNetwork": True}}}, "spec.template: Invalid value"),
        ({"template": {"spec": {"nodeSelector": {"a": "b"}}}}, "spec.template: Invalid value"),
    ],
)
def test_most_of_a_job_stays(desk: Desk, patch: Any, error: str) -> None:
    desk.create("jobs", job("x"))
    refused = refusal(lambda: desk.patch("jobs", "x", {"spec": patch}))
    assert error in refused.message
    assert "field is immutable" in refused.message


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"nodeSelector": {"a": "b"}}, id="where to"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, id="what it puts up with"),
        pytest.param({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}, id="how much"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, id="what it likes"),
    ],
)
def test_a_suspended_job_may_be_sent_elsewhere(desk: Desk, patch: Any) -> None:
    desk.create("jobs", job("x", suspend=True))
    desk.patch("jobs", "x", {"spec": {"template": {"spec": patch}}}, how="application/strategic-merge-patch+json")
    desk.patch("jobs", "x", {"spec": {"suspend": False}})
    desk.patch("jobs", "x", {"status": {"active": 1, "startTime": "2027-01-15T08:00:00Z"}}, part="status")
    moved = {"spec": {"template": {"spec": {"nodeSelector": {"c": "d"}}}}}
    assert refusal(lambda: desk.patch("jobs", "x", moved)).code == 422


def test_an_image_stays_even_while_a_job_is_suspended(desk: Desk) -> None:
    desk.create("jobs", job("x", suspend=True))
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}}
    refused = refusal(lambda: desk.patch("jobs", "x", image, how="application/strategic-merge-patch+json"))
    assert "spec.template.spec: Invalid value" in refused.message


def test_an_indexed_job_changes_its_size_as_a_whole(desk: Desk) -> None:
    desk.create("jobs", job("x", completionMode="Indexed", completions=2, parallelism=2))
    desk.patch("jobs", "x", {"spec": {"completions": 3, "parallelism": 3}})
    refused = refusal(lambda: desk.patch("jobs", "x", {"spec": {"completions": 4}}))
    assert "can only be modified in tandem with spec.parallelism" in refused.message


@pytest.mark.parametrize(
    ("indexes", "result"),
    [
        ("", 0),
        ("0,2-4", 4),
        ("2,1", "non-increasing order, previous: 2, current: 1"),
        ("1-2-3", 'the fragment "1-2-3" violates the requirement'),
        ("a", 'cannot convert string to integer for index: "a"'),
        ("9", 'too large index: "9"'),
    ],
)
def test_indexes_are_counted(indexes: str, result: int | str) -> None:
    if isinstance(result, int):
        assert counted(indexes, 5) == result
    else:
        with pytest.raises(ValueError, match=r".") as wrong:
            counted(indexes, 5)
        assert result in str(wrong.value)
