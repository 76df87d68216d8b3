"""Does the sentence say when, how surely, and what is not known?"""

import pytest
from msgspec.structs import replace

from pykueue.api.estimates import Calibration, EstimateStatus, StartState, words

FOUND = EstimateStatus(
    StartState.PENDING,
    asked="2026-01-01T14:00:30Z",
    earliest="2026-01-01T14:10:00Z",
    latest="2026-01-01T15:30:00Z",
    runs=40,
    runs_that_start=40,
)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (FOUND, "starts between 14:10 and 15:30 (nine of ten runs)"),
        (
            replace(FOUND, ahead=9, ahead_without_limit=7, calibration=Calibration(40, 36)),
            "starts between 14:10 and 15:30 (nine of ten runs); 7 of 9 ahead declare no time limit. "
            "Of the last 40 estimates 36 were right",
        ),
        (
            replace(FOUND, ahead=1, ahead_without_limit=1, ahead_guessed=1, calibration=Calibration(1, 1)),
            "starts between 14:10 and 15:30 (nine of ten runs); 1 of 1 ahead declares no time limit; "
            "no job like it has finished yet, so its run time is a guess. The last estimate was right",
        ),
        (
            replace(FOUND, ahead=2, ahead_without_limit=2, ahead_few=1, fewest=1, calibration=Calibration(1, 0)),
            "starts between 14:10 and 15:30 (nine of ten runs); 2 of 2 ahead declare no time limit; "
            "the run time of 1 of them rests on only 1 finished job like it. The last estimate was wrong",
        ),
        (
            replace(FOUND, ahead=4, ahead_without_limit=1, ahead_few=1, fewest=2, calibration=Calibration(3, 1)),
            "starts between 14:10 and 15:30 (nine of ten runs); 1 of 4 ahead declares no time limit; "
            "its run time rests on only 2 finished jobs like it. Of the last 3 estimates 1 was right",
        ),
        (
            replace(FOUND, ahead=3, ahead_without_limit=3, ahead_few=2, fewest=2, calibration=Calibration(10, 4)),
            "starts between 14:10 and 15:30; 3 of 3 ahead declare no time limit; the run times of 2 of them rest on as "
            "few as 2 finished jobs like them. Of the last 10 estimates only 4 were right",
        ),
        (replace(FOUND, earliest="2026-01-01T14:00:30Z", latest="2026-01-01T14:01:00Z"), "starts now"),
        (
            replace(FOUND, latest="", runs_that_start=33),
            "starts at 14:10 or later; in 7 of 40 runs not within 30 days",
        ),
        (
            replace(FOUND, earliest="", latest="", runs_that_start=0),
            "does not start within 30 days in any of 40 runs",
        ),
        (EstimateStatus(StartState.STARTED, started="2026-01-01T14:10:00Z"), "has started at 14:10"),
        (EstimateStatus(StartState.FINISHED), "has finished"),
        (
            replace(FOUND, earliest="", latest="", runs_that_start=0, reason="ClusterQueue main is stopped"),
            "does not start within 30 days in any of 40 runs: ClusterQueue main is stopped",
        ),
        (EstimateStatus(StartState.HELD, reason="held by its owner"), "held by its owner"),
        (EstimateStatus(StartState.NEVER, reason="can never start: too large"), "can never start: too large"),
        (
            EstimateStatus(StartState.GATED, reason="waits for job a to end"),
            "waits for job a to end, so it cannot be estimated",
        ),
        (
            EstimateStatus(StartState.GATED, reason="waits until", not_before="2026-01-01T16:00:00Z"),
            "not before 16:00, and cannot be estimated until then",
        ),
    ],
)
def test_an_estimate_in_words(found: EstimateStatus, expected: str) -> None:
    assert words(found, lambda time: time[11:16]) == expected
