"""Are expensive questions answered by a child, one per user, and within bounds?"""

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest

from pykueue.controllers.queries import questions
from pykueue.controllers.queries.questions import Questions
from pykueue.kube.aggregated import AggregatedError


def python(code: str) -> Questions:
    return Questions((sys.executable, "-P", "-c", code))


async def pieces(*found: bytes) -> AsyncIterator[bytes]:
    for one in found:
        yield one


ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read().upper())"


async def test_a_child_answers_what_it_reads() -> None:
    assert await python(ECHO).ask("ann", pieces(b"what ", b"if")) == b"WHAT IF"


async def test_a_user_asks_one_question_at_a_time_and_another_user_need_not_wait() -> None:
    asked = python("import sys, time; sys.stdin.read(); time.sleep(0.3); print('done')")
    first = asyncio.create_task(asked.ask("ann", pieces(b"a")))
    await asyncio.sleep(0)
    with pytest.raises(AggregatedError) as caught:
        await asked.ask("ann", pieces(b"b"))
    assert (caught.value.code, caught.value.details) == (429, {"retryAfterSeconds": 2})
    assert await asked.ask("bob", pieces(b"c")) == b"done\n"
    assert await first == b"done\n"
    assert await asked.ask("ann", pieces(b"d")) == b"done\n"


async def test_few_questions_are_answered_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "AT_ONCE_MAX", 1)
    asked = python("import sys; sys.stdin.read()")
    first = asyncio.create_task(asked.ask("ann", pieces(b"a")))
    await asyncio.sleep(0)
    with pytest.raises(AggregatedError, match="other users"):
        await asked.ask("bob", pieces(b"b"))
    await first


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        pytest.param("import sys; print('no such queue', end=''); sys.exit(3)", 422, "no such queue", id="refused"),
        pytest.param("raise RuntimeError('boo')", 500, "log says how", id="failed"),
        pytest.param("raise MemoryError", 500, "more memory", id="memory"),
        pytest.param("print('x' * 200)", 413, "too large", id="long answer"),
    ],
)
async def test_what_goes_wrong_is_said(code: str, status: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "ANSWER_MAX", 100 if status == 413 else 10_000)
    with pytest.raises(AggregatedError, match=words) as caught:
        await python(code).ask("ann", pieces(b"x" * 1_000_000))
    assert caught.value.code == status


async def test_a_child_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "TIME_MAX_SECONDS", 0.2)
    asked = python("import time; time.sleep(60)")
    with pytest.raises(AggregatedError, match="no answer within"):
        await asked.ask("ann", pieces(b"x"))
    assert not asked.asking


async def test_who_has_to_wait_is_told_before_the_question_is_read() -> None:
    asked = python("import sys, time; sys.stdin.read(); time.sleep(0.3)")
    first = asyncio.create_task(asked.ask("ann", pieces(b"a")))
    await asyncio.sleep(0)
    with pytest.raises(AggregatedError, match="one at a time"):
        asked.check("ann")
    asked.check("bob")
    await first
