"""What does a broken manager work on? A fixed load: a few queues for each thing that can go wrong, and their Jobs.

It runs in one process under a manual clock, with the auditor hearing every change. A sound manager has nothing to fear.
"""

from pykueue.audit.auditor import Auditor
from pykueue.audit.follow import WATCHED
from pykueue.audit.history import Line, event_of, version_of
from pykueue.audit.views import SOURCES
from pykueue.audit.world import Settings
from pykueue.base.struct import Frozen
from pykueue.kube.port import JOBS, PODS, PROVISIONING_REQUESTS, WORKLOADS, Resource
from pykueue.testing.embedded import Embedded
from pykueue.testing.kueue import NAMESPACE, Client
from pykueue.testing.script import PREFIX
from tests.audit.told import Tree

KUEUE = "kueue.x-k8s.io/v1beta2"
PRIORITIES = {"low": 0, "mid": 100, "high": 1000}
STEP_SECONDS = 0.5
CALM_SECONDS = 7
"""After so long, the auditor no longer takes the objects for edited just now."""
SECONDS = 50
CAPACITY, MANUAL = "capacity", "manual"
LOWER = {"withinClusterQueue": "LowerPriority"}
SETTINGS = Settings(plain_resources=True)


def quotas(cpu: int, *flavors: str, **limits: int) -> list[Tree]:
    """The same quota of cpu in each flavor."""
    return [
        {
            "coveredResources": ["cpu"],
            "flavors": [
                {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu, **limits}]}
                for flavor in flavors or ("default",)
            ],
        }
    ]


QUEUES: dict[str, Tree] = {
    "alone": {"resourceGroups": quotas(4), "preemption": LOWER},
    "never": {"resourceGroups": quotas(2)},
    "roomy": {"resourceGroups": quotas(10), "preemption": LOWER},
    "strict": {"resourceGroups": quotas(4), "queueingStrategy": "StrictFIFO"},
    "fifo": {"resourceGroups": quotas(1)},
    "lender": {
        "resourceGroups": quotas(4, lendingLimit=2),
        "cohortName": "share",
        "preemption": {"reclaimWithinCohort": "Any"},
    },
    "borrower": {"resourceGroups": quotas(4), "cohortName": "share"},
    "limited": {"resourceGroups": quotas(4, borrowingLimit=1), "cohortName": "limits"},
    "giver": {"resourceGroups": quotas(4), "cohortName": "limits"},
    "kept-a": {"resourceGroups": quotas(2), "cohortName": "kept"},
    "kept-b": {"resourceGroups": quotas(2), "cohortName": "kept", "preemption": {"reclaimWithinCohort": "Any"}},
    "over-a": {"resourceGroups": quotas(2), "cohortName": "over"},
    "over-b": {
        "resourceGroups": quotas(2),
        "cohortName": "over",
        "preemption": {
            "reclaimWithinCohort": "LowerPriority",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 0},
        },
    },
    "self-a": {"resourceGroups": quotas(2), "cohortName": "self"},
    "self-b": {"resourceGroups": quotas(2), "cohortName": "self", "preemption": {"reclaimWithinCohort": "Any"}},
    **{f"{name}-c": {"resourceGroups": quotas(2), "cohortName": name} for name in ("over", "self")},
    "closed": {"resourceGroups": quotas(4), "namespaceSelector": {"matchLabels": {"team": "others"}}},
    "held": {"resourceGroups": quotas(4), "stopPolicy": "Hold"},
    "drained": {"resourceGroups": quotas(4)},
    "zones": {"resourceGroups": quotas(4, "zone-a", "zone-b")},
    "checked": {"resourceGroups": quotas(4), "admissionChecksStrategy": {"admissionChecks": [{"name": MANUAL}]}},
    "asking": {"resourceGroups": quotas(4), "admissionChecksStrategy": {"admissionChecks": [{"name": CAPACITY}]}},
    "cut": {"resourceGroups": quotas(4)},
    "off": {"resourceGroups": quotas(4)},
    "parts": {"resourceGroups": quotas(4)},
}


class Arrival(Frozen):
    """A Job, and when it comes."""

    at: int
    name: str
    queue: str
    cpu: int = 1
    priority: str = "low"
    run_for: int = 60
    pods: int = 1
    zone: str = ""


