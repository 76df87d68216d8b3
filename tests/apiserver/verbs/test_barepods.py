"""Is a Pod that would run outside the quota refused, or at least reported?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykueue.apiserver.wire.messages import Response, request
from pykueue.kube.port import JOBS, PODS
from pykueue.testing.kueue import Kueue
from tests.builders import made, pod_spec

QUEUES = Path(__file__).resolve().parents[3] / "examples/testing/queues.yaml"
QUEUE = "kueue.x-k8s.io/queue-name"
GROUP = "kueue.x-k8s.io/pod-group-name"
PATH = "/api/v1/namespaces/default/pods"
SENTENCE = (
    'pods "bare" is forbidden: only Jobs are queued here, plain pods and pod groups are not yet, so this pod would run '
    "outside the quota; create a Job instead"
)
WARNING = '299 - "this pod runs outside the quota: only Jobs are queued here, plain pods and pod groups are not yet"'


@pytest.fixture
def system() -> Iterator[Kueue]:
    made = Kueue()
    made.apply(QUEUES)
    yield made
    made.close()


@pytest.fixture
def alice(system: Kueue) -> str:
    """The token of an ordinary user."""
    return system.embedded.front.access.users.add("alice", namespace="default")


def pod(**metadata: Any) -> dict[str, Any]:
    return made(PODS, "bare", metadata=metadata, spec=pod_spec(command=["true"]))


def sent(system: Kueue, verb: str, path: str, tree: dict[str, Any], token: str, **headers: str) -> Response:
    chosen = {"content-type": "application/json", **headers}
    if token:
        chosen["authorization"] = f"Bearer {token}"
    asked = request(verb, path, json.dumps(tree).encode(), chosen)
    return system.embedded.ask(
        asked if token else system.embedded.asked(verb, path, asked.body, chosen["content-type"])
    )


def told(answer: Response) -> Any:
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


def owner(system: Kueue) -> dict[str, object]:
    if not system.running():
        system.job("real", queue="red")
    uid = system.client.get(JOBS, "real", "default")["metadata"]["uid"]
    return {"apiVersion": "batch/v1", "kind": "Job", "name": "real", "uid": uid, "controller": True}


@pytest.mark.parametrize(
    "metadata", [{"labels": {QUEUE: "red"}}, {"labels": {GROUP: "g"}}, {"annotations": {GROUP: "g"}}]
)
@pytest.mark.parametrize("admin", [True, False])
def test_a_pod_that_asks_for_a_queue_is_refused_for_everyone(
    system: Kueue, alice: str, metadata: dict[str, Any], admin: bool
) -> None:
    answer = sent(system, "POST", PATH, pod(**metadata), "" if admin else alice)
    assert (answer.code, told(answer)["message"]) == (403, SENTENCE)
    assert system.client.list(PODS, "default") == []


def test_a_pod_of_a_user_is_refused(system: Kueue, alice: str) -> None:
    answer = sent(system, "POST", PATH, pod(), alice)
    assert (answer.code, told(answer)["message"]) == (403, SENTENCE)


def test_a_pod_of_an_administrator_is_created_with_a_warning(system: Kueue) -> None:
    answer = sent(system, "POST", PATH, pod(), "")
    assert answer.code == 201
    assert WARNING in [value for name, value in answer.headers if name.lower() == "warning"]


@pytest.mark.parametrize("labels", [{}, {QUEUE: "red"}])
def test_a_pod_that_names_a_job_as_its_owner_is_refused_all_the_same(
    system: Kueue, alice: str, labels: dict[str, str]
) -> None:
    answer = sent(system, "POST", PATH, pod(labels=labels, ownerReferences=[owner(system)]), alice)
    assert answer.code == 403
    answer = sent(system, "POST", PATH, pod(labels={QUEUE: "red"}, ownerReferences=[owner(system)]), "")
    assert (answer.code, told(answer)["message"]) == (403, SENTENCE)


def test_a_pod_is_refused_by_an_apply_too(system: Kueue, alice: str) -> None:
    path, apply = f"{PATH}/bare?fieldManager=me", "application/apply-patch+yaml"
    answer = sent(system, "PATCH", path, pod(), alice, **{"content-type": apply})
    assert answer.code == 403


def test_a_queue_cannot_be_added_to_a_pod_afterwards(system: Kueue) -> None:
    assert sent(system, "POST", PATH, pod(), "").code == 201
    merge, labels = "application/merge-patch+json", {"metadata": {"labels": {QUEUE: "red"}}}
    answer = sent(system, "PATCH", f"{PATH}/bare", labels, "", **{"content-type": merge})
    assert (answer.code, told(answer)["message"]) == (403, SENTENCE)
    other = {"metadata": {"labels": {"team": "red"}}}
    assert sent(system, "PATCH", f"{PATH}/bare", other, "", **{"content-type": merge}).code == 200


def test_the_pods_of_a_job_are_created_whatever_its_template_says(system: Kueue) -> None:
    containers = [{"name": "main", "image": "none"}]
    template = {"metadata": {"labels": {QUEUE: "red"}}, "spec": {"restartPolicy": "Never", "containers": containers}}
    system.job("labelled", queue="red", template=template)
    assert [one["metadata"]["labels"][QUEUE] for one in system.pods("labelled")] == ["red"]
