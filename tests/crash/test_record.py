"""Is a crash run planned, resumed and judged as it should be?"""

from pathlib import Path

import pytest

from pykueue.audit.world import Finding
from pykueue.base.units import Instant
from tests.crash.faults import FAULTS
from tests.crash.record import Plan, Record, Step, steps, summary
from tests.outcome import Outcome

END = {
    "made": 9,
    "refused": 0,
    "unfinished": [],
    "counts": {"Jobs ended": 9, "Admitted": 12, "Evicted": 3, "Evicted Preempted": 3},
    "events": 100,
    "gaps": 0,
    "out_of_order": 0,
    "gave_up": 0,
    "ready_seconds": [1.0],
}


def begun(folder: Path) -> Record:
    chosen = [Step(0, "kill"), Step(1, "kill-leader"), Step(2, "stop-leader")]
    return Record.begin(folder / "run", Plan(chosen, 1, 30.0, 3, "pykueue"))


def done(folder: Path, after_kill: float = 4.9, after_stop: float = 1.9, **end: object) -> Record:
    """A run that is over."""
    record = begun(folder)
    record.finish(Step(0, "kill"), 2.0, {})
    record.finish(Step(1, "kill-leader"), 9.0, {"takeover_seconds": after_kill})
    record.finish(Step(2, "stop-leader"), 9.0, {"takeover_seconds": after_stop})
    record.close(**{**END, **end})
    return record


def test_a_plan_holds_every_fault_in_an_order_that_its_seed_decides() -> None:
    chosen = steps(20, 1, 7, [])
    faults = [step.fault for step in chosen]
    assert sorted(faults) == sorted(["kill"] * 20 + [name for name in FAULTS if name != "kill"])
    assert [step.number for step in chosen] == list(range(len(chosen)))
    assert chosen == steps(20, 1, 7, [])
    assert chosen != steps(20, 1, 8, [])


def test_a_plan_may_hold_some_faults_only() -> None:
    assert sorted(step.fault for step in steps(5, 2, 1, ["cut", "requota"])) == ["cut", "cut", "requota", "requota"]
    assert steps(5, 2, 1, ["none"]) == []
    assert [step.fault for step in steps(1, 1, 1, ["kill", "cut"], ["cut"])] == ["kill"]
    assert "stall-watches" not in {step.fault for step in steps(1, 1, 1, [], ["stall-watches"])}


def test_a_run_that_was_broken_off_goes_on_where_it_was(tmp_path: Path) -> None:
    record = begun(tmp_path)
    record.finish(Step(1, "kill-leader"), 9.0, {"takeover_seconds": 4.0})
    record.found(Finding("stuck", "Workload ns/a", "waits", 5, Instant(0)))
    again = Record.open(record.folder)
    assert again.left() == [Step(0, "kill"), Step(2, "stop-leader")]
    assert again.findings == ["stuck: Workload ns/a: waits (version 5)"]
    assert summary(again)[1] is Outcome.FAILED


def test_a_run_in_which_all_was_well_says_so(tmp_path: Path) -> None:
    text, outcome = summary(done(tmp_path))
    assert outcome is Outcome.PASSED
    assert "ok   kill-leader        1 times, takeover seconds 4.90 to 4.90 (at most 5.0)" in text


@pytest.mark.parametrize(
    ("what", "says", "outcome"),
    [
        pytest.param({"after_kill": 5.1}, "LATE kill-leader", Outcome.LATE, id="a late takeover after a kill"),
        pytest.param({"after_stop": 2.1}, "LATE stop-leader", Outcome.LATE, id="a late takeover after a stop"),
        pytest.param({"unfinished": ["red/job-1"]}, "not finished: red/job-1", Outcome.LATE, id="an unfinished Job"),
        pytest.param({"counts": {**END["counts"], "Jobs failed": 1}}, "NO   Jobs", Outcome.FAILED, id="a failed Job"),  # type: ignore[dict-item]  # decoded JSON is Json
    ],
)
def test_a_run_in_which_something_was_wrong_says_what(
    tmp_path: Path, what: dict[str, object], says: str, outcome: Outcome
) -> None:
    text, found = summary(done(tmp_path, **what))  # type: ignore[arg-type]  # the fields are given by name
    assert found is outcome
    assert says in text


def test_a_finding_fails_a_run_that_is_late_too(tmp_path: Path) -> None:
    record = done(tmp_path, after_kill=5.1)
    record.found(Finding("overuse", "ClusterQueue q", "holds 5 cpu and may hold 4", 5, Instant(0)))
    text, outcome = summary(record)
    assert outcome is Outcome.FAILED
    assert "overuse: ClusterQueue q: holds 5 cpu and may hold 4 (version 5)" in text
