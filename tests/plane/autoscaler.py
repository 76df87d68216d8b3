"""How does a plane get nodes when they are asked for? The real cluster-autoscaler, whose cloud is KWOK.

    with Autoscaler(plane, [NodeGroup("gpu", most=2, cpu="8", labels={"pool": "gpu"})]) as autoscaler:
        …                                      # ready: it has looked at the cluster once
        autoscaler.nodes("gpu")                # names of the nodes that it has added to a group
        autoscaler.stop()                      # SIGTERM; it takes its nodes away, as the end of the block does

It answers every ProvisioningRequest of the plane, so one runs at a time: stories that start one are of the same
`xdist_group`. The plane's own nodes hold whatever they are given; a request that is to need new nodes selects them by a
label of its group, or by `GROUP`, which each node of a group has. A request that is refused is looked at again after
`RETRY`; one that is granted is booked for ten minutes, whatever runs there.
"""

import json
import urllib.request
from collections.abc import Mapping, Sequence

from pykueue.base.struct import Frozen
from tests.plane.client import Client, Tree
from tests.plane.plane import Plane, documents
from tests.plane.process import Program, free_ports

NAMESPACE = "kube-system"
TEMPLATES = "kwok-provider-templates"
GROUP = "e2e.pykueue.io/node-group"
"""The label that says of which group a node is."""
COUNTS = "cluster-autoscaler.kwok.nodegroup"
SCAN = "500ms"
RETRY = "3s"
LOOKED = 'cluster_autoscaler_function_duration_seconds_count{function="main"}'
"""How its metrics begin the line that counts the times it has looked at the cluster."""


class NodeGroup(Frozen):
    """Nodes of one kind, of which there may be more or fewer."""

    name: str
    most: int
    least: int = 0
    cpu: str = "4"
    memory: str = "16Gi"
    labels: Mapping[str, str] = {}
    resources: Mapping[str, str] = {}
    """What a node has besides."""

    def template(self) -> Tree:
        """A node as the autoscaler would add it."""
        capacity = {"cpu": self.cpu, "memory": self.memory, "pods": "110", **self.resources}
        counts = {"min": self.least, "max": self.most, "desired": self.least}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": {GROUP: self.name, **self.labels},
                "annotations": {f"{COUNTS}/{which}-count": str(count) for which, count in counts.items()},
            },
            "status": {"capacity": capacity, "allocatable": capacity},
        }


def config_maps(groups: Sequence[NodeGroup]) -> list[Tree]:
    """What the autoscaler reads of its cloud when it starts."""
    config = {
        "apiVersion": "v1alpha1",
        "readNodesFrom": "configmap",
        "nodegroups": {"fromNodeLabelKey": GROUP},
        "nodes": {"skipTaint": True},
        "configmap": {"name": TEMPLATES},
    }
    templates = {"apiVersion": "v1", "kind": "List", "items": [group.template() for group in groups]}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {key: json.dumps(content)},
        }
        for name, key, content in (("kwok-provider-config", "config", config), (TEMPLATES, "templates", templates))
    ]


def define_requests(plane: Plane) -> None:
    """Have the plane serve ProvisioningRequests, by the definition that the autoscaler brings along."""
    definition = plane.bin / "crds" / "autoscaling.x-k8s.io_provisioningrequests.yaml"
    for tree in documents(definition.read_text()):
        plane.client.apply(tree)
        plane.await_defined(tree["metadata"]["name"])


class Autoscaler(Program):
    """A cluster-autoscaler that runs. Use it in a `with`, or stop or kill it."""

    def __init__(
        self, plane: Plane, groups: Sequence[NodeGroup], *, args: Sequence[str] = (), name: str = "cluster-autoscaler"
    ) -> None:
        self.plane = plane
        (self.port,) = free_ports(1)
        define_requests(plane)
        plane.apply_all(config_maps(groups))
        command = [
            str(plane.bin / "cluster-autoscaler"),
            "--cloud-provider=kwok",
            f"--kubeconfig={plane.kubeconfig}",
            f"--namespace={NAMESPACE}",
            f"--address=127.0.0.1:{self.port}",
            "--enable-provisioning-requests",
            # In the default encoding it cannot write ProvisioningRequests.
            "--kube-api-content-type=application/json",
            "--leader-elect=false",
            f"--scan-interval={SCAN}",
            f"--provisioning-request-initial-backoff-time={RETRY}",
            f"--provisioning-request-max-backoff-time={RETRY}",
            # The plane's own nodes have more than it would let a cluster have.
            "--cores-total=0:100000000",
            "--memory-total=0:100000000",
            "--enforce-node-group-min-size",
            "--scale-down-enabled=false",
            "--kube-client-qps=100",
            "--kube-client-burst=200",
            "--v=4",
            *args,
        ]
        # The provider has a client of its own, which finds the cluster as kubectl does.
        env = {"KWOK_PROVIDER_MODE": "local", "POD_NAMESPACE": NAMESPACE, "KUBECONFIG": str(plane.kubeconfig)}
        super().__init__(name, command, plane.folder / f"{name}.log", env)
        try:
            self.await_ready()
        except BaseException:
            self.kill()
            raise

    def await_ready(self, timeout: float = 60.0) -> None:
        """Return when it has looked at the cluster, or say what it logged instead."""

        def ready() -> bool:
            if not self.alive():
                raise AssertionError(f"{self.name} ended at its start, code {self.popen.returncode}:\n{self.tail(60)}")
            return LOOKED in self.metrics()

        if not Client.soon(ready, timeout):
            raise AssertionError(f"{self.name} is not ready after {timeout} s:\n{self.tail(60)}")

    def metrics(self) -> str:
        """Its metrics; empty when it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            return ""

    def nodes(self, group: str) -> list[str]:
        """Names of the nodes of a group."""
        return sorted(node["metadata"]["name"] for node in self.plane.client.objects("Node", labels=f"{GROUP}={group}"))

    def __enter__(self) -> "Autoscaler":
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop(30)
