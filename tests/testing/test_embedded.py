"""Is a whole system in one process, under one clock, what it is on a cluster?"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykueue.api.config.file import ConfigurationError
from pykueue.testing.embedded import Embedded
from tests.builders import job

JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
QUEUE = "kueue.x-k8s.io/queue-name"


@pytest.fixture
def embedded() -> Iterator[Embedded]:
    with Embedded() as made:
        yield made


def get(embedded: Embedded, path: str) -> Any:
    code, body = embedded.request("GET", path)
    assert code == 200, body
    return json.loads(body)


def create(embedded: Embedded, path: str, tree: Any) -> Any:
    code, body = embedded.request("POST", path, json.dumps(tree).encode())
    assert code == 201, body
    return json.loads(body)


def test_it_is_ready_from_the_start(embedded: Embedded) -> None:
    assert embedded.request("GET", "/readyz") == (200, b"ok")
    embedded.failed()


def test_a_job_without_a_queue_is_run_as_by_kubernetes(embedded: Embedded) -> None:
    create(embedded, JOBS, job("plain"))
    embedded.advance(1)
    assert get(embedded, f"{JOBS}/plain")["status"]["active"] == 1
    pods = get(embedded, "/api/v1/namespaces/default/pods")["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Running"]
    assert pods[0]["spec"]["nodeName"] == "node"


def test_a_job_in_a_queue_is_held_back_by_admission(embedded: Embedded) -> None:
    made = create(embedded, JOBS, job("queued", "nowhere"))
    assert made["spec"]["suspend"] is True
    embedded.advance(2)
    (workload,) = get(embedded, WORKLOADS)["items"]
    (reserved,) = [one for one in workload["status"]["conditions"] if one["type"] == "QuotaReserved"]
    assert reserved["message"] == "LocalQueue nowhere doesn't exist"


def test_what_admission_refuses_is_refused_in_its_words(embedded: Embedded) -> None:
    code, body = embedded.request("POST", JOBS, json.dumps(job("bad", "no/queue")).encode())
    assert code in (403, 422)
    assert json.loads(body)["kind"] == "Status"


def test_without_admission_a_job_comes_in_as_it_is() -> None:
    with Embedded(admission=False) as embedded:
        assert create(embedded, JOBS, job("queued", "q"))["spec"]["suspend"] is False


def test_where_nobody_acts_nothing_changes() -> None:
    with Embedded(acting=False) as embedded:
        create(embedded, JOBS, job("plain"))
        embedded.advance(60)
        assert get(embedded, "/api/v1/namespaces/default/pods")["items"] == []


def test_a_watch_tells_what_happens(embedded: Embedded) -> None:
    watching = embedded.watch("/api/v1/namespaces/default/configmaps?watch=1&allowWatchBookmarks=true")
    assert watching.events() == []
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    create(embedded, "/api/v1/namespaces/default/configmaps", body)
    embedded.request("DELETE", "/api/v1/namespaces/default/configmaps/a")
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in watching.events()] == [
        ("ADDED", "a"),
        ("DELETED", "a"),
    ]
    watching.close()


def test_who_has_no_token_is_not_let_in(embedded: Embedded) -> None:
    embedded.token = "another"
    assert embedded.request("GET", JOBS)[0] == 401


def test_another_configuration_takes_over_what_is_there(embedded: Embedded) -> None:
    create(embedded, JOBS, job("before"))
    embedded.advance(1)
    assert get(embedded, WORKLOADS)["items"] == []
    embedded.restart_manager({"manageJobsWithoutQueueName": True})
    embedded.advance(2)
    create(embedded, JOBS, job("after"))
    embedded.advance(2)
    held = {one["metadata"]["name"]: one["spec"].get("suspend") for one in get(embedded, JOBS)["items"]}
    assert held["after"] is True
    embedded.failed()


def test_what_runs_is_measured(embedded: Embedded) -> None:
    assert "kueue_build_info{" in embedded.metrics()
    code, body = embedded.request("GET", "/metrics")
    assert (code, b"kueue_build_info{" in body) == (200, True)


def test_a_wrong_configuration_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="waitForPodsReady"):
        Embedded({"waitForPodsReady": {"timeout": "soon"}})


def story() -> list[str]:
    """Every version of every object that a little story leaves behind."""
    with Embedded() as embedded:
        for name in ("a", "b"):
            create(embedded, JOBS, job(name, "q"))
        create(embedded, JOBS, job("c"))
        embedded.advance(30)
        return [embedded.request("GET", path)[1].decode() for path in (JOBS, WORKLOADS, "/api/v1/pods")]


def test_the_same_story_goes_the_same_way_each_time() -> None:
    assert story() == story()
