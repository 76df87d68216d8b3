"""In which words is a story told? A `Team` with queues and jobs, that waits for what should come and says what came.

    queue = team.queue(cpu=4)
    first = queue.job("first", cpu=3)
    first.runs()
    second = queue.job("second", cpu=3)
    second.waits("WaitingForQuota", "…")
    first.ends()
    second.runs()

Names of cluster-wide objects begin with the team's own name, so that stories can run side by side.
"""

import contextlib
import itertools
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.backend import Backend, OnPlane
from tests.e2e.job import KUEUE, Job, job
from tests.e2e.switchboard import WHO
from tests.plane.client import WAIT, ApiError, Late, Tree, condition, path_of, resource_of

COUNT = itertools.count()


class Team:
    """One story's place on the cluster."""

    def __init__(self, backend: Backend, story: str) -> None:
        self.backend = backend
        self.client = backend.client
        self.on_kueue = WHO == "kueue"
        words = re.sub(r"[^a-z0-9]+", "-", story.lower()).strip("-").removeprefix("test-")
        self.name = f"{words[:28].strip('-')}-{os.getpid() % 10_000}-{next(COUNT)}"
        self.client.report = self.log_about
        self.namespace = self.new_namespace(self.name, {"team": self.name})
        self.made: list[tuple[str, str, str]] = []
        self.nodes: list[str] = []

    @property
    def cluster(self) -> OnPlane:
        """The real control plane, for a story that is told on nothing else."""
        assert isinstance(self.backend, OnPlane), "a story that asks for it is marked `plane(why)`"
        return self.backend

    def log_about(self, _name: str) -> str:
        """What the manager logged of this story last."""
        lines = self.backend.log().splitlines()
        about = [line[:1000] for line in lines if self.name in line][-15:]
        return "\n".join(
            ["The manager's last lines about this story:", *about, "and of all:", *(line[:300] for line in lines[-5:])]
        )

    def still_well(self) -> None:
        """Check that the manager which served this story is still there."""
        ended = self.backend.ended()
        assert not ended, f"{ended}\n{self.log_about('')}"

    def leave(self) -> None:
        """Remove what the story made; whatever waits for a finalizer goes in its own time."""
        for kind in ("Job", "Workload"):
            with contextlib.suppress(ApiError):
                path = path_of(resource_of(kind), self.namespace)
                self.client.request("DELETE", f"{path}?propagationPolicy=Background")
        for kind, name, namespace in reversed(self.made):
            with contextlib.suppress(ApiError):
                self.client.delete(kind, name, namespace)
        self.client.delete("Namespace", self.namespace)
        for node in self.nodes:
            self.client.delete("Node", node)

    def new_namespace(self, name: str, labels: Mapping[str, str] = {}) -> str:
        """A new namespace; the story's own has its name."""
        self.client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}
        )
        return name

    def own(self, name: str) -> str:
        """A cluster-wide name of this story's own."""
        return f"{self.name}-{name}"

    def create(self, tree: Tree) -> Tree:
        """An object of the story, removed at its end."""
        made = self.client.create(tree)
        self.made.append((tree["kind"], made["metadata"]["name"], made["metadata"].get("namespace", "")))
        return made

    # -- what an administrator makes

    def flavor(self, name: str = "default", labels: Mapping[str, str] | None = None, **spec: Any) -> str:
        body = {**({"nodeLabels": dict(labels)} if labels else {}), **spec}
        self.create({"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": self.own(name)}, "spec": body})
        return self.own(name)

    def cluster_queue(self, name: str, flavors: Mapping[str, Mapping[str, object]], **spec: Any) -> str:
        """A ClusterQueue with one group of flavors and their nominal quotas; `spec` in Kueue's own words."""
        covered = sorted({resource for amounts in flavors.values() for resource in amounts})

        def quota(resource: str, amount: object) -> Tree:
            return {"name": resource, **(amount if isinstance(amount, dict) else {"nominalQuota": str(amount)})}

        group = {
            "coveredResources": covered,
            "flavors": [
                {"name": flavor, "resources": [quota(resource, amounts[resource]) for resource in covered]}
                for flavor, amounts in flavors.items()
            ],
        }
        body = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
        self.create({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": self.own(name)}, "spec": body})
        return self.own(name)

    def local_queue(self, name: str, cluster_queue: str, **spec: Any) -> "Queue":
        self.create(
            {
                "apiVersion": KUEUE,
                "kind": "LocalQueue",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"clusterQueue": cluster_queue, **spec},
            }
        )
        return Queue(self, name, cluster_queue)

    def queue(
        self,
        name: str = "main",
        cpu: object = None,
        flavors: Mapping[str, Mapping[str, object]] | None = None,
        **spec: Any,
    ) -> "Queue":
        """A ClusterQueue of that much cpu (or of these flavors), and a LocalQueue of the same name, both open."""
        if flavors is None:
            self.shared_flavor()
            flavors = {self.own("default"): {"cpu": cpu}}
        queue = self.local_queue(name, self.cluster_queue(name, flavors, **spec))
        queue.is_active()
        return queue

    def shared_flavor(self) -> None:
        if ("ResourceFlavor", self.own("default"), "") not in self.made:
            self.flavor("default")

    def cohort(self, name: str, annotations: Mapping[str, str] = {}, **spec: Any) -> str:
        metadata: Tree = {"name": self.own(name), "annotations": dict(annotations)}
        self.create({"apiVersion": KUEUE, "kind": "Cohort", "metadata": metadata, "spec": spec})
        return self.own(name)

    def priority(self, name: str, value: int) -> str:
        """A WorkloadPriorityClass."""
        self.create(
            {
                "apiVersion": KUEUE,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": self.own(name)},
                "value": value,
                "description": name,
            }
        )
        return self.own(name)

    def check(self, name: str, active: bool = True) -> str:
        """An AdmissionCheck that the story itself answers for."""
        self.create(
            {
                "apiVersion": KUEUE,
                "kind": "AdmissionCheck",
                "metadata": {"name": self.own(name)},
                "spec": {"controllerName": "e2e.pykueue.io/by-hand"},
            }
        )
        self.set_check_active(self.own(name), active)
        return self.own(name)

    def set_check_active(self, check: str, active: bool) -> None:
        one = {
            "type": "Active",
            "status": str(active),
            "reason": "ByHand",
            "message": "set by a story",
            "lastTransitionTime": self.instant(),
        }
        self.client.patch("AdmissionCheck", check, {"status": {"conditions": [one]}}, subresource="status")

    def node(self, name: str, labels: Mapping[str, str], pods: int = 100) -> str:
        """A node of the story's own; with a taint that nobody tolerates it takes no pod of another story."""
        self.backend.add_node(self.own(name), labels, pods)
        self.nodes.append(self.own(name))
        return self.own(name)

    def job(self, name: str, queue: str = "", **how: Any) -> Job:
        """A Job, in a queue if one is named; see `job.job` for how."""
        return job(self, name, queue, **how)

    # -- what anyone can look at

    def get(self, kind: str, name: str, namespace: str = "") -> Tree:
        return self.client.get(kind, name, namespace)

    def eventually(self, holds: Callable[[], bool], what: str, timeout: float = WAIT) -> None:
        """Wait until something is so."""
        if not self.client.soon(holds, timeout):
            raise Late(f"{what}: not so within {timeout} s\n{self.log_about('')}")

    def sleep(self, seconds: float) -> None:
        """Let time pass, where the story is about time itself."""
        self.client.sleep(seconds)

    def instant(self) -> str:
        """Now, as the API writes it."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.backend.now()))

    def kubectl(self, *args: str | Path, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl prints; with `check` a failure is an error that shows what it said."""
        return self.backend.kubectl(*args, stdin=stdin, check=check)

    def never(self, holds: Callable[[], bool], what: str, seconds: float = 1.5) -> None:
        """Look for a while that something does not come about."""
        assert not self.client.soon(holds, seconds), what

    def event(self, about: str, reason: str, note: str | None = None, type_: str = "Normal") -> Tree:
        """The event of this reason, and note if one is given, about an object of the story; waits for it."""
        found: list[Tree] = []

        def seen() -> bool:
            found[:] = [
                tree
                for tree in self.client.events(about, self.namespace)
                if tree["reason"] == reason and note in (None, tree.get("note"))
            ]
            return bool(found)

        if not self.client.soon(seen, WAIT):
            said = self.client.events_text(about, self.namespace)
            raise Late(f"no event {reason} {note!r} about {about}. {said}\n{self.log_about('')}")
        assert found[-1]["type"] == type_, f"{reason} is a {found[-1]['type']} event, not {type_}"
        return found[-1]

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        lines = [line for line in self.backend.metrics().splitlines() if re.match(rf"{name}[ {{]", line)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(one in line for one in wanted))

    def events(self, about: str, reason: str) -> list[Tree]:
        return [tree for tree in self.client.events(about, self.namespace) if tree["reason"] == reason]

    @contextlib.contextmanager
    def recorded(self, kind: str = "Workload") -> Iterator[dict[str, list[Tree]]]:
        """Every version of the story's workloads, or others, that is seen from now to the end of the block, by name."""
        versions: dict[str, list[Tree]] = {}

        def keep(event: Tree) -> None:
            versions.setdefault(event["object"]["metadata"]["name"], []).append(event["object"])

        with self.client.following(kind, self.namespace, keep):
            yield versions


class Queue:
    """A LocalQueue and the ClusterQueue that it points to."""

    def __init__(self, team: Team, name: str, cluster_queue: str) -> None:
        self.team = team
        self.name = name
        self.cluster_queue = cluster_queue

    def job(self, name: str, **how: Any) -> "Job":
        """A Job in this queue; see `job.job` for how."""
        return job(self.team, name, self.name, **how)

    def is_active(self, timeout: float = WAIT) -> None:
        for kind, name, namespace in (
            ("ClusterQueue", self.cluster_queue, ""),
            ("LocalQueue", self.name, self.team.namespace),
        ):
            self.team.client.wait_for(
                kind,
                name,
                namespace,
                lambda tree: condition(tree, "Active").get("status") == "True",
                timeout,
                "Active=True",
            )

    def says(self, type_: str, status: bool, reason: str, message: str) -> Tree:
        """The ClusterQueue once a condition of it is so."""
        return self.condition_of("ClusterQueue", self.cluster_queue, "", type_, status, reason, message)

    def local_says(self, type_: str, status: bool, reason: str, message: str) -> Tree:
        """The LocalQueue once a condition of it is so."""
        return self.condition_of("LocalQueue", self.name, self.team.namespace, type_, status, reason, message)

    def condition_of(self, kind: str, name: str, namespace: str, *wanted: object) -> Tree:
        def so(tree: Tree) -> bool:
            one = condition(tree, str(wanted[0]))
            return [one.get("status"), one.get("reason"), one.get("message")] == [str(wanted[1]), *wanted[2:]]

        return self.team.client.wait_for(kind, name, namespace, so, what=f"{wanted}")

    def has_status(self, **fields: Any) -> Tree:
        """The ClusterQueue once its status has these fields."""
        return self.team.client.wait_for(
            "ClusterQueue",
            self.cluster_queue,
            until=lambda tree: all(tree.get("status", {}).get(key) == value for key, value in fields.items()),
            what=f"a status with {fields}",
        )

    def local_has_status(self, **fields: Any) -> Tree:
        """The LocalQueue once its status has these fields."""
        return self.team.client.wait_for(
            "LocalQueue",
            self.name,
            self.team.namespace,
            lambda tree: all(tree.get("status", {}).get(key) == value for key, value in fields.items()),
            what=f"a status with {fields}",
        )

    def uses(self, *, reserved: object = None, used: object = None, flavor: str = "", resource: str = "cpu") -> None:
        """Wait until the ClusterQueue reports these amounts of a resource."""

        def amount(tree: Tree, field: str) -> str:
            for one in tree.get("status", {}).get(field, []):
                if flavor in ("", one["name"]):
                    return next((str(r["total"]) for r in one["resources"] if r["name"] == resource), "")
            return ""

        def so(tree: Tree) -> bool:
            return (reserved is None or amount(tree, "flavorsReservation") == str(reserved)) and (
                used is None or amount(tree, "flavorsUsage") == str(used)
            )

        self.team.client.wait_for("ClusterQueue", self.cluster_queue, until=so, what=f"{reserved=} {used=}")

    def edit(self, **spec: Any) -> None:
        """Change fields of the ClusterQueue's spec."""
        self.team.client.patch("ClusterQueue", self.cluster_queue, {"spec": spec})

    def edit_local(self, **spec: Any) -> None:
        self.team.client.patch("LocalQueue", self.name, {"spec": spec}, self.team.namespace)

    def set_quota(self, amount: object, resource: str = "cpu") -> None:
        """Change the nominal quota of the first flavor."""
        groups = self.team.get("ClusterQueue", self.cluster_queue)["spec"]["resourceGroups"]
        for one in groups[0]["flavors"][0]["resources"]:
            if one["name"] == resource:
                one["nominalQuota"] = str(amount)
        self.edit(resourceGroups=groups)
