"""What does a pod's failure mean? The first rule of the Job's policy that matches it says."""

from typing import Final

from pykueue.base.struct import Frozen
from pykueue.kubecontrollers.jobviews import ExitCodes, FailurePolicy, FailureRule, Pod

FAIL_JOB: Final = "FailJob"
FAIL_INDEX: Final = "FailIndex"
IGNORE: Final = "Ignore"
COUNT: Final = "Count"


class Judgement(Frozen):
    """What is to be done about a pod that failed."""

    action: str = ""
    """Of the rule that matched; empty when none did."""
    message: str = ""
    """Why the Job fails, when it does."""

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the backoff limits."""
        return self.action != IGNORE


COUNTED: Final = Judgement()


def judge(policy: FailurePolicy | None, pod: Pod) -> Judgement:
    """What a policy says about a pod that failed; without a rule that matches, the failure counts."""
    for position, rule in enumerate(policy.rules if policy is not None else ()):
        why = grounds(rule, pod)
        if why:
            message = f"{why} matching {rule.action} rule at index {position}" if rule.action == FAIL_JOB else ""
            return Judgement(rule.action, message)
    return COUNTED


def grounds(rule: FailureRule, pod: Pod) -> str:
    """Why a rule matches a pod; empty when it does not."""
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
    """Whether a container that ended with this code, which is not 0, is what a rule is about."""
    if asked.container_name not in (None, container):
        return False
    match asked.operator:
        case "In":
            return code in asked.values
        case "NotIn":
            return code not in asked.values
        case _:
            return False
