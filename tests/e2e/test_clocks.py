"""Does the manager keep time when its wall clock is set or its machine is suspended?"""

import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.clockshim import FakeTime, Shim, WallClock
from tests.e2e.backend import only_on_plane
from tests.e2e.team import Team
from tests.plane.client import condition
from tests.plane.programs import LEASE, NAMESPACE, ManagerProcess

only_on_plane("the clocks of a process of `pykueue manager` are moved")

pytestmark = [
    pytest.mark.manager(none=True, alone=True),
    pytest.mark.ours("it is about our own process"),
]

HOUR = 3600


def started(team: Team, clock: WallClock | None = None, **how: Any) -> ManagerProcess:
    """A manager of ours for this story, with clocks that the story moves."""
    environment = None if clock is None else clock.environment
    manager = team.cluster.watched(team.cluster.site.ours(environment=environment, **how))
    team.cluster.given = msgspec.structs.replace(team.cluster.given, metrics=manager.ports["metrics"])
    return manager


@pytest.mark.parametrize("seconds", [-HOUR, -1, 1, HOUR])
def test_jobs_are_admitted_although_the_wall_clock_is_set(team: Team, tmp_path: Path, seconds: int) -> None:
    clock = FakeTime(tmp_path)
    with started(team, clock) as manager:
        queue = team.queue(cpu=1)
        first = queue.job("first")
        first.runs()
        second = queue.job("second")
        second.shows("QuotaReserved", False)
        clock.step(seconds)
        first.ends()
        second.runs()
        third = queue.job("third")
        second.ends()
        third.runs()
        assert team.metric("pykueue_clock_steps_total") == 1
        assert 0 <= team.metric("pykueue_clock_offset_seconds") / seconds <= 1
        assert f"direction={'forward' if seconds > 0 else 'back'} seconds={abs(seconds):.1f}" in manager.logged()
        manager.stop()


def test_a_timeout_that_passes_in_a_suspend_is_noticed_at_the_resume(team: Team, tmp_path: Path) -> None:
    clock = Shim(tmp_path)
    config = {
        "leaderElection": {"leaderElect": False},
        "waitForPodsReady": {"timeout": "10m", "requeuingStrategy": {"backoffBaseSeconds": 600}},
    }
    with started(team, clock, config=config) as manager:
        slow = team.queue(cpu=1).job("slow", ready="never")
        slow.runs()
        clock.suspend(HOUR)
        slow.is_evicted("PodsReadyTimeout")
        assert team.metric("pykueue_clock_suspends_total") == 1
        assert team.metric("pykueue_clock_offset_seconds") == 0
        # And the delay before it is tried again likewise.
        clock.suspend(HOUR)
        slow.runs()
        manager.stop()


def test_a_leader_that_resumes_after_its_lease_has_run_out_writes_nothing(team: Team, tmp_path: Path) -> None:
    clock = Shim(tmp_path)
    client = team.client
    with started(team, clock, name="old") as old:
        queue = team.queue(cpu=1)
        first = queue.job("first")
        first.runs()
        second = queue.job("second")
        second.shows("QuotaReserved", False)
        old.signal(signal.SIGSTOP)
        # With this there is something to write at once, and much of it.
        first.ends()
        client.wait_for("Job", "first", team.namespace, lambda job: condition(job, "Complete").get("status") == "True")
        before = [client.get("Lease", LEASE, NAMESPACE), *client.objects("Workload", team.namespace)]
        clock.suspend(HOUR)
        old.signal(signal.SIGCONT)
        team.eventually(lambda: not old.alive(), "it ends")
        assert old.popen.returncode == 1
        (lost,) = (line for line in old.logged().splitlines() if "manager: lost leadership, stopping" in line)
        assert "the lease could not be renewed within 50 s" in lost
        second.never_runs(1)
        assert [client.get("Lease", LEASE, NAMESPACE), *client.objects("Workload", team.namespace)] == before
        old.unregister()
    with started(team, name="new") as new:
        second.runs()
        new.stop()
