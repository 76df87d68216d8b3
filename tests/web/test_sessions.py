"""Who gets a session, for how long, and what ends it?"""

from pykueue.base.clock import ManualClock
from pykueue.base.units import MICROS, Instant
from pykueue.web.sessions import CODES_MAX, SECRET_MAX, SESSIONS_MAX, Entered, Grant, Sessions, has_key

ANN = Grant("ann", "ann", seconds=3600)


def entered(sessions: Sessions, grant: Grant = ANN) -> Entered:
    found = sessions.enter(sessions.issue(grant))
    assert found is not None
    return found


def later(clock: ManualClock, seconds: float) -> None:
    clock.turn_to(Instant(clock.time + round(seconds * MICROS)))


def test_a_code_has_128_bits_and_is_used_once() -> None:
    drawn: list[int] = []

    def random(count: int) -> bytes:
        drawn.append(count)
        return bytes(range(count))

    sessions = Sessions(ManualClock(), random=random)
    code = sessions.issue(ANN)
    assert drawn == [16]
    found = sessions.enter(f" {code.upper()}\n")
    assert found is not None
    assert found.session.grant == ANN
    assert sessions.enter(code) is None


def test_codes_and_secrets_differ_and_are_not_kept() -> None:
    sessions = Sessions(ManualClock())
    one, other = entered(sessions), entered(sessions)
    assert len({one.id, one.key, other.id, other.key}) == 4
    assert min(map(len, (one.id, one.key))) >= 43
    code = sessions.issue(ANN)
    kept = repr(vars(sessions)) + repr(one)
    for secret in (one.id, one.key, code):
        assert secret not in kept


def test_a_code_lasts_a_minute() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    early, late = sessions.issue(ANN), sessions.issue(ANN)
    later(clock, 59.9)
    assert sessions.enter(early) is not None
    later(clock, 0.1)
    assert sessions.enter(late) is None


def test_a_session_needs_its_own_key_and_ends_in_time() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    one, other = entered(sessions), entered(sessions)
    session = sessions.of_cookie(one.id)
    assert session == one.session
    assert has_key(one.session, one.key)
    for wrong in ("", other.key, one.id, one.key + "x", "x" * (SECRET_MAX + 1)):
        assert not has_key(one.session, wrong)
    for wrong in ("", one.key, "x" * (SECRET_MAX + 1)):
        assert sessions.of_cookie(wrong) is None
    later(clock, 3599)
    assert sessions.is_open(one.session)
    later(clock, 1)
    assert not sessions.is_open(one.session)
    assert sessions.of_cookie(one.id) is None
    assert sessions.open.keys() == {other.session.id_hash}


def test_a_user_who_is_removed_has_neither_session_nor_code() -> None:
    valid = {"ann"}
    sessions = Sessions(ManualClock(), valid=lambda grant: grant.user in valid)
    one, code = entered(sessions), sessions.issue(ANN)
    valid.clear()
    assert not sessions.is_open(one.session)
    assert sessions.enter(code) is None
    valid.add("ann")
    assert not sessions.is_open(one.session), "what has ended does not begin again"


def test_what_one_user_can_hold_is_bounded() -> None:
    sessions = Sessions(ManualClock())
    bob = entered(sessions, Grant("bob"))
    first = entered(sessions)
    for _ in range(SESSIONS_MAX):
        entered(sessions)
    assert not sessions.is_open(first.session)
    assert sessions.is_open(bob.session)
    oldest = sessions.issue(ANN)
    for _ in range(CODES_MAX):
        newest = sessions.issue(ANN)
    assert sessions.enter(oldest) is None
    assert sessions.enter("x" * (SECRET_MAX + 1)) is None
    assert sessions.enter(newest) is not None


def test_all_end_with_the_process() -> None:
    sessions = Sessions(ManualClock())
    one, code = entered(sessions), sessions.issue(ANN)
    sessions.end_all()
    assert not sessions.is_open(one.session)
    assert sessions.enter(code) is None
