"""Is it counted whether a job started when it was estimated?"""

import msgspec
import pytest

from pykueue.api.estimates import Calibration, EstimateStatus, StartState
from pykueue.api.workload import Workload
from pykueue.controllers.queries import calibration
from pykueue.controllers.queries.calibration import EstimateLog, result
from pykueue.kube.informer import Change

RANGE = EstimateStatus(StartState.PENDING, earliest="2026-01-01T10:00:00Z", latest="2026-01-01T11:00:00Z")


def seen(uid: str = "a", admitted: str = "") -> Workload:
    conditions = [{"type": "Admitted", "status": "True", "lastTransitionTime": admitted}] if admitted else []
    tree = {"metadata": {"name": uid, "namespace": "team", "uid": uid}, "status": {"conditions": conditions}}
    return msgspec.json.decode(msgspec.json.encode(tree), type=Workload)


@pytest.mark.parametrize(
    ("earliest", "latest", "started", "expected"),
    [
        ("2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T10:00:00Z", "right"),
        ("2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T11:00:00Z", "right"),
        ("2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T09:59:59Z", "early"),
        ("2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T11:00:01Z", "late"),
        ("2026-01-01T10:00:00Z", "", "2026-01-09T11:00:01Z", "right"),
        ("", "", "2026-01-01T10:00:00Z", "early"),
    ],
)
def test_a_start_is_right_early_or_late(earliest: str, latest: str, started: str, expected: str) -> None:
    assert result(EstimateStatus(StartState.PENDING, earliest=earliest, latest=latest), started) == expected


def test_the_first_estimate_of_a_job_is_counted_once_when_it_starts() -> None:
    counted: list[str] = []
    log = EstimateLog(counted.append)
    log.remember("a", RANGE)
    log.remember("a", EstimateStatus(StartState.PENDING))
    waits, starts = seen(), seen(admitted="2026-01-01T10:30:00Z")
    log.workload_changed(Change("team/b", None, seen("b", "2026-01-01T10:30:00Z")))
    log.workload_changed(Change("team/a", None, waits))
    assert log.calibration == Calibration(0, 0)
    log.workload_changed(Change("team/a", waits, starts))
    log.workload_changed(Change("team/a", starts, starts))
    assert (counted, log.calibration, log.open) == (["right"], Calibration(1, 1), {})


def test_a_job_that_is_deleted_is_forgotten() -> None:
    log = EstimateLog(lambda result: None)
    log.remember("a", RANGE)
    log.workload_changed(Change("team/a", seen(), None))
    assert (log.open, log.calibration) == ({}, Calibration(0, 0))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "OPEN_MAX", 2)
    log = EstimateLog(lambda result: None)
    for uid in "abc":
        log.remember(uid, RANGE)
    assert list(log.open) == ["b", "c"]
