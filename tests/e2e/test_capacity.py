"""Does a Job run only where there is room for it? Our manager asks, and the real cluster-autoscaler answers. (KEP-1136)

What the autoscaler itself says to a request is the matter of `test_autoscaler`. It books for ten minutes and takes
nothing back; where a booking is to end before that, the story writes what the autoscaler would.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.backend import OnPlane, only_on_plane
from tests.e2e.capacity import REQUEST, Capacity
from tests.e2e.job import Job
from tests.e2e.switchboard import Granted
from tests.e2e.team import Queue, Team
from tests.facts import covers
from tests.plane.autoscaler import Autoscaler, NodeGroup
from tests.plane.client import Tree, condition, path_of, resource_of
from tests.plane.plane import Plane
from tests.plane.programs import ManagerProcess, Site, ours

only_on_plane("the real cluster-autoscaler adds nodes to a cluster")

# The stories share a plane of their own, so one worker takes them all.
pytestmark = [pytest.mark.xdist_group("capacity"), pytest.mark.ours("its manager is started here")]

ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
FOUND = "Capacity is found in the cluster"
NOT_FOUND = "Capacity is not found, CA will try to find it later."
GIVEN_UP = "CA could not find requested capacity"
EXPIRED = "Capacity reservation time is expired"
REVOKED = "The machines are needed elsewhere"
LONG = 40.0
"""Seconds to wait for what the autoscaler finds out when it looks again."""

CONFIG = {
    "waitForPodsReady": {
        "timeout": "5m",
        "recoveryTimeout": "2s",
        "requeuingStrategy": {"backoffBaseSeconds": 1},
    }
}


class Cluster:
    """A control plane with an autoscaler, and the manager that runs there now."""

    def __init__(self, site: Site, autoscaler: Autoscaler) -> None:
        self.site = site
        self.autoscaler = autoscaler
        self.manager = self.new_manager()

    def new_manager(self) -> ManagerProcess:
        """A manager in the place of the one before."""
        self.manager = self.site.ours(CONFIG)
        return self.manager

    def team(self, story: str) -> Team:
        """A place for a story, served by the manager of now."""
        given = Granted(str(self.site.plane.folder), str(self.manager.log), self.manager.began, self.manager.pid)
        return Team(OnPlane(self.site.plane, self.site, given), story)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Each story that needs new nodes has a group of its own, of nodes with four CPUs.
    groups = [
        NodeGroup(name, most=most, labels={"pool": name})
        for name, most in {"grows": 2, "single": 1, "fragile": 1, "killed": 1}.items()
    ]
    with Plane.start() as plane, Site.on(plane, ours()) as site, Autoscaler(plane, groups) as autoscaler:
        made = Cluster(site, autoscaler)
        site.await_webhooks(True)
        yield made
        made.manager.stop()


@pytest.fixture
def team(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Team]:
    team = cluster.team(request.node.name)
    report = team.client.report
    team.client.report = lambda about: f"{report(about)}\nThe autoscaler's log:\n{cluster.autoscaler.tail(30, about)}"
    try:
        yield team
        assert cluster.manager.alive(), cluster.manager.tail()
    finally:
        team.leave()


class Asking:
    """A queue whose jobs need capacity, and the check that finds out whether there is any."""

    def __init__(
        self,
        team: Team,
        class_: str,
        labels: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
        retries: int = 3,
        checks: tuple[str, ...] = (),
    ) -> None:
        self.team = team
        self.class_ = class_
        self.capacity = Capacity(
            team,
            provisioningClassName=class_,
            parameters=dict(parameters or {}),
            retryStrategy={"backoffLimitCount": retries, "backoffBaseSeconds": 1, "backoffMaxSeconds": 60},
        )
        self.name = self.capacity.check
        flavor = team.flavor("default", labels)
        self.queue: Queue = team.queue(
            flavors={flavor: {"cpu": 10}},
            admissionChecksStrategy={"admissionChecks": [{"name": name} for name in (self.name, *checks)]},
        )

    def job(self, name: str, **how: Any) -> Job:
        return self.queue.job(name, **how)

    def latest(self, job: Job) -> Tree:
        """The request of a job that is there, whichever attempt it is.

        An autoscaler that hears of a request before it hears of the template gives up on it, so the first may fail.
        """
        owner = job.workload()["metadata"]["uid"]
        there = self.team.client.objects(REQUEST, self.team.namespace)
        (found,) = [tree for tree in there if tree["metadata"]["ownerReferences"][0]["uid"] == owner]
        return found

    def says(self, job: Job, state: str, message: str) -> None:
        """Wait until the check says this of a job."""
        job.until(lambda tree: self.said(tree) == (state, message), f"{state}: {message}", LONG)

    def said(self, tree: Tree) -> tuple[str, str]:
        """The state and message of the check in a Workload; empty before it is listed."""
        listed = tree.get("status", {}).get("admissionChecks", [])
        return next(((one["state"], one["message"]) for one in listed if one["name"] == self.name), ("", ""))

    def end_of(self, message: str) -> str:
        """What is said of a job that this check has rejected."""
        return f'The workload is deactivated due to AdmissionCheck in Rejected state: "{self.name}" ({message})'

    def turned(self, job: Job, before: str, state: str, message: str) -> None:
        """Wait for the event which says that the check has changed its mind about a job."""
        note = f"Admission check {self.name} updated state from {before} to {state} with message: {message}"
        job.workload_event("AdmissionCheckUpdated", note)

    def run_on_what_was_found(self, job: Job, count: int) -> list[Tree]:
        """The pods of a job, once all of them run, which say whose capacity they take."""
        job.runs(timeout=LONG)
        self.team.eventually(
            lambda: [pod.get("status", {}).get("phase") for pod in job.pods()] == ["Running"] * count, "pods run"
        )
        pods = job.pods()
        taken = {
            "autoscaling.x-k8s.io/consume-provisioning-request": self.latest(job)["metadata"]["name"],
            "autoscaling.x-k8s.io/provisioning-class-name": self.class_,
        }
        for pod in pods:
            assert taken.items() <= pod["metadata"]["annotations"].items()
        return pods


def take_away(team: Team, node: str, *pods: Tree) -> None:
    """Remove a node, and its pods as the garbage collector of pods does, which waits for a minute before."""
    team.client.delete("Node", node)
    lost = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "node not found"}
    for pod in pods:
        name = pod["metadata"]["name"]
        body = {"status": {"phase": "Failed", "conditions": [*pod["status"]["conditions"], lost]}}
        team.client.patch("Pod", name, body, team.namespace, subresource="status")
        path = path_of(resource_of("Pod"), team.namespace, name)
        team.client.request("DELETE", f"{path}?gracePeriodSeconds=0")


@covers("KEP1136-1")
def test_a_job_is_admitted_once_capacity_is_found_and_its_pods_take_it(team: Team) -> None:
    asking = Asking(team, CHECK)
    with team.recorded() as workloads:
        job = asking.job("one", pods=3)
        asking.run_on_what_was_found(job, 3)
    versions = workloads[job.workload_name]
    reserved = [tree for tree in versions if condition(tree, "QuotaReserved").get("status") == "True"]
    assert asking.said(reserved[0]) == ("Pending", "")
    admitted = [tree for tree in versions if condition(tree, "Admitted").get("status") == "True"]
    assert {asking.said(tree) for tree in admitted} == {("Ready", FOUND)}
    name = asking.latest(job)["metadata"]["name"]
    job.ends()
    job.finishes()
    team.client.wait_gone(REQUEST, name, team.namespace)


@covers("L105", "L108", "KEP1136-2")
def test_a_node_group_grows_and_the_pods_run_on_its_new_nodes(team: Team, cluster: Cluster) -> None:
    asking = Asking(team, ATOMIC, {"pool": "grows"})
    with team.recorded(REQUEST) as requests:
        job = asking.job("train", pods=2, cpu=3)
        name = asking.capacity.name(job)
        made = team.client.wait_for(REQUEST, name, team.namespace)
        assert made["spec"]["podSets"] == [{"count": 2, "podTemplateRef": {"name": f"ppt-{name}-main"}}]
        stored = team.client.wait_for(
            "PodTemplate",
            f"ppt-{name}-main",
            team.namespace,
            lambda tree: [one["uid"] for one in tree["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]],
            what="owned by the request",
        )
        assert stored["template"]["spec"]["nodeSelector"] == {"pool": "grows"}
        assert [one["uid"] for one in made["metadata"]["ownerReferences"]] == [job.workload()["metadata"]["uid"]]
        asking.says(job, "Ready", FOUND)
        pods = asking.run_on_what_was_found(job, 2)
    nodes = cluster.autoscaler.nodes("grows")
    assert len(nodes) == 2
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == nodes
    assert all(pod["spec"]["nodeSelector"] == {"pool": "grows"} for pod in pods)
    assert list(requests) == [name]
    job.workload_event("ProvisioningRequestCreated", f'Created ProvisioningRequest: "{name}"')
    asking.turned(job, "Pending", "Ready", FOUND)
    job.event("Started")


@covers("L106")
def test_a_job_waits_with_the_autoscalers_word_for_it_until_a_node_is_added(team: Team) -> None:
    asking = Asking(team, CHECK, {"rack": team.name})
    job = asking.job("patient")
    asking.says(job, "Pending", NOT_FOUND)
    made = asking.latest(job)
    job.event("UpdatedAdmissionCheck", f"{asking.name}: {NOT_FOUND}")
    job.is_suspended()
    node = team.node("late", {"rack": team.name})
    (pod,) = asking.run_on_what_was_found(job, 1)
    assert pod["spec"]["nodeName"] == node
    assert asking.latest(job)["metadata"]["uid"] == made["metadata"]["uid"]


def test_of_two_jobs_with_capacity_for_one_the_other_runs_after_the_first(team: Team, cluster: Cluster) -> None:
    asking = Asking(team, ATOMIC, {"pool": "single"})
    jobs = [asking.job("left", cpu=3), asking.job("right", cpu=3)]

    def said() -> dict[tuple[str, str], Job]:
        return {asking.said(job.workload()): job for job in jobs}

    team.eventually(lambda: set(said()) == {("Ready", FOUND), ("Pending", NOT_FOUND)}, "one waits for the other", LONG)
    first, second = said()["Ready", FOUND], said()["Pending", NOT_FOUND]
    (pod,) = asking.run_on_what_was_found(first, 1)
    # Both have their quota; what is missing is room.
    second.shows("QuotaReserved", True)
    second.is_suspended()
    first.ends()
    first.finishes()
    (other,) = asking.run_on_what_was_found(second, 1)
    assert [pod["spec"]["nodeName"]] == [other["spec"]["nodeName"]] == cluster.autoscaler.nodes("single")
    assert [asking.latest(second)] == team.client.objects(REQUEST, team.namespace)


@covers("KEP1136-14")
def test_a_node_taken_away_under_a_job_sends_it_back_to_ask_anew(team: Team, cluster: Cluster) -> None:
    asking = Asking(team, ATOMIC, {"pool": "fragile"})
    job = asking.job("one", cpu=3)
    (pod,) = asking.run_on_what_was_found(job, 1)
    made = asking.latest(job)
    job.shows("PodsReady", True, "Started")
    take_away(team, pod["spec"]["nodeName"], pod)
    job.shows("PodsReady", False, "WaitForRecovery")
    message = f"Exceeded the PodsReady timeout {team.namespace}/{job.workload_name}"
    job.workload_event("EvictedDueToPodsReadyTimeout", message)
    # The autoscaler adds no node for pods whose capacity it takes for booked, but for a request that is new.
    (other,) = asking.run_on_what_was_found(job, 1)
    assert asking.latest(job)["metadata"]["uid"] != made["metadata"]["uid"]
    assert [other["spec"]["nodeName"]] == cluster.autoscaler.nodes("fragile") != [pod["spec"]["nodeName"]]


@covers("L114")
def test_parameters_that_a_job_brings_along_go_before_those_of_the_configuration(team: Team) -> None:
    asking = Asking(team, CHECK, {"pool": "nowhere"}, {"noRetry": "true"}, retries=0)
    patient = asking.job("patient", annotations={"provreq.kueue.x-k8s.io/noRetry": "false"})
    asking.says(patient, "Pending", NOT_FOUND)
    assert asking.latest(patient)["spec"]["parameters"] == {"noRetry": "false"}
    asking.job("plain").is_evicted("DeactivatedDueToAdmissionCheck", timeout=LONG)
    assert asking.said(patient.workload()) == ("Pending", NOT_FOUND)


def test_a_manager_that_is_killed_while_nodes_are_added_is_followed_by_one_that_goes_on(
    team: Team, cluster: Cluster
) -> None:
    asking = Asking(team, ATOMIC, {"pool": "killed"})
    asked: list[Tree] = []

    def kill(event: Tree) -> None:
        """The first that is heard of a request is the end of who made it."""
        if not asked:
            cluster.manager.kill()
        asked.append(event["object"])

    with team.client.following(REQUEST, team.namespace, kill):
        job = asking.job("one", cpu=3)
        team.eventually(lambda: bool(cluster.autoscaler.nodes("killed")), "the group grows", LONG)
        assert not cluster.manager.alive()
        cluster.new_manager()
        (pod,) = asking.run_on_what_was_found(job, 1)
    assert [pod["spec"]["nodeName"]] == cluster.autoscaler.nodes("killed")
    assert {tree["metadata"]["name"] for tree in asked} == {asking.capacity.name(job)}
    assert len({tree["metadata"]["uid"] for tree in asked}) == 1


@covers("L109", "KEP1136-7", "KEP1136-8")
def test_a_booking_may_expire_once_the_job_runs_and_capacity_may_not_be_revoked(team: Team) -> None:
    other = team.check("other")
    asking = Asking(team, CHECK, checks=(other,))
    job = asking.job("one")
    asking.says(job, "Ready", FOUND)
    first = asking.latest(job)
    asking.capacity.write(asking.latest(job), "BookingExpired", EXPIRED)
    asking.turned(job, "Ready", "Retry", f"Retrying after booking expired: {EXPIRED}")
    team.client.wait_gone(REQUEST, first["metadata"]["name"], team.namespace)
    asking.says(job, "Ready", FOUND)
    assert condition(asking.latest(job), "BookingExpired") == {}
    job.set_check(other, "Ready")
    asking.run_on_what_was_found(job, 1)
    asking.capacity.write(asking.latest(job), "BookingExpired", EXPIRED)
    job.stays(1)
    assert asking.said(job.workload()) == ("Ready", FOUND)
    asking.capacity.write(asking.latest(job), "CapacityRevoked", REVOKED)
    job.is_evicted("DeactivatedDueToAdmissionCheck", asking.end_of(REVOKED))
    asking.turned(job, "Ready", "Rejected", REVOKED)
    job.waits("Deactivated")
    assert job.workload()["spec"]["active"] is False
    asking.capacity.nothing_is_left()


@covers("L107", "KEP1136-3", "KEP1136-4", "KEP1136-5")
def test_what_is_not_found_is_asked_for_again_ever_later_and_rejected_in_the_end(team: Team) -> None:
    asking = Asking(team, CHECK, {"pool": "nowhere"}, {"noRetry": "true"}, retries=2)
    with team.recorded(REQUEST) as requests, team.recorded() as workloads:
        job = asking.job("hopeless")
        job.is_evicted("DeactivatedDueToAdmissionCheck", asking.end_of(GIVEN_UP), LONG)
        job.waits("Deactivated")
        assert job.workload()["spec"]["active"] is False
        asking.capacity.nothing_is_left()
    assert list(requests) == [asking.capacity.name(job, attempt) for attempt in (1, 2, 3)]
    versions = workloads[job.workload_name]
    # Times are whole seconds, so what is left of the first delay may be nothing.
    due = [tree.get("status", {}).get("requeueState", {}).get("requeueAt", "") for tree in versions]
    made = [seen[0]["metadata"]["creationTimestamp"] for seen in requests.values()]
    assert "" < max(due) <= made[-1]
    waits = [
        one["requeueAfterSeconds"]
        for tree in versions
        for one in tree.get("status", {}).get("admissionChecks", [])
        if one["state"] == "Retry"
    ]
    assert list(dict.fromkeys(waits)) == [1, 2]
    assert not any(condition(tree, "Admitted").get("status") == "True" for tree in versions)
    asking.turned(job, "Pending", "Retry", f"Retrying after failure: {GIVEN_UP}")
    asking.turned(job, "Pending", "Rejected", GIVEN_UP)
