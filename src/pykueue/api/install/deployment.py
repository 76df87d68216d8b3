"""The manager in a cluster: namespace, configuration, Deployment, Services and API priority.

Names, ports and labels are Kueue's, so that these objects replace Kueue's own when they are applied.
"""

from hashlib import sha256
from typing import Final

from pykueue.api.config.file import CURRENT
from pykueue.api.config.types import LEADER_LEASE, SYSTEM_NAMESPACE
from pykueue.api.core import Json, Tree
from pykueue.api.install.install import ACCOUNT, LABELS, SELECTED, Install, named
from pykueue.api.install.visibility import is_served

CONFIG: Final = "kueue-manager-config"
CONFIG_FILE: Final = "controller_manager_config.yaml"
CHECKSUM: Final = "charts.kueue.x-k8s.io/config-checksum"
"""The annotation of the pods with the checksum of their Configuration, as in Kueue's chart. The manager reads its file
once, at startup: a changed Configuration changes the pod template, and the Deployment replaces the pods."""
CERTIFICATES: Final = "/tmp/k8s-webhook-server/serving-certs"
"""Where the manager looks for certificates that it does not create, unless the Configuration says otherwise."""
FLOW: Final = "kueue-manager"


def shipped(namespace: str) -> str:
    """The Configuration that an installation starts with."""
    return f"""\
apiVersion: {CURRENT}
kind: Configuration
namespace: {namespace}
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
webhook:
  port: 9443
leaderElection:
  leaderElect: true
  resourceName: {LEADER_LEASE}
managedJobsNamespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: [{SYSTEM_NAMESPACE}, {namespace}]
integrations:
  frameworks: [batch/job]
"""


def namespaced(install: Install) -> tuple[Tree, ...]:
    """The Namespace."""
    return ({"apiVersion": "v1", "kind": "Namespace", "metadata": named(install.namespace)},)


def configuration_text(install: Install) -> str:
    """The text of the manager's Configuration."""
    return install.text or shipped(install.namespace)


def configured(install: Install) -> tuple[Tree, ...]:
    """The Configuration, and the Secret that holds the manager's certificate."""
    return (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": named(CONFIG, install.namespace),
            "data": {CONFIG_FILE: configuration_text(install)},
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": named(install.secret, install.namespace)},
    )


def deployed(install: Install) -> tuple[Tree, ...]:
    """The Deployment, its Services, and its PodDisruptionBudget."""
    metrics = port_of(install.configuration.metrics.bind_address)
    reached: tuple[Tree, ...] = (
        service(install, install.service, {"name": "webhook-server", "port": 443, "targetPort": "webhook-server"}),
    )
    if metrics:
        port: Tree = {"name": "https", "port": metrics, "targetPort": "metrics"}
        reached = (*reached, service(install, f"{ACCOUNT}-metrics-service", port))
    pods: Tree = {"matchLabels": SELECTED}
    return (
        *reached,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": named(ACCOUNT, install.namespace),
            "spec": {"replicas": install.replicas, "selector": pods, "template": pod(install)},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": named("kueue-manager-pdb", install.namespace),
            # Not `minAvailable`: with one replica that would block every drain of its node.
            "spec": {"maxUnavailable": 1, "selector": pods},
        },
    )


def port_of(address: str) -> int:
    """The port of an address such as `:8443`; 0 if nothing is served."""
    return int(address.rpartition(":")[2])


def service(install: Install, name: str, port: Tree) -> Tree:
    """A Service in front of the manager's pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": named(name, install.namespace),
        "spec": {"ports": [port | {"protocol": "TCP"}], "selector": SELECTED},
    }


def pod(install: Install) -> Tree:
    """The template of the manager's pods."""
    spread: Tree = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": SELECTED},
    }
    certificates: Tree = {"name": "cert", "secret": {"secretName": install.secret}}
    return {
        "metadata": {
            "annotations": {
                CHECKSUM: sha256(configuration_text(install).encode()).hexdigest(),
                "kubectl.kubernetes.io/default-container": "manager",
            },
            "labels": LABELS,
        },
        "spec": {
            "serviceAccountName": ACCOUNT,
            "terminationGracePeriodSeconds": 10,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "topologySpreadConstraints": [spread],
            "containers": [container(install)],
            "volumes": [
                {"name": "manager-config", "configMap": {"name": CONFIG}},
                # Certificates pass through a file, since Python's TLS reads them only from files.
                {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
                *(() if install.makes_certificates else (certificates,)),
            ],
        },
    }


def container(install: Install) -> Tree:
    """The manager's container."""
    configuration = install.configuration
    health = configuration.health
    probed = port_of(health.health_probe_bind_address)
    probes: Tree = {
        "livenessProbe": probe(health.liveness_endpoint_name, probed, delay=15, period=20),
        "readinessProbe": probe(health.readiness_endpoint_name, probed, delay=1, period=5),
    }
    ports: list[Json] = [{"name": "webhook-server", "containerPort": configuration.webhook.port, "protocol": "TCP"}]
    certificates: Tree = {"name": "cert", "mountPath": configuration.webhook.cert_dir or CERTIFICATES, "readOnly": True}
    metrics = port_of(configuration.metrics.bind_address)
    if metrics:
        ports.append({"name": "metrics", "containerPort": metrics, "protocol": "TCP"})
    if is_served(install):
        visibility = configuration.visibility_server.bind_port
        ports.append({"name": "visibility", "containerPort": visibility, "protocol": "TCP"})
    return {
        "name": "manager",
        "image": install.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["pykueue"],
        "args": [
            "manager",
            f"--config=/{CONFIG_FILE}",
            *(("--tolerate-unknown-gates",) if install.tolerate_unknown_gates else ()),
        ],
        "ports": ports,
        **(probes if probed else {}),
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "manager-config", "mountPath": f"/{CONFIG_FILE}", "subPath": CONFIG_FILE, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            *(() if install.makes_certificates else (certificates,)),
        ],
    }


def probe(name: str, port: int, *, delay: int, period: int) -> Tree:
    """A probe of the kubelet."""
    asked: Tree = {"path": f"/{name.removeprefix('/')}", "port": port}
    return {"httpGet": asked, "initialDelaySeconds": delay, "periodSeconds": period}


def flow(install: Install) -> tuple[Tree, ...]:
    """A priority level of the API server for the manager's requests, so that other controllers do not delay them."""
    version = "flowcontrol.apiserver.k8s.io/v1"
    account: Tree = {"name": ACCOUNT, "namespace": install.namespace}
    anything: Tree = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "clusterScope": True,
        "namespaces": ["*"],
    }
    return (
        {
            "apiVersion": version,
            "kind": "PriorityLevelConfiguration",
            "metadata": named(FLOW),
            "spec": {
                "type": "Limited",
                "limited": {
                    "nominalConcurrencyShares": 20,
                    "lendablePercent": 50,
                    "limitResponse": {
                        "type": "Queue",
                        "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 1000},
                    },
                },
            },
        },
        {
            "apiVersion": version,
            "kind": "FlowSchema",
            "metadata": named(FLOW),
            "spec": {
                # Before the rules for service accounts in general (9000), after those of the control plane.
                "matchingPrecedence": 1000,
                "priorityLevelConfiguration": {"name": FLOW},
                "rules": [
                    {
                        "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
                        "resourceRules": [anything],
                    }
                ],
            },
        },
    )
