"""What does `pykueue run` say of a Job that waits for others?"""

from typing import Any

import pytest

from pykueue.base.clock import START
from pykueue.cli.follow.needed import why_held

NOTES = {"kueue.x-k8s.io/admission-gated-by": "pykueue.io/dependencies", "pykueue.io/after-ok": "other"}


def job(annotations: dict[str, str] | None = None, ended: str = "") -> Any:
    conditions = [{"type": ended, "status": "True", "message": "over"}] if ended else []
    return {"metadata": {"annotations": annotations or {}}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        pytest.param({"me": job(NOTES), "other": job()}, "waits for job other to succeed", id="it runs"),
        pytest.param({"me": job(NOTES), "other": job(ended="Complete")}, "", id="it succeeded"),
        pytest.param(
            {"me": job(NOTES), "other": job(ended="Failed")}, "can never start: job other failed", id="failed"
        ),
        pytest.param({"me": job(NOTES)}, "can never start: job other does not exist", id="deleted"),
        pytest.param({"me": job(), "other": job()}, "", id="without a gate"),
        pytest.param({}, "", id="before it is known"),
    ],
)
def test_the_wait_is_told_from_the_jobs_that_are_seen(jobs: dict[str, Any], says: str) -> None:
    assert why_held("me", jobs, START) == says
