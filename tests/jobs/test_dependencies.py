"""When may a job that waits for others, or for a time, be queued? A row for each rule, and its phrase."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.core import Tree
from pykueue.base.units import parse_instant
from pykueue.jobs.actions import LookAgain, Notice, PatchJob, SendEvent
from pykueue.jobs.dependencies import (
    FOLLOWED_MAX,
    NAMES_MAX,
    STEPS_MAX,
    Needs,
    Never,
    Other,
    Release,
    State,
    annotations_for,
    circle,
    followed,
    needs_of,
    phrase,
    verdict,
)
from pykueue.jobs.dependencygate import MET, next_actions
from tests.jobs.objects import GATED, NOW, later

GATE = {GATED: "pykueue.io/dependencies"}
RUNS, DONE, LOST = Other(State.UNFINISHED), Other(State.SUCCEEDED), Other(State.FAILED)


def waiting(**needs: str) -> dict[str, str]:
    return {**GATE, **{f"pykueue.io/{key.replace('_', '-')}": text for key, text in needs.items()}}


@pytest.mark.parametrize(
    ("needs", "others", "says"),
    [
        pytest.param(waiting(), {}, "", id="nothing to wait for"),
        pytest.param(waiting(after="a"), {"a": RUNS}, "waits for job a to end", id="after a job that runs"),
        pytest.param(waiting(after="a"), {"a": DONE}, "", id="after a job that succeeded"),
        pytest.param(waiting(after="a"), {"a": LOST}, "", id="after a job that failed"),
        pytest.param(waiting(after="a"), {}, "", id="after a job that was deleted"),
        pytest.param(waiting(after="a, b"), {"a": RUNS, "b": RUNS}, "waits for jobs a, b to end", id="after two"),
        pytest.param(waiting(after_ok="a"), {"a": RUNS}, "waits for job a to succeed", id="ok: it runs"),
        pytest.param(waiting(after_ok="a"), {"a": DONE}, "", id="ok: it succeeded"),
        pytest.param(waiting(after_ok="a"), {"a": LOST}, "can never start: job a failed", id="ok: it failed"),
        pytest.param(waiting(after_ok="a"), {}, "can never start: job a does not exist", id="ok: it was deleted"),
        pytest.param(
            waiting(after="a", after_ok="b", begin="2026-01-01T13:00:00Z"),
            {"a": RUNS, "b": RUNS},
            "waits for job a to end and for job b to succeed and until 2026-01-01T13:00:00Z",
            id="all three",
        ),
        pytest.param(waiting(begin="2026-01-01T12:00:01Z"), {}, "waits until 2026-01-01T12:00:01Z", id="not yet"),
        pytest.param(waiting(begin="2026-01-01T12:00:00Z"), {}, "", id="now"),
        pytest.param(waiting(begin="2026-01-01T14:00:00+02:00"), {}, "", id="in another time zone"),
        pytest.param(
            waiting(begin="soon"),
            {},
            "can never start: pykueue.io/begin: 'soon' is not a time such as 2027-01-31T12:00:00Z",
            id="no time",
        ),
        pytest.param(
            waiting(after="me"), {"me": RUNS}, "can never start: the jobs wait for each other: me -> me", id="itself"
        ),
        pytest.param(
            waiting(after="a"),
            {"a": Other(State.UNFINISHED, Needs(after_ok=("b",))), "b": Other(State.UNFINISHED, Needs(after=("me",)))},
            "can never start: the jobs wait for each other: me -> a -> b -> me",
            id="a circle",
        ),
        pytest.param(
            waiting(after="a"),
            {"a": Other(State.SUCCEEDED, Needs(after=("me",)))},
            "",
            id="a circle that somebody broke",
        ),
        pytest.param({"pykueue.io/after": "a"}, {"a": RUNS}, "", id="without our gate"),
        pytest.param({**waiting(after="a"), GATED: "x.io/y"}, {"a": RUNS}, "", id="with another gate"),
    ],
)
def test_a_job_waits_for_what_it_names(needs: dict[str, str], others: dict[str, Other], says: str) -> None:
    assert phrase("me", needs, others, NOW) == says


def test_only_our_gate_is_removed() -> None:
    needs = {**waiting(after="a"), GATED: "x.io/y, pykueue.io/dependencies"}
    assert next_actions("me", needs, {}, NOW) == (
        PatchJob({"metadata": {"annotations": {GATED: "x.io/y"}}}, notice=MET),
    )
    assert next_actions("me", waiting(), {}, NOW) == (
        PatchJob({"metadata": {"annotations": {GATED: None}}}, notice=MET),
    )


def test_a_job_that_has_ended_is_recorded_while_others_are_awaited() -> None:
    found = next_actions("me", waiting(after="c", after_ok="a,b"), {"a": DONE, "b": RUNS}, NOW)
    notes: Tree = {"pykueue.io/after": None, "pykueue.io/after-ok": "b"}
    assert found == (PatchJob({"metadata": {"annotations": notes}}),)


def test_the_wait_is_told_and_a_time_sets_a_timer() -> None:
    says = "The job waits until 2026-01-01T12:00:05Z"
    told = SendEvent(Notice("WaitingForDependencies", says, by_note=True))
    assert next_actions("me", waiting(begin="2026-01-01T12:00:05Z"), {}, NOW) == (told, LookAgain(5.0))
    far = next_actions("me", waiting(begin="2126-01-01T12:00:05Z"), {}, NOW)
    assert far[1] == LookAgain(86_400.0)


def test_a_job_that_can_never_start_says_so_once_more_than_nothing() -> None:
    told = SendEvent(Notice("DependencyNeverMet", "The job can never start: job a failed", warning=True, by_note=True))
    assert next_actions("me", waiting(after_ok="a"), {"a": LOST}, NOW) == (told,)


def test_needs_are_written_as_they_are_read() -> None:
    needs = Needs(("a", "b"), ("c",), later(60))
    assert needs_of(annotations_for(needs)) == needs
    assert needs_of({}) is None


def test_a_long_line_of_jobs_is_not_searched_to_its_end() -> None:
    found = followed(Needs(("0",)), lambda name: Other(State.UNFINISHED, Needs((str(int(name) + 1),))))
    assert len(found) == FOLLOWED_MAX


def test_the_jobs_to_wait_for_are_tried_before_those_that_they_wait_for() -> None:
    def find(name: str) -> Other:
        return Other(State.UNFINISHED, Needs((f"{name}x",)) if len(name) < 500 else None)

    assert list(followed(Needs(("a", "b")), find, most=3)) == ["a", "b", "ax"]


def test_names_that_no_job_has_are_counted_too() -> None:
    tried: list[str] = []

    def find(name: str) -> None:
        tried.append(name)

    followed(Needs(tuple(map(str, range(50_000)))), find)
    assert len(tried) == FOLLOWED_MAX


MANY = ",".join(f"j{number}" for number in range(NAMES_MAX + 1))


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        pytest.param(waiting(after=MANY), "it names 101 jobs to wait for, and at most 100 are allowed", id="after"),
        pytest.param(
            waiting(after="a", after_ok=MANY.rpartition(",")[0]),
            "it names 101 jobs to wait for, and at most 100 are allowed",
            id="both together",
        ),
        pytest.param(
            waiting(after="a" * 254), "it names a job to wait for with more than 253 characters", id="a long name"
        ),
        pytest.param(waiting(after_ok="a," * 50_000), "pykueue.io/after-ok: longer than 25500 characters", id="text"),
        pytest.param(waiting(begin="2" * 65), "pykueue.io/begin: longer than 64 characters", id="a long time"),
        pytest.param(
            {GATED: "x.io/y," * 9_000 + GATE[GATED]},
            "kueue.x-k8s.io/admission-gated-by: longer than 25500 characters",
            id="many gates",
        ),
    ],
)
def test_a_job_that_names_too_much_never_starts(needs: dict[str, str], says: str) -> None:
    assert needs_of(needs) == Needs(problem=says)
    told = Notice("DependencyNeverMet", f"The job can never start: {says}", warning=True, by_note=True)
    assert next_actions("me", needs, {}, NOW) == (SendEvent(told),)


def test_as_many_jobs_as_allowed_are_waited_for() -> None:
    found = needs_of(waiting(after=MANY.rpartition(",")[0]))
    assert found is not None
    assert (len(found.after), found.problem) == (NAMES_MAX, "")


def test_annotations_are_parsed_once() -> None:
    given = waiting(after="only-here")
    assert needs_of(given) is needs_of(dict(given))


def test_a_dense_graph_is_not_searched_to_its_end() -> None:
    names = tuple(map(str, range(100)))
    read: list[str] = []

    class Reads(dict[str, Other]):
        def get(self, name: str, default: Any = None) -> Any:
            read.append(name)
            return super().get(name, default)

    assert circle("me", Needs(names), Reads({one: Other(State.UNFINISHED, Needs(names)) for one in names})) == ()
    assert len(read) <= STEPS_MAX + len(names)


NAMES = st.sampled_from("abcde")
NEEDS = st.builds(
    Needs,
    st.lists(NAMES, max_size=3, unique=True).map(tuple),
    st.lists(NAMES, max_size=3, unique=True).map(tuple),
    st.none() | st.sampled_from((NOW, later(1), parse_instant("2020-01-01T00:00:00Z"))),
)
OTHERS = st.dictionaries(NAMES, st.builds(Other, st.sampled_from(State), st.none() | NEEDS))


@given(NEEDS, OTHERS)
def test_a_job_is_released_exactly_when_all_is_met(needs: Needs, others: dict[str, Other]) -> None:
    met = (
        all(others.get(one, DONE).state is not State.UNFINISHED for one in needs.after)
        and all(others.get(one, LOST).state is State.SUCCEEDED for one in needs.after_ok)
        and (needs.begin is None or needs.begin <= NOW)
    )
    assert (verdict("e", needs, others, NOW) == Release()) is met


@given(NEEDS, OTHERS)
def test_a_circle_is_found_exactly_when_there_is_one(needs: Needs, others: dict[str, Other]) -> None:
    def waits_for(name: str) -> tuple[str, ...]:
        if name == "e":
            return needs.jobs
        other = others.get(name)
        return () if other is None or other.needs is None or other.state is not State.UNFINISHED else other.needs.jobs

    reached = set(needs.jobs)
    for _ in range(5):
        reached |= {one for name in reached for one in waits_for(name)}
    path = circle("e", needs, others)
    assert bool(path) is ("e" in reached)
    assert all(after in waits_for(before) for before, after in pairwise(path))
    assert path == () or path[0] == path[-1] == "e"


@given(NEEDS, OTHERS)
def test_jobs_of_a_circle_never_start(needs: Needs, others: dict[str, Other]) -> None:
    found = verdict("e", needs, others, NOW)
    if isinstance(found, Never) and "each other" in found.why:
        assert found.left.jobs
