"""How does a test tell the auditor a history? A `Tale`: each call is one event, with the next version, in order."""

from typing import Any

import msgspec

from pykueue.audit.auditor import Auditor
from pykueue.audit.views import Event, EventType, read_object
from pykueue.audit.world import Finding, Settings
from pykueue.base.units import MICROS, Instant, format_instant
from tests import builders

Tree = dict[str, Any]
START = 1_800_000_000


def quotas(cpu: int | str, borrow: int | None = None, lend: int | None = None, flavor: str = "default") -> list[Tree]:
    limits = {"borrowingLimit": borrow, "lendingLimit": lend}
    resource = {"name": "cpu", "nominalQuota": cpu} | {key: value for key, value in limits.items() if value is not None}
    return [{"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": [resource]}]}]


def condition(type_: str, holds: bool, reason: str = "Because", message: str = "it is so") -> Tree:
    return {**builders.condition(type_, str(holds), reason, "2027-01-15T08:00:00Z"), "message": message}


class Tale:
    """A cluster with a namespace, a flavor and whatever is told, and the auditor that listens."""

    def __init__(self, **settings: Any) -> None:
        self.auditor = Auditor(Settings(**settings))
        self.version = 0
        self.seconds = START
        self.trees: dict[tuple[str, str], Tree] = {}
        self.tell("Namespace", "", "ns", labels={"team": "a"})
        self.tell("ResourceFlavor", "", "default")

    @property
    def found(self) -> list[str]:
        """What was found, as sentences without versions."""
        return [f"{finding.rule}: {finding.about}: {finding.message}" for finding in self.auditor.findings]

    def rules(self) -> list[str]:
        return [finding.rule for finding in self.auditor.findings]

    def later(self, seconds: int) -> list[Finding]:
        """Let time pass, with a look each second."""
        found = []
        for _ in range(seconds):
            self.seconds += 1
            found += self.auditor.tick(Instant(self.seconds * MICROS))
        return found

    def event(self, type_: EventType, kind: str, tree: Tree) -> Event:
        self.version += 1
        tree = {**tree, "metadata": {**tree["metadata"], "resourceVersion": str(self.version)}}
        return Event(
            type_, kind, self.version, Instant(self.seconds * MICROS), read_object(kind, msgspec.json.encode(tree))
        )

    def put(self, kind: str, tree: Tree, type_: EventType | None = None) -> list[Finding]:
        """Tell that an object is so now."""
        meta = tree["metadata"]
        key = (kind, f"{meta.get('namespace', '')}/{meta['name']}")
        known = key in self.trees
        self.trees[key] = tree
        return self.auditor.observe(self.event(type_ or ("MODIFIED" if known else "ADDED"), kind, tree))

    def tell(self, kind: str, namespace: str, name: str, labels: Tree | None = None, **parts: Any) -> list[Finding]:
        """Tell that an object is so now, given by its parts; its generation grows with each change of its spec."""
        old = self.trees.get((kind, f"{namespace}/{name}"), {"metadata": {"generation": 0}})
        generation = old["metadata"]["generation"] + (old.get("spec") != parts.get("spec"))
        meta = {
            "name": name,
            "uid": f"uid-{kind}-{name}",
            "generation": generation,
            "labels": labels or {},
            "creationTimestamp": old["metadata"].get(
                "creationTimestamp", format_instant(Instant(self.seconds * MICROS))
            ),
            **({"namespace": namespace} if namespace else {}),
            **parts.pop("metadata", {}),
        }
        return self.put(kind, {"metadata": meta, **parts})

    def gone(self, kind: str, namespace: str, name: str) -> list[Finding]:
        tree = self.trees.pop((kind, f"{namespace}/{name}"))
        return self.auditor.observe(self.event("DELETED", kind, tree))

    def queue(self, name: str, cpu: int, cohort: str = "", **more: Any) -> list[Finding]:
        """A ClusterQueue and, by its name in namespace ns, its LocalQueue."""
        limits = {key: more.pop(key) for key in ("borrow", "lend", "flavor") if key in more}
        spec = {
            "resourceGroups": quotas(cpu, **limits),
            "namespaceSelector": {},
            **({"cohortName": cohort} if cohort else {}),
            **more,
        }
        found = self.tell(
            "ClusterQueue", "", name, spec=spec, status={"conditions": [condition("Active", True, "Ready")]}
        )
        if ("LocalQueue", f"ns/{name}") not in self.trees:
            found += self.tell("LocalQueue", "ns", name, spec={"clusterQueue": name})
        return found

    def cohort(self, name: str, cpu: int = 0, parent: str = "", **limits: Any) -> list[Finding]:
        groups = {"resourceGroups": quotas(cpu, **limits)} if cpu or limits else {}
        return self.tell("Cohort", "", name, spec={**groups, **({"parentName": parent} if parent else {})})

    def workload(
        self,
        name: str,
        queue: str,
        cpu: int = 1,
        *conditions: Tree,
        pods: int = 1,
        job: str = "",
        status: Tree | None = None,
        metadata: Tree | None = None,
        **spec: Any,
    ) -> list[Finding]:
        """A Workload of so many pods that ask for so much cpu each, with these conditions and no admission."""
        container = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-Job-{job}", "controller": True}
        return self.tell(
            "Workload",
            "ns",
            name,
            spec={
                "queueName": queue,
                "podSets": [{"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}],
                **spec,
            },
            status={"conditions": list(conditions), **(status or {})},
            metadata={**({"ownerReferences": [owner]} if job else {}), **(metadata or {})},
        )

    def reserve(self, name: str, queue: str, cpu: int = 1, *conditions: Tree, **more: Any) -> list[Finding]:
        """The same Workload with quota of that queue, admitted unless a condition says otherwise."""
        pods = more.get("pods", 1)
        flavor = more.pop("flavor", "default")
        assignment = {
            "name": "main",
            "count": more.pop("count", pods),
            "flavors": {"cpu": flavor},
            "resourceUsage": {"cpu": str(cpu * pods)},
        }
        admission = {"clusterQueue": more.pop("of", queue), "podSetAssignments": [assignment]}
        status = {"admission": admission, **more.pop("status", {})}
        named = {one["type"] for one in conditions}
        usual = [condition(type_, True) for type_ in ("QuotaReserved", "Admitted") if type_ not in named]
        return self.workload(name, queue, cpu, *usual, *conditions, status=status, **more)

    def job(
        self,
        name: str,
        queue: str = "q",
        *conditions: Tree,
        suspend: bool = True,
        status: Tree | None = None,
        **spec: Any,
    ) -> list[Finding]:
        return self.tell(
            "Job",
            "ns",
            name,
            labels={"kueue.x-k8s.io/queue-name": queue} if queue else {},
            spec={"parallelism": 1, "completions": 1, "suspend": suspend, **spec},
            status={"conditions": list(conditions), **(status or {})},
        )

    def pod(self, name: str, job: str, phase: str = "Pending", **metadata: Any) -> list[Finding]:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-Job-{job}", "controller": True}
        return self.tell(
            "Pod",
            "ns",
            name,
            metadata={"ownerReferences": [owner], **metadata},
            status={"phase": phase},
        )


def evicted(reason: str = "Preempted", by: str = "uid-Workload-b") -> list[Tree]:
    """The conditions of a workload that is being evicted."""
    text = f"Preempted to accommodate a workload (UID: {by}, JobUID: j) due to prioritization in the ClusterQueue"
    message = text if reason == "Preempted" else "it had to go"
    preempted = [condition("Preempted", True, "InClusterQueue", message)] if reason == "Preempted" else []
    return [condition("Evicted", True, reason, message), *preempted]


def counted(times: int, reason: str = "Preempted") -> Tree:
    """The status that counts so many evictions."""
    return {"schedulingStats": {"evictions": [{"reason": reason, "underlyingCause": "", "count": times}]}}
