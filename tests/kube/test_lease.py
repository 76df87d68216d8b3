"""Does exactly one lead, is it taken over in time, and is nothing written by one who leads no more?"""

import asyncio
import contextlib
import copy
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from pykueue.base.clock import SystemClock
from pykueue.kube.client.http import HttpKube
from pykueue.kube.fenced import Fenced
from pykueue.kube.lease import Always, Election, Terms
from pykueue.kube.port import LEASES, NotLeadingError, Patch, UnansweredError
from tests.fakes.tinyapi import THINGS, TinyApi, in_background, status, thing

KEY = "system/leader"


class Candidate:
    """A replica that stands for election."""

    def __init__(self, api: TinyApi, name: str, lease: float = 2.0, renew: float = 1.0, retry: float = 0.1) -> None:
        self.api = api
        self.name = name
        self.told: list[str] = []
        self.election = Election(
            self.connect, SystemClock(), name, "system", "leader", lease=lease, renew=renew, retry=retry
        )
        self.task: asyncio.Task[None] | None = None

    def connect(self) -> HttpKube:
        return HttpKube(self.api.connection(), SystemClock())

    def start(self) -> "Candidate":
        run = self.election.run(lambda: self.told.append("started"), lambda why: self.told.append(f"stopped: {why}"))
        self.task = asyncio.create_task(run)
        return self

    async def until_leading(self, seconds: float = 5.0) -> float:
        """How long it took to lead."""
        began = time.monotonic()
        async with asyncio.timeout(seconds):
            while "started" not in self.told:
                await asyncio.sleep(0.01)
        return time.monotonic() - began

    async def until_stopped(self, seconds: float = 5.0) -> None:
        assert self.task is not None
        await asyncio.wait_for(asyncio.shield(self.task), seconds)


@contextlib.asynccontextmanager
async def candidates(api: TinyApi, *names: str, **terms: float) -> AsyncIterator[list[Candidate]]:
    made = [Candidate(api, name, **terms) for name in names]
    try:
        yield made
    finally:
        for one in made:
            await one.election.release()
            if one.task is not None:
                await asyncio.gather(one.task, return_exceptions=True)


def spec(api: TinyApi) -> dict[str, Any]:
    found: dict[str, Any] = api.objects["leases"][KEY]["spec"]
    return found


async def test_the_first_takes_the_lease_and_renews_it() -> None:
    with in_background() as api:
        async with candidates(api, "one") as (one,):
            await one.start().until_leading()
            assert one.election.leading
            first = dict(spec(api))
            assert first["holderIdentity"] == "one"
            assert (first["leaseDurationSeconds"], first["leaseTransitions"]) == (2, 0)
            moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
            assert re.fullmatch(moment, first["acquireTime"])
            assert re.fullmatch(moment, first["renewTime"])
            await asyncio.sleep(0.5)
            assert spec(api)["acquireTime"] == first["acquireTime"]
            assert spec(api)["renewTime"] > first["renewTime"]
            # Renewing costs one write each time and no read.
            assert len(api.asked("GET")) == 1


async def test_a_lease_that_is_let_go_is_taken_up_at_once() -> None:
    with in_background() as api:
        async with candidates(api, "one", "two", lease=15.0, renew=10.0, retry=2.0) as (one, two):
            await one.start().until_leading()
            two.start()
            await asyncio.sleep(0.3)
            assert not two.election.leading
            await one.election.release()
            assert not one.election.leading
            assert await two.until_leading() < 2
            await one.until_stopped()
            assert one.told == ["started", "stopped: released"]
            assert (spec(api)["holderIdentity"], spec(api)["leaseTransitions"]) == ("two", 1)


async def test_letting_go_is_written_as_client_go_does_it() -> None:
    with in_background() as api:
        async with candidates(api, "one") as (one,):
            await one.start().until_leading()
            await one.election.release()
            assert (spec(api)["holderIdentity"], spec(api)["leaseDurationSeconds"]) == ("", 1)


async def test_being_cancelled_lets_go_too() -> None:
    with in_background() as api:
        async with candidates(api, "one") as (one,):
            await one.start().until_leading()
            assert one.task is not None
            one.task.cancel()
            await asyncio.gather(one.task, return_exceptions=True)
            assert one.task.cancelled()
            assert not one.election.leading
            assert spec(api)["holderIdentity"] == ""


