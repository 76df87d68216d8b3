"""What happened to a job, in which order?"""

from typing import Any

from pykueue.api.explanations import PastDecision
from pykueue.api.names import Annotation
from pykueue.cli.dashboard.life import life

AT = "2027-01-15T08:00:0{}Z"


def test_a_life_from_all_that_is_known() -> None:
    job: dict[str, Any] = {
        "metadata": {"creationTimestamp": AT.format(0)},
        "status": {
            "startTime": AT.format(2),
            "conditions": [
                {"type": "Failed", "status": "True", "lastTransitionTime": AT.format(9), "message": "too long"}
            ],
        },
    }
    workload: dict[str, Any] = {
        "status": {
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "lastTransitionTime": AT.format(1), "message": "reserved"},
                {"type": "Evicted", "status": "False", "lastTransitionTime": AT.format(3)},
                {"type": "PodsReady", "status": "True", "lastTransitionTime": AT.format(3), "message": "ready"},
            ],
            "admissionChecks": [
                {"name": "nodes", "state": "Ready", "lastTransitionTime": AT.format(2), "message": "there"}
            ],
        }
    }
    found = life(job, workload, [PastDecision(AT.format(2), "Admit", "starts")])
    assert [(one.at[-3:-1], one.what, one.text) for one in found] == [
        ("00", "Submitted", "submitted"),
        ("02", "Check", "check nodes is Ready: there"),
        ("02", "Admit", "starts"),
        ("02", "Started", "its pods were created"),
        ("09", "Finish", "too long"),
    ]


def test_a_job_that_is_only_submitted() -> None:
    assert [one.what for one in life({"metadata": {"creationTimestamp": AT.format(0)}}, None, ())] == ["Submitted"]


def condition(kind: str, second: int, message: str = "", reason: str = "") -> dict[str, str]:
    at = AT.format(second)
    return {"type": kind, "status": "True", "lastTransitionTime": at, "message": message, "reason": reason}


def told(*decisions: tuple[int, str, str]) -> list[PastDecision]:
    return [PastDecision(AT.format(second), kind, said) for second, kind, said in decisions]


def brief(job: dict[str, Any], workload: dict[str, Any] | None, decisions: list[PastDecision]) -> list[tuple[str, str]]:
    found = life({"metadata": {"creationTimestamp": AT.format(0)}, **job}, workload, decisions)
    assert [one.at for one in found] == sorted(one.at for one in found)
    return [(one.what, one.text) for one in found]


def test_each_fact_is_told_once_in_the_words_of_the_engine() -> None:
    decisions = told(
        (1, "Admit", "starts: takes 2 cpu"),
        (3, "Evict", "is preempted: default/x goes before it"),
        (4, "Unreserve", "gives quota back"),
        (5, "Wait", "waits: needs 1 more cpu"),
        (7, "Wait", "waits: it is queued behind other workloads"),
        (7, "Admit", "starts: takes 2 cpu"),
        (0, "Finish", "finishes: it succeeded"),
    )
    conditions = [
        condition("Finished", 9, "Job finished successfully", "Succeeded"),
        condition("QuotaReserved", 7, "Quota reserved in ClusterQueue main"),
        condition("Admitted", 7, "The workload is admitted"),
        condition("PodsReady", 8, "All pods reached readiness"),
        condition("Requeued", 4, "Preempted to accommodate a workload", "Preempted"),
        condition("Evicted", 3, "Preempted to accommodate a workload", "Preempted"),
        condition("Preempted", 3, "Preempted to accommodate a workload", "InClusterQueue"),
    ]
    job = {"status": {"startTime": AT.format(7), "conditions": [condition("Complete", 9, "Reached completions")]}}
    assert brief(job, {"status": {"conditions": conditions}}, decisions) == [
        ("Submitted", "submitted"),
        ("Admit", "starts: takes 2 cpu"),
        ("Preempted", "is preempted: default/x goes before it"),
        ("Unreserve", "gives quota back"),
        ("Wait", "waits: needs 1 more cpu"),
        ("Admit", "starts: takes 2 cpu"),
        ("Started", "its pods were created"),
        ("Finish", "finishes: it succeeded"),
    ]


def test_without_decisions_the_conditions_are_in_the_order_of_causes() -> None:
    conditions = [
        condition("Preempted", 3, "for another"),
        condition("Evicted", 3, "for another", "Preempted"),
        condition("Requeued", 3, "again"),
        condition("Admitted", 1, "admitted"),
        condition("QuotaReserved", 1, "reserved"),
    ]
    assert [what for what, _ in brief({}, {"status": {"conditions": conditions}}, [])] == [
        "Submitted",
        "Reserved",
        "Admitted",
        "Preempted",
        "Requeued",
    ]


HELD = "held by its owner; `pykueue release` queues it again"


def held_workload(second: int) -> dict[str, Any]:
    return {
        "metadata": {"annotations": {Annotation.DEACTIVATED_BY: "hold"}},
        "spec": {"active": False},
        "status": {"conditions": [condition("Evicted", second, "The workload is deactivated", "Deactivated")]},
    }


def test_a_pending_job_that_is_held_was_never_evicted() -> None:
    decisions = told((2, "Evict", f"is evicted: {HELD}"), (2, "Wait", f"waits: {HELD}"))
    for known in (decisions, []):
        assert brief({}, held_workload(2), known) == [("Submitted", "submitted"), ("Held", "its owner holds it")]


def test_a_running_job_that_is_held_released_and_starts_again() -> None:
    decisions = told(
        (1, "Admit", "starts"),
        (2, "Evict", f"is evicted: {HELD}"),
        (6, "Unreserve", "gives quota back"),
        (6, "Wait", f"waits: {HELD}"),
    )
    assert [what for what, _ in brief({}, held_workload(2), decisions)] == ["Submitted", "Admit", "Held", "Unreserve"]
    assert brief({}, held_workload(2), decisions)[2][1] == "its owner holds it; its run was stopped"
    since = told(
        (2, "Evict", "is evicted: it is held or deactivated; release it, or set spec.active to true to queue it again"),
        (3, "Wait", "waits: it is deactivated; set spec.active to true"),
        (7, "Requeue", "queues again: it was activated again"),
        (7, "Wait", "waits: it is queued behind other workloads"),
        (7, "Admit", "starts"),
    )
    conditions = [condition("Requeued", 7, "The workload was reactivated"), condition("QuotaReserved", 7, "reserved")]
    found = brief({"status": {"startTime": AT.format(7)}}, {"status": {"conditions": conditions}}, since)
    assert [what for what, _ in found] == ["Submitted", "Held", "Requeue", "Admit", "Started"]
