"""Can our manager take the place of the real Kueue under running Jobs, and give it back?

The two share the Lease, so that never both are at work, the certificates and the field managers. Each story has a
control plane of its own, with the manifests that the team has: those of Kueue where it swaps nothing but the
Deployment, ours where it applied them over Kueue's.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.backend import OnPlane, only_on_plane
from tests.e2e.job import Job
from tests.e2e.switchboard import Granted
from tests.e2e.team import Team
from tests.plane.client import condition
from tests.plane.plane import Plane
from tests.plane.programs import LONG_LEASE, Site, ours, theirs

only_on_plane("the real Kueue is swapped for our manager under a real API server")


@contextmanager
def kueues_cluster() -> Iterator[Team]:
    """A cluster on which a team has installed Kueue."""
    with Plane.start() as plane, Site.on(plane, theirs()) as site:
        yield Team(OnPlane(plane, site, Granted(str(plane.folder))), "swap")


def pods_of(*jobs: Job) -> dict[str, list[str]]:
    return {job.name: sorted(pod["metadata"]["uid"] for pod in job.pods()) for job in jobs}


def starts(team: Team, job: Job) -> int:
    """How often a Job was started."""
    return sum((tree.get("series") or {}).get("count", 1) for tree in team.events(job.name, "Started"))


class Town:
    """Jobs in every state, to be carried over a change of managers."""

    def __init__(self, team: Team) -> None:
        self.team = team
        low, high = team.priority("low", 1), team.priority("high", 10)
        self.check = team.check("slow")
        self.queue = team.queue("main", cpu=2, preemption={"withinClusterQueue": "LowerPriority"})
        self.checked = team.queue("checked", cpu=1, admissionChecksStrategy={"admissionChecks": [{"name": self.check}]})
        self.done = self.queue.job("done", run="300ms")
        self.done.finishes()
        self.long = self.queue.job("long", priority=high)
        self.long.runs()
        self.victim = self.queue.job("victim", priority=low)
        self.victim.runs()
        self.urgent = self.queue.job("urgent", priority=high)
        self.urgent.runs()
        self.victim.is_suspended()
        self.victim.shows("QuotaReserved", False)
        self.reserved = self.checked.job("reserved")
        self.reserved.shows("QuotaReserved", True)
        self.idle = self.queue.job("idle", cpu="0.1")
        self.idle.workload()
        self.idle.set_active(False)
        self.idle.is_evicted("Deactivated")

    @property
    def running(self) -> tuple[Job, ...]:
        return (self.long, self.urgent)

    def is_unchanged(self, pods: dict[str, list[str]]) -> None:
        """Check that nothing restarted, nothing was lost, and what waits still waits."""
        assert pods_of(*self.running) == pods
        assert [starts(self.team, job) for job in self.running] == [1, 1]
        for job in self.running:
            tree = job.workload()
            assert condition(tree, "Admitted")["status"] == "True"
            assert condition(tree, "Evicted").get("status") != "True"
        assert condition(self.victim.workload(), "QuotaReserved")["status"] == "False"
        assert condition(self.reserved.workload(), "QuotaReserved")["status"] == "True"
        assert condition(self.done.workload(), "Finished")["reason"] == "Succeeded"
        assert self.idle.workload()["spec"]["active"] is False
        self.queue.uses(reserved=2, used=2)
        self.checked.uses(reserved=1, used=0)


@pytest.mark.parametrize("manifests", ["kueues", "ours"])
def test_our_manager_takes_the_place_of_kueue_and_gives_it_back(manifests: str) -> None:
    with kueues_cluster() as team:
        site, watched = team.cluster.site, team.cluster.watched
        kueue = watched(site.kueue(lease=LONG_LEASE))
        town = Town(team)
        pods = pods_of(*town.running)
        first = site.holder()
        assert first
        kueue.stop(30)

        if manifests == "ours":
            site.install(ours())
        mine = watched(site.ours())
        other = team.queue("other", cpu=1)
        team.eventually(lambda: site.holder() not in ("", first), "ours holds the Lease", 30)
        second = site.holder()
        new = other.job("by-ours")
        new.runs(timeout=30)
        town.is_unchanged(pods)
        # The quota that comes free under ours goes to the one that Kueue put in line.
        town.urgent.ends()
        town.victim.runs()
        assert condition(town.victim.workload(), "Evicted")["status"] == "False"
        town.reserved.set_check(town.check, "Ready")
        town.reserved.runs()
        town.idle.set_active(True)
        town.idle.shows("QuotaReserved", False)
        assert mine.stop() <= 5

        if manifests == "ours":
            site.install(theirs())
        pods = pods_of(town.long, town.victim, town.reserved, new)
        kueue = watched(site.kueue(lease=LONG_LEASE))
        team.eventually(lambda: site.holder() not in ("", second), "Kueue holds the Lease", 30)
        last = team.queue("last", cpu=1).job("by-kueue")
        last.runs(timeout=60)
        assert pods_of(town.long, town.victim, town.reserved, new) == pods
        assert [starts(team, job) for job in (town.long, town.reserved, new)] == [1, 1, 1]
        assert starts(team, town.victim) == 2
        for job in (town.long, town.victim, town.reserved, new, last):
            job.ends()
            job.finishes()
        town.idle.runs()
        town.idle.ends()
        town.idle.finishes()
        kueue.stop(30)
