"""Is each attempt made once, when its time has come, and never in vain? Delays, silence, patience, and idempotence."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.checks import ProvisioningRequest
from pykueue.api.codec import decode_as
from pykueue.api.core import Tree
from pykueue.api.trees import text
from pykueue.api.workload import AdmissionCheckState
from pykueue.base.units import Seconds
from pykueue.checks.provisioning import Check, CheckInput, CheckPlan, Rules, plan
from pykueue.checks.requestnames import attempt_of
from pykueue.jobs.podsets import part
from tests.checks.objects import (
    ACCEPTED,
    AT_ONCE,
    CHECK,
    CLASS,
    EXPIRED,
    FAILED,
    FLAVORS,
    GONE,
    PROVISIONED,
    RUNNING,
    ago,
    as_tree,
    asks,
    config,
    deletes,
    request,
    says,
    seen,
    state,
    turned,
)
from tests.facts import covers
from tests.jobs.objects import NAME, NOW, RESERVED, THEN, condition, evicted, later, workload

KEEPING = Rules(keeps_quota=True)


# Attempts.


@pytest.mark.parametrize(
    ("seen", "made"),
    [
        pytest.param(seen(), 1, id="the first"),
        pytest.param(seen(said=state(retry_count=2)), 3, id="the number goes on when earlier requests are gone"),
        pytest.param(
            seen(request(FAILED), said=state(retry_count=1), rules=Rules(cleans_up=False)),
            2,
            id="after a failure that was dealt with, its request being there",
        ),
        pytest.param(seen(request(EXPIRED), said=state(retry_count=1)), 2, id="after a booking expired"),
        pytest.param(
            seen(request(), config=config(parameters={"a": "1"})),
            1,
            id="anew under the same name for another configuration",
        ),
        pytest.param(
            seen(request(attempt=3), said=state(retry_count=2), config=config(parameters={"a": "1"})),
            3,
            id="anew, whichever attempt it was",
        ),
        pytest.param(seen(request(), templates={}), 1, id="anew when its template is lost"),
        pytest.param(seen(request(metadata={"deletionTimestamp": THEN})), 1, id="anew when it is being deleted"),
    ],
)
def test_an_attempt_is_made(seen: CheckInput, made: int) -> None:
    found = plan(seen, NOW)
    (ask,) = found.asks
    name = f"{NAME}-{CHECK}-{made}"
    assert asks(found) == [name]
    assert ask.check == CHECK
    assert [text(one, "metadata", "name") for one in ask.templates] == [f"ppt-{name}-main"]
    # What stands in the way under the same name goes first.
    standing = [one.name for one in seen.requests if one.name == name and one.metadata.deletion_timestamp is None]
    assert deletes(found) == standing


def test_a_failure_that_was_dealt_with_takes_back_no_complaint_about_the_next_attempt() -> None:
    refused = state(message="Error creating the next", retry_count=1)
    found = plan(seen(request(FAILED), said=refused, rules=Rules(cleans_up=False)), NOW)
    assert asks(found) == [f"{NAME}-{CHECK}-2"]
    assert (found.states, found.deletes) == ((), ())


def test_a_failure_that_was_dealt_with_is_named_while_the_check_is_closed() -> None:
    found = plan(seen(request(FAILED), said=state("Retry", "old", retry_count=1)), NOW)
    assert found == CheckPlan(states=(state("Retry", "Retrying after failure: no room", retry_count=1),))


@pytest.mark.parametrize(
    ("attempt", "delay"),
    [
        pytest.param(1, 60, id="a minute"),
        pytest.param(2, 120, id="two"),
        pytest.param(3, 240, id="four"),
        pytest.param(6, 1800, id="half an hour at most"),
        pytest.param(60, 1800, id="and no longer, however often"),
    ],
)
@pytest.mark.parametrize("kind", ["Failed", "BookingExpired"])
@covers("KEP1136-6")
def test_the_delay_doubles_with_each_attempt(kind: str, attempt: int, delay: int) -> None:
    before = attempt - 1 or None
    found = plan(
        seen(request(says(kind), attempt=attempt), said=state(retry_count=before), config=config(limit=99)), NOW
    )
    assert [(one.state, one.requeue_after_seconds) for one in found.states] == [("Retry", delay)]


def test_the_strategy_of_the_configuration_counts() -> None:
    strategy = config(limit=2, base=7, most=10)
    first = plan(seen(request(FAILED), config=strategy), NOW).states[0]
    second = plan(seen(request(FAILED, attempt=2), config=strategy, said=state(retry_count=1)), NOW).states[0]
    third = plan(seen(request(FAILED, attempt=3), config=strategy, said=state(retry_count=2)), NOW).states[0]
    assert (first.requeue_after_seconds, second.requeue_after_seconds, third.state) == (7, 10, "Rejected")


@pytest.mark.parametrize(
    ("failed", "attempt", "made", "again"),
    [
        pytest.param(0, 1, [], 60, id="just failed"),
        pytest.param(59, 1, [], 1, id="a second before the end"),
        pytest.param(60, 1, [f"{NAME}-{CHECK}-2"], None, id="a minute ago"),
        pytest.param(60, 2, [], 60, id="the second time it takes two"),
        pytest.param(120, 2, [f"{NAME}-{CHECK}-3"], None, id="which are over"),
        pytest.param(900, 3, [f"{NAME}-{CHECK}-4"], None, id="the last attempt"),
    ],
)
def test_with_quota_kept_the_next_attempt_waits_in_its_place(
    failed: int, attempt: int, made: list[str], again: int | None
) -> None:
    gone = request(says("Failed", "no room", at=ago(failed)), attempt=attempt)
    found = plan(seen(gone, said=state(retry_count=attempt - 1 or None), rules=KEEPING), NOW)
    # What it says when the time has come may be why the attempt could not be made before.
    message = "" if made else "Retrying after failure: no room"
    assert found.states == (state(message=message, retry_count=attempt),)
    assert asks(found) == made
    assert found.again == (None if again is None else later(again))
    assert found.deletes == ()


def test_with_quota_kept_the_last_failure_is_final_too() -> None:
    found = plan(seen(request(FAILED, attempt=4), rules=KEEPING), NOW)
    assert found == CheckPlan(states=(turned("Rejected", "no room"),))


@pytest.mark.parametrize(
    ("conditions", "next_one"),
    [
        pytest.param((ACCEPTED,), 2, id="under the same number"),
        pytest.param((FAILED,), 3, id="a failed one has had its turn"),
    ],
)
def test_with_quota_kept_a_new_configuration_does_not_begin_to_count_anew(
    conditions: tuple[Tree, ...], next_one: int
) -> None:
    other = request(*conditions, attempt=2, spec={"provisioningClassName": "other.example.com"})
    found = plan(seen(other, said=state(retry_count=next_one - 1), rules=KEEPING), NOW)
    assert asks(found) == [f"{NAME}-{CHECK}-{next_one}"]
    assert found.deletes == (other,)


def test_with_quota_kept_attempts_are_counted_though_their_requests_are_gone() -> None:
    failed = plan(seen(request(FAILED), rules=KEEPING), NOW)
    (counted,) = failed.states
    assert (counted.state, counted.retry_count) == ("Pending", 1)
    assert asks(plan(seen(said=counted, rules=KEEPING), NOW)) == [f"{NAME}-{CHECK}-2"]
    # It is counted once, and the delay counts from the failure.
    again = plan(seen(request(FAILED), said=counted, rules=KEEPING), NOW)
    assert (again.states, again.asks, again.again) == ((), (), failed.again)


def test_a_failure_without_a_time_has_only_just_come() -> None:
    gone = request({"type": "Failed", "status": "True", "message": "no room"})
    assert plan(seen(gone, rules=KEEPING), NOW).again == later(60)


# Silence, and patience.


@pytest.mark.parametrize(
    ("age", "minutes", "again"),
    [
        pytest.param(0, 0, 60, id="nothing at first"),
        pytest.param(59, 0, 1, id="nor for a minute"),
        pytest.param(60, 1, 60, id="a minute"),
        pytest.param(119, 1, 1, id="until it is two"),
        pytest.param(120, 2, 120, id="two minutes"),
        pytest.param(240, 4, 240, id="four minutes"),
        pytest.param(479, 4, 1, id="until it is eight"),
        pytest.param(86_400, 1024, 36_480, id="a day, in the same steps"),
    ],
)
def test_how_long_nothing_was_heard_is_said_in_ever_longer_steps(age: int, minutes: int, again: int) -> None:
    found = plan(seen(request(made=ago(age)), said=state(message="?")), NOW)
    said = f'No answer from the autoscaler for {minutes} min; does it serve the class "{CLASS}"?' if minutes else ""
    assert found == CheckPlan(states=(state(message=said),), again=later(again))


def test_a_request_without_a_time_was_made_just_now() -> None:
    found = plan(seen(request(metadata={"creationTimestamp": None})), NOW)
    assert found == CheckPlan(again=later(60))


ENOUGH = "no capacity within 90 s"
AGAIN = turned("Retry", f"Retrying after timeout: {ENOUGH}", requeue_after_seconds=60)


@pytest.mark.parametrize(
    ("seen", "again"),
    [
        pytest.param(seen(request(made=ago(30)), timeout=Seconds(90)), 30, id="silence is looked at before"),
        pytest.param(seen(request(ACCEPTED, made=ago(30)), timeout=Seconds(90)), 60, id="accepted, and slow"),
        pytest.param(seen(request(ACCEPTED, made=ago(900)), timeout=None), None, id="patient forever"),
    ],
)
def test_until_its_patience_ends_a_check_waits(seen: CheckInput, again: int | None) -> None:
    assert plan(seen, NOW) == CheckPlan(again=None if again is None else later(again))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(seen(request(made=ago(90)), timeout=Seconds(90)), AGAIN, id="unheard"),
        pytest.param(
            seen(request(ACCEPTED, says("Provisioned", "soon", False), made=ago(90)), timeout=Seconds(90)),
            AGAIN,
            id="accepted, and put off",
        ),
        pytest.param(
            seen(request(made=ago(90)), timeout=Seconds(90), config=config(limit=0)),
            turned("Rejected", ENOUGH),
            id="where nothing is tried again",
        ),
        pytest.param(seen(timeout=Seconds(90)), AGAIN, id="no request could be made for an hour"),
        pytest.param(seen(timeout=Seconds(90), flavors={}), AGAIN, id="hindered for an hour"),
    ],
)
def test_at_the_end_of_its_patience_a_check_tries_again(seen: CheckInput, expected: AdmissionCheckState) -> None:
    found = plan(seen, NOW)
    assert found.states == (expected,)
    assert found.asks == ()


@pytest.mark.parametrize(
    ("age", "made", "again"),
    [
        pytest.param(90, [], 60, id="the time of the failure is the end of its patience"),
        pytest.param(150, [f"{NAME}-{CHECK}-2"], None, id="a minute after that"),
    ],
)
def test_with_quota_kept_patience_ends_too(age: int, made: list[str], again: int | None) -> None:
    found = plan(seen(request(ACCEPTED, made=ago(age)), timeout=Seconds(90), rules=KEEPING), NOW)
    message = "" if made else f"Retrying after timeout: {ENOUGH}"
    assert found.states == (state(message=message, retry_count=1),)
    assert asks(found) == made
    assert found.again == (None if again is None else later(again))


@pytest.mark.parametrize("why", [{"flavors": {}}, {"config": config(parameters={"a": "x" * 256})}])
def test_with_quota_kept_what_hinders_an_attempt_hinders_the_next_one_too(why: dict[str, Any]) -> None:
    found = plan(seen(timeout=Seconds(90), rules=KEEPING, **why), NOW)
    assert [one.check for one in found.hindered] == [CHECK]
    assert (found.states, found.asks, found.again) == ((), (), None)


@pytest.mark.parametrize(
    ("reserved", "opened", "again"),
    [
        pytest.param(3600, 30, 60, id="a check that was added later"),
        pytest.param(30, 3600, 60, id="quota that came later"),
        pytest.param(3600, 3600, None, id="both long ago"),
        pytest.param(30, None, 60, id="a check that does not say since when"),
    ],
)
def test_patience_begins_when_there_is_quota_and_the_check_is_open(
    reserved: int, opened: int | None, again: int | None
) -> None:
    said = state(last_transition_time=None if opened is None else ago(opened))
    holds = condition("QuotaReserved", True, at=ago(reserved))
    found = plan(seen(timeout=Seconds(90), said=said, conditions=(holds,)), NOW)
    if again is None:
        assert found == CheckPlan(states=(AGAIN,))
    else:
        assert (asks(found), found.states, found.again) == ([f"{NAME}-{CHECK}-1"], (), later(again))


def test_a_request_that_replaces_another_has_all_of_its_time() -> None:
    other = request(ACCEPTED, made=ago(30), spec={"provisioningClassName": "other.example.com"})
    found = plan(seen(other, timeout=Seconds(90)), NOW)
    assert asks(found) == [f"{NAME}-{CHECK}-1"]
    assert (found.states, found.deletes, found.again) == ((), (other,), None)


@pytest.mark.parametrize("said", ["Retry", "Rejected"])
def test_what_was_decided_when_patience_ended_stands_until_the_workload_has_left(said: str) -> None:
    silent, slow = request(made=ago(90)), request(ACCEPTED, says("Provisioned", "soon", False), made=ago(90))
    for made in (silent, slow):
        assert plan(seen(made, timeout=Seconds(90), said=state(said, ENOUGH)), NOW) == CheckPlan()


def test_what_ran_out_once_is_not_waited_for_again() -> None:
    found = plan(seen(request(ACCEPTED, made=ago(900)), timeout=Seconds(90), said=state(retry_count=1)), NOW)
    assert asks(found) == [f"{NAME}-{CHECK}-2"]


# Once is enough.

CONDITIONS = (
    FAILED,
    EXPIRED,
    says("CapacityRevoked"),
    says("Provisioned"),
    says("Provisioned", "soon", False),
    ACCEPTED,
)
AGES = st.sampled_from((0, 59, 60, 150, 4000))


@st.composite
def requests(draw: st.DrawFn, check: str, ready: bool, classes: tuple[str, ...]) -> list[ProvisioningRequest]:
    """Attempts of a check as they may be found, some in the middle of their deletion."""
    return [
        request(
            *([PROVISIONED] if ready else []),
            *(draw(st.sampled_from(CONDITIONS)) for _ in range(draw(st.integers(0, 2)))),
            attempt=attempt,
            check=check,
            made=ago(draw(AGES)),
            metadata={
                "uid": f"r-{check}-{attempt}",
                **({"deletionTimestamp": THEN} if draw(st.sampled_from((False, False, True))) else {}),
            },
            spec={"provisioningClassName": draw(st.sampled_from(classes))},
        )
        for attempt in sorted(draw(st.sets(st.integers(1, 4), max_size=2)))
    ]


@st.composite
def situations(draw: st.DrawFn) -> CheckInput:
    """Anything that a Workload with up to two checks of ours may have come to."""
    conditions = draw(st.sampled_from(((RESERVED,), RUNNING, RUNNING, (), (RESERVED, evicted()), (RESERVED, GONE))))
    # What runs keeps a request that would not be made now, but only until it is stopped.
    classes = (CLASS,) if conditions is RUNNING else (CLASS, CLASS, "other")
    flavors = (FLAVORS,) if conditions is RUNNING else (FLAVORS, FLAVORS, {})
    checks, listed, found = {}, [], []
    for name in draw(st.sampled_from((("a",), ("a", "a-1")))):
        spec = config(limit=draw(st.integers(0, 3)), managed_resources=draw(st.sampled_from(((), (), ("gpu",)))))
        checks[name] = Check(
            draw(st.sampled_from((spec, spec, spec, None))), draw(st.sampled_from((None, Seconds(90))))
        )
        said = state(
            draw(st.sampled_from(("Pending", "Pending", "Ready", "Retry", "Rejected"))),
            draw(st.sampled_from(("", "as it was"))),
            name=name,
            retry_count=draw(st.sampled_from((None, 1, 3))),
        )
        listed.append(as_tree(said))
        found += draw(requests(name, said.state == "Ready", classes))
    since = condition("QuotaReserved", True, at=ago(draw(AGES)))
    owners = st.sampled_from(("w-1", "theirs", ""))
    templates = {one.pod_template_ref.name: draw(owners) for made in found for one in made.spec.pod_sets}
    return CheckInput(
        workload(*(since if one is RESERVED else one for one in conditions), status={"admissionChecks": listed}),
        checks,
        tuple(found),
        {name: owner for name, owner in templates.items() if owner},
        draw(st.sampled_from(flavors)),
        draw(st.booleans()),
        Rules(draw(st.booleans()), draw(st.booleans())),
    )


def done(looked: CheckInput, found: CheckPlan) -> CheckInput:
    """What is seen when a plan has been carried out; what was being deleted is gone then."""
    new = {one.name: one for one in found.states}
    listed = [as_tree(new.get(one.name, one)) for one in looked.workload.status.admission_checks]
    gone = {*deletes(found), *(one.name for one in looked.requests if one.metadata.deletion_timestamp)}
    kept = [one for one in looked.requests if one.name not in gone]
    templates = {
        one.pod_template_ref.name: looked.templates[one.pod_template_ref.name]
        for made in kept
        for one in made.spec.pod_sets
        if one.pod_template_ref.name in looked.templates
    }
    for ask in found.asks:
        uid = f"new-{text(ask.request, 'metadata', 'name')}"
        metadata = {**part(ask.request, "metadata"), "uid": uid, "creationTimestamp": AT_ONCE}
        kept.append(decode_as(ProvisioningRequest, {**ask.request, "metadata": metadata}))
        templates |= {text(tree, "metadata", "name"): uid for tree in ask.templates}
    templates |= {name: str(made.metadata.uid) for name, made in found.hand_over}
    status = msgspec.structs.replace(
        looked.workload.status,
        admission_checks=tuple(msgspec.convert(one, AdmissionCheckState) for one in listed),
    )
    changed = msgspec.structs.replace(looked.workload, status=status)
    return msgspec.structs.replace(looked, workload=changed, requests=tuple(kept), templates=templates)


@given(situations())
def test_what_was_done_is_not_done_again(looked: CheckInput) -> None:
    first = plan(looked, NOW)
    after = done(looked, first)
    second = plan(after, NOW)
    assert (second.asks, second.hand_over) == ((), ())
    # Once there is another attempt, the one before goes, and what was said of it is taken back.
    anew = {one.check for one in first.asks}
    assert all(any(attempt_of(one.name, NAME, check) for check in anew) for one in second.deletes)
    assert {one.name for one in second.states} <= anew
    assert all((one.state, one.message) == ("Pending", "") for one in second.states)
    third = plan(done(after, second), NOW)
    assert (third.states, third.deletes, third.asks, third.hand_over) == ((), (), (), ())


@given(situations())
def test_no_attempt_is_made_beyond_the_limit_or_twice(looked: CheckInput) -> None:
    found = plan(looked, NOW)
    staying = {one.name for one in looked.requests if one.metadata.deletion_timestamp is None} - {*deletes(found)}
    for ask in found.asks:
        name = text(ask.request, "metadata", "name")
        assert name not in staying
        spec = looked.checks[ask.check].config
        said = next(one for one in looked.workload.status.admission_checks if one.name == ask.check)
        assert spec is not None
        tried = max((attempt_of(one.name, NAME, ask.check) or 0 for one in looked.requests), default=0)
        assert attempt_of(name, NAME, ask.check) in range(
            1, max(spec.retry_strategy.backoff_limit_count + 1, (said.retry_count or 0) + 1, tried) + 1
        )
