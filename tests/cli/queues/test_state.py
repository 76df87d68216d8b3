"""Does `pykueue status` show how things stand?"""

from pathlib import Path
from typing import Any

import pytest

from pykueue.api.names import WorkloadCondition
from pykueue.bridge.sentences import condition as condition_of
from pykueue.cli.amounts import readable
from pykueue.cli.follow.jobend import end_of
from pykueue.cli.follow.reasons import Preemptors
from pykueue.cli.queues.state import (
    DEPENDENT,
    PendingWorkload,
    Queue,
    RetryingJob,
    ServerState,
    counted,
    is_crowded,
    pending_workload,
    queue_of,
    read_state,
    retrying_jobs,
    shown,
)
from pykueue.jobs.dependencies import GATED
from pykueue.kube.port import JOBS, LOCAL_QUEUES
from pykueue.testing.kueue import Kueue

GI = 2**30
QUEUES = Path(__file__).resolve().parents[3] / "examples/testing/queues.yaml"
ASSIGN = "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default,"
MOST = "current podset request (9) > maximum capacity (4)"


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


def test_jobs_that_are_listed_as_pending_are_counted() -> None:
    queues = [Queue("left", "", {}, {}, 0, 0), Queue("right", "", {}, {}, 0, 5)]
    pending = [PendingWorkload("lab/a", "gpu", "held"), PendingWorkload("lab/b", "cpu", "why")]
    found = counted(queues, pending, {("lab", "gpu"): "left", ("lab", "cpu"): "right"})
    assert [one.waiting for one in found] == [1, 5]


@pytest.mark.parametrize(
    ("conditions", "why"),
    [
        pytest.param([], "not considered yet", id="new"),
        pytest.param([condition("QuotaReserved", "False", "too much")], "too much", id="no quota"),
        pytest.param(
            [condition("QuotaReserved", "False", f"{ASSIGN} previously considered podsets requests (0) + {MOST}")],
            "can never start: asks for 9 cpu, this queue can have 4 at most",
            id="more than there can be",
        ),
        pytest.param([condition("QuotaReserved", "False", GATED)], DEPENDENT, id="other jobs"),
        pytest.param(
            [condition("QuotaReserved", "True")], "quota is reserved; waiting for admission checks", id="checks"
        ),
        pytest.param([condition("QuotaReserved", "True"), condition("Admitted", "True")], None, id="admitted"),
        pytest.param([condition("Finished", "True")], None, id="over"),
    ],
)
def test_who_waits_is_told_from_who_does_not(conditions: list[dict[str, str]], why: str | None) -> None:
    owner = {"kind": "Job", "name": "train", "controller": True}
    tree: dict[str, Any] = {
        "metadata": {"name": "job-train-1a2b3", "namespace": "lab", "ownerReferences": [owner]},
        "spec": {"queueName": "gpu"},
        "status": {"conditions": conditions},
    }
    assert pending_workload(tree) == (None if why is None else PendingWorkload("lab/train", "gpu", why))


def test_who_has_quota_says_what_its_checks_say() -> None:
    checks = [
        {"name": "budget", "state": "Ready", "message": "paid"},
        {"name": "capacity", "state": "Pending", "message": "ETA 5 min"},
        {"name": "licence", "state": "Pending", "message": ""},
    ]
    tree = {
        "metadata": {"name": "w", "namespace": "lab"},
        "spec": {"queueName": "gpu"},
        "status": {"conditions": [condition("QuotaReserved", "True")], "admissionChecks": checks},
    }
    why = "waiting for admission checks: capacity: ETA 5 min; licence: Pending"
    assert pending_workload(tree) == PendingWorkload("lab/w", "gpu", why)


@pytest.mark.parametrize(
    ("pending", "reserving", "admitted", "crowded"),
    [
        pytest.param(1, 0, 0, True, id="waits for quota"),
        pytest.param(0, 2, 1, True, id="waits for checks"),
        pytest.param(0, 2, 2, False, id="does not wait"),
    ],
)
def test_a_queue_is_looked_into_where_somebody(pending: int, reserving: int, admitted: int, crowded: bool) -> None:
    counts = {"pendingWorkloads": pending, "reservingWorkloads": reserving, "admittedWorkloads": admitted}
    assert is_crowded({"status": counts}) is crowded


def test_where_one_object_tells_no_more_than_is_written_an_equal_one_does(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("runs", queue="red", cpu=8)
    kueue.job("judged", queue="red", cpu=8)
    judged = kueue.client.get(JOBS, "judged", "default")
    metadata = {"name": "equal", "labels": judged["metadata"]["labels"]}
    spec = {"template": judged["spec"]["template"]}
    del spec["template"]["metadata"]
    kueue.client.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}, "default")
    # The controllers' own way to the API shows what is stored, as an API server of a cluster does.
    found = kueue.embedded.call(read_state(kueue.embedded.kube, "default")).pending_workloads
    assert not condition_of(kueue.workload("equal"), WorkloadCondition.QUOTA_RESERVED)
    assert {one.job: one.why for one in found} == {
        f"default/{name}": "couldn't assign flavors to pod set main: "
        "insufficient unused quota for cpu in flavor default, 8 more needed"
        for name in ("judged", "equal")
    }


def test_who_has_just_come_is_shown_before_the_status_of_its_queue_is_written(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "9"}}}
    metadata = {"name": "huge", "labels": {"kueue.x-k8s.io/queue-name": "red"}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    kueue.client.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}, "default")
    (door,) = [one for one in kueue.client.list(LOCAL_QUEUES) if one["metadata"]["name"] == "red"]
    assert not is_crowded(door)
    assert [one.job for one in kueue.embedded.call(read_state(kueue.embedded.kube, "default")).pending_workloads] == [
        "default/huge"
    ]


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


def test_a_job_between_two_attempts_says_when_the_next_one_starts(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("flaky", queue="red", backoffLimit=2)
    doors = {("default", "red"): "red"}

    def said() -> list[str]:
        found = kueue.embedded.call(retrying_jobs(kueue.embedded.kube, "default", doors, kueue.now))
        return [f"{one.job} in {one.queue}: {one.why}" for one in found]

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
