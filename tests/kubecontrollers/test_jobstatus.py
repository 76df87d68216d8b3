"""Are conditions kept, verdicts found again, and patches as small as the change?"""

import pytest

from pykueue.base.units import MICROS, Instant
from pykueue.kubecontrollers.indexes import read_indexes
from pykueue.kubecontrollers.jobstatus import (
    BACKOFF_LIMIT,
    COMPLETIONS_REACHED,
    Verdict,
    concluded,
    condition,
    standing,
    status_patch,
    successful,
    with_condition,
)
from pykueue.kubecontrollers.jobviews import JobStatus, SuccessPolicy, SuccessRule, Uncounted

NOW = Instant(1_800_000_000 * MICROS)
LATER = Instant(NOW + 5 * MICROS)


def test_a_condition_that_was_never_true_is_not_added_as_false() -> None:
    assert with_condition((), condition("Suspended", "False", "JobResumed", "Job resumed", NOW)) == ()


def test_a_condition_that_says_the_same_keeps_its_time() -> None:
    known = (condition("Suspended", "True", "JobSuspended", "Job suspended", NOW),)
    assert with_condition(known, condition("Suspended", "True", "JobSuspended", "Job suspended", LATER)) is known


def test_a_condition_that_changes_keeps_its_place() -> None:
    known = (
        condition("Suspended", "True", "JobSuspended", "Job suspended", NOW),
        condition("Other", "True", "R", "m", NOW),
    )
    changed = with_condition(known, condition("Suspended", "False", "JobResumed", "Job resumed", LATER))
    assert [(one.type, one.status) for one in changed] == [("Suspended", "False"), ("Other", "True")]


@pytest.mark.parametrize("verdict", [BACKOFF_LIMIT, COMPLETIONS_REACHED])
def test_a_verdict_stands_once_it_is_written(verdict: Verdict) -> None:
    interim = concluded((), verdict, NOW, over=False)
    assert [one.type for one in interim] == [verdict.interim]
    assert standing(JobStatus(conditions=interim)) == verdict
    final = concluded(interim, verdict, LATER, over=True)
    assert [one.type for one in final] == [verdict.interim, verdict.final]
    assert final[0] == interim[0]


@pytest.mark.parametrize(
    ("rule", "done", "met"),
    [
        pytest.param(SuccessRule("0-2"), "0-2", True, id="all that are named"),
        pytest.param(SuccessRule("0-2"), "0,1", False, id="one is missing"),
        pytest.param(SuccessRule("0-4", 2), "1,3,7", True, id="so many of those that are named"),
        pytest.param(SuccessRule("0-4", 3), "1,3,7", False, id="too few of those that are named"),
        pytest.param(SuccessRule(None, 3), "1,3,7", True, id="so many, whichever"),
        pytest.param(SuccessRule(None, 4), "1,3,7", False, id="too few"),
        pytest.param(SuccessRule("nonsense", 0), "1", False, id="indexes that make no sense"),
        pytest.param(SuccessRule(None, 0), "", False, id="nothing has succeeded yet"),
    ],
)
def test_success_policy(rule: SuccessRule, done: str, met: bool) -> None:
    policy = SuccessPolicy((SuccessRule(None, 100), rule))
    found = successful(policy, 10, read_indexes(done, 10))
    assert found == (Verdict(False, "SuccessPolicy", "Matched rules at index 1") if met else None)


def test_patch_holds_what_changes_and_nulls_what_goes() -> None:
    old = JobStatus(active=1, ready=1, terminating=0, uncounted_terminated_pods=Uncounted(("a",), ("b",)), failed=1)
    new = JobStatus(ready=0, terminating=0, uncounted_terminated_pods=Uncounted((), ("b",)), failed=1, succeeded=1)
    assert status_patch(old, new) == {
        "active": None,
        "ready": 0,
        "succeeded": 1,
        "uncountedTerminatedPods": {"succeeded": None},
    }
    assert status_patch(new, new) == {}
