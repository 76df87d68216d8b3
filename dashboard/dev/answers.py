"""What the development server answers to the page's calls: made up, in the shape of the real ones."""

from datetime import timedelta
from typing import Any

from dashboard.dev.world import Row, World, stamp

YAML = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  namespace: {namespace}
  labels:
    kueue.x-k8s.io/queue-name: {queue}
spec:
  parallelism: 1
  template:
    spec:
      containers:
      - name: main
        command: [python, train.py]
        resources:
          requests:
            cpu: "4"
"""


def sentence(code: str, text: str, *children: Row) -> Row:
    """A sentence of an explanation."""
    return {"code": code, "text": text, "children": [*children]}


def workload_tree(job: Row) -> Row:
    """Why a job is where it is."""
    queue = job.get("clusterQueue", "")
    if job["state"] == "RUNNING":
        return sentence(
            "Admitted",
            f"It runs in ClusterQueue {queue}.",
            sentence(
                "Quota",
                "It holds 4 cpu and 16Gi of memory of flavor default.",
                sentence("Borrowed", "2 cpu of that are borrowed from cohort lab."),
            ),
        )
    return sentence(
        "Pending",
        f"It waits in ClusterQueue {queue}: {job.get('reason', '')}.",
        sentence("Place", f"It is number {job.get('place', 1)} of 2 in line; the first that fits starts first."),
        sentence(
            "PodSet",
            "Pod set main (1 pod) fits in no flavor.",
            sentence(
                "Flavor",
                "Flavor default: it asks for 8 cpu, and 3 are free.",
                sentence(
                    "Limit",
                    "8 cpu are its own quota; the borrowing limit allows 8 more, of which the cohort has 1 unused.",
                ),
            ),
            sentence("Flavor", "Flavor a100: it asks for 2 nvidia.com/gpu, and none is free."),
        ),
        sentence(
            "Ways",
            "What would help:",
            sentence("AwaitEnd", "Wait until vision/label-images ends, which declares no time limit."),
            sentence("Shrink", "Ask for 3 cpu or less: it would start now."),
            sentence("Raise", "Raise the nominal quota of cpu in ClusterQueue vision by 5."),
        ),
    )


def queue_explanation(name: str) -> Row:
    """Who holds the quota of a queue."""
    return {
        "clusterQueue": name,
        "tree": sentence(
            "Queue",
            f"ClusterQueue {name} uses 10 of its 8 cpu; 2 are borrowed.",
            sentence("Holders", "3 workloads hold its quota: Job segment-7f2kq, Job label-images, Job augment."),
            sentence("Newcomer", "A new job of 1 cpu would start now."),
        ),
        "borrowers": [{"clusterQueue": "vision", "flavor": "default", "resource": "cpu", "amount": "2"}],
        "lenders": [{"clusterQueue": "speech", "flavor": "default", "resource": "cpu", "amount": "1"}],
    }


def history(world: World, job: Row) -> list[Row]:
    """The life of a job."""
    return [
        {"at": world.ago(11_600), "what": "submitted", "text": f"by {job.get('owner', '')} to LocalQueue main"},
        {"at": world.ago(11_590), "what": "queued", "text": "at place 3 of ClusterQueue vision"},
        {"at": world.ago(9_000), "what": "reserved", "text": "4 cpu of flavor default"},
        {"at": world.ago(8_990), "what": "check", "text": "provisioning is ready"},
        {"at": world.ago(8_900), "what": "started", "text": ""},
        {
            "at": world.ago(4_000),
            "what": "preempted",
            "text": "by Job speech/train-a, which takes back quota of its own ClusterQueue; 1 h 21 min of work lost",
        },
        {"at": world.ago(3_990), "what": "requeued", "text": "at place 1"},
    ]


def objects(world: World, job: Row) -> Row:
    """The Job, its Workload, pods and events."""
    text = YAML.format(name=job["name"], namespace=job["namespace"], queue=job.get("queue", ""))
    running = job["state"] == "RUNNING"
    pods = [{"name": f"{job['name']}-x7k2p", "phase": "Running", "node": "lab-1", "started": job.get("since", "")}]
    return {
        "job": text,
        "workload": text.replace("batch/v1", "kueue.x-k8s.io/v1beta2").replace("kind: Job", "kind: Workload"),
        "pods": pods if running else [],
        "events": [
            {
                "at": world.ago(4_000),
                "type": "Warning",
                "reason": "Preempted",
                "about": "Workload",
                "text": "Preempted to accommodate a workload: reclamation within the cohort",
            },
            {
                "at": world.ago(8_900),
                "type": "Normal",
                "reason": "Started",
                "about": "Workload",
                "text": "Admitted by ClusterQueue vision",
            },
        ],
    }


def estimate(world: World, job: Row) -> Row:
    """When a job starts."""
    earliest, latest = (stamp(world.now + timedelta(minutes=minutes)) for minutes in (40, 135))
    message = (
        f"starts between {earliest[11:16]} and {latest[11:16]} (nine of ten runs); 2 of 4 ahead declare no time limit"
    )
    return {
        "state": "Pending",
        "asked": stamp(world.now),
        "earliest": earliest,
        "latest": latest,
        "median": latest,
        "message": message,
    }


def preview(world: World, sets: list[str]) -> Row:
    """What a change would do."""
    return {
        "at": stamp(world.now),
        "affected": [
            {
                "workload": "vision/job-augment-1a2b3",
                "job": "augment",
                "effect": "Evicted",
                "queue": "vision",
                "place": 1,
                "by": "speech/train-b",
                "clause": "ReclaimWithinCohort",
                "reason": "speech/train-b takes back quota of its ClusterQueue that vision had borrowed",
            },
            {
                "workload": "speech/job-train-b-4c5d6",
                "job": "train-b",
                "effect": "Starts",
                "queue": "speech",
                "flavors": ["default"],
                "placeBefore": 1,
                "reason": "takes 6 cpu of flavor default in ClusterQueue speech",
            },
            {
                "workload": "vision/job-pretrain-large-7e8f9",
                "job": "pretrain-large",
                "effect": "Moves",
                "queue": "vision",
                "place": 2,
                "placeBefore": 1,
            },
        ],
        "hidden": {"Moves": 2},
        "queues": [
            {
                "name": "speech",
                "runningBefore": 1,
                "running": 2,
                "pendingBefore": 2,
                "pending": 1,
                "quotas": [
                    {
                        "flavor": "default",
                        "resource": "cpu",
                        "nominalBefore": "8",
                        "nominal": "12",
                        "usedBefore": "5",
                        "used": "11",
                    }
                ],
            },
            {
                "name": "vision",
                "runningBefore": 3,
                "running": 2,
                "pendingBefore": 2,
                "pending": 3,
                "quotas": [
                    {
                        "flavor": "default",
                        "resource": "cpu",
                        "nominalBefore": "8",
                        "nominal": "8",
                        "usedBefore": "10",
                        "used": "8",
                    }
                ],
            },
        ],
        "notes": [f"of {len(sets)} changes"] if len(sets) > 1 else [],
    }


def diff(sets: list[str]) -> Row:
    """The objects that a change would write."""
    lines = [" spec:", "   resourceGroups:", *(line for one in sets for line in (f"-  # before {one}", f"+  {one}"))]
    return {
        "objects": [
            {"kind": "ClusterQueue", "name": "vision", "namespace": "", "before": "", "after": "", "lines": lines}
        ],
        "seen": {"clusterqueue/vision": "41"},
    }


def found(world: World, query: Any) -> Row | None:
    """The job that a call is about."""
    key = f"{query.get('namespace', '')}/{query.get('name', '')}"
    ended = (row for row in world.finished if f"{row['namespace']}/{row['name']}" == key)
    return world.jobs.get(key) or next(ended, None)
