"""Is a name found whatever it names, and is something said where the server does not answer?"""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from pykueue.api.core import Tree
from pykueue.apiserver.wire.messages import request
from pykueue.cli.explain import answer
from pykueue.cli.explain import subject as subjects
from pykueue.cli.explain.answer import UNSERVED, Explained, ended, explained
from pykueue.cli.explain.subject import Subject, SubjectError, parsed, subject
from pykueue.kube.client.answers import error_of, status_of
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    DeniedError,
    KubeError,
    NotFoundError,
    UnansweredError,
)
from pykueue.testing.kueue import Kueue
from tests.builders import cluster_queue, job, local_queue, pod_spec

FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}


class Server:
    """The embedded server as a command reaches it, or one that refuses."""

    def __init__(self, kueue: Kueue, refusal: KubeError | None = None, *, hides: tuple[str, ...] = ()) -> None:
        self.embedded = kueue.embedded
        self.refusal = refusal
        self.hides = hides
        """Plurals that this user may not read."""

    def pages(self, resource: Any, *args: Any, **keywords: Any) -> Any:
        self.check(resource)
        return self.embedded.kube.pages(resource, *args, **keywords)

    async def get(self, resource: Any, name: str, namespace: str = "") -> bytes:
        self.check(resource)
        return await self.embedded.kube.get(resource, name, namespace)

    def check(self, resource: Any) -> None:
        if resource.plural in self.hides:
            raise DeniedError("get", 403, "Forbidden", f"you may not read {resource.plural}")

    async def call(self, call: Call) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        headers = {"authorization": f"Bearer {self.embedded.token}"}
        answer = await self.embedded.front.answer(request("GET", call.path, b"", headers))
        assert isinstance(answer.body, bytes)
        if answer.code >= 300:
            raise error_of(call.what, answer.code, status_of(answer.code, answer.body))
        return answer.body


@pytest.fixture
def lab(kueue: Kueue) -> Kueue:
    kueue.apply(FLAVOR, cluster_queue(cpu="4"), local_queue(), local_queue("second"), cluster_queue("alone"))
    kueue.job("runs", queue="main", cpu=4)
    kueue.job("waits", queue="main", cpu=3)
    return kueue


def named(kueue: Kueue, word: str, **keywords: Any) -> Subject:
    server = cast("HttpKube", Server(kueue, **keywords))
    return kueue.embedded.call(subject(server, "default", word))


def told(kueue: Kueue, word: str, refusal: KubeError | None = None, **keywords: Any) -> Explained:
    server = cast("HttpKube", Server(kueue, refusal, **keywords))

    async def ask() -> Explained:
        return await explained(server, await subject(server, "default", word))

    return kueue.embedded.call(ask())


def test_a_name_is_that_of_a_job_a_workload_or_a_queue(lab: Kueue) -> None:
    workload = lab.workload("waits")["metadata"]["name"]
    for word in ("waits", "job/waits", "jobs/waits"):
        assert named(lab, word).title == f"Job default/waits (Workload {workload})"
    for word in (workload, f"wl/{workload}"):
        assert named(lab, word).title == f"Workload default/{workload}"
    assert named(lab, "second").title == "LocalQueue default/second"
    assert named(lab, "queue/alone").title == named(lab, "cq/alone").title == "ClusterQueue alone"


def test_a_queue_and_its_cluster_queue_of_the_same_name_are_one_question(lab: Kueue) -> None:
    assert named(lab, "main").title == named(lab, "queue/main").title == "LocalQueue default/main"
    assert named(lab, "clusterqueue/main").title == "ClusterQueue main"


def test_a_name_of_several_things_gets_a_sentence(lab: Kueue) -> None:
    lab.apply(local_queue("alone"))
    lab.job("second", queue="main")
    with pytest.raises(SubjectError, match="'alone' is a LocalQueue and a ClusterQueue; write localqueue/alone") as one:
        named(lab, "alone")
    assert one.value.code == 2
    with pytest.raises(SubjectError, match="'second' is a Job and a LocalQueue; write job/second or localqueue/second"):
        named(lab, "second")


def test_a_name_of_nothing_gets_the_nearest(lab: Kueue) -> None:
    with pytest.raises(SubjectError, match=r"no Job 'wait' in namespace default.*did you mean waits") as one:
        named(lab, "job/wait")
    assert one.value.code == 1
    with pytest.raises(SubjectError, match="no Job, Workload, LocalQueue or ClusterQueue 'zzz'"):
        named(lab, "zzz", hides=(CLUSTER_QUEUES.plural, LOCAL_QUEUES.plural))


