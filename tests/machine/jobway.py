"""What happens between a Job and its quota, without a server? All that is pure on that way, in one loop.

Jobs, Workloads and pods are JSON trees. `jobs.plan` says what becomes of each Job, `bridge` tells the engine of the
Workloads and writes its decisions into them, and a Job controller of a few lines runs the pods. The auditor hears every
change, and is the judge.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykueue.api.codec import decode_as
from pykueue.api.config import types
from pykueue.api.core import KubeObject, Namespace
from pykueue.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor
from pykueue.api.workload import Workload, held
from pykueue.audit.world import Transformation
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.bridge import inbound
from pykueue.bridge.outbound import StatusBuilder, finished
from pykueue.bridge.requests import ResourceConfig
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Gone, Seen, Stopped, Synced, Written
from pykueue.engine.model import Options
from pykueue.jobs import actions
from pykueue.jobs.batch import BATCH, read_job
from pykueue.jobs.plan import plan
from pykueue.jobs.seen import JobInput as SeenJob
from tests.audit.told import Tale, Tree

NAMESPACE = "ns"
ROUNDS = 60
"""By then everyone has done what there is to do."""
INDEX = "batch.kubernetes.io/job-completion-index"
KEPT = ("reclaimablePods",)
"""What of a Workload's status others than the scheduler own."""


