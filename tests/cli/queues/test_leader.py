"""Is a dead manager noticed, and a living one left in peace?"""

import json
from typing import Any, cast

import pytest

from pykueue.base.clock import ManualClock
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.cli.queues.leader import LeaderWatch, without_leader
from pykueue.kube.port import DeniedError, Kube, NotFoundError

RENEWED = "2026-01-01T00:00:00.000000Z"


class Server:
    """Has one Lease, or refuses to show it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def get(self, *_: str) -> bytes:
        if isinstance(self.answer, Exception):
            raise self.answer
        return json.dumps({"spec": self.answer}).encode()


def lease(holder: str = "manager-1") -> dict[str, Any]:
    return {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": RENEWED}


@pytest.mark.parametrize(
    ("answer", "seconds", "told"),
    [
        pytest.param(lease(), 10, False, id="it leads"),
        pytest.param(lease(), 70, False, id="the clocks may differ"),
        pytest.param(lease(), 80, True, id="it is dead"),
        pytest.param(lease(""), 1, True, id="it has left"),
        pytest.param({}, 80, False, id="nobody ever led"),
        pytest.param(NotFoundError("get", 404, "NotFound", ""), 80, False, id="no election"),
        pytest.param(DeniedError("get", 403, "Forbidden", ""), 80, False, id="may not be read"),
    ],
)
async def test_a_manager_that(answer: Any, seconds: int, told: bool) -> None:
    now = Instant(parse_instant(RENEWED) + seconds * MICROS)
    said = await without_leader(cast("Kube", Server(answer)), now)
    begin = "no manager is running: the Lease kueue-system/c1f6bfd2.kueue.x-k8s.io was last renewed at 2026"
    assert said.startswith(begin) is told


async def test_who_looks_again_and_again_sees_a_dead_manager_once_its_lease_ends() -> None:
    clock = ManualClock(parse_instant(RENEWED))
    server = Server(lease())
    watch = LeaderWatch(cast("Kube", server), clock)
    assert await watch.note() == ""
    await clock.advance(14)
    assert await watch.note() == ""
    await clock.advance(2)
    assert (await watch.note()).startswith("no manager is running")
    server.answer = lease() | {"renewTime": "2026-01-01T00:00:16.000000Z"}
    assert await watch.note() == ""
