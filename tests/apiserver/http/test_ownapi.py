"""Who sees which jobs, and how much of them?"""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pykueue.api.names import Annotation
from pykueue.apiserver.auth.access import Access
from pykueue.apiserver.http.front import Front
from pykueue.apiserver.wire.messages import request
from pykueue.app import jobboard
from pykueue.jobs import admit_batch, dependencies
from pykueue.testing.kueue import Kueue
from tests.builders import cluster_queue, job, local_queue

OWN = "/apis/pykueue.io/v1alpha1"
FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}
SECRETS = ("s3cret-command", "s3cret-env", "s3cret-label", "s3cret-note")
PUBLIC = {"namespace", "name", "owner", "queue", "requests", "state", "since"}


class Lab:
    """Two users with a namespace each, and a job of each."""

    def __init__(self) -> None:
        self.kueue = Kueue()
        embedded = self.kueue.embedded
        users = embedded.front.access.users
        self.tokens = {"admin": embedded.token}
        for name in ("ann", "bob"):
            self.kueue.namespace(name)
            self.tokens[name] = users.add(name, namespace=name)
        self.kueue.apply(FLAVOR, cluster_queue(cpu="1"), *(local_queue("main", name) for name in ("ann", "bob")))
        self.fronts = {
            wide: Front(
                embedded.local.registry,
                Access(users, everyones_jobs=wide),
                embedded.clock,
                own=embedded.local.own_api,
            )
            for wide in (False, True)
        }

    def ask(self, who: str, target: str, verb: str = "GET", body: Any = None, *, wide: bool = False) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {self.tokens[who]}", "content-type": "application/json"}
        data = b"" if body is None else msgspec.json.encode(body)
        answer = self.kueue.embedded.call(self.fronts[wide].answer(request(verb, target, data, headers)))
        self.kueue.settle()
        assert isinstance(answer.body, bytes)
        return answer.code, msgspec.json.decode(answer.body)

    def submit(self, who: str, name: str) -> None:
        main = {
            "name": "main",
            "image": "none",
            "command": [SECRETS[0]],
            "env": [{"name": "KEY", "value": SECRETS[1]}],
            "resources": {"requests": {"cpu": "1"}},
        }
        tree = job(name, "main", template={"spec": {"restartPolicy": "Never", "containers": [main]}}, backoffLimit=0)
        tree["metadata"]["labels"]["tag"] = SECRETS[2]
        tree["metadata"]["annotations"] = {"note": SECRETS[3]}
        assert self.ask(who, f"/apis/batch/v1/namespaces/{who}/jobs", "POST", tree)[0] == 201


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    yield made
    made.kueue.close()


def names(found: tuple[int, Any]) -> list[str]:
    code, tree = found
    assert code == 200, tree
    return [f"{one['namespace']}/{one['name']}" for one in tree["items"]]


def test_a_user_sees_the_jobs_of_the_own_namespace_only(lab: Lab) -> None:
    lab.submit("ann", "hers")
    lab.submit("bob", "his")
    for plural in ("jobsummaries", "finishedjobs"):
        assert lab.ask("ann", f"{OWN}/{plural}")[0] == 403
        assert lab.ask("ann", f"{OWN}/namespaces/bob/{plural}")[0] == 403
    assert names(lab.ask("ann", f"{OWN}/namespaces/ann/jobsummaries")) == ["ann/hers"]
    assert names(lab.ask("admin", f"{OWN}/jobsummaries")) == ["ann/hers", "bob/his"]


def test_a_job_that_waits_has_its_place_and_its_reason_at_once(lab: Lab) -> None:
    lab.submit("ann", "hers")
    lab.submit("bob", "his")
    lab.submit("bob", "later")
    first, second = lab.ask("bob", f"{OWN}/namespaces/bob/jobsummaries")[1]["items"]
    assert (first["state"], first["place"], first["reason"]) == ("PENDING", 1, "needs 1 more cpu")
    assert second["place"] == 2
    (runs,) = lab.ask("ann", f"{OWN}/namespaces/ann/jobsummaries")[1]["items"]
    assert (runs["state"], runs["owner"], runs["requests"]) == ("RUNNING", "ann", {"cpu": "1"})
    assert "place" not in runs


def test_everyones_jobs_are_shown_if_the_server_is_told_to_and_nothing_leaks(lab: Lab) -> None:
    lab.submit("ann", "hers")
    lab.submit("bob", "his")
    code, tree = lab.ask("bob", f"{OWN}/jobsummaries", wide=True)
    assert code == 200
    hers, his = tree["items"]
    assert set(hers) <= PUBLIC
    assert (hers["name"], hers["owner"], hers["queue"], hers["state"]) == ("hers", "ann", "main", "RUNNING")
    assert his["reason"]
    said = msgspec.json.encode(tree).decode()
    assert not [secret for secret in SECRETS if secret in said]
    assert Annotation.CREATOR not in said
    # A selector would tell the labels of others.
    assert names(lab.ask("bob", f"{OWN}/jobsummaries?labelSelector=tag%3D{SECRETS[2]}", wide=True)) == ["bob/his"]
    assert lab.ask("bob", f"{OWN}/finishedjobs", wide=True)[0] == 403
    assert lab.ask("bob", f"{OWN}/namespaces/ann/finishedjobs", wide=True)[0] == 403


def test_a_selector_finds_jobs_by_their_labels(lab: Lab) -> None:
    lab.submit("ann", "hers")
    where = f"{OWN}/namespaces/ann/jobsummaries?labelSelector="
    assert names(lab.ask("ann", f"{where}tag%3D{SECRETS[2]}")) == ["ann/hers"]
    assert names(lab.ask("ann", f"{where}tag%3Dx")) == []
    assert lab.ask("ann", f"{where}a%3D%3D%3Db")[0] == 400


