"""The pod failure policy of a Job: the first matching rule decides."""

from typing import Final

from pykueue.base.struct import Frozen
from pykueue.kubecontrollers.jobviews import ExitCodes, FailurePolicy, FailureRule, Pod

FAIL_JOB: Final = "FailJob"
FAIL_INDEX: Final = "FailIndex"
IGNORE: Final = "Ignore"
COUNT: Final = "Count"


class Judgement(Frozen):
    """What to do about a failed pod."""

    action: str = ""
    """Of the matching rule; empty if none matches."""
    message: str = ""
    """Why the Job fails, if it does."""

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the backoff limits."""
        return self.action != IGNORE


COUNTED: Final = Judgement()


def judge(policy: FailurePolicy | None, pod: Pod) -> Judgement:
    """The decision of a policy about a failed pod; without a matching rule, the failure counts."""
    for position, rule in enumerate(policy.rules if policy is not None else ()):
        why = grounds(rule, pod)
        if why:
            message = f"{why} matching {rule.action} rule at index {position}" if rule.action == FAIL_JOB else ""
            return Judgement(rule.action, message)
    return COUNTED


def grounds(rule: FailureRule, pod: Pod) -> str:
    """Why a rule matches a pod; empty if it does not."""
    if rule.action not in (FAIL_JOB, FAIL_INDEX, IGNORE, COUNT):
        return ""
    if rule.on_exit_codes is not None:
        for container, code in pod.exits:
            if exits_match(rule.on_exit_codes, container, code):
                return f"Container {container} for pod {pod.namespace}/{pod.name} failed with exit code {code}"
        return ""
    for kind, status in pod.conditions:
        if any(kind == pattern.type and status == pattern.status for pattern in rule.on_pod_conditions):
            return f"Pod {pod.namespace}/{pod.name} has condition {kind}"
    return ""


def exits_match(asked: ExitCodes, container: str, code: int) -> bool:
    """Whether a rule matches a container that ended with this non-zero code."""
    if asked.container_name not in (None, container):
        return False
    match asked.operator:
        case "In":
            return code in asked.values
        case "NotIn":
            return code not in asked.values
        case _:
            return False
