"""Is trouble with a watch over as soon as the watch goes on, whether or not anything happens then?"""

import pytest

from pykueue.kube.client.answers import error_of
from pykueue.kube.port import Status
from tests.kube.test_informer import THINGS, informed, paged


@pytest.mark.parametrize("streaming", [pytest.param(True, id="by a stream"), pytest.param(False, id="by pages")])
@pytest.mark.parametrize("refusal", [(400, "BadRequest"), (403, "Forbidden"), (404, "NotFound")])
async def test_a_watch_that_was_refused_once_is_taken_up_again_without_trouble(
    streaming: bool, refusal: tuple[int, str]
) -> None:
    async with informed(streaming=streaming) as seen:
        turns: list[str] = []
        seen.informer.turns.append(lambda: turns.append(seen.informer.trouble))

        def refused(what: str) -> None:
            seen.api.before = None if streaming else paged
            raise error_of("watch things.example.com", refusal[0], Status("not now", *refusal[::-1]))

        seen.api.before = refused
        seen.cut()
        seen.put("brief", "1")
        seen.api.drop(THINGS, "brief", "default")
        await seen.until(lambda: len(turns) == 2)
        assert turns == ["watch things.example.com: not now", ""]
        assert seen.told == ["default/a None->1", "default/b None->1"]
        seen.put("a", "2")
        await seen.until(lambda: seen.values()["default/a"] == "2")
