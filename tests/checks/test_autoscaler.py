"""What does the embedded autoscaler say of a request: by the room that there is, and by a script?"""

import pytest
from msgspec.structs import replace

from pykueue.api.checks import (
    PodTemplateReference,
    ProvisioningPodSet,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
)
from pykueue.api.core import Condition, ObjectMeta
from pykueue.base.units import Instant, Seconds, after, format_instant, parse_instant
from pykueue.checks.autoscaler import (
    BEST_EFFORT,
    CHECK_CAPACITY,
    answer,
    is_booked,
    needs_free_capacity,
    waits_for_room,
)
from pykueue.checks.requeststatus import Answer
from pykueue.checks.scripted import SCRIPTED, attempt_in, duration_text, read_script

START = parse_instant("2026-01-01T00:00:00Z")
LATER = "Capacity is not found, CA will try to find it later."
FOUND = ("Provisioned", "True", "CapacityIsFound", "Capacity is found in the cluster")
ACCEPTED = ("Accepted", "True", "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")
EXPIRED = ("BookingExpired", "True", "CapacityReservationTimeExpired", "Capacity reservation time is expired")


def at(seconds: int) -> Instant:
    return after(START, Seconds(seconds))


def request(
    kind: str = CHECK_CAPACITY,
    *,
    name: str = "w-prov-1",
    count: int = 1,
    conditions: tuple[Condition, ...] = (),
    script: dict[str, str] | None = None,
    **parameters: str,
) -> ProvisioningRequest:
    pods = (ProvisioningPodSet(PodTemplateReference("t"), count),)
    return ProvisioningRequest(
        metadata=ObjectMeta(name=name, generation=1, creation_timestamp=format_instant(START)),
        spec=ProvisioningRequestSpec(pods, kind, parameters | (script or {})),
        status=ProvisioningRequestStatus(conditions),
    )


def condition(kind: str, holds: bool = True, since: int = 0) -> Condition:
    return Condition(kind, "True" if holds else "False", "Because", "so it is", format_instant(at(since)))


def told(found: Answer | None) -> list[tuple[str, str, str, str]]:
    """What is said, condition by condition."""
    assert found is not None
    return [(one.type, one.status, one.reason, one.message) for one in found.status.conditions]


def again(found: Answer | None) -> int | None:
    """After how many seconds from the start it is to be looked at again."""
    assert found is not None
    return None if found.again is None else (found.again - START) // 1_000_000


def taken_up(asked: ProvisioningRequest, found: Answer | None) -> ProvisioningRequest:
    """The request with what was said of it."""
    assert found is not None
    return replace(asked, status=found.status)


# By the room that there is.


@pytest.mark.parametrize("kind", [CHECK_CAPACITY, BEST_EFFORT])
def test_room_for_all_is_found_and_booked_for_ten_minutes(kind: str) -> None:
    asked = request(kind)
    found = answer(asked, lambda: True, at(5))
    assert told(found) == [ACCEPTED, FOUND]
    assert again(found) == 605
    booked = taken_up(asked, found)
    assert is_booked(booked)
    assert told(answer(booked, lambda: False, at(604))) == [ACCEPTED, FOUND]
    over = answer(booked, lambda: True, at(605))
    assert told(over) == [ACCEPTED, FOUND, EXPIRED]
    assert not is_booked(taken_up(asked, over))
    assert again(over) is None


@pytest.mark.parametrize("kind", [CHECK_CAPACITY, BEST_EFFORT])
def test_where_there_is_no_room_it_is_looked_for_later(kind: str) -> None:
    asked = request(kind)
    found = answer(asked, lambda: False, at(5))
    assert told(found) == [ACCEPTED, ("Provisioned", "False", "CapacityIsNotFound", LATER)]
    waiting = taken_up(asked, found)
    assert waits_for_room(waiting)
    same = answer(waiting, lambda: False, at(50))
    assert same is not None
    assert same.status == waiting.status
    assert told(answer(waiting, lambda: True, at(60))) == [ACCEPTED, FOUND]


