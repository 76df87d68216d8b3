"""Tests of times that are shown though nobody has set them."""

import contextlib

from tests.apiserver.desk import Desk, job, pod


def test_conditions_and_states_show_their_times() -> None:
    with contextlib.closing(Desk()) as desk:
        desk.create("pods", pod("p"))
        status = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}],
        }
        made = desk.patch("pods", "p", {"status": status}, part="status")["status"]
        assert made["conditions"] == [
            {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}
        ]
        ended = made["containerStatuses"][0]["state"]["terminated"]
        assert ended == {"exitCode": 1, "startedAt": None, "finishedAt": None}


def test_an_event_shows_its_times_and_nobody_manages_them() -> None:
    with contextlib.closing(Desk()) as desk:
        tree = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
        made = desk.create("events", tree)  # type: ignore[arg-type]  # a table gives it as an object
        assert (made["firstTimestamp"], made["eventTime"], made["reportingComponent"]) == (None, None, "")
        assert "f:eventTime" not in str(made["metadata"]["managedFields"])


def test_a_job_does_not_say_what_there_is_none_of() -> None:
    with contextlib.closing(Desk()) as desk:
        desk.create("jobs", job("x"))
        made = desk.patch("jobs", "x", {"status": {"active": 0, "failed": 0, "ready": 0}}, part="status")
        assert made["status"] == {"ready": 0}
