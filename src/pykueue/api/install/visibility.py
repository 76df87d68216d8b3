"""Our aggregated APIs in a cluster: the Service and the APIServices by which the API server forwards calls to us.

Names and fields are Kueue's, but for the APIService of our own group.
"""

from typing import Final

from pykueue.api.config.types import SYSTEM_NAMESPACE
from pykueue.api.core import Tree
from pykueue.api.install.install import ACCOUNT, SELECTED, Install, named
from pykueue.api.query import QUERY_GROUP, QUERY_VERSION
from pykueue.api.visibility import VISIBILITY_GROUP, VISIBILITY_VERSIONS

SERVICE: Final = "kueue-visibility-server"
GATE: Final = "VisibilityOnDemand"
RBAC: Final = "rbac.authorization.k8s.io"


def is_served(install: Install) -> bool:
    """Whether the Configuration leaves the API on."""
    return install.configuration.feature_gates.get(GATE, True)


def visibility(install: Install) -> tuple[Tree, ...]:
    """The Service and the APIServices; nothing if the API is off, since the server would look for it in vain."""
    if not is_served(install):
        return ()
    port: Tree = {
        "name": "https",
        "port": 443,
        "protocol": "TCP",
        "targetPort": install.configuration.visibility_server.bind_port,
    }
    service: Tree = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": named(SERVICE, install.namespace),
        "spec": {"ports": [port], "selector": SELECTED},
    }
    return (
        service,
        *(api_service(install, VISIBILITY_GROUP, version) for version in sorted(VISIBILITY_VERSIONS)),
        api_service(install, QUERY_GROUP, QUERY_VERSION),
    )


def api_service(install: Install, group: str, version: str) -> Tree:
    """Tells the API server who serves a version of a group."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": named(f"{version}.{group}"),
        "spec": {
            "group": group,
            "groupPriorityMinimum": 100,
            # As in Kueue. The server proves by its own certificate who it is; ours is not checked.
            "insecureSkipTLSVerify": True,
            "service": {"name": SERVICE, "namespace": install.namespace},
            "version": version,
            "versionPriority": 100,
        },
    }


def reader_binding(install: Install) -> Tree:
    """The right to read by which certificate the API server is recognised."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": named(f"{SERVICE}-auth-reader", SYSTEM_NAMESPACE),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "extension-apiserver-authentication-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": install.namespace}],
    }
