"""Do Events go after an hour, or when there are too many, the oldest first?"""

from pykueue.base.units import Seconds, micro_time
from pykueue.kube.port import EVENTS, ConflictError, UnansweredError
from pykueue.kubecontrollers.eventretention import EventRetention
from tests.kubecontrollers.town import Town, names, new_town


def keeper(town: Town, most: int = 100) -> EventRetention:
    return EventRetention(town.counted, town.clock, seconds=Seconds(3600), most=most)


async def event(town: Town, name: str) -> None:
    tree = {
        "metadata": {"name": name, "namespace": "team-a"},
        "eventTime": micro_time(town.clock.now()),
        "reportingController": "test",
        "reportingInstance": "test-1",
        "action": "Test",
        "reason": "Test",
        "regarding": {"kind": "Pod", "namespace": "team-a", "name": "x"},
        "type": "Normal",
    }
    await town.create(EVENTS, tree, "team-a")


async def left(town: Town) -> list[str]:
    return sorted(names(await town.all(EVENTS)))


async def test_an_hour_after_they_were_last_said() -> None:
    async with new_town() as town:
        await event(town, "early")
        async with town.running(keeper(town).run):
            await town.advance(1800)
            await event(town, "late")
            await event(town, "again")
            await town.advance(1000)
            series = {"count": 2, "lastObservedTime": micro_time(town.clock.now())}
            await town.patch(EVENTS, "again", {"series": series})
            await town.advance(799)
            assert await left(town) == ["again", "early", "late"]
            await town.advance(1)
            assert await left(town) == ["again", "late"]
            await town.advance(1800)
            assert await left(town) == ["again"]
            await town.advance(1000)
            assert await left(town) == []
            await event(town, "after a pause")
            await town.advance(3600)
            assert await left(town) == []


async def test_no_more_than_so_many() -> None:
    async with new_town() as town, town.running(keeper(town, 3).run):
        for name in ("e", "d", "c", "b", "a"):
            await event(town, name)
            await town.advance(1)
        assert await left(town) == ["a", "b", "c"]


async def test_what_could_not_be_deleted_is_tried_again() -> None:
    async with new_town() as town:
        town.counted.failures_of["delete events"] = [
            UnansweredError("delete", 503, "", "no answer"),
            ConflictError("delete", 409, "Conflict", "changed"),
        ]
        async with town.running(keeper(town, 1).run):
            for name in ("c", "b", "a"):
                await event(town, name)
                await town.advance(1)
            await town.advance(2)
            assert await left(town) == ["a"]