def test_finished_jobs_go_with_their_namespace(lab: Lab) -> None:
    lab.submit("ann", "one")
    lab.kueue.finish("one", "ann")
    assert names(lab.ask("admin", f"{OWN}/finishedjobs")) == ["ann/one"]
    assert lab.ask("admin", "/api/v1/namespaces/ann", "DELETE")[0] == 200
    lab.kueue.namespace("ann")
    assert names(lab.ask("ann", f"{OWN}/namespaces/ann/finishedjobs")) == []


def test_jobs_that_name_many_others_cost_bounded_work(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"dep{number}" for number in range(12)]
    gates = {"kueue.x-k8s.io/admission-gated-by": "pykueue.io/dependencies"}
    board = lab.kueue.embedded.local.board

    def post(name: str, names: list[str]) -> int:
        tree = job(name, "main")
        tree["metadata"]["annotations"] = {**gates, "pykueue.io/after-ok": ",".join(names)}
        return lab.ask("ann", "/apis/batch/v1/namespaces/ann/jobs", "POST", tree)[0]

    code = post("dep0", [f"n{number}" for number in range(50_000)])
    assert code == 422
    # As from a server of the version before, or while no webhook answered.
    monkeypatch.setattr(admit_batch, "needs_of", lambda annotations: None)
    for name in many:
        assert post(name, [*(f"n{number}" for number in range(30_000)), *many]) == 201
    splits: list[int] = []

    def names_in(text: str) -> tuple[str, ...]:
        splits.append(len(text))
        return original(text)

    original = dependencies.names_in
    monkeypatch.setattr(dependencies, "names_in", names_in)
    before = board.looked_up
    found = lab.ask("ann", f"{OWN}/namespaces/ann/jobsummaries")[1]["items"]
    assert len(found) == 12
    assert all("can never start: pykueue.io/after-ok: longer than" in one["reason"] for one in found)
    assert board.looked_up == before
    assert max(splits, default=0) <= dependencies.TEXT_MAX


def test_a_list_yields_by_the_jobs_that_are_looked_up(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"dep{number}" for number in range(12)]
    for name in many:
        tree = job(name, "main")
        tree["metadata"]["annotations"] = {
            "kueue.x-k8s.io/admission-gated-by": "pykueue.io/dependencies",
            "pykueue.io/after-ok": ",".join([*many, "none"]),
        }
        assert lab.ask("ann", "/apis/batch/v1/namespaces/ann/jobs", "POST", tree)[0] == 201
    monkeypatch.setattr(jobboard, "YIELD_EVERY", 2 * (jobboard.LISTED + len(many) + 1))
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    board = lab.kueue.embedded.local.board
    before = board.looked_up
    with monkeypatch.context() as patch:
        patch.setattr(jobboard, "asyncio", SimpleNamespace(sleep=counted))
        found = lab.kueue.embedded.call(board.list("ann", lambda _: True, None))
    assert len(found) == len(many)
    assert board.looked_up - before == 12 * 13
    assert len(pauses) == 6


def test_finished_jobs_come_in_pages(lab: Lab) -> None:
    for name in ("one", "two", "three"):
        lab.submit("ann", name)
        lab.kueue.finish(name, "ann")
    where = f"{OWN}/namespaces/ann/finishedjobs"
    _, tree = lab.ask("ann", f"{where}?limit=2")
    assert [one["name"] for one in tree["items"]] == ["three", "two"]
    rest = lab.ask("ann", f"{where}?limit=2&continue={tree['metadata']['continue']}")
    assert names(rest) == ["ann/one"]
    assert names(lab.ask("admin", f"{OWN}/finishedjobs")) == ["ann/three", "ann/two", "ann/one"]
    assert lab.ask("ann", f"{where}?continue=x")[0] == 400
    assert lab.ask("ann", f"{OWN}/namespaces/ann/jobsummaries")[1]["items"] == []


def test_it_is_read_only(lab: Lab) -> None:
    for verb, target in (
        ("POST", f"{OWN}/namespaces/ann/finishedjobs"),
        ("DELETE", f"{OWN}/namespaces/ann/finishedjobs"),
        ("GET", f"{OWN}/namespaces/ann/finishedjobs?watch=true"),
        ("GET", f"{OWN}/namespaces/ann/finishedjobs/x"),
    ):
        assert lab.ask("admin", target, verb)[0] == 405, (verb, target)


def test_a_preempted_job_is_recorded_with_what_it_lost(lab: Lab) -> None:
    high = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": "high"},
        "value": 100,
    }
    lab.kueue.apply(high, cluster_queue(cpu="1", preemption={"withinClusterQueue": "LowerPriority"}))
    lab.submit("ann", "low")
    lab.kueue.advance("60s")
    lab.kueue.job("high", queue="main", namespace="ann", priority="high")
    lab.kueue.advance("30s")
    states = {one["name"]: one["state"] for one in lab.ask("ann", f"{OWN}/namespaces/ann/jobsummaries")[1]["items"]}
    assert states == {"low": "PENDING", "high": "RUNNING"}
    lab.kueue.finish("high", "ann")
    lab.kueue.advance("60s")
    lab.kueue.finish("low", "ann")
    lab.kueue.settle()
    low, _ = lab.ask("ann", f"{OWN}/namespaces/ann/finishedjobs")[1]["items"]
    assert (low["name"], low["state"], low["preempted"]) == ("low", "COMPLETED", 1)
    assert 55 <= low["lostSeconds"] <= 75
    assert low["waitedSeconds"] >= 25