@pytest.mark.parametrize("word", ["pod/x", "job/", "a/b/c"])
def test_what_is_no_name_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed(word)
    assert caught.value.code == 2
    assert word in capsys.readouterr().err


def test_the_answer_of_the_server_is_passed_on_whole(lab: Kueue) -> None:
    found = told(lab, "waits")
    assert (found.note, found.told.state) == ("", "Pending")
    assert found.told.tree.text.startswith("waits: needs 3 more cpu in flavor default")
    assert msgspec.json.decode(msgspec.json.encode(found.document))["podSets"][0]["flavors"][0]["missing"] == "3"
    assert told(lab, "main").told.tree.text == "is active; its workloads go to ClusterQueue main"


@pytest.mark.parametrize(
    ("refusal", "note"),
    [
        (NotFoundError("get", 404, "NotFound", "the server could not find the requested resource"), UNSERVED),
        (DeniedError("get", 403, "Forbidden", "no rights"), "you may not use this API: no rights"),
        (UnansweredError("get", 503, "ServiceUnavailable", "does not lead"), "the manager does not respond: does not"),
    ],
)
def test_without_an_answer_the_objects_themselves_tell(lab: Kueue, refusal: KubeError, note: str) -> None:
    found = told(lab, "waits", refusal)
    assert found.note.startswith(note)
    assert found.told.tree.text.startswith("PENDING: ")
    assert "insufficient unused quota for cpu in flavor default, 3 more needed" in found.told.tree.text
    assert "QuotaReserved=False" in found.told.tree.children[0].text
    assert told(lab, "runs", refusal).told.tree.text.startswith("RUNNING")
    queue = told(lab, "main", refusal).told.tree
    assert (queue.text, queue.children[-1].text) == ("is active", "workloads: 1 pending, 1 reserving, 1 admitted")


def test_a_manager_that_is_silent_is_not_waited_for(lab: Kueue, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: object) -> bytes:
        while True:
            await asyncio.sleep(0)

    monkeypatch.setattr(answer, "asked", silent)
    monkeypatch.setattr(answer, "PATIENCE_SECONDS", 0.01)
    found = told(lab, "waits")
    assert found.note == "the manager does not respond; showing the state of the object instead"
    assert found.told.tree.text.startswith("PENDING: ")


def test_credentials_that_are_refused_and_a_silent_server_are_errors(lab: Kueue) -> None:
    for refusal in (DeniedError("get", 401, "Unauthorized", "no"), UnansweredError("get", 0, "Unreachable", "no")):
        with pytest.raises(KubeError):
            told(lab, "waits", refusal)


def test_a_job_without_a_workload_says_why(lab: Kueue) -> None:
    lab.job("odd", queue="main", priority="nonesuch")
    assert told(lab, "odd").told.tree.text == "is not queued: WorkloadPriorityClass nonesuch not found"
    lab.client.create(JOBS, job("free", template={"spec": pod_spec("1")}, suspend=True), "default")
    lab.settle()
    assert "has no queue name" in told(lab, "free").told.tree.text
    assert "or you may not read it" in told(lab, "waits", hides=("workloads",)).told.tree.text


def test_a_job_that_was_deleted_says_what_became_of_it(lab: Kueue, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(_kube: object, namespace: str, name: str) -> str:
        return f"it was cancelled ({namespace}/{name})"

    monkeypatch.setattr(subjects, "of_deleted", gone)
    text = r"no job 'lost' in namespace default: it was cancelled \(default/lost\)"
    for word in ("lost", "job/lost"):
        with pytest.raises(SubjectError, match=text):
            named(lab, word)
    with pytest.raises(SubjectError, match="no LocalQueue or ClusterQueue 'lost'"):
        named(lab, "queue/lost")


@pytest.mark.parametrize(
    ("kind", "reason", "how"),
    [
        ("Complete", "CompletionsReached", "it succeeded"),
        ("Failed", "DeadlineExceeded", "it reached its time limit and was stopped"),
        ("Failed", "BackoffLimitExceeded", "it failed: M"),
    ],
)
def test_a_job_that_has_ended_says_how(kind: str, reason: str, how: str) -> None:
    at = "2026-01-01T00:00:00Z"
    over: Tree = {"type": kind, "status": "True", "reason": reason, "message": "M", "lastTransitionTime": at}
    assert ended({"status": {"conditions": [over]}}) == f"finished at {at}: {how}"
    assert ended({"status": {"conditions": [{**over, "status": "False"}]}}) == ""
