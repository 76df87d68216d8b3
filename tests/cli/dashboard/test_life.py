"""What happened to a job, in which order?"""

from typing import Any

from pykueue.api.explanations import PastDecision
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
        ("01", "Reserved", "reserved"),
        ("02", "Admit", "starts"),
        ("02", "Check", "check nodes is Ready: there"),
        ("02", "Started", "its pods were created"),
        ("09", "Finish", "too long"),
    ]


def test_a_job_that_is_only_submitted() -> None:
    assert [one.what for one in life({"metadata": {"creationTimestamp": AT.format(0)}}, None, ())] == ["Submitted"]
