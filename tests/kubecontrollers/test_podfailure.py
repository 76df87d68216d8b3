"""Does the first rule of a pod failure policy that matches decide, and in Kubernetes' words?"""

import pytest

from pykueue.kubecontrollers.jobviews import ConditionPattern, ExitCodes, FailurePolicy, FailureRule, Pod
from pykueue.kubecontrollers.podfailure import judge

POD = Pod(
    "team-a",
    "train-x",
    1,
    phase="Failed",
    exits=(("main", 42), ("side", 7)),
    conditions=(("DisruptionTarget", "True"), ("Ready", "False")),
)


def exits(action: str, operator: str, *values: int, container: str | None = None) -> FailureRule:
    return FailureRule(action, ExitCodes(operator, values, container))


def conditions(action: str, kind: str, status: str = "True") -> FailureRule:
    return FailureRule(action, None, (ConditionPattern(kind, status),))


@pytest.mark.parametrize(
    ("rules", "action", "message"),
    [
        pytest.param((), "", "", id="without rules a failure counts"),
        pytest.param((exits("Count", "In", 1),), "", "", id="no rule matches"),
        pytest.param(
            (exits("FailJob", "In", 1, 42),),
            "FailJob",
            "Container main for pod team-a/train-x failed with exit code 42 matching FailJob rule at index 0",
            id="an exit code in the list fails the Job",
        ),
        pytest.param(
            (exits("Ignore", "In", 1), exits("FailJob", "NotIn", 42)),
            "FailJob",
            "Container side for pod team-a/train-x failed with exit code 7 matching FailJob rule at index 1",
            id="an exit code not in the list, of another container",
        ),
        pytest.param((exits("FailIndex", "In", 42, container="side"),), "", "", id="another container is meant"),
        pytest.param((exits("FailIndex", "In", 7, container="side"),), "FailIndex", "", id="this container is meant"),
        pytest.param((exits("Count", "In", 42), exits("FailJob", "In", 42)), "Count", "", id="the first decides"),
        pytest.param(
            (conditions("FailJob", "DisruptionTarget"),),
            "FailJob",
            "Pod team-a/train-x has condition DisruptionTarget matching FailJob rule at index 0",
            id="a condition fails the Job",
        ),
        pytest.param((conditions("Ignore", "Ready", "False"),), "Ignore", "", id="a condition that is false"),
        pytest.param((conditions("Ignore", "Ready"),), "", "", id="a condition of another status"),
        pytest.param((exits("Explode", "In", 42), exits("Ignore", "In", 42)), "Ignore", "", id="an unknown action"),
        pytest.param((exits("Ignore", "Near", 42),), "", "", id="an unknown operator"),
    ],
)
def test_first_match(rules: tuple[FailureRule, ...], action: str, message: str) -> None:
    found = judge(FailurePolicy(rules), POD)
    assert (found.action, found.message) == (action, message)
    assert found.counts == (action != "Ignore")


def test_no_policy_counts() -> None:
    assert judge(None, POD).counts
