"""Is trouble with a watch over as soon as the watch goes on, whether or not anything happens then?"""

import pytest
from aiohttp import web

from tests.kube.test_informer import Seen, run
from tests.kube.tinyapi import status, thing


@pytest.mark.parametrize("streaming", [pytest.param(True, id="by a stream"), pytest.param(False, id="by pages")])
@pytest.mark.parametrize("refusal", [(400, "BadRequest"), (403, "Forbidden"), (404, "NotFound")])
def test_a_watch_that_was_refused_once_is_taken_up_again_without_trouble(
    streaming: bool, refusal: tuple[int, str]
) -> None:
    async def test(seen: Seen) -> None:
        turns: list[str] = []
        seen.informer.turns.append(lambda: turns.append(seen.informer.trouble))

        async def refused(request: web.Request) -> web.StreamResponse | None:
            seen.api.accident = None
            return status(*refusal, "not now")

        seen.api.accident = refused
        await seen.api.cut()
        await seen.until(lambda: len(turns) == 2)
        assert turns == ["watch things.example.com: not now", ""]
        assert seen.told == ["default/a None->1", "default/b None->1"]
        await seen.api.put("things", thing("a", "2"))
        await seen.until(lambda: seen.values()["default/a"] == "2")

    run(test, streaming=streaming)
