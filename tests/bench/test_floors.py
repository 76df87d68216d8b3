import pytest

from bench.floors import TRIES, Floor, Result, best

FASTER = Floor("f", "admissions/s", 1_000, "", at_least=True, scales=True)
CHEAPER = Floor("f", "ms", 100, "", scales=True)
RATIO = Floor("ratio", "times", 2, "")


@pytest.mark.parametrize(
    ("floor", "slowness", "effective"),
    [
        pytest.param(FASTER, 1.0, 1_000, id="the reference machine is asked for the number itself"),
        pytest.param(FASTER, 2.0, 500, id="half as fast, half as many"),
        pytest.param(FASTER, 0.5, 1_000, id="a faster machine is asked for no more"),
        pytest.param(CHEAPER, 2.0, 200, id="half as fast, twice as long"),
        pytest.param(CHEAPER, 0.5, 100, id="a faster machine may take as long"),
        pytest.param(RATIO, 2.0, 2, id="a ratio is the same everywhere"),
    ],
)
def test_what_is_asked_of_a_machine(floor: Floor, slowness: float, effective: float) -> None:
    assert floor.effective(slowness) == effective


@pytest.mark.parametrize(
    ("floor", "measured", "slowness", "ok"),
    [
        pytest.param(FASTER, 1_000, 1.0, True, id="exactly enough"),
        pytest.param(FASTER, 999, 1.0, False, id="one too few"),
        pytest.param(FASTER, 999, 1.1, True, id="enough for a slow machine"),
        pytest.param(CHEAPER, 100, 1.0, True, id="exactly in time"),
        pytest.param(CHEAPER, 101, 1.0, False, id="too long"),
        pytest.param(RATIO, 2.1, 9.0, False, id="no excuse for a ratio"),
    ],
)
def test_whether_a_floor_is_kept(floor: Floor, measured: float, slowness: float, ok: bool) -> None:
    result = Result(floor, measured, slowness, "")
    assert result.ok is ok
    assert ("MISSED" in result.line()) is not ok


def test_a_floor_that_was_missed_is_measured_again_and_the_best_counts() -> None:
    said = iter(
        [
            [Result(FASTER, 900, 1, "first"), Result(RATIO, 1, 1, "first")],
            [Result(FASTER, 1_100, 1, "second"), Result(RATIO, 3, 1, "second")],
        ]
    )
    assert [(result.measured, result.note) for result in best(lambda: next(said))] == [
        (1_100, f"second; try 2 of {TRIES}"),
        (1, "first"),
    ]


def test_a_floor_that_is_missed_every_time_is_missed() -> None:
    said = iter([850.0, 950.0, 900.0, 800.0])
    [result] = best(lambda: [Result(FASTER, next(said), 1, "")])
    assert not result.ok
    assert result.measured == 950
