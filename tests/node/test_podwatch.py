"""Is every pod of our node told of, whatever becomes of the watch?"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from pykueue.base.clock import SystemClock
from pykueue.kube.port import PODS, GoneError, KubeError, Resource
from pykueue.node.podwatch import SETTLED_MAX, PodWatch
from tests.fakes.faulty import Faulty, settle
from tests.node.podhost import NODE, pod_api


class Told:
    """What was told of pods, in order."""

    def __init__(self, api: Faulty) -> None:
        self.log: list[str] = []
        self.watch = PodWatch(
            api,
            api.clock,
            NODE,
            seen=lambda pod: self.log.append(f"seen {msgspec.convert(pod['metadata'], dict[str, Any])['uid']}"),
            over=lambda uid: self.log.append(f"over {uid}"),
            gone=lambda uid: self.log.append(f"gone {uid}"),
            listed=lambda uids: self.log.append(f"listed {sorted(uids)}"),
        )

    async def until(self, *wanted: str) -> None:
        for _ in range(2000):
            if self.log == list(wanted):
                return
            await asyncio.sleep(0.001)
        raise AssertionError(self.log)


def pod(name: str, phase: str = "Pending", node: str = NODE, **meta: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": name, **meta}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


async def test_the_life_of_pods() -> None:
    api = pod_api()
    api.store(PODS, pod("old", "Succeeded"))
    api.store(PODS, pod("running", "Running"))
    await settle()
    told = Told(api)
    task = asyncio.create_task(told.watch.run())
    first = ["over old", "seen running", "listed ['old', 'running']"]
    await told.until(*first)
    api.store(PODS, pod("elsewhere", node="there"))
    api.store(PODS, pod("new"))
    api.store(PODS, pod("running", "Failed"))
    leaving: dict[str, Any] = {"deletionTimestamp": "2027-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    api.store(PODS, pod("leaving", "Failed", **leaving))
    api.drop(PODS, "old", "n")
    await told.until(*first, "seen new", "over running", "seen leaving", "gone old")
    task.cancel()
    await asyncio.wait((task,))


async def test_what_a_watch_that_is_behind_shows_of_an_ended_pod_is_ignored() -> None:
    api = pod_api()
    api.store(PODS, pod("ended", "Running"))
    await settle()
    told = Told(api)
    task = asyncio.create_task(told.watch.run())
    first = ["seen ended", "listed ['ended']"]
    await told.until(*first)
    told.watch.settle("ended")
    api.store(PODS, pod("ended", "Running", labels={"late": "yes"}))
    api.store(PODS, pod("new"))
    await told.until(*first, "seen new")
    # Its deletion is confirmed all the same.
    api.store(PODS, pod("ended", "Failed", deletionTimestamp="2027-01-01T00:00:00Z", deletionGracePeriodSeconds=30))
    api.drop(PODS, "ended", "n")
    await told.until(*first, "seen new", "seen ended", "gone ended")
    task.cancel()
    await asyncio.wait((task,))


async def test_only_so_many_ended_pods_are_remembered() -> None:
    watch = Told(pod_api()).watch
    for number in range(SETTLED_MAX + 5):
        watch.settle(str(number))
    assert len(watch.settled) == SETTLED_MAX
    assert "4" not in watch.settled
    assert "5" in watch.settled


async def test_a_version_that_is_no_longer_kept_is_listed_anew() -> None:
    gone = b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}'
    api = pod_api()
    too_old = GoneError("watch", 410, "Expired", "too old")
    api.watch_faults = [too_old, gone, KubeError("watch", 500, "", "no"), b"{nonsense"]
    told = Told(api)
    task = asyncio.create_task(told.watch.run())
    await told.until(*["listed []"] * 4)
    api.store(PODS, pod("new"))
    await told.until(*["listed []"] * 4, "seen new")
    task.cancel()
    await asyncio.wait((task,))


class Short(Faulty):
    """An API whose watches end at once; one that is asked without end stops the asker."""

    watches = 0

    async def watch(
        self, resource: Resource, namespace: str = "", *, version: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        self.watches += 1
        if self.watches > 100:
            raise asyncio.CancelledError
        lines: tuple[bytes, ...] = ()
        for line in lines:
            yield line


async def test_watches_that_end_at_once_leave_others_their_turn() -> None:
    api = Short(SystemClock())
    task = asyncio.create_task(Told(api).watch.run())
    for _ in range(10):
        await asyncio.sleep(0)
    assert 1 < api.watches <= 10
    task.cancel()
    await asyncio.wait((task,))
