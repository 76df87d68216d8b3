"""Does the manager stay well whatever it is given? With its webhooks on and off."""

import random
import string
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import builders
from tests.e2e.job import KUEUE
from tests.e2e.team import Queue, Team
from tests.plane.client import WAIT, ApiError, Tree, condition

pytestmark = pytest.mark.ours("what Kueue does with nonsense is its own affair")
GUARDED = pytest.param(id="webhooks on", marks=pytest.mark.manager())
OPEN = pytest.param(id="webhooks off", marks=pytest.mark.manager(webhooks=False))
EITHER = pytest.mark.parametrize((), [GUARDED, OPEN])


def workload(team: Team, name: str, template: object, **more: Any) -> Tree | None:
    """Create a Workload with this pod template; nothing when the API server would not have it."""
    more = {"podSets": [{"name": "main", "count": 1, "template": template}], **more}
    with refused():
        return team.create(builders.workload(name, "main", namespace=team.namespace, **more))
    return None


@contextmanager
def refused() -> Iterator[None]:
    """Whatever the API server or a webhook judges wrong is no concern of the story; another failure is."""
    try:
        yield
    except ApiError as error:
        if error.code not in (400, 403, 413, 422):
            raise


def containers(**resources: object) -> Tree:
    return {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x", "resources": resources}]}}


def is_well(team: Team, queue: Queue) -> None:
    """Check that others are served, and that nothing is written or logged over and over."""
    # Without webhooks nobody else suspends it before its pod runs, and it may end before we see it.
    queue.job("other", cpu="0.1", run="200ms", suspend=True).finishes(timeout=3 * WAIT)
    for _ in range(8):  # what was made is judged first, and then there is peace
        before, logged = versions(team), log_lines(team)
        team.sleep(3)
        after = versions(team)
        if after == before and log_lines(team) - logged <= 6:
            break
    else:
        changed = {name: (before.get(name), after[name]) for name in after if after[name] != before.get(name)}
        raise AssertionError(f"it finds no rest: {changed}\n{team.log_about('')}")
    team.still_well()


def versions(team: Team) -> dict[str, str]:
    return {
        tree["metadata"]["name"]: tree["metadata"]["resourceVersion"]
        for tree in team.client.objects("Workload", team.namespace)
    }


def log_lines(team: Team) -> int:
    """How many lines of the manager's log are about this story."""
    return team.backend.log().count(team.name)


NONSENSE: dict[str, object] = {
    "nothing": {},
    "no-spec": {"metadata": {"labels": {"a": "b"}}},
    "null-spec": {"spec": None},
    "a-text": {"spec": "nonsense"},
    "a-number": {"spec": {"containers": 5}},
    "no-containers": {"spec": {"containers": []}},
    "texts": {"spec": {"containers": ["a", "b"]}},
    "nulls": {"spec": {"containers": [None]}},
    "no-number": containers(requests={"cpu": "plenty"}),
    "a-list": containers(requests=["cpu"]),
    "a-map": containers(requests={"cpu": {"value": 1}}),
    "a-truth": containers(requests={"cpu": True}),
    "negative": containers(requests={"cpu": "-1"}),
    "no-name": containers(requests={"": "1"}),
    "not-covered": containers(requests={"example.com/unheard-of": "1"}),
    "over-its-limit": containers(requests={"cpu": "2"}, limits={"cpu": "1"}),
    "pods-key": containers(requests={"pods": "1"}),
    "tolerations": {"spec": {"containers": [], "tolerations": [{"operator": "Whatever"}, "x", None]}},
    "affinity": {
        "spec": {"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 1}}}
    },
    "overhead": {"spec": {"containers": [], "overhead": {"cpu": "x"}, "runtimeClassName": 7}},
}


@EITHER
def test_malformed_pod_templates(team: Team) -> None:
    queue = team.queue(cpu=1)
    for name, template in NONSENSE.items():
        workload(team, name, template)
    is_well(team, queue)


HUGE = ("9223372036854775807", "9223372036854775808", "1e30", "99999999999999999999E", "1e-30", "0.0000000000000001n")


@EITHER
def test_quantities_that_overflow(team: Team) -> None:
    queue = team.queue(cpu="4")
    for number, amount in enumerate(HUGE):
        workload(team, f"huge-{number}", containers(requests={"cpu": amount}))
        with_many = {"name": "main", "count": 2_000_000_000, "template": containers(requests={"cpu": amount})}
        workload(team, f"many-{number}", {}, podSets=[with_many])
        with refused():
            flavors = {team.own("default"): {"cpu": {"nominalQuota": amount, "borrowingLimit": amount}}}
            team.cluster_queue(f"huge-{number}", flavors, cohortName=team.own("huge"))
    is_well(team, queue)


@EITHER
def test_objects_of_a_megabyte(team: Team) -> None:
    queue = team.queue(cpu=2)
    big = queue.job("big", cpu=1, template=large_template("x" * 900_000))
    big.runs()
    plain = containers(requests={"cpu": "0.1"})
    plain["spec"]["containers"][0]["env"] = [{"name": f"E{number}", "value": "y" * 1000} for number in range(900)]
    workload(team, "wide", plain)
    workload(team, "annotated", containers(requests={"cpu": "0.1"}), metadata={"annotations": {"a": "z" * 250_000}})
    is_well(team, queue)
    big.ends()
    big.finishes()


def large_template(text: str) -> Tree:
    return {
        "containers": [
            {
                "name": "main",
                "image": "example.com/none",
                "env": [{"name": "BIG", "value": text}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ]
    }


@EITHER
def test_cohorts_in_a_circle(team: Team) -> None:
    queue = team.queue(cpu=1)
    a, b, c = (team.own(name) for name in "abc")
    team.cohort("a", parentName=b)
    team.cohort("b", parentName=c)
    team.cohort("c", parentName=a)
    team.cohort("self", parentName=team.own("self"))
    team.shared_flavor()
    for name, cohort in (("in-circle", a), ("in-self", team.own("self"))):
        team.local_queue(name, team.cluster_queue(name, {team.own("default"): {"cpu": 2}}, cohortName=cohort))
    stuck = team.job("stuck", "in-circle")
    stuck.workload()
    stuck.never_runs(1)
    is_well(team, queue)
    team.client.patch("Cohort", c, {"spec": {"parentName": None}})
    stuck.runs()


@EITHER
def test_odd_characters(team: Team) -> None:
    queue = team.queue(cpu=1)
    odd = "a\u0085b\u2028c\x0bd\u0000".replace("\u0000", "") + "\ud7ff\U0001f600"
    job = queue.job("odd", cpu="0.5", annotations={"odd": odd}, template={"hostname": "x"})
    job.runs()
    assert job.tree()["metadata"]["annotations"]["odd"] == odd
    workload(team, "odd", containers(requests={"cpu": "0.1"}), metadata={"annotations": {"odd": odd * 100}})
    is_well(team, queue)
    job.ends()
    job.finishes()


@EITHER
def test_very_many_pod_set_names(team: Team) -> None:
    queue = team.queue(cpu=1)
    rng = random.Random(1)
    template = containers(requests={"cpu": "1"})
    for number in range(70):
        names = ["".join(rng.choices(string.ascii_lowercase, k=60)) for _ in range(18)]
        sets = [{"name": name, "count": 1, "template": template} for name in names]
        for chunk in (sets, sets[:8]):
            if workload(team, f"many-{number}-{len(chunk)}", {}, podSets=chunk):
                break
    assert team.client.objects("Workload", team.namespace)
    is_well(team, queue)


@EITHER
def test_objects_deleted_while_they_are_worked_on(team: Team) -> None:
    queue = team.queue(cpu=5)
    team.cohort("all", parentName=team.own("none"))
    for number in range(15):
        job = queue.job(f"brief-{number}", cpu=1, run="100ms")
        if number % 3 == 0:
            team.client.delete("Job", job.name, team.namespace)
        elif number % 3 == 1:
            found = job.find_workload()
            if found:
                team.client.delete("Workload", found["metadata"]["name"], team.namespace)
                team.client.delete("Job", job.name, team.namespace, "Foreground")
        name = f"passing-{number}"
        team.shared_flavor()
        team.cluster_queue(name, {team.own("default"): {"cpu": 1}}, cohortName=team.own("all"))
        team.local_queue(name, team.own(name))
        team.job(f"in-{name}", name, cpu=1)
        team.client.delete("ClusterQueue", team.own(name))
        team.client.delete("LocalQueue", name, team.namespace)
    team.client.delete("Cohort", team.own("all"))
    for tree in team.client.objects("Job", team.namespace):
        team.client.delete("Job", tree["metadata"]["name"], team.namespace)
    queue.uses(reserved=0, used=0)
    is_well(team, queue)


def test_a_namespace_deleted_under_its_jobs(team: Team) -> None:
    queue = team.queue(cpu=4)
    other = team.new_namespace(team.own("gone"))
    team.create(
        {
            "apiVersion": KUEUE,
            "kind": "LocalQueue",
            "metadata": {"name": "main", "namespace": other},
            "spec": {"clusterQueue": queue.cluster_queue},
        }
    )
    jobs = [team.job(f"job-{number}", "main", namespace=other, cpu=1) for number in range(6)]
    team.eventually(lambda: sum(not job.tree()["spec"].get("suspend") for job in jobs) == 4, "four run")
    team.client.delete("Namespace", other)
    team.client.wait_gone("Namespace", other, timeout=60)
    queue.uses(reserved=0, used=0)
    is_well(team, queue)


def test_a_job_with_nonsense_in_every_label_and_annotation_of_ours(team: Team) -> None:
    queue = team.queue(cpu=1)
    names = (
        "max-exec-time-seconds",
        "priority-class",
        "prebuilt-workload-name",
        "job-min-parallelism",
        "job-completions-equal-parallelism",
        "admission-gated-by",
        "stopping",
        "elastic-job",
        "priority-boost",
    )
    for number, name in enumerate(names):
        for value in ("nonsense", "-1", "", "99999999999999999999"):
            with refused():
                team.job(
                    f"job-{number}-{len(value)}",
                    "main",
                    labels={f"kueue.x-k8s.io/{name}": value},
                    annotations={f"kueue.x-k8s.io/{name}": value},
                )
    team.client.request("DELETE", f"/apis/batch/v1/namespaces/{team.namespace}/jobs?propagationPolicy=Background")
    is_well(team, queue)


ROLE = "kueue-manager-role"


def without(role: Tree, resource: str) -> Tree:
    """A role that grants all but what it says of one kind."""
    rules = [
        {**rule, "resources": [one for one in rule["resources"] if one.partition("/")[0] != resource]}
        for rule in role["rules"]
        if "resources" in rule
    ]
    return {**role, "rules": [rule for rule in rules if rule["resources"]]}


@pytest.mark.plane("roles are those of a real API server; here the manager is part of the system")
@pytest.mark.manager(none=True, alone=True)
@pytest.mark.parametrize(
    ("resource", "verb"),
    [
        pytest.param("limitranges", "watch", id="limit ranges"),
        pytest.param("runtimeclasses", "watch", id="runtime classes"),
        pytest.param("events", "create", id="events"),
        pytest.param("admissionchecks", "watch", id="admission checks"),
    ],
)
def test_a_kind_that_it_may_not_touch_is_reported_and_the_rest_goes_on(team: Team, resource: str, verb: str) -> None:
    role = team.get("ClusterRole", ROLE)
    del role["metadata"]["managedFields"]
    team.client.replace(
        {**without(role, resource), "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    )
    try:
        with team.cluster.watched(team.cluster.site.ours()) as manager:
            job = team.queue(cpu=1).job("one")
            job.runs(timeout=30)
            team.eventually(
                lambda: any(resource in line and verb in line for line in manager.logged().splitlines()),
                f"a line that says {verb} {resource}",
            )
            before = manager.cpu_seconds()
            team.sleep(4)
            assert manager.alive()
            assert manager.cpu_seconds() - before <= 1
            manager.stop()
    finally:
        team.client.patch("ClusterRole", ROLE, {"rules": role["rules"]})


@pytest.mark.plane("it is about the processor time of a process of its own")
@pytest.mark.manager(alone=True)
def test_it_rests_when_there_is_nothing_to_do(team: Team) -> None:
    queue = team.queue(cpu=1)
    for name, template in NONSENSE.items():
        workload(team, name, template)
    for number in range(20):
        queue.job(f"job-{number}", cpu="0.5")
    team.sleep(3)
    before = cpu(team)
    team.sleep(5)
    # A renewed lease, and what informers keep alive.
    assert cpu(team) - before <= 0.3
    assert (
        sum(
            condition(tree, "Admitted").get("status") == "True"
            for tree in team.client.objects("Workload", team.namespace)
        )
        >= 2
    )


def cpu(team: Team) -> float:
    fields = Path(f"/proc/{team.cluster.given.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
