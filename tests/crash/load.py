"""What keeps the manager busy? A few queues that share and fight over quota, and a steady stream of Jobs."""

import random
import threading
from http.client import HTTPException
from typing import Any

from tests import builders
from tests.builders import PRIORITY_CLASS, QUEUE_NAME, pod_spec
from tests.plane.client import ApiError, Client, Tree, condition
from tests.plane.stages import PREFIX

NAMESPACES = ("red", "blue")
PRIORITIES = {"low": 0, "mid": 100, "high": 1000}
UNFINISHED = 30
"""How many Jobs are unfinished at any time."""
KUEUE = "kueue.x-k8s.io/v1beta2"

LOWER = "LowerPriority"
CHECK = "capacity"
CHECKED = {"admissionChecks": [{"name": CHECK}]}
QUEUES: dict[str, dict[str, Any]] = {
    "left-a": {
        "cpu": {"default": {"nominalQuota": 4}, "spot": {"nominalQuota": 2}},
        "cohortName": "left",
        "preemption": {"withinClusterQueue": LOWER, "reclaimWithinCohort": "Any"},
    },
    "left-b": {
        "cpu": {"default": {"nominalQuota": 4, "lendingLimit": 2}},
        "cohortName": "left",
        "preemption": {
            "withinClusterQueue": "LowerOrNewerEqualPriority",
            "reclaimWithinCohort": LOWER,
            "borrowWithinCohort": {"policy": LOWER},
        },
    },
    "right-a": {
        "cpu": {"default": {"nominalQuota": 5, "borrowingLimit": 4}},
        "cohortName": "right",
        "preemption": {"withinClusterQueue": LOWER, "reclaimWithinCohort": "Any"},
    },
    "right-b": {
        "cpu": {"default": {"nominalQuota": 3}},
        "cohortName": "right",
        "queueingStrategy": "StrictFIFO",
        "preemption": {"withinClusterQueue": LOWER, "reclaimWithinCohort": LOWER},
    },
    "alone": {"cpu": {"default": {"nominalQuota": 4}}, "preemption": {"withinClusterQueue": LOWER}},
    "right-c": {
        "cpu": {"default": {"nominalQuota": 3}},
        "cohortName": "right",
        "preemption": {"withinClusterQueue": LOWER, "reclaimWithinCohort": "Any"},
        "admissionChecksStrategy": CHECKED,
    },
    "apart": {
        "cpu": {"default": {"nominalQuota": 4}},
        "preemption": {"withinClusterQueue": LOWER},
        "admissionChecksStrategy": CHECKED,
    },
}
COHORTS: dict[str, dict[str, Any]] = {
    "all": {"cpu": {"default": {"nominalQuota": 2}}},
    "left": {"cpu": {"default": {"nominalQuota": 1, "borrowingLimit": 5}}, "parentName": "all"},
    "right": {"cpu": {}, "parentName": "all"},
}


def groups(cpu: dict[str, dict[str, int]]) -> list[Tree]:
    """Resource groups with these quotas of cpu, and more memory than anyone asks for."""
    flavors = [
        {"name": flavor, "resources": [{"name": "cpu", **quota}, {"name": "memory", "nominalQuota": "100Gi"}]}
        for flavor, quota in cpu.items()
    ]
    return [{"coveredResources": ["cpu", "memory"], "flavors": flavors}] if flavors else []


