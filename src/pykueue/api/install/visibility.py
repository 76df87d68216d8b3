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
FLOW: Final = "flowcontrol.apiserver.k8s.io"


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


def visibility_flow(install: Install) -> tuple[Tree, ...]:
    """Limits on the calls of users, as an API server's flow control has them; Kueue's own, for those who want them."""
    name = "kueue-visibility"
    level: Tree = {
        "apiVersion": f"{FLOW}/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": named(name),
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 10,
                "lendablePercent": 90,
                "limitResponse": {"type": "Queue", "queuing": {"queues": 16, "handSize": 4, "queueLengthLimit": 50}},
            },
        },
    }
    rule: Tree = {
        "apiGroups": [VISIBILITY_GROUP, QUERY_GROUP],
        "clusterScope": True,
        "namespaces": ["*"],
        "resources": ["*"],
        "verbs": ["*"],
    }
    groups = ("system:unauthenticated", "system:authenticated")
    schema: Tree = {
        "apiVersion": f"{FLOW}/v1",
        "kind": "FlowSchema",
        "metadata": named(name),
        "spec": {
            "priorityLevelConfiguration": {"name": name},
            "matchingPrecedence": 9000,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [
                {
                    "subjects": [{"kind": "Group", "group": {"name": group}} for group in groups],
                    "resourceRules": [rule],
                }
            ],
        },
    }
    return (level, schema)


def reader_binding(install: Install) -> Tree:
    """The right to read by which certificate the API server is recognised."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": named(f"{SERVICE}-auth-reader", SYSTEM_NAMESPACE),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "extension-apiserver-authentication-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": install.namespace}],
    }
