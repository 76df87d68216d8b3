"""Does the manager start with the Configuration that Kueue ships, and say what it leaves out?"""

from typing import Any

import pytest
import yaml

from tests.e2e.backend import on_plane
from tests.e2e.team import Team
from tests.kueueconfig import ADDED, SHIPPED, shipped_with
from tests.plane.client import condition
from tests.plane.plane import executables

QUEUE = "kueue.x-k8s.io/queue-name"


def settings(path: str) -> dict[str, Any]:
    """The shipped Configuration, with one more section, less the addresses: those are the story's own."""
    tree: dict[str, Any] = yaml.safe_load(shipped_with(ADDED[path]) if path else SHIPPED)
    tree["metrics"].pop("bindAddress")
    return {key: value for key, value in tree.items() if key not in ("health", "webhook")}


@pytest.mark.plane("the file is among the sources that Kueue is built from")
@pytest.mark.manager(none=True, alone=True)
def test_the_configuration_that_these_stories_use_is_the_shipped_one(team: Team) -> None:
    file = executables("kueue") / "kueue/config/components/manager/controller_manager_config.yaml"
    assert yaml.safe_load(file.read_text()) == yaml.safe_load(SHIPPED)


@pytest.mark.manager(none=True, alone=True)
@pytest.mark.parametrize("path", [pytest.param("", id="as it is"), *ADDED])
def test_kueues_shipped_configuration_starts_the_manager(team: Team, path: str) -> None:
    with team.backend.manager(settings(path)):
        queue = team.queue(cpu=1)
        queue.job("first").runs()
        queue.job("second").waits("WaitingForQuota")
        if on_plane():
            said = [line for line in team.backend.log().splitlines() if " warning: " in line]
            expected = ["integrations.frameworks", path] if path else ["integrations.frameworks"]
            assert sorted(line.partition(" warning: ")[2].split(":")[0] for line in said) == sorted(expected)


@pytest.mark.manager(config=settings("multiKueue"))
def test_what_asks_for_other_clusters_says_that_they_are_not_built(team: Team) -> None:
    check = team.own("far")
    team.create(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "AdmissionCheck",
            "metadata": {"name": check},
            "spec": {"controllerName": "kueue.x-k8s.io/multikueue"},
        }
    )
    found = team.client.wait_for("AdmissionCheck", check, "", lambda tree: bool(condition(tree, "Active")))
    active = condition(found, "Active")
    assert (active["status"], active["reason"]) == ("False", "Unsupported")
    assert "sending workloads to other clusters, MultiKueue, is not supported yet" in active["message"]


@pytest.mark.ours("Kueue queues RayJobs")
@pytest.mark.manager(config=settings(""))
def test_a_workload_of_a_kind_that_is_not_built_says_so_and_holds_nobody_up(team: Team) -> None:
    queue = team.queue(cpu=1, queueingStrategy="StrictFIFO")
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pod = {"containers": [container], "restartPolicy": "Never"}
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "uid": "0b5e", "controller": True}
    team.client.create(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": "rayjob-train", "namespace": team.namespace, "ownerReferences": [owner]},
            "spec": {
                "queueName": queue.name,
                "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}],
            },
        }
    )
    found = team.client.wait_for(
        "Workload", "rayjob-train", team.namespace, lambda tree: bool(condition(tree, "QuotaReserved"))
    )
    waits = condition(found, "QuotaReserved")
    assert (waits["status"], waits["reason"]) == ("False", "Misconfigured")
    assert waits["message"] == "RayJob train: jobs of this kind are not queued yet, so nothing would start this one"
    queue.job("next").runs()


@pytest.mark.plane("on one machine such a Pod is refused")
@pytest.mark.ours("Kueue queues pods")
def test_a_pod_with_a_queue_label_is_told_that_it_is_not_queued(team: Team) -> None:
    queue = team.queue(cpu=1)
    spec = {"containers": [{"name": "main", "image": "none"}]}
    labels = {QUEUE: queue.name}
    for name, given in (("bare", labels), ("free", {})):
        metadata = {"name": name, "namespace": team.namespace, "labels": given}
        team.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    team.event("bare", "Unsupported", type_="Warning")
    job = queue.job("queued")
    job.runs()
    assert team.events("free", "Unsupported") == []
    assert [one for pod in job.pods() for one in team.events(pod["metadata"]["name"], "Unsupported")] == []
