"""Does `pykueue doctor` examine a server, and say what its user may not read?"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from pykueue.api.install.crds import crds
from pykueue.api.install.install import Install
from pykueue.api.install.webhooks import webhooks
from pykueue.api.names import SERVER_VERSION
from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.cli.doctor.inventory import Inventory, Manager
from pykueue.cli.doctor.live import from_server
from pykueue.cli.doctor.table import AFTER_SWITCH, examined
from pykueue.kube.client.http import HttpKube
from tests.fakes.tinyapi import TinyApi, status

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
OLD = "2026-01-01T00:00:00Z"
Tree = dict[str, Any]


def cluster_queue(name: str = "main", **spec: Any) -> Tree:
    resources = [{"name": "cpu", "nominalQuota": "4"}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name, "creationTimestamp": OLD, "generation": 1},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
        "status": {
            "pendingWorkloads": 2,
            "conditions": [
                {"type": "Active", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": OLD}
            ],
        },
    }


def named(kind: str, name: str, version: str = "kueue.x-k8s.io/v1beta2", namespace: str = "", **more: Any) -> Tree:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place}, **more}


def pending(name: str, message: str, reason: str = "ExceedsMaxQuota") -> Tree:
    told = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": OLD,
    }
    return named("Workload", name, namespace="default", spec={"queueName": "main"}, status={"conditions": [told]})


NEVER = (
    "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered "
    "podsets requests (0) + current podset request (9) > maximum capacity (4)"
)


class Cluster:
    """Answers for a cluster, of any scope, through the accidents of a TinyApi."""

    def __init__(self, api: TinyApi) -> None:
        self.api = api
        self.objects: dict[str, dict[str, Tree]] = {}
        """By collection, then by name."""
        self.allowed: tuple[str, ...] = ("/",)
        """Parts of paths, of which one is in each request that is allowed."""
        self.version = "v1.36.0"
        self.unserved = ""
        """A group that the server does not serve."""
        api.accident = self.answer

    def put(self, collection: str, tree: Tree) -> None:
        self.objects.setdefault(collection, {})[tree["metadata"]["name"]] = tree

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.replace("/namespaces/default/", "/").replace("/namespaces/kueue-system/", "/")
        if not any(part in request.path for part in self.allowed):
            return status(403, "Forbidden", f'User "bob" cannot list {path}')
        if self.unserved and self.unserved in path:
            return status(404, "NotFound")
        if path == "/version":
            return web.json_response({"gitVersion": self.version})
        if "/visibility.kueue.x-k8s.io/" in path:
            row = {"priority": 0, "localQueueName": "main", "positionInClusterQueue": 0, "positionInLocalQueue": 0}
            return web.json_response({"items": [{"metadata": {"name": "huge", "namespace": "default"}, **row}]})
        collection, _, name = path.rpartition("/")
        if name in self.objects.get(collection, {}):
            return web.json_response(self.objects[collection][name])
        if collection in self.objects:
            return status(404, "NotFound")
        return web.json_response({"metadata": {}, "items": [*self.objects.get(path, {}).values()]})


@pytest.fixture
async def server() -> AsyncIterator[Cluster]:
    api = TinyApi()
    async with api.serve():
        cluster = Cluster(api)
        installed(cluster)
        yield cluster


def installed(api: Cluster) -> None:
    """A cluster of pykueue without mistakes."""
    api.put(f"{KUEUE}/clusterqueues", cluster_queue())
    api.put(f"{KUEUE}/localqueues", named("LocalQueue", "main", namespace="default", spec={"clusterQueue": "main"}))
    api.put(f"{KUEUE}/resourceflavors", named("ResourceFlavor", "default", spec={}))
    api.put("/api/v1/namespaces", named("Namespace", "default", "v1"))
    container = {"name": "manager", "command": ["pykueue"]}
    deployment = named("Deployment", "kueue-controller-manager", "apps/v1", namespace="kueue-system")
    deployment["spec"] = {"template": {"spec": {"containers": [container]}}}
    api.put("/apis/apps/v1/deployments", deployment)
    for one in crds():
        api.put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", dict(one))
    for one in webhooks(Install()):
        kind = str(one["kind"])
        if kind.endswith("WebhookConfiguration"):
            api.put(f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s", dict(one))
    renewed = format_instant(SystemClock().now())
    lease = named("Lease", "c1f6bfd2.kueue.x-k8s.io", "coordination.k8s.io/v1", namespace="kueue-system")
    api.put("/apis/coordination.k8s.io/v1/leases", {**lease, "spec": {"renewTime": renewed}})


async def read(api: Cluster) -> tuple[Inventory, list[str]]:
    kube = HttpKube(api.api.connection(), SystemClock())
    try:
        return await from_server(kube, SystemClock(), namespace="default")
    finally:
        await kube.close()


async def ids(api: Cluster) -> list[str]:
    return [one.id for one in examined((await read(api))[0])[0]]


async def test_a_cluster_without_mistakes(server: Cluster) -> None:
    inventory, narrowed = await read(server)
    findings, skipped = examined(inventory)
    assert findings == []
    assert skipped == []
    assert narrowed == []
    assert inventory.manager is Manager.PYKUEUE
    assert inventory.installation.there is not None


async def test_pending_workloads_are_read_from_their_conditions(server: Cluster) -> None:
    server.put(f"{KUEUE}/workloads", pending("huge", NEVER))
    server.put(f"{KUEUE}/workloads", pending("later", "Workload is in the queue", "PendingEvaluation"))
    [found] = examined((await read(server))[0])[0]
    assert (found.id, found.object) == ("request-never-fits", "Workload default/huge")
    assert "asks for 9 cpu, this queue can have 4 at most" in found.message


async def test_the_head_of_a_strict_queue(server: Cluster) -> None:
    server.put(f"{KUEUE}/clusterqueues", cluster_queue(queueingStrategy="StrictFIFO"))
    server.put(f"{KUEUE}/workloads", pending("huge", "it waits", "WaitingForQuota"))
    assert await ids(server) == ["head-blocks"]


async def test_checks_classes_and_old_writers(server: Cluster) -> None:
    checked = cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "approval"}]})
    fields = [{"manager": "argocd", "operation": "Apply", "apiVersion": "kueue.x-k8s.io/v1beta1"}]
    checked["metadata"]["managedFields"] = fields
    server.put(f"{KUEUE}/clusterqueues", checked)
    server.put(f"{KUEUE}/admissionchecks", named("AdmissionCheck", "approval", spec={"controllerName": "x.io/y"}))
    found = {one.id: one.message for one in examined((await read(server))[0])[0]}
    assert found.keys() == {"check-inactive", "deprecated-version"}
    assert "its controller x.io/y has not reported" in found["check-inactive"]
    assert "argocd" in found["deprecated-version"]


async def test_a_manager_that_has_gone_and_definitions_of_another_version(server: Cluster) -> None:
    lease = named("Lease", "c1f6bfd2.kueue.x-k8s.io", "coordination.k8s.io/v1", namespace="kueue-system")
    past = format_instant(Instant(SystemClock().now() - 3600 * MICROS))
    server.put("/apis/coordination.k8s.io/v1/leases", {**lease, "spec": {"renewTime": past}})
    del server.objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"]["cohorts.kueue.x-k8s.io"]
    server.objects["/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"].clear()
    assert set(await ids(server)) == {"manager-absent", "crds-differ", "webhooks-differ"}


async def test_a_server_without_kueue(server: Cluster) -> None:
    server.unserved = "kueue.x-k8s.io"
    inventory, _ = await read(server)
    assert inventory.lacks_kueue
    server.unserved = ""
    assert not (await read(server))[0].lacks_kueue


async def test_a_cluster_that_kueue_manages_learns_what_a_switch_would_change(server: Cluster) -> None:
    deployment = server.objects["/apis/apps/v1/deployments"]["kueue-controller-manager"]
    deployment["spec"]["template"]["spec"]["containers"] = [{"name": "manager", "command": ["/manager"]}]
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "train",
        "uid": "u",
        "controller": True,
    }
    for kind, version in (("JobSet", "jobset.x-k8s.io/v1alpha2"), ("Job", "batch/v1"), ("JobSet", "example.com/v1")):
        tree = pending(f"of-{kind}-{len(version)}".lower(), "Workload is in the queue", "PendingEvaluation")
        tree["metadata"]["ownerReferences"] = [owner | {"kind": kind, "apiVersion": version}]
        server.put(f"{KUEUE}/workloads", tree)
    server.put(f"{KUEUE}/resourceflavors", named("ResourceFlavor", "racks", spec={"topologyName": "dc"}))
    settings = named("ConfigMap", "kueue-manager-config", "v1", namespace="kueue-system")
    settings["data"] = {
        "controller_manager_config.yaml": "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "resources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}\n"
    }
    server.put("/api/v1/configmaps", settings)
    inventory, _ = await read(server)
    assert inventory.manager is Manager.OTHER
    findings, skipped = examined(inventory)
    told = {one.id: one for one in findings if one.message.startswith(AFTER_SWITCH)}
    assert told.keys() == {"kind-not-queued", "feature-unsupported", "configuration-invalid"}
    assert told["kind-not-queued"].object == "JobSet default/train"
    assert "(default/train)" in told["kind-not-queued"].message
    assert {one.id for one in skipped} == {"crds-differ", "webhooks-differ"}


async def test_a_user_of_one_namespace_gets_what_he_may_read(server: Cluster) -> None:
    server.put(f"{KUEUE}/workloads", pending("huge", NEVER))
    server.put(f"{KUEUE}/workloadpriorityclasses", named("WorkloadPriorityClass", "high", value=1))
    server.allowed = ("/workloadpriorityclasses", "/version", "/namespaces/default/")
    inventory, narrowed = await read(server)
    findings, skipped = examined(inventory)
    assert [one.id for one in findings] == ["request-never-fits"]
    assert narrowed == ["LocalQueue", "Workload"]
    reasons = {one.id: one.why for one in skipped}
    assert reasons["queue-nothing-fits"] == "you may not list clusterqueues.kueue.x-k8s.io"
    assert reasons["flavor-without-nodes"].startswith("you may not list")
    assert reasons["crds-differ"].startswith("the queues of this server do not appear to be managed by pykueue")
    assert reasons["priority-class-unused"] == "you may not list workloads.kueue.x-k8s.io of all namespaces"
    assert "request-never-fits" not in reasons


async def test_the_server_of_one_machine_has_no_definitions(server: Cluster) -> None:
    server.version = SERVER_VERSION
    del server.objects["/apis/apps/v1/deployments"]
    inventory, _ = await read(server)
    assert inventory.manager is Manager.PYKUEUE
    assert {"crds-differ", "webhooks-differ"} <= {one.id for one in examined(inventory)[1]}
