"""Does a Workload with quota say what it still waits for?"""

from typing import Any

import pytest

from pykueue.checks.pendingchecks import awaited

PENDING = {"name": "capacity", "state": "Pending", "message": "ETA 5 min"}
SILENT = {"name": "licence", "state": "Pending", "message": ""}
READY = {"name": "budget", "state": "Ready", "message": "paid"}


def workload(checks: list[dict[str, str]], **conditions: str) -> dict[str, Any]:
    said = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {"status": {"conditions": said, "admissionChecks": checks}}


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        pytest.param({}, "", id="is new"),
        pytest.param(workload([PENDING], QuotaReserved="False"), "", id="has no quota"),
        pytest.param(workload([], QuotaReserved="True"), "", id="has no checks"),
        pytest.param(workload([READY], QuotaReserved="True"), "", id="has passed them"),
        pytest.param(
            workload([READY, PENDING, SILENT], QuotaReserved="True", Admitted="False"),
            "capacity: ETA 5 min; licence: Pending",
            id="waits for them",
        ),
        pytest.param(workload([PENDING], QuotaReserved="True", Admitted="True"), "", id="is admitted"),
    ],
)
def test_what_is_said_of_one_that(tree: dict[str, Any], words: str) -> None:
    assert awaited(tree) == words
