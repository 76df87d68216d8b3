"""How does the API server of a plane forward our aggregated APIs to a manager? By our manifests, at a local address."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pykueue.api.install.install import Install
from pykueue.api.install.visibility import visibility
from pykueue.kube.port import Resource
from tests.plane.client import condition
from tests.plane.plane import Plane
from tests.plane.process import free_ports
from tests.plane.programs import ManagerProcess, Site, ours
from tests.plane.proxy import Proxy

ADDRESS = "127.64.0.11"
NAMESPACES = ("red", "blue")
SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService")


def fitted(port: int) -> list[dict[str, Any]]:
    """Our manifests, for a server that reaches the Service at an address of the loopback."""
    service, *registered = json.loads(json.dumps(visibility(Install())))
    service["spec"]["clusterIP"] = ADDRESS
    service["spec"]["ports"][0]["port"] = port
    for one in registered:
        one["spec"]["service"]["port"] = port
    # The server wants to know that somebody is behind the Service, and goes to the Service's own address.
    behind = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kueue-visibility-server",
            "namespace": "kueue-system",
            "labels": {"kubernetes.io/service-name": "kueue-visibility-server"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.1.1"], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    return [service, behind, *registered]


def people(plane: Plane) -> dict[str, Path]:
    """The kubeconfigs of an administrator, and of a user with Kueue's batch-user role in one of two namespaces."""
    for name in NAMESPACES:
        plane.namespace(name)
    plane.kubectl("-n", "red", "create", "serviceaccount", "user")
    bound = ("--clusterrole=kueue-batch-user-role", "--serviceaccount=red:user")
    plane.kubectl("-n", "red", "create", "rolebinding", "user", *bound)
    return {"admin": plane.kubeconfig, "user": plane.kubeconfig_for(plane.token("red", "user"), "user")}


@contextlib.contextmanager
def questioned() -> Iterator[tuple[Plane, ManagerProcess]]:
    """A plane without nodes, whose API server forwards our aggregated APIs to a manager."""
    with (
        Plane.start(nodes=0) as plane,
        Site.on(plane, ours()) as site,
        site.ours() as manager,
        registered(plane, manager),
    ):
        yield plane, manager


@contextlib.contextmanager
def registered(plane: Plane, manager: ManagerProcess) -> Iterator[None]:
    """Have the API server forward the group to a manager."""
    (port,) = free_ports(1)
    trees = fitted(port)
    listed = {"apiVersion": "v1", "kind": "List", "items": trees}
    plane.kubectl("-n", "kueue-system", "delete", "service", "kueue-visibility-server")
    with Proxy(lambda: [manager.ports["visibility"]], ADDRESS, port):
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(listed))
        for tree in trees[2:]:
            name = tree["metadata"]["name"]
            plane.client.wait_for(
                SERVICES, name, until=lambda one: condition(one, "Available").get("status") == "True", what="Available"
            )
        yield