async def test_the_lease_of_one_who_died_is_taken_when_it_has_run_out_and_not_before() -> None:
    with in_background() as api:
        dead = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": "2020-01-01T00:00:00.000000Z"}
        await api.put(
            "leases", {"metadata": {"name": "leader", "namespace": "system"}, "spec": {**dead, "leaseTransitions": 4}}
        )
        async with candidates(api, "one", lease=1.0, renew=0.8, retry=0.1) as (one,):
            # How long ago it says that it was renewed means nothing: clocks differ.
            assert 0.8 < await one.start().until_leading() < 2
            assert spec(api)["leaseTransitions"] == 5


async def test_of_many_only_one_leads() -> None:
    with in_background() as api:
        async with candidates(api, *"abcdef") as all_of_them:
            for one in all_of_them:
                one.start()
            for _ in range(20):
                await asyncio.sleep(0.05)
                assert sum(one.election.leading for one in all_of_them) <= 1
            assert sum(one.election.leading for one in all_of_them) == 1


async def test_a_busy_main_loop_does_not_lose_the_lease() -> None:
    with in_background() as api:
        async with candidates(api, "one", "two") as (one, two):
            await one.start().until_leading()
            two.start()
            time.sleep(2.5)
            assert one.election.leading
            assert spec(api)["holderIdentity"] == "one"
            await asyncio.sleep(0.2)
            assert (one.told, two.told) == (["started"], [])


async def down(request: web.Request) -> web.StreamResponse | None:
    return status(500, "InternalError")


async def test_a_lease_that_cannot_be_renewed_ends_leading_in_time() -> None:
    with in_background() as api:
        async with candidates(api, "one") as (one,):
            await one.start().until_leading()
            api.accident = down
            began = time.monotonic()
            while one.election.leading:
                await asyncio.sleep(0.01)
            # Well before others may take it, which is 2 s after the last renewal.
            assert time.monotonic() - began < 1.5
            await one.until_stopped()
            assert one.told == ["started", "stopped: the lease could not be renewed within 1 s"]
            assert spec(api)["holderIdentity"] == "one"


async def test_a_lease_lost_while_the_main_loop_is_blocked_is_known_as_soon_as_it_goes_on() -> None:
    with in_background() as api:
        async with candidates(api, "one") as (one,):
            await one.start().until_leading()
            kube = HttpKube(api.connection(), SystemClock(), may_write=lambda: one.election.leading)
            fenced = Fenced(kube, one.election)
            await fenced.create(THINGS, b'{"metadata":{"name":"a"}}', "default")
            api.accident = down
            time.sleep(1.3)
            # Nobody has told the main loop yet, and it writes nothing all the same.
            assert one.told == ["started"]
            assert not one.election.leading
            writes = len(api.asked("POST"))
            with pytest.raises(NotLeadingError):
                await fenced.create(THINGS, b'{"metadata":{"name":"b"}}', "default")
            with pytest.raises(NotLeadingError):
                await kube.create(THINGS, b'{"metadata":{"name":"b"}}', "default")
            assert len(api.asked("POST")) == writes
            await one.until_stopped()
            await fenced.close()


async def test_a_write_in_flight_when_the_lease_is_lost_is_cut_off() -> None:
    with in_background() as api:

        async def hangs(request: web.Request) -> web.StreamResponse | None:
            if "things" in request.path:
                await asyncio.sleep(30)
            return status(500, "InternalError")

        async with candidates(api, "one") as (one,):
            await one.start().until_leading()
            kube = HttpKube(api.connection(), SystemClock())
            fenced = Fenced(kube, one.election)
            api.accident = hangs
            with pytest.raises(UnansweredError, match="closed"):
                await asyncio.wait_for(fenced.create(THINGS, b"{}", "default"), 5)
            await one.until_stopped()
            await fenced.close()


async def test_leading_ends_in_time_even_if_the_thread_of_the_election_hangs() -> None:
    class Stuck(HttpKube):
        async def patch(self, *what: Any, **how: Any) -> bytes:
            time.sleep(3)
            return await super().patch(*what, **how)

    with in_background() as api:
        async with candidates(api, "one") as (one,):
            one.election.connect = lambda: Stuck(api.connection(), SystemClock())
            await one.start().until_leading()
            await asyncio.sleep(1.5)
            assert not one.election.leading
            assert one.told == ["started"]
            await one.until_stopped()


async def test_a_lease_that_another_holds_ends_leading() -> None:
    with in_background() as api:
        async with candidates(api, "one") as (one,):
            await one.start().until_leading()
            kube = HttpKube(api.connection(), SystemClock())
            await kube.patch(LEASES, "leader", b'{"spec":{"holderIdentity":"thief"}}', "system", how=Patch.MERGE)
            await one.until_stopped()
            assert one.told == ["started", "stopped: the lease is held by thief"]
            assert not one.election.leading
            await kube.close()


