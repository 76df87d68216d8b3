"""Does `pykueue status` show how things stand?"""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pykueue.api.jobsummary import JobState, JobSummary
from pykueue.api.names import WorkloadCondition
from pykueue.bridge.sentences import condition as condition_of
from pykueue.cli.amounts import readable
from pykueue.cli.follow.reasons import Preemptors
from pykueue.cli.jobend import end_of
from pykueue.cli.jobs.cluster import listed
from pykueue.cli.queues import state
from pykueue.cli.queues.state import (
    FailingJob,
    PendingWorkload,
    Queue,
    RetryingJob,
    ServerState,
    capacity_text,
    queue_of,
    read_state,
    shown,
)
from pykueue.testing.kueue import Kueue
from tests.cli.clusters import asked
from tests.fakes.tinyapi import in_background, status

GI = 2**30
QUEUES = Path(__file__).resolve().parents[3] / "examples/testing/queues.yaml"


def condition(kind: str, status: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "message": message}


def test_a_queue_shows_what_it_owns_and_uses() -> None:
    quotas = [{"name": "cpu", "nominalQuota": "1500m"}, {"name": "memory", "nominalQuota": "2Gi"}]
    flavors = [{"name": "a", "resources": quotas}, {"name": "b", "resources": quotas[:1]}]
    tree = {
        "metadata": {"name": "q"},
        "spec": {"cohortName": "c", "resourceGroups": [{"flavors": flavors}]},
        "status": {
            "flavorsReservation": [{"name": "a", "resources": [{"name": "cpu", "total": "2"}]}],
            "reservingWorkloads": 3,
            "pendingWorkloads": 1,
            "conditions": [condition("Active", "False", "the flavor is missing")],
        },
    }
    assert queue_of(tree) == Queue(
        "q", "c", {"cpu": 3000, "memory": 2 * GI}, {"cpu": 2000}, 3, 1, "the flavor is missing"
    )
    assert queue_of({"metadata": {"name": "new"}}) == Queue("new", "", {}, {}, 0, 0)