ARRIVALS = (
    # The first four are preempted for "urgent" as far as needed; "patient" must wait, and so must "late".
    *(Arrival(number, f"calm-{number}", "alone") for number in range(4)),
    Arrival(5, "patient", "alone"),
    Arrival(12, "urgent", "alone", 2, "high", 30),
    Arrival(20, "late", "alone", 1, "mid", 5),
    Arrival(0, "secure", "never", 2),
    Arrival(8, "powerless", "never", 2, "high"),
    Arrival(0, "neighbour", "roomy"),
    Arrival(10, "welcome", "roomy", 1, "high"),
    Arrival(0, "first", "strict", 3, run_for=25),
    Arrival(3, "second", "strict", 4, run_for=5),
    Arrival(12, "small", "strict", 1, run_for=5),
    *(Arrival(number // 3, f"turn-{number}", "fifo", run_for=2) for number in range(12)),
    Arrival(4, "turn-high", "fifo", priority="high", run_for=2),
    *(Arrival(1, f"borrow-{number}", "borrower") for number in range(8)),
    Arrival(10, "reclaim", "lender", 4, run_for=10),
    *(Arrival(1, f"limit-{number}", "limited") for number in range(8)),
    *(Arrival(0, f"kept-a-{number}", "kept-a") for number in range(2)),
    *(Arrival(0, f"kept-b-{number}", "kept-b") for number in range(2)),
    Arrival(9, "kept-b-more", "kept-b", priority="high"),
    *(Arrival(0, f"over-a-{number}", "over-a", priority="mid") for number in range(5)),
    Arrival(0, "over-b-0", "over-b", priority="mid"),
    Arrival(10, "over-b-more", "over-b", 2, "high"),
    *(Arrival(0, f"self-a-{number}", "self-a") for number in range(5)),
    Arrival(0, "self-b-0", "self-b"),
    Arrival(10, "self-b-more", "self-b", 2, "high"),
    Arrival(0, "stranger", "closed"),
    Arrival(0, "halted", "held"),
    Arrival(0, "leaving", "drained"),
    Arrival(0, "resident", "zones", zone="b"),
    Arrival(0, "unanswered", "checked"),
    *(Arrival(0, f"asks-{number}", "asking", run_for=10) for number in range(4)),
    *(Arrival(number // 2, f"cut-{number}", "cut", run_for=7) for number in range(16)),
    Arrival(0, "paused", "off"),
    Arrival(0, "team", "parts", run_for=30, pods=3),
)


def thing(kind: str, name: str, **parts: object) -> Tree:
    """An object of Kueue's API."""
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, **parts}


def common() -> list[Tree]:
    """A flavor, and the priorities."""
    classes = [{**thing("WorkloadPriorityClass", name), "value": value} for name, value in PRIORITIES.items()]
    return [thing("ResourceFlavor", "default"), *classes]


def queues(specs: dict[str, Tree]) -> list[Tree]:
    """ClusterQueues, and the LocalQueue of each."""
    found = [thing("ClusterQueue", name, spec={"namespaceSelector": {}, **spec}) for name, spec in specs.items()]
    for name in specs:
        local = thing("LocalQueue", name, spec={"clusterQueue": name})
        found.append({**local, "metadata": {"name": name, "namespace": NAMESPACE}})
    return found


def checks() -> list[Tree]:
    """A check that requests capacity, and one that nobody answers."""
    retries = {"backoffLimitCount": 3, "backoffBaseSeconds": 8, "backoffMaxSeconds": 8}
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": CAPACITY}
    config = {"provisioningClassName": "mutants.example.com", "retryStrategy": retries}
    ours = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": reference}
    return [
        thing("ProvisioningRequestConfig", CAPACITY, spec=config),
        thing("AdmissionCheck", CAPACITY, spec=ours),
        thing("AdmissionCheck", MANUAL, spec={"controllerName": "example.com/manual"}),
    ]


def furniture() -> list[Tree]:
    """All objects but the Jobs."""
    zones = [thing("ResourceFlavor", f"zone-{zone}", spec={"nodeLabels": {"zone": zone}}) for zone in "ab"]
    return [*common(), *zones, *checks(), *queues(QUEUES)]


def job(arrival: Arrival) -> Tree:
    """The Job of an arrival; its pods take three seconds to stop."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(arrival.cpu)}}}
    selector = {"nodeSelector": {"zone": arrival.zone}} if arrival.zone else {}
    script = {f"{PREFIX}run-for": f"{arrival.run_for}s", f"{PREFIX}stop-for": "3s"}
    labels = {"kueue.x-k8s.io/queue-name": arrival.queue, "kueue.x-k8s.io/priority-class": arrival.priority}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": arrival.name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "parallelism": arrival.pods,
            "completions": arrival.pods,
            "template": {
                "metadata": {"annotations": script},
                "spec": {"restartPolicy": "Never", "containers": [container], **selector},
            },
        },
    }


class Stage:
    """The system with some objects, and the auditor."""

    def __init__(self, trees: list[Tree], configuration: Tree | None = None, settings: Settings = SETTINGS) -> None:
        self.system = Embedded({"integrations": {"frameworks": ["batch/job"]}, **(configuration or {})})
        self.client = Client(self.system)
        self.auditor = Auditor(settings)
        self.heard = 0
        self.watches = {
            kind: self.system.watch(f"{source.path}?watch=1&timeoutSeconds=100000") for kind, source in SOURCES.items()
        }
        for tree in trees:
            self.client.apply(tree)
        self.pass_time(CALM_SECONDS)

    def close(self) -> None:
        self.system.close()

    def pass_time(self, seconds: float) -> None:
        """Let time pass; the auditor hears what happens."""
        for _ in range(round(seconds / STEP_SECONDS)):
            self.system.advance(STEP_SECONDS)
            self.hear()

    def hear(self) -> None:
        """Tell the auditor what has happened since the last time, in order."""
        now, lines = self.system.clock.now(), []
        for kind, watch in self.watches.items():
            came, watch.lines = watch.lines, []
            for text in came:
                event = WATCHED.decode(text)
                if event.type in ("ADDED", "MODIFIED", "DELETED"):
                    line = Line(now, event.type, kind, event.object)  # type: ignore[arg-type]  # it is one of the three
                    lines.append((version_of(event.object), self.heard, line))
                    self.heard += 1
        for _, _, line in sorted(lines, key=lambda one: one[:2]):
            self.auditor.observe(event_of(line))
        self.auditor.tick(now)


class FixedLoad:
    """The Jobs above, and what users and an autoscaler do."""

    def __init__(self) -> None:
        self.stage = Stage(furniture())
        self.client = self.stage.client
        self.answered: set[str] = set()
        manual = self.client.resource_of(thing("AdmissionCheck", ""))
        self.client.patch(manual, MANUAL, {"status": {"conditions": [said("Active")]}}, "", "status")

    def play(self, rule: str) -> int:
        """Play it, or as much of it as it takes until this rule is found broken; returns the seconds of it."""
        for second in range(SECONDS):
            for arrival in ARRIVALS:
                if arrival.at == second:
                    self.client.create(JOBS, job(arrival), NAMESPACE)
            self.intervene(second)
            self.answer()
            self.stage.pass_time(1)
            if any(finding.rule == rule for finding in self.stage.auditor.findings):
                return second + 1
        return SECONDS

    def intervene(self, second: int) -> None:
        """What users do besides creating Jobs."""
        resource = self.client.resource_of(thing("ClusterQueue", ""))
        if second == 6:
            for pod in self.mine(PODS, "team")[:1]:
                note = {"metadata": {"annotations": {f"{PREFIX}now": "succeeded"}}}
                self.client.patch(PODS, pod, note, NAMESPACE)
        if second == 10:
            self.client.patch(resource, "cut", {"spec": {"resourceGroups": quotas(2)}})
            self.client.patch(resource, "drained", {"spec": {"stopPolicy": "HoldAndDrain"}})
            for name in self.mine(WORKLOADS, "paused"):
                self.client.patch(WORKLOADS, name, {"spec": {"active": False}}, NAMESPACE)

    def mine(self, resource: Resource, job_name: str) -> list[str]:
        """The names of the objects that belong to a Job."""
        return sorted(
            tree["metadata"]["name"]
            for tree in self.client.list(resource, NAMESPACE)
            if any(owner["name"] == job_name for owner in tree["metadata"].get("ownerReferences", ()))
        )

    def answer(self) -> None:
        """Answer requests for capacity: the first attempt of each Workload fails, the second succeeds."""
        for tree in self.client.list(PROVISIONING_REQUESTS, NAMESPACE):
            name, uid = tree["metadata"]["name"], tree["metadata"]["uid"]
            if uid not in self.answered:
                self.answered.add(uid)
                conditions = [said("Failed" if name.endswith("-1") else "Provisioned")]
                self.client.patch(
                    PROVISIONING_REQUESTS, name, {"status": {"conditions": conditions}}, NAMESPACE, "status"
                )


def said(kind: str) -> Tree:
    """A condition that holds."""
    return {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"}