@pytest.mark.parametrize(
    ("kind", "parameter", "fails"),
    [
        pytest.param(CHECK_CAPACITY, "true", True, id="is not tried again"),
        pytest.param(CHECK_CAPACITY, "false", False, id="says that it may be"),
        pytest.param(CHECK_CAPACITY, "yes", False, id="says nothing that is known"),
        pytest.param(BEST_EFFORT, "true", False, id="is of a class that does not know it"),
    ],
)
def test_a_request_that(kind: str, parameter: str, fails: bool) -> None:
    found = answer(request(kind, noRetry=parameter), lambda: False, at(5))
    failed = ("Failed", "True", "CapacityIsNotFound", "CA could not find requested capacity")
    assert told(found)[1:] == [failed if fails else ("Provisioned", "False", "CapacityIsNotFound", LATER)]


def test_after_a_week_it_is_given_up() -> None:
    week = 7 * 86_400
    asked = request(conditions=(condition("Provisioned", False),))
    assert again(answer(asked, lambda: False, at(5))) == week
    found = answer(asked, lambda: True, at(week))
    assert told(found)[-1] == ("Failed", "True", "Expired", "ProvisioningRequest is expired")


@pytest.mark.parametrize("end", ["Failed", "BookingExpired", "CapacityRevoked"])
def test_what_has_ended_stays_as_it_is(end: str) -> None:
    asked = request(conditions=(condition("Provisioned"), condition(end)))
    found = answer(asked, lambda: True, at(5_000))
    assert found == Answer(asked.status)
    assert not is_booked(asked)
    assert not waits_for_room(asked)


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        pytest.param(request("queued-provisioning.gke.io"), False, id="another class"),
        pytest.param(request(f"x-{CHECK_CAPACITY}"), False, id="a longer name"),
        pytest.param(request(processorInstance="x"), False, id="another autoscaler of the class"),
        pytest.param(request(processorInstance=""), True, id="any autoscaler of the class"),
        pytest.param(request(BEST_EFFORT, processorInstance="x"), True, id="a class without such a parameter"),
    ],
)
def test_only_what_is_for_us_is_answered(asked: ProvisioningRequest, ours: bool) -> None:
    assert needs_free_capacity(asked) is ours
    assert (answer(asked, lambda: True, at(5)) is not None) is ours


# By a script.