def test_what_waits_and_what_fails_is_as_in_the_list_of_jobs(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    jobs = [
        JobSummary("default", "a", JobState.PENDING, queue="red", reason="needs 1 more cpu"),
        JobSummary("default", "b", JobState.HELD, queue="red", reason="held"),
        JobSummary("default", "c", JobState.FAILING, queue="red", reason="no such image"),
        JobSummary("default", "d", JobState.RUNNING, queue="red"),
        JobSummary("default", "e", JobState.HELD, reason="it is suspended and names no queue"),
    ]
    found = kueue.embedded.call(read_state(kueue.embedded.kube, "default", jobs))
    assert found.pending_workloads == (
        PendingWorkload("default/a", "red", "needs 1 more cpu"),
        PendingWorkload("default/b", "red", "held"),
    )
    assert found.failing == (FailingJob("default/c", "red", "no such image"),)


def test_a_user_with_few_rights_sees_his_queues_and_what_is_left_out(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response | None:
        kind = request.path.rpartition("/")[2]
        if kind in ("nodes", "clusterqueues") or (kind != "version" and "/namespaces/" not in request.path):
            return status(403, "Forbidden", f'{kind} is forbidden: User "ann" cannot list resource "{kind}"')
        return None

    door = {
        "metadata": {"name": "main", "namespace": "default"},
        "spec": {"clusterQueue": "big"},
        "status": {
            "pendingWorkloads": 1,
            "reservingWorkloads": 2,
            "flavorsReservation": [{"name": "a", "resources": [{"name": "cpu", "total": "2"}]}],
        },
    }
    with in_background() as api:
        api.accident = answer
        api.objects["localqueues"] = {"default/main": door}
        done = asked(api, tmp_path, "status")
    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.stdout.splitlines()[2:]] == [
        ["QUEUE", "COHORT", "RUNNING", "PENDING"],
        ["main", "-", "2", "1"],
    ]
    notes = [line.partition(": ")[2].partition(":")[0] for line in done.stderr.splitlines()]
    assert notes == ["the machine is omitted", "quotas are omitted", "only namespace default is shown"]


def test_a_preemptor_that_is_gone_is_named_by_the_event(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("victim", queue="red", cpu=6)
    kueue.job("owner", queue="blue", cpu=4)
    workload = kueue.workload("victim")
    told = condition_of(workload, WorkloadCondition.EVICTED)
    assert "UID: " in str(told["message"])
    name = kueue.workload("owner")["metadata"]["name"]
    words = f"preempted for Job owner (Workload {name}), which took back what blue owns"
    preemptors = Preemptors(kueue.embedded.kube, kueue.embedded.clock)
    assert kueue.embedded.call(preemptors.said(told, workload)) == words
    kueue.delete("owner")
    assert kueue.embedded.call(preemptors.said(told, workload)) == words
    later = {**told, "lastTransitionTime": "2099-01-01T00:00:00Z"}
    unnamed = "preempted for another workload of blue, which took back what blue owns"
    assert kueue.embedded.call(preemptors.said(later, workload)) == unnamed


def test_a_job_between_two_attempts_says_when_the_next_one_starts(
    kueue: Kueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    kueue.apply(QUEUES)
    kueue.job("flaky", queue="red", backoffLimit=2)
    monkeypatch.setattr(state, "SystemClock", lambda: kueue.embedded.clock)

    def said() -> list[str]:
        jobs, _ = kueue.embedded.call(listed(kueue.embedded.kube, "default", ""))
        found = kueue.embedded.call(read_state(kueue.embedded.kube, "default", jobs.summaries()))
        return [f"{one.job} in {one.queue}: {one.why}" for one in found.retrying]

    def seconds(attempt: str) -> int:
        (words,) = said()
        begin = f"default/flaky in red: {attempt}; the next one starts in "
        assert words.startswith(begin)
        return int(words.removeprefix(begin).removesuffix(" s"))

    assert said() == []
    kueue.fail("flaky", exit_code=3)
    left = seconds("attempt 1 of 3 failed with exit code 3")
    assert 5 < left <= 10
    kueue.advance("4s")
    assert seconds("attempt 1 of 3 failed with exit code 3") == left - 4
    kueue.advance("10s")
    assert said() == []
    kueue.fail("flaky", exit_code=4)
    assert 10 < seconds("attempt 2 of 3 failed with exit code 4") <= 20


def test_what_waits_between_attempts_is_shown() -> None:
    retrying = tuple(RetryingJob(f"d/{number}", "a", "attempt 1 of 2 failed") for number in range(21))
    lines = list(shown(ServerState("", "", (Queue("a", "", {}, {}, 21, 0),), (), retrying=retrying)))
    assert lines[-22:-20] == ["waiting before the next attempt:", "  d/0 in a: attempt 1 of 2 failed"]
    assert lines[-1] == "  and 1 more"


def test_everything_is_shown() -> None:
    queues = (
        Queue("a", "lab", {"cpu": 2000, "memory": 8 * GI}, {"cpu": 1500}, 2, 1),
        Queue("b", "", {"cpu": 500}, {}, 0, 0, "is stopped"),
    )
    lines = list(
        shown(ServerState("4 cpu", "rlimits", queues, (PendingWorkload("default/x", "a", "insufficient quota"),)))
    )
    assert lines == [
        "machine: 4 cpu",
        "limits: rlimits",
        "",
        "QUEUE  COHORT      CPU  MEMORY  RUNNING  PENDING",
        "a      lab     1500m/2   0/8Gi        2        1",
        "b      -        0/500m       -        0        0",
        "b is inactive: is stopped",
        "",
        "pending, oldest first:",
        "  default/x in a: insufficient quota",
    ]


def test_without_queues_it_says_how_to_get_some() -> None:
    assert "pykueue queue add NAME --share 50%" in list(shown(ServerState("", "", (), ())))[-1]


def test_a_cluster_has_the_sum_of_its_nodes_and_queues_of_its_own() -> None:
    nodes = [{"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "gpu": one}}} for one in "12"]
    assert capacity_text(nodes, cluster=True) == "2 nodes, 8 cpu, 16Gi memory, 3 gpu"
    assert capacity_text(nodes[:1], cluster=True) == "1 node, 4 cpu, 8Gi memory, 1 gpu"
    assert capacity_text(nodes[:1], cluster=False) == "4 cpu, 8Gi memory, 1 gpu"
    lines = list(shown(ServerState("2 nodes, 8 cpu", "", (), (), cluster=True)))
    assert lines[0] == "cluster: 2 nodes, 8 cpu"
    assert "pykueue create clusterqueue NAME" in lines[-1]


def test_status_knows_a_cluster_by_the_jobs_that_it_does_not_list(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response | None:
        return status(404, "NotFound") if request.path.startswith("/apis/pykueue.io/") else None

    with in_background() as api:
        api.accident = answer
        api.objects["nodes"] = {
            name: {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4"}}} for name in "ab"
        }
        done = asked(api, tmp_path, "status")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1] == "cluster: 2 nodes, 8 cpu"
    assert "pykueue create clusterqueue NAME" in done.stdout


def test_a_long_line_of_waiters_is_cut() -> None:
    many = tuple(PendingWorkload(f"d/{number}", "a", "no room") for number in range(25))
    lines = list(shown(ServerState("", "", (Queue("a", "", {}, {}, 0, 25),), many)))
    assert lines[-1] == "  and 5 more"


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("memory", int(23.54 * GI), "23.5Gi"),
        ("memory", 64 * GI, "64Gi"),
        ("memory", 100, "100"),
        ("cpu", 1500, "1500m"),
    ],
)
def test_amounts_are_readable(name: str, amount: int, text: str) -> None:
    assert readable(name, amount) == text


@pytest.mark.parametrize(
    ("conditions", "end"),
    [
        pytest.param([], None, id="it goes on"),
        pytest.param([condition("Suspended", "True")], None, id="it waits"),
        pytest.param([condition("Complete", "True")], "", id="well"),
        pytest.param([condition("Failed", "True", "too many")], "too many", id="badly"),
        pytest.param([condition("Failed", "False", "too many")], None, id="not badly"),
    ],
)
def test_the_end_of_a_job_is_seen(conditions: list[Any], end: str | None) -> None:
    assert end_of({"status": {"conditions": conditions}}) == end
