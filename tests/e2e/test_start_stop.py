"""How does the manager come and go, alone and with a second one beside it?"""

import time

import pytest

from tests.e2e.switchboard import Granted
from tests.e2e.team import Team
from tests.facts import covers
from tests.plane.client import ApiError, condition
from tests.plane.programs import LEASE, NAMESPACE, SHORT_LEASE, ManagerProcess

pytestmark = [
    pytest.mark.manager(none=True, alone=True),
    pytest.mark.ours("it is about our own process"),
]


def started(team: Team, **how: object) -> ManagerProcess:
    """A manager of ours for this story, with a Lease that is soon over when it is killed."""
    manager = team.site.ours(**{"lease": SHORT_LEASE, **how})  # type: ignore[arg-type]  # passed on as they are
    team.given = Granted(str(team.plane.folder), str(manager.log), manager.began, manager.pid)
    return manager


def await_lead(team: Team, manager: ManagerProcess) -> None:
    """Return when the holder of the Lease is this very manager; one that was killed holds it for some seconds more."""
    team.eventually(lambda: f"{team.site.holder()} leads by lease {NAMESPACE}/{LEASE}" in manager.logged(), "it leads")


def test_it_is_ready_within_two_seconds_and_gone_within_two(team: Team) -> None:
    starts, stops = [], []
    for _ in range(3):
        with started(team) as manager:
            # What others on this machine take of its processors is not the manager's doing.
            starts.append(manager.ready_seconds - manager.kept_waiting())
            assert manager.probe("/healthz") == 200
            await_lead(team, manager)
            stops.append(manager.stop())
            assert manager.popen.returncode == 0
            assert team.site.holder() == ""
    # The machine may be busy with something else once; it is not three times.
    assert min(starts) <= 2, starts
    assert min(stops) <= 2, stops


def test_a_restart_restarts_no_job_and_loses_none(team: Team) -> None:
    with started(team) as manager:
        queue = team.queue(cpu=1)
        running = queue.job("running")
        running.runs()
        waiting = queue.job("waiting")
        waiting.waits("WaitingForQuota")
        waiting.shows("PodsReady", False, "WaitForStart")
        manager.stop()
    before = waiting.workload()["metadata"]["resourceVersion"]
    with started(team):
        running.stays(1)
        # A workload that keeps waiting for the same reason costs no write.
        assert waiting.workload()["metadata"]["resourceVersion"] == before
        running.ends()
        waiting.runs()


def test_a_job_that_ends_while_nobody_looks_is_finished_at_the_next_start(team: Team) -> None:
    with started(team) as manager:
        queue = team.queue(cpu=1)
        running = queue.job("running")
        running.runs()
        waiting = queue.job("waiting")
        waiting.waits("WaitingForQuota")
        manager.kill()
    running.ends()
    team.client.wait_for("Job", "running", team.namespace, lambda job: job["status"].get("succeeded") == 1)
    with started(team):
        running.finishes()
        waiting.runs()


@covers("L39")
def test_a_restart_in_the_middle_of_a_backoff_keeps_the_backoff(team: Team) -> None:
    config = {"waitForPodsReady": {"timeout": "3s", "requeuingStrategy": {"backoffBaseSeconds": 8}}}
    with started(team, config=config) as manager:
        queue = team.queue(cpu=1)
        job = queue.job("never", ready="never")
        job.is_evicted("PodsReadyTimeout")
        job.shows("Requeued", False, "PodsReadyTimeout")
        due = job.workload()["status"]["requeueState"]["requeueAt"]
        manager.stop()
    with started(team, config=config):
        team.queue("other", cpu=1).job("other").runs()
        tree = job.workload()
        assert tree["status"]["requeueState"]["requeueAt"] == due
        assert condition(tree, "QuotaReserved")["status"] == "False"
        job.shows("Requeued", True, "BackoffFinished")
        job.runs()


@covers("L58")
def test_the_time_that_a_finished_workload_is_kept_goes_on_over_a_restart(team: Team) -> None:
    config = {"objectRetentionPolicies": {"workloads": {"afterFinished": "5s"}}}
    with started(team, config=config) as manager:
        job = team.queue(cpu=1).job("one")
        job.runs()
        job.ends()
        name = job.finishes()["metadata"]["name"]
        began = time.monotonic()
        manager.stop()
    with started(team, config=config):
        team.get("Workload", name, team.namespace)
        team.client.wait_gone("Workload", name, team.namespace)
        assert 3 <= time.monotonic() - began <= 9


def test_an_upgrade_by_a_second_replica_stops_nothing(team: Team) -> None:
    with started(team, name="old") as old:
        queue = team.queue(cpu=2)
        running = queue.job("running")
        running.runs()
        with started(team, name="new") as new:
            first = team.site.holder()
            assert new.probe("/readyz") == 200
            # Both serve webhooks, one decides.
            queue.job("meanwhile").runs()
            assert team.site.holder() == first
            stopped = time.monotonic()
            old.stop()
            waiting = team.queue("other", cpu=1).job("after")
            waiting.runs()
            assert time.monotonic() - stopped <= 8
            assert team.site.holder() not in ("", first)
            running.stays(0.5)
            new.stop()


def test_a_second_replica_takes_over_when_the_first_is_killed(team: Team) -> None:
    with started(team, name="old") as old:
        queue = team.queue(cpu=2)
        running = queue.job("running")
        running.runs()
        with started(team, name="new") as new:
            first = team.site.holder()
            killed = time.monotonic()
            old.kill()
            team.eventually(lambda: team.site.holder() not in ("", first), "the second one leads", 15)
            # The lease and two seconds; the machine may be busy.
            assert time.monotonic() - killed <= 3 + 2 + 1
            queue.job("after").runs()
            running.stays(0.5)
            new.stop()


def test_a_part_that_is_turned_off_leaves_the_rest_at_work(team: Team) -> None:
    with started(team) as manager:
        queue = team.queue(cpu=1)
        manager.stop()
    with started(team, args=("--controllers=*,-scheduling",)):
        job = queue.job("one")
        job.workload()
        job.never_runs(1)
        assert condition(job.workload(), "QuotaReserved").get("status") != "True"
    with started(team):
        job.runs()


def test_while_no_manager_is_there_jobs_that_are_none_of_its_business_start(team: Team) -> None:
    with started(team) as manager:
        team.queue(cpu=1)
        manager.stop()
    team.job("free")
    team.client.wait_for("Job", "free", team.namespace, lambda job: job["status"].get("active") == 1)
    with pytest.raises(ApiError, match="failed calling webhook"):
        team.job("ours", "main")


def test_a_field_that_nobody_knows_is_refused_with_its_path(team: Team) -> None:
    manager = team.site.ours({"waitForPodsReady": {"timeuot": "3s"}}, ready=False)
    with manager:
        team.eventually(lambda: not manager.alive(), "it ends")
        assert manager.popen.returncode == 2
        assert "waitForPodsReady.timeuot" in manager.logged()
