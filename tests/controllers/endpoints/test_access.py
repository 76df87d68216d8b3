"""Who may read our metrics, and for how long is that remembered?"""

import pytest

from pykueue.base.clock import ManualClock
from pykueue.base.units import Seconds, after
from pykueue.controllers.endpoints.access import REMEMBERED_MAX, Access
from pykueue.kube.port import UnansweredError
from tests.controllers.endpoints.reviews import Reviewer

TOKENS = {"good": "reader", "poor": "stranger"}


async def judge(access: Access, token: str) -> int:
    return await access.judge({"Authorization": f"Bearer {token}"})


def access() -> tuple[Access, Reviewer, ManualClock]:
    kube, clock = Reviewer(TOKENS, {"reader"}), ManualClock()
    return Access(kube, clock), kube, clock


async def test_the_whole_user_is_asked_about() -> None:
    door, kube, _ = access()
    assert await judge(door, "good") == 200
    assert kube.asked[1]["spec"] == {
        "user": "reader",
        "uid": "u",
        "groups": ["g"],
        "extra": {"pod": ["p"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize(
    ("token", "status", "questions", "seconds"),
    [
        pytest.param("good", 200, 2, 60, id="granted"),
        pytest.param("poor", 403, 2, 10, id="forbidden"),
        pytest.param("none", 401, 1, 10, id="unknown"),
    ],
)
async def test_an_answer_is_remembered_for_a_while(token: str, status: int, questions: int, seconds: int) -> None:
    door, kube, clock = access()
    assert await judge(door, token) == status
    clock.turn_to(after(clock.now(), Seconds(seconds - 1)))
    assert await judge(door, token) == status
    assert len(kube.asked) == questions
    clock.turn_to(after(clock.now(), Seconds(1)))
    assert await judge(door, token) == status
    assert len(kube.asked) == 2 * questions


async def test_no_answer_is_not_remembered(caplog: pytest.LogCaptureFixture) -> None:
    door, kube, _ = access()

    def cut() -> None:
        raise UnansweredError("create tokenreviews", 0, "", "no route")

    kube.fail = cut
    assert await judge(door, "good") == 503
    kube.fail = lambda: None
    assert await judge(door, "good") == 200
    assert "no route" in caplog.text


async def test_neither_memory_nor_log_holds_a_token(caplog: pytest.LogCaptureFixture) -> None:
    door, _, _ = access()
    for index in range(REMEMBERED_MAX + 10):
        await judge(door, f"token-{index}")
    assert len(door.remembered) == REMEMBERED_MAX
    assert "token-" not in repr(door.remembered)
    assert "token-" not in caplog.text