def thing(kind: str, name: str, namespace: str = "", **parts: Any) -> Tree:
    """An object of Kueue's API."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, **parts}


def spec_of(told: dict[str, Any]) -> Tree:
    """The specification of a queue or cohort of the tables above."""
    rest = {key: value for key, value in told.items() if key != "cpu"}
    return {"resourceGroups": groups(told["cpu"]), **rest}


def checking(name: str, class_name: str = "crash.example.com", limit: int = 5) -> list[Tree]:
    """A check that asks for capacity of a class, and asks so often again after a second and more."""
    retries = {"backoffLimitCount": limit, "backoffBaseSeconds": 1, "backoffMaxSeconds": 4}
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name}
    return [
        thing("ProvisioningRequestConfig", name, spec={"provisioningClassName": class_name, "retryStrategy": retries}),
        thing(
            "AdmissionCheck",
            name,
            spec={"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": reference},
        ),
    ]


def furniture() -> list[Tree]:
    """All objects but the Jobs."""
    return [
        *(thing("ResourceFlavor", name) for name in ("default", "spot")),
        *checking(CHECK),
        *(thing("Cohort", name, spec=spec_of(told)) for name, told in COHORTS.items()),
        *(
            thing("ClusterQueue", name, spec={"namespaceSelector": {}, **spec_of(told)})
            for name, told in QUEUES.items()
        ),
        *({**thing("WorkloadPriorityClass", name), "value": value} for name, value in PRIORITIES.items()),
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES),
        *(
            thing("LocalQueue", queue, namespace, spec={"clusterQueue": queue})
            for namespace in NAMESPACES
            for queue in QUEUES
        ),
    ]


def counts(pods: int, rng: random.Random) -> Tree:
    """How much of a Job of so many pods may run at once, and how often it is to succeed.

    Some have more parallelism than completions, so that fewer pods run than the parallelism says.
    """
    completions = pods * rng.choice((1, 1, 2))
    spare = rng.choice((0, 0, 3, 7)) if completions == pods else 0
    return {"parallelism": pods + spare, "completions": completions}


def job(name: str, rng: random.Random) -> Tree:
    """A Job that its queue could run all by itself."""
    queue = rng.choice(list(QUEUES))
    pods = rng.choice((1, 1, 2, 3))
    cpu = rng.choice((1, 1, 2, 3)) if pods == 1 else 1
    seconds = rng.choice((1, 2, 3, 5))
    requests = {"cpu": str(cpu), "memory": "64Mi"}
    return builders.job(
        name,
        queue,
        rng.choice(NAMESPACES),
        {"labels": {QUEUE_NAME: queue, PRIORITY_CLASS: rng.choices(list(PRIORITIES), weights=(5, 3, 2))[0]}},
        **counts(pods, rng),
        completionMode=rng.choice(("NonIndexed", "Indexed")),
        ttlSecondsAfterFinished=20,
        template={
            "metadata": {"annotations": {f"{PREFIX}run-for": f"{seconds}s"}},
            "spec": pod_spec(spec={"terminationGracePeriodSeconds": 0}, resources={"requests": requests}),
        },
    )


class Load:
    """A thread that keeps so many Jobs unfinished, until it is told to stop."""

    most = UNFINISHED

    def __init__(self, client: Client, rng: random.Random, prefix: str) -> None:
        self.client, self.rng, self.prefix = client, rng, prefix
        self.lock = threading.Lock()
        self.unfinished: dict[str, str] = {}
        """Names, by UID, of Jobs that were made and have neither ended nor been deleted by us."""
        self.ended_early: set[str] = set()
        """UIDs of Jobs that were seen to end before we knew that they were made."""
        self.made = self.refused = 0
        self.refusal = ""
        """Why the latest Job was refused."""
        self.enough = threading.Event()
        self.thread = threading.Thread(target=self.run, name="load", daemon=True)

    def prepare(self) -> None:
        """Make everything that Jobs need."""
        for tree in furniture():
            self.client.apply(tree)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Make no more Jobs."""
        self.enough.set()
        self.thread.join()

    def check(self) -> None:
        """Raise an error unless Jobs are still being made."""
        if not self.thread.is_alive() and not self.enough.is_set():
            raise RuntimeError("the load ended by itself; its thread has printed why")

    def run(self) -> None:
        while not self.enough.wait(0.1):
            while len(self.unfinished) < self.most and not self.enough.is_set():
                if not self.make():
                    break

    def next(self) -> Tree:
        """The next Job to make."""
        return job(f"{self.prefix}-{self.made + self.refused}", self.rng)

    def took(self, metadata: Tree) -> None:
        """Learn that the server has taken a Job."""

    def make(self) -> bool:
        """Make one Job; whether the server took it."""
        try:
            made = self.client.create(self.next())
        except (ApiError, OSError, HTTPException) as error:
            self.refused += 1
            self.refusal = str(error)
            return False
        meta = made["metadata"]
        self.took(meta)
        with self.lock:
            self.made += 1
            if meta["uid"] in self.ended_early:
                self.ended_early.discard(meta["uid"])
            else:
                self.unfinished[meta["uid"]] = f"{meta['namespace']}/{meta['name']}"
        return True

    def ended(self, uid: str) -> None:
        """Learn that a Job has ended."""
        with self.lock:
            if self.unfinished.pop(uid, None) is None:
                self.ended_early.add(uid)

    def relearn(self) -> int:
        """Learn which Jobs there are, after the store has gone back; how many unfinished ones no longer exist."""
        with self.lock:
            jobs = self.client.objects("Job")
            lost = set(self.unfinished) - {job["metadata"]["uid"] for job in jobs}
            self.unfinished = {
                job["metadata"]["uid"]: f"{job['metadata']['namespace']}/{job['metadata']['name']}"
                for job in jobs
                if not any(condition(job, type_).get("status") == "True" for type_ in ("Complete", "Failed"))
            }
        return len(lost)

    def delete_some(self, count: int) -> int:
        """Have some Jobs deleted, whatever they are doing; how many there were."""
        with self.lock:
            chosen = self.rng.sample(sorted(self.unfinished.items()), min(count, len(self.unfinished)))
        for uid, key in chosen:
            namespace, _, name = key.partition("/")
            self.client.delete("Job", name, namespace)
            with self.lock:
                self.unfinished.pop(uid, None)
        return len(chosen)