async def test_a_store_that_goes_back_to_a_backup_ends_every_replica() -> None:
    with in_background() as api:
        async with candidates(api, "one", "two") as (one, two):
            await one.start().until_leading()
            two.start()
            backup = copy.deepcopy(api.objects["leases"][KEY])
            await asyncio.sleep(0.5)
            assert api.objects["leases"][KEY]["metadata"]["resourceVersion"] > backup["metadata"]["resourceVersion"]
            api.objects["leases"][KEY] = backup
            await one.until_stopped()
            await two.until_stopped()
            assert not one.election.leading
            _, stopped = one.told
            assert stopped.startswith("stopped: the lease went back from version ")
            assert "as after a restore of etcd from a backup; this process exits" in stopped
            # The other never led, and does not lead now.
            assert two.told == []
            assert spec(api) == backup["spec"]


async def test_a_renewal_without_an_answer_is_looked_up_and_goes_on() -> None:
    with in_background() as api:

        async def deaf(request: web.Request) -> web.StreamResponse | None:
            if request.method != "PATCH":
                return None
            # It is done, and nobody hears of it.
            api.accident = None
            await api.single(request, "leases", KEY)
            assert request.transport is not None
            request.transport.abort()
            return status(500, "InternalError")

        async with candidates(api, "one") as (one,):
            await one.start().until_leading()
            for _ in range(3):
                api.accident = deaf
                await asyncio.sleep(0.3)
                assert one.election.leading
            assert api.accident is None
            assert one.told == ["started"]
            assert (spec(api)["holderIdentity"], spec(api)["leaseTransitions"]) == ("one", 0)


async def test_a_server_that_is_not_there_yet_is_waited_for() -> None:
    with in_background() as api:
        api.accident = down
        async with candidates(api, "one") as (one,):
            one.start()
            await asyncio.sleep(0.3)
            api.accident = None
            await one.until_leading()


async def test_one_that_never_led_says_nothing_when_it_is_stopped() -> None:
    with in_background() as api:
        async with candidates(api, "one", "two") as (one, two):
            await one.start().until_leading()
            two.start()
            await asyncio.sleep(0.2)
            began = time.monotonic()
            await two.election.release()
            await two.until_stopped()
            assert time.monotonic() - began < 0.5
            assert two.told == []
            assert spec(api)["holderIdentity"] == "one"


async def test_a_fence_lets_reads_pass_and_stops_every_write() -> None:
    async with TinyApi().serve() as api:
        await api.put("things", thing("a"))
        election = Always()
        fenced = Fenced(HttpKube(api.connection(), SystemClock()), election)
        assert await fenced.get(THINGS, "a", "default")
        assert [page async for page in fenced.pages(THINGS)]
        assert await anext(aiter(fenced.watch(THINGS)))
        for write in (
            lambda: fenced.create(THINGS, b"{}", "default"),
            lambda: fenced.patch(THINGS, "a", b"{}", "default", how=Patch.MERGE),
            lambda: fenced.replace(THINGS, "a", b"{}", "default"),
            lambda: fenced.delete(THINGS, "a", "default"),
        ):
            with pytest.raises(NotLeadingError, match=r"things\.example\.com default"):
                await write()
        assert {method for method, _ in api.log} == {"GET"}
        await fenced.close()


async def test_without_an_election_one_leads_until_it_is_stopped() -> None:
    told: list[str] = []
    election = Always()
    assert not election.leading
    task = asyncio.create_task(election.run(lambda: told.append("started"), told.append))
    await asyncio.sleep(0)
    assert (election.leading, told) == (True, ["started"])
    await election.release()
    assert not election.leading
    await task
    assert told == ["started", "released"]


def test_terms_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="retryPeriod < renewDeadline < leaseDuration"):
        Election(lambda: None, SystemClock(), "one", "system", "leader", lease=5, renew=10, retry=2)  # type: ignore[arg-type,return-value]  # it never connects


@pytest.mark.parametrize(("lease", "renew", "retry"), [(5, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_durations_that_contradict_each_other_are_an_error_that_names_them(
    lease: float, renew: float, retry: float
) -> None:
    with pytest.raises(ValueError, match="0 < retryPeriod < renewDeadline < leaseDuration"):
        Terms(lease, renew, retry)