def played(asked: ProvisioningRequest, until: int = 1_000) -> list[tuple[int, str]]:
    """When what is said of a request changes, and what is said last."""
    found: list[tuple[int, str]] = []
    now = START
    while now <= at(until):
        said = answer(asked, lambda: False, now)
        assert said is not None
        if said.status != asked.status:
            last = said.status.conditions[-1]
            found.append(((now - START) // 1_000_000, f"{last.type}={last.status} {last.message}"))
            asked = taken_up(asked, said)
        if said.again is None:
            break
        assert said.again > now, "it is looked at again later, not now"
        now = said.again
    return found


PROVISIONED = "Provisioned=True Capacity is provisioned, as the script says"
REVOKED = "CapacityRevoked=True Capacity is revoked, as the script says"
LAPSED = "BookingExpired=True Capacity reservation time is expired"


@pytest.mark.parametrize(
    ("parameters", "name", "story"),
    [
        pytest.param({}, "w-prov-1", [(0, PROVISIONED)], id="nothing"),
        pytest.param(
            {"delaySeconds": "100"},
            "w-prov-1",
            [
                (0, "Provisioned=False ETA 1 min 40 s"),
                (50, "Provisioned=False ETA 50 s"),
                (75, "Provisioned=False ETA 25 s"),
                (88, "Provisioned=False ETA 12 s"),
                (100, PROVISIONED),
            ],
            id="a delay",
        ),
        pytest.param(
            {"failures": "1"},
            "w-prov-1",
            [(0, "Failed=True Attempt 1 fails, as the first 1 do by the script")],
            id="a failure",
        ),
        pytest.param({"failures": "1"}, "w-prov-2", [(0, PROVISIONED)], id="a failure that is over"),
        pytest.param(
            {"maxPods": "2"},
            "w-prov-1",
            [(0, "Failed=True Capacity for 2 of 3 pods is all that the script has")],
            id="too many pods",
        ),
        pytest.param({"maxPods": "3"}, "w-prov-1", [(0, PROVISIONED)], id="as many pods as it has"),
        pytest.param({"revokeAfterSeconds": "30"}, "w-prov-1", [(0, PROVISIONED), (30, REVOKED)], id="a revocation"),
        pytest.param(
            {"expireAfterSeconds": "20", "revokeAfterSeconds": "30", "delaySeconds": "10"},
            "w-prov-1",
            [(0, "Provisioned=False ETA 10 s"), (10, PROVISIONED), (30, LAPSED), (40, REVOKED)],
            id="all of it",
        ),
    ],
)
def test_a_script_is_played_that_says(parameters: dict[str, str], name: str, story: list[tuple[int, str]]) -> None:
    assert played(request(SCRIPTED, name=name, count=3, script=parameters)) == story


def test_details_of_the_class_come_with_the_capacity() -> None:
    found = answer(request(SCRIPTED, details="zone=north, pool=a=b"), lambda: False, at(0))
    assert found is not None
    assert found.status.provisioning_class_details == {"zone": "north", "pool": "a=b"}


@pytest.mark.parametrize(
    ("parameters", "wrong"),
    [
        pytest.param(
            {"delaySeconds": "-1"},
            'parameter "delaySeconds": \'-1\' is not a whole number; write digits alone, as in "30"',
            id="a negative delay",
        ),
        pytest.param(
            {"failures": "1" * 10},
            'parameter "failures": \'1111111111\' is not a whole number; write digits alone, as in "30"',
            id="a number too large",
        ),
        pytest.param(
            {"maxPods": ""},
            'parameter "maxPods": \'\' is not a whole number; write digits alone, as in "30"',
            id="no number",
        ),
        pytest.param(
            {"details": "zone"},
            "parameter \"details\": 'zone' is not a pair; write key=value,key=value",
            id="half a pair",
        ),
        pytest.param(
            {"details": ",".join(f"{number}=" for number in range(65))},
            'parameter "details": has 65 pairs; write 64 at most',
            id="too many pairs",
        ),
        pytest.param(
            {"delay": "5"},
            'parameter "delay" is not known; write one of: delaySeconds, failures, maxPods, expireAfterSeconds, '
            "revokeAfterSeconds, details",
            id="a parameter that there is not",
        ),
    ],
)
def test_a_script_fails_at_once_and_says_why_with(parameters: dict[str, str], wrong: str) -> None:
    assert told(answer(request(SCRIPTED, script=parameters), lambda: True, at(0))) == [
        ("Failed", "True", "BadParameters", wrong)
    ]


def test_every_mistake_of_a_script_is_told() -> None:
    _, wrong = read_script({"delaySeconds": "x", "maxPods": "y", "details": "z"})
    assert len(wrong) == 3


@pytest.mark.parametrize(("name", "attempt"), [("w-c-1", 1), ("w-c-12", 12), ("w", 1), ("w-c-0", 1), ("w-c-01", 1)])
def test_the_attempt_is_the_number_at_the_end_of_the_name(name: str, attempt: int) -> None:
    assert attempt_in(name) == attempt


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (59, "59 s"), (60, "1 min"), (61, "1 min 1 s")])
def test_time_is_told_in_minutes_and_seconds(seconds: int, words: str) -> None:
    assert duration_text(Seconds(seconds)) == words
