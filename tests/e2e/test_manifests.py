"""Do a team's own manifests and habits work: older versions, `kubectl apply`, `kubectl get`?"""

from tests.e2e.team import Team
from tests.plane.client import condition

OLDER = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {{name: {name}-flavor}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {{name: {name}-high}}
value: 1000
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {{name: {name}-queue}}
spec:
  cohort: {name}-cohort
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority}}
  flavorFungibility: {{whenCanBorrow: Borrow, whenCanPreempt: TryNextFlavor}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: {name}-flavor
      resources:
      - {{name: cpu, nominalQuota: 2}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {{name: team-queue, namespace: {name}}}
spec: {{clusterQueue: {name}-queue}}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  generateName: sample-job-
  namespace: {name}
  labels: {{kueue.x-k8s.io/queue-name: team-queue, kueue.x-k8s.io/priority-class: {name}-high}}
spec:
  parallelism: 2
  completions: 2
  suspend: true
  template:
    metadata: {{annotations: {{e2e.pykueue.io/run-for: 500ms}}}}
    spec:
      restartPolicy: Never
      containers:
      - {{name: c, image: example.com/none, resources: {{requests: {{cpu: 1}}}}}}
"""


def test_manifests_of_the_older_version_work_from_apply_to_the_end_of_a_job(team: Team) -> None:
    for _ in range(2):  # the second time nothing changes
        team.kubectl("apply", "-f", "-", stdin=OLDER.format(name=team.name))
    for kind, name in (("ClusterQueue", "queue"), ("ResourceFlavor", "flavor"), ("WorkloadPriorityClass", "high")):
        team.made.append((kind, team.own(name), ""))
    assert team.get("ClusterQueue", team.own("queue"))["spec"]["cohortName"] == team.own("cohort")
    made = team.kubectl("create", "-o", "name", "-f", "-", stdin=JOB.format(name=team.name)).strip()
    team.kubectl("wait", "-n", team.name, "--for=condition=complete", "--timeout=30s", made)
    (older,) = team.client.request("GET", f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{team.name}/workloads")["items"]
    assert older["spec"]["priorityClassName"] == team.own("high")
    assert older["spec"]["priorityClassSource"] == "kueue.x-k8s.io/workloadpriorityclass"
    assert condition(older, "Admitted")["status"] == "True"


def table(text: str) -> list[dict[str, str]]:
    """Rows as kubectl prints them, by column; columns stand three blanks apart at least."""
    head, *rows = text.splitlines()
    names = [name for name in head.split("   ") if name.strip()]
    starts = [head.index(name.strip()) for name in names]
    ends = [*starts[1:], None]
    return [
        {name.strip(): row[start:end].strip() for name, start, end in zip(names, starts, ends, strict=True)}
        for row in rows
    ]


def test_kubectl_get_shows_what_people_look_for(team: Team) -> None:
    queue = team.queue(cpu=1, cohortName=team.own("all"))
    value = team.priority("high", 7)
    running = queue.job("running")
    running.runs()
    waiting = queue.job("waiting")
    waiting.waits("WaitingForQuota")
    queue.has_status(pendingWorkloads=1, admittedWorkloads=1)
    queue.local_has_status(pendingWorkloads=1, admittedWorkloads=1)
    kubectl = team.kubectl

    (shown,) = table(kubectl("get", "cq", queue.cluster_queue))
    assert shown == {"NAME": queue.cluster_queue, "COHORT": team.own("all"), "PENDING WORKLOADS": "1"}
    (shown,) = table(kubectl("get", "cq", queue.cluster_queue, "-o", "wide"))
    assert (shown["STRATEGY"], shown["ADMITTED WORKLOADS"]) == ("BestEffortFIFO", "1")
    (shown,) = table(kubectl("get", "queue", "-n", team.name))
    assert shown == {
        "NAME": "main",
        "CLUSTERQUEUE": queue.cluster_queue,
        "PENDING WORKLOADS": "1",
        "ADMITTED WORKLOADS": "1",
    }
    rows = {row["NAME"]: row for row in table(kubectl("get", "kwl", "-n", team.name))}
    row = rows[running.workload_name]
    assert (row["QUEUE"], row["RESERVED IN"], row["ADMITTED"], row["FINISHED"]) == (
        "main",
        queue.cluster_queue,
        "True",
        "",
    )
    row = rows[waiting.workload_name]
    assert (row["QUEUE"], row["RESERVED IN"], row["ADMITTED"]) == ("main", "", "False")
    assert set(row) == {"NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "AGE"}
    (shown,) = table(kubectl("get", "wpc", value))
    assert shown == {"NAME": value, "VALUE": "7"}
    (shown,) = table(kubectl("get", "flavor", team.own("default")))
    assert set(shown) == {"NAME", "AGE"}
    running.ends()
    running.finishes()
    rows = {row["NAME"]: row for row in table(kubectl("get", "kwl", "-n", team.name))}
    assert rows[running.workload_name]["FINISHED"] == "True"


def test_kubectl_apply_of_a_queue_keeps_what_the_manager_wrote(team: Team) -> None:
    team.kubectl("apply", "-f", "-", stdin=OLDER.format(name=team.name))
    for kind, name in (("ClusterQueue", "queue"), ("ResourceFlavor", "flavor"), ("WorkloadPriorityClass", "high")):
        team.made.append((kind, team.own(name), ""))
    job = team.job("one", "team-queue", cpu=2)
    job.runs()
    more = OLDER.format(name=team.name).replace("nominalQuota: 2", "nominalQuota: 3")
    team.kubectl("apply", "-f", "-", stdin=more)
    team.job("two", "team-queue", cpu=1).runs()
    job.stays(0.5)
    tree = team.get("ClusterQueue", team.own("queue"))
    assert "kueue.x-k8s.io/resource-in-use" in tree["metadata"]["finalizers"]
    assert condition(tree, "Active")["status"] == "True"