def merged(tree: Any, patch: Any) -> Any:
    """A tree after a merge patch."""
    if not isinstance(patch, dict):
        return patch
    found = dict(tree) if isinstance(tree, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def transformation(told: types.Transformation) -> Transformation:
    """A rule of the configuration as the auditor takes it."""
    outputs = {name: str(quantity) for name, quantity in told.outputs.items()}
    return Transformation(told.input, told.strategy, told.multiply_by, outputs)


class JobWay:
    """A cluster of one namespace, as far as quota is concerned."""

    def __init__(self, resources: ResourceConfig) -> None:
        self.around = inbound.Surroundings(resources)
        self.options = Options(pods_ready=None)
        self.engine = Engine(self.options)
        self.tale = Tale(
            lag_seconds=0,
            plain_resources=True,
            exclude_prefixes=resources.exclude_prefixes,
            transformations=tuple(map(transformation, resources.transformations)),
        )
        self.made = 0
        self.versions: dict[str, int] = {}
        """The version of each Workload."""
        self.heard: dict[str, int] = {}
        """The version of each Workload that the engine has heard of."""
        self.work: dict[str, Work] = {}
        for kind, name, view in (("Namespace", "ns", Namespace), ("ResourceFlavor", "default", ResourceFlavor)):
            self.tell_engine(kind, name, view)
        self.flavors = {"default": self.view("ResourceFlavor", "/default", ResourceFlavor)}
        self.engine.observe(Synced())

    # Objects.

    @property
    def now(self) -> Instant:
        return Instant(self.tale.seconds * MICROS)

    def all(self, kind: str) -> dict[str, Tree]:
        """The objects of a kind by name."""
        return {key.partition("/")[2]: tree for (found, key), tree in self.tale.trees.items() if found == kind}

    def view(self, kind: str, key: str, view: type[Any]) -> Any:
        return decode_as(view, msgspec.json.encode(self.tale.trees[kind, key]))

    def tell_engine(self, kind: str, name: str, view: type[KubeObject], namespace: str = "") -> None:
        thing = inbound.thing(self.view(kind, f"{namespace}/{name}", view))
        assert thing is not None
        self.engine.observe(Seen(thing))

    def new(self, kind: str, tree: Tree) -> None:
        """Store a new object as the server would."""
        self.made += 1
        name = tree["metadata"]["name"]
        meta = {
            "namespace": NAMESPACE,
            "uid": f"uid-{kind}-{name}" if kind == "Job" else f"uid-{kind}-{name}-{self.made}",
            "generation": 1,
            "creationTimestamp": format_instant(self.now),
            **tree["metadata"],
        }
        self.put(kind, {**tree, "metadata": meta})

    def put(self, kind: str, tree: Tree) -> None:
        """Store an object."""
        self.tale.put(kind, tree)
        if kind == "Workload":
            self.versions[tree["metadata"]["name"]] = self.tale.version

    def queue(self, name: str, quotas: Mapping[str, str], **spec: Any) -> None:
        """A ClusterQueue, and the LocalQueue of its name."""
        resources = [{"name": resource, "nominalQuota": amount} for resource, amount in quotas.items()]
        group = {"coveredResources": list(quotas), "flavors": [{"name": "default", "resources": resources}]}
        active = {"type": "Active", "status": "True", "reason": "Ready", "message": ""}
        self.tale.tell(
            "ClusterQueue",
            "",
            name,
            spec={"resourceGroups": [group], "namespaceSelector": {}, **spec},
            status={"conditions": [{**active, "lastTransitionTime": format_instant(self.now)}]},
        )
        self.tale.tell("LocalQueue", NAMESPACE, name, spec={"clusterQueue": name})
        self.tell_engine("ClusterQueue", name, ClusterQueue)
        self.tell_engine("LocalQueue", name, LocalQueue, NAMESPACE)

    def job(self, name: str, queue: str, annotations: Mapping[str, str], **spec: Any) -> None:
        labels = {"kueue.x-k8s.io/queue-name": queue}
        meta = {"name": name, "labels": labels, "annotations": dict(annotations)}
        self.new("Job", {"metadata": meta, "spec": {"suspend": True, **spec}, "status": {}})
        self.work[name] = Work()

    def workload(self, name: str, queue: str, pod_sets: list[Tree], priority: int) -> None:
        """A Workload that belongs to no Job."""
        spec = {"queueName": queue, "podSets": pod_sets, "priority": priority, "active": True}
        self.new("Workload", {"metadata": {"name": name}, "spec": spec, "status": {}})

    def change(self, kind: str, name: str, patch: Tree) -> None:
        """Patch an object; its generation follows its spec."""
        old = self.tale.trees[kind, f"{NAMESPACE}/{name}"]
        new = merged(old, patch)
        if new == old:
            return
        if new.get("spec") != old.get("spec"):
            new["metadata"] = {**new["metadata"], "generation": old["metadata"]["generation"] + 1}
        self.put(kind, new)

    # What everyone does.

    def settle(self) -> None:
        """Let everyone act until nobody has anything left to do."""
        for _ in range(ROUNDS):
            before = self.tale.version
            self.tale.seconds += 1
            for name in list(self.all("Job")):
                self.look_after(name)
            self.schedule()
            for name, tree in list(self.all("Job").items()):
                self.run_pods(name, tree)
            if self.tale.version == before:
                self.tale.auditor.tick(self.now)
                return
        raise AssertionError("they do not come to rest")

    def look_after(self, name: str) -> None:
        """Do for a Job what our job controller would."""
        job = read_job(msgspec.json.encode(self.tale.trees["Job", f"{NAMESPACE}/{name}"]))
        mine = tuple(
            self.view("Workload", f"{NAMESPACE}/{key}", Workload)
            for key, tree in self.all("Workload").items()
            if any(owner["uid"] == job.metadata.uid for owner in tree["metadata"].get("ownerReferences", ()))
        )
        for action in plan(SeenJob(BATCH, NAMESPACE, job, mine, flavors=self.flavors), self.now):
            self.carry_out(name, action)

    def carry_out(self, name: str, action: actions.Action) -> None:
        match action:
            case actions.CreateWorkload(tree):
                self.new("Workload", {**tree, "status": {}})
            case actions.UpdateWorkload(workload, body):
                self.change("Workload", workload.name, body)
            case actions.DeleteWorkload(workload):
                self.tale.gone("Workload", NAMESPACE, workload.name)
            case actions.WriteReclaimable(workload, counts):
                listed = [{"name": pods, "count": count} for pods, count in counts]
                self.change("Workload", workload.name, {"status": {"reclaimablePods": listed}})
            case actions.Finish(workload, reason, message):
                self.write_status(workload.name, finished(workload, reason, message, self.now))
            case actions.RemoveFinalizer(workload):
                self.change("Workload", workload.name, {"metadata": {"finalizers": None}})
            case actions.PatchJob(body):
                self.change("Job", name, body)
            case actions.Stopped(workload):
                self.engine.observe(Stopped(f"{NAMESPACE}/{workload.name}"))
            case _:
                pass

    def write_status(self, name: str, status: Tree) -> None:
        """Apply the scheduler's part of a Workload's status."""
        tree = self.tale.trees["Workload", f"{NAMESPACE}/{name}"]
        kept = {key: tree["status"][key] for key in KEPT if key in tree["status"]}
        self.put("Workload", {**tree, "status": {**status, **kept}})

    def schedule(self) -> None:
        """Tell the engine of the Workloads, and write what it decides."""
        there = self.all("Workload")
        for name in [name for name in self.heard if name not in there]:
            del self.heard[name]
            self.engine.observe(Gone("Workload", f"{NAMESPACE}/{name}"))
        for name in there:
            self.see(name)
        for decision in self.engine.decide(self.now):
            name = decision.workload.partition("/")[2]
            seen = self.view("Workload", decision.workload, Workload)
            builder = StatusBuilder(seen, inbound.workload(seen, self.around), self.options)
            builder.write(decision)
            for step in builder.finish():
                if step.status is None:
                    self.change("Workload", name, {"spec": {"active": False}})
                else:
                    self.write_status(name, step.status)
            self.heard[name] = self.versions[name]
            self.engine.observe(Written(decision.workload, self.versions[name]))

    def see(self, name: str) -> None:
        """Tell the engine of a Workload, if it has changed."""
        version = self.versions[name]
        if self.heard.get(name) == version:
            return
        self.heard[name] = version
        seen = self.view("Workload", f"{NAMESPACE}/{name}", Workload)
        if held(seen, "Finished") is not None:
            self.engine.observe(Gone("Workload", f"{NAMESPACE}/{name}"))
        else:
            self.engine.observe(Seen(inbound.workload(seen, self.around), version))

    # What the Job controller does.

    def run_pods(self, name: str, tree: Tree) -> None:
        """Have as many pods of a Job as it may run now, and say so in its status."""
        spec, work = tree["spec"], self.work[name]
        if tree["status"].get("conditions"):
            return
        wanted = 0 if spec.get("suspend") else work.wanted(spec)
        while len(work.running) > wanted:
            pod, _ = work.running.popitem()
            self.tale.gone("Pod", NAMESPACE, pod)
        while len(work.running) < wanted:
            self.start_pod(name, work, work.next_index(spec))
        status = work.status(spec)
        if not spec.get("suspend"):
            status["startTime"] = tree["status"].get("startTime") or format_instant(self.now)
        for kind in work.outcome(spec):
            ended = {"type": kind, "status": "True", "reason": kind, "message": "it is over"}
            status["conditions"] = [{**ended, "lastTransitionTime": format_instant(self.now)}]
        gone = {key: None for key in tree["status"] if key not in status}
        self.change("Job", name, {"status": {**status, **gone}})

    def start_pod(self, job: str, work: "Work", index: int | None) -> None:
        self.made += 1
        pod = f"{job}-{self.made}"
        work.running[pod] = index
        notes = {} if index is None else {"annotations": {INDEX: str(index)}}
        self.tale.pod(pod, job, "Running", **notes)

    # What users and their pods do.

    def pods(self) -> list[tuple[str, str]]:
        """The Job and the name of each pod that runs."""
        return [(job, pod) for job, work in self.work.items() for pod in work.running]

    def end_pod(self, job: str, pod: str, *, well: bool) -> None:
        """Let a pod succeed or fail."""
        work = self.work[job]
        index = work.running.pop(pod)
        notes = {} if index is None else {"annotations": {INDEX: str(index)}}
        self.tale.pod(pod, job, "Succeeded" if well else "Failed", **notes)
        spec = self.tale.trees["Job", f"{NAMESPACE}/{job}"]["spec"]
        if well:
            work.succeeded += 1
            work.completed.update(() if index is None else (index,))
        else:
            work.failed += 1
            work.given_up.update(() if index is None or "backoffLimitPerIndex" not in spec else (index,))

    def delete_job(self, name: str) -> None:
        """Delete a Job with all that belongs to it."""
        uid = self.tale.trees["Job", f"{NAMESPACE}/{name}"]["metadata"]["uid"]
        self.tale.gone("Job", NAMESPACE, name)
        for pod in self.work.pop(name).running:
            self.tale.gone("Pod", NAMESPACE, pod)
        for key, tree in self.all("Workload").items():
            if any(owner["uid"] == uid for owner in tree["metadata"].get("ownerReferences", ())):
                self.tale.gone("Workload", NAMESPACE, key)

    def delete_workload(self, name: str) -> None:
        self.tale.gone("Workload", NAMESPACE, name)


class Work:
    """How far a Job has got."""

    def __init__(self) -> None:
        self.running: dict[str, int | None] = {}
        """Pods that run, and their indexes."""
        self.succeeded = self.failed = 0
        self.completed: set[int] = set()
        self.given_up: set[int] = set()

    def left(self, spec: Tree) -> list[int]:
        """The indexes that are still to be done."""
        return [index for index in range(spec["completions"]) if index not in self.completed | self.given_up]

    def wanted(self, spec: Tree) -> int:
        """How many pods are to run now."""
        parallelism = int(spec["parallelism"])
        if spec.get("completionMode") == "Indexed":
            return min(parallelism, len(self.left(spec)))
        if spec.get("completions") is not None:
            return min(parallelism, max(0, int(spec["completions"]) - self.succeeded))
        # One of a work queue starts no more pods once one has succeeded.
        return min(parallelism, len(self.running)) if self.succeeded else parallelism

    def next_index(self, spec: Tree) -> int | None:
        """The index that the next pod is for."""
        if spec.get("completionMode") != "Indexed":
            return None
        return next(index for index in self.left(spec) if index not in self.running.values())

    def status(self, spec: Tree) -> Tree:
        """What the Job's status says."""
        found: Tree = {"active": len(self.running), "ready": len(self.running), "failed": self.failed}
        found["succeeded"] = self.succeeded
        if spec.get("completionMode") == "Indexed":
            within = range(spec["completions"])
            found["completedIndexes"] = ",".join(str(one) for one in sorted(self.completed) if one in within)
            found["failedIndexes"] = ",".join(str(one) for one in sorted(self.given_up) if one in within)
            found["succeeded"] = len(self.completed & set(within))
        return {key: value for key, value in found.items() if value not in (0, "")}

    def outcome(self, spec: Tree) -> list[str]:
        """How the Job ended, once it has."""
        if spec.get("suspend"):
            return []
        if spec.get("completionMode") == "Indexed":
            done = not self.left(spec)
            return [("Failed" if self.given_up else "Complete")] if done and not self.running else []
        if spec.get("completions") is not None:
            return ["Complete"] if self.succeeded >= spec["completions"] else []
        return ["Complete"] if self.succeeded and not self.running else []
