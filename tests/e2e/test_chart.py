"""Does the Helm chart give the objects of `pykueue manifests`, and can it be installed, upgraded and removed?"""

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from pykueue.api.config.types import DEFAULT_NAMESPACE
from pykueue.api.config.unbuilt import read_built
from pykueue.api.core import Tree
from pykueue.api.install.deployment import CHECKSUM, CONFIG_FILE, shipped
from pykueue.api.install.install import Install
from pykueue.api.install.manifests import OPTIONAL, PARTS, manifests, rendered
from tests.chart import CHART, version
from tests.chartvalues import VALUES_OF_KUEUE
from tests.documents import commands
from tests.e2e.backend import only_on_plane
from tests.plane.plane import Plane, executables
from tests.plane.programs import Site, ours

only_on_plane("it needs helm and a cluster")

NAMESPACE = "batch-system"
IMAGE = "example.com/batch/pykueue:1.2"
ALWAYS = (
    "--set",
    "createNamespace=true",
    "--set",
    "image.repository=example.com/batch/pykueue",
    "--set",
    "image.tag=1.2",
)
KEEP = "helm.sh/resource-policy"
DEPLOYMENT = "Deployment kueue-controller-manager"
CONFIG_MAP = "ConfigMap kueue-manager-config"

CLUSTER_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: batch}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1}]}]
"""
QUEUED = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: default}
spec: {clusterQueue: batch}
---
apiVersion: batch/v1
kind: Job
metadata: {name: long, namespace: default, labels: {kueue.x-k8s.io/queue-name: jobs}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, resources: {requests: {cpu: 1}}}]
"""


def helm(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    program = executables("helm") / "helm"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=check)


def named(trees: list[Any]) -> dict[str, Any]:
    """Objects by kind and name, their Configuration parsed, without the mark that keeps definitions.

    Also without the checksum of the Configuration, after checking that it is the one of the ConfigMap's text: Helm
    writes the same Configuration with other spaces and in another order.
    """
    found = {f"{tree['kind']} {tree['metadata']['name']}": tree for tree in trees if tree is not None}
    for tree in found.values():
        if tree["kind"] == "CustomResourceDefinition" and "annotations" in tree["metadata"]:
            assert tree["metadata"].pop("annotations") == {KEEP: "keep"}
    data, text = found[CONFIG_MAP]["data"], found[CONFIG_MAP]["data"][CONFIG_FILE]
    annotations = found[DEPLOYMENT]["spec"]["template"]["metadata"]["annotations"]
    assert annotations.pop(CHECKSUM) == sha256(text.encode()).hexdigest()
    data[CONFIG_FILE] = yaml.safe_load(text)
    return found


def templated(tmp_path: Path, values: dict[str, Any], *more: str) -> dict[str, Any]:
    """What the chart renders with these values."""
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    file = str(tmp_path / "values.yaml")
    told = helm("template", "pykueue", str(CHART), "--namespace", NAMESPACE, *ALWAYS, "--values", file, *more)
    return named(list(yaml.safe_load_all(told.stdout)))


def expected(sections: dict[str, Any], parts: tuple[str, ...] = tuple(PARTS), **options: Any) -> dict[str, Any]:
    """What `pykueue manifests` prints with these sections of the Configuration."""
    text = yaml.safe_dump({**yaml.safe_load(shipped(NAMESPACE)), **sections})
    loaded, mistakes = read_built(text)
    assert loaded is not None
    assert not mistakes
    install = Install(namespace=NAMESPACE, image=IMAGE, configuration=loaded.configuration, text=text, **options)
    trees: tuple[Tree, ...] = manifests(install, parts)
    return named(list(yaml.safe_load_all(yaml.safe_dump_all(trees))))


@pytest.mark.parametrize(
    ("values", "options"),
    [
        pytest.param({}, {}, id="defaults"),
        pytest.param({"replicas": 3}, {"replicas": 3}, id="replicas"),
        pytest.param({"tolerateUnknownGates": True}, {"tolerate_unknown_gates": True}, id="unknown gates"),
        pytest.param({"defaultQueues": "webhook"}, {"default_queues": "webhook"}, id="default queues by webhook"),
        pytest.param({"configuration": {"manageJobsWithoutQueueName": True}}, {}, id="every Job is managed"),
        pytest.param(
            {"configuration": {"manageJobsWithoutQueueName": True}, "defaultQueues": "webhook"},
            {"default_queues": "webhook"},
            id="every Job is managed, with webhook",
        ),
        pytest.param(
            {"configuration": {"metrics": {"bindAddress": ":9090"}, "webhook": {"port": 9000}}}, {}, id="ports"
        ),
        pytest.param({"configuration": {"metrics": {"bindAddress": "0"}}}, {}, id="no metrics"),
        pytest.param({"configuration": {"health": {"healthProbeBindAddress": "0"}}}, {}, id="no probes"),
        pytest.param({"configuration": {"visibilityServer": {"bindPort": 9001}}}, {}, id="port of the visibility API"),
        pytest.param({"configuration": {"featureGates": {"VisibilityOnDemand": False}}}, {}, id="no visibility API"),
        pytest.param({"configuration": {"internalCertManagement": {"enable": False}}}, {}, id="other certificates"),
        pytest.param(
            {"configuration": {"managedJobsNamespaceSelector": {"matchLabels": {"batch": "yes"}}}},
            {},
            id="managed namespaces",
        ),
    ],
)
def test_the_chart_renders_what_the_command_prints(
    values: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    assert templated(tmp_path, values) == expected(values.get("configuration", {}), **options)


def test_parts_are_turned_on_and_off(tmp_path: Path) -> None:
    values = {"visibilityFlowControl": True, "crds": {"install": False}}
    parts = tuple(part for part in (PARTS | OPTIONAL) if part != "crds")
    assert templated(tmp_path, values) == expected({}, parts)


def test_values_that_only_the_chart_has(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
    }
    given = {
        **fields,
        "image": {"pullPolicy": "Always"},
        "resources": {"limits": {"memory": "1Gi"}},
        "podAnnotations": {"example.com/team": "batch"},
        "podLabels": {"example.com/tier": "system"},
        "logLevel": "debug",
        "extraArgs": ["--log-format=json"],
    }
    template = templated(tmp_path, given)[DEPLOYMENT]["spec"]["template"]
    assert {name: template["spec"][name] for name in fields} == fields
    container = template["spec"]["containers"][0]
    # Helm merges maps: what is not given keeps its default.
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert container["imagePullPolicy"] == "Always"
    assert container["args"][2:] == ["--log-level=debug", "--log-format=json"]
    assert template["metadata"]["annotations"].items() > given["podAnnotations"].items()
    assert (
        template["metadata"]["labels"].items() > {**given["podLabels"], "control-plane": "controller-manager"}.items()
    )


def test_what_the_chart_has_by_default_can_be_left_out(tmp_path: Path) -> None:
    values = {"topologySpreadConstraints": [], "podDisruptionBudget": {"enabled": False}}
    usual, found = templated(tmp_path, {}), templated(tmp_path, values)
    assert usual.keys() - found.keys() == {"PodDisruptionBudget kueue-manager-pdb"}
    assert "topologySpreadConstraints" in usual[DEPLOYMENT]["spec"]["template"]["spec"]
    assert "topologySpreadConstraints" not in found[DEPLOYMENT]["spec"]["template"]["spec"]


def test_a_digest_takes_the_place_of_the_tag(tmp_path: Path) -> None:
    found = templated(tmp_path, {"image": {"digest": f"sha256:{'0' * 64}"}})[DEPLOYMENT]["spec"]["template"]["spec"]
    assert found["containers"][0]["image"] == f"example.com/batch/pykueue@sha256:{'0' * 64}"


def test_the_image_has_the_version_of_the_chart_unless_a_tag_is_given() -> None:
    told = helm("template", "pykueue", str(CHART)).stdout
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert f'image: "pykueue:{version}"' in told


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("configuration.namespace=other", "configuration.namespace: differs from the namespace of the release"),
        ("configuration.integrations.frameworks={batch/job,pod}", "install with `pykueue manifests --config FILE`"),
        ("configuration.webhook.certDir=/certs", "configuration.webhook.certDir: the chart does not follow this key"),
        ("configuration.resources.deviceClassMappings[0].name=x", "configuration.resources.deviceClassMappings: dyn"),
        ("configuration.metrcs.bindAddress=:1", "at '/configuration': additional properties 'metrcs' not allowed"),
        ("configuration.metrics.bindAddress=0", "at '/configuration/metrics/bindAddress': got number, want string"),
        ("configuration.waitForPodsReady.timeout=5", "at '/configuration/waitForPodsReady/timeout': got number"),
        ("configuration.apiVersion=config.kueue.x-k8s.io/v1beta1", "at '/configuration/apiVersion': value must be"),
        ("defaultQueues=neither", "at '/defaultQueues': value must be one of 'policy', 'webhook'"),
        ("replicas=-1", "at '/replicas': minimum: got -1, want 0"),
        ("replica=1", "at '': additional properties 'replica' not allowed"),
        ("image.name=pykueue", "at '/image': additional properties 'name' not allowed"),
        ("image.repository=", "at '/image/repository': minLength"),
        ("podLabels.control-plane=mine", "at '/podLabels/control-plane': false schema"),
        ("logLevel=2", "at '/logLevel': value must be one of 'debug', 'info'"),
        ("managerConfig.controllerManagerConfigYaml=x", "managerConfig: a value of Kueue's chart; here: use config"),
    ],
)
def test_what_the_chart_cannot_do_is_refused(setting: str, says: str) -> None:
    told = helm("template", "pykueue", str(CHART), "--set", setting, check=False)
    assert told.returncode != 0
    assert says in told.stderr


def test_all_mistakes_are_told_together() -> None:
    told = helm(
        "template", "pykueue", str(CHART), "--set", "enableKueueViz=true,controllerManager.replicas=1", check=False
    )
    assert "enableKueueViz: a value of" in told.stderr
    assert "controllerManager: a value of" in told.stderr


def test_absent_keys_may_be_null(tmp_path: Path) -> None:
    retention = {"workloads": {"afterFinished": None}}
    found = templated(tmp_path, {"configuration": {"objectRetentionPolicies": retention, "fairSharing": None}})
    assert found[CONFIG_MAP]["data"][CONFIG_FILE]["objectRetentionPolicies"] == retention


def test_every_value_of_kueues_chart_has_an_answer() -> None:
    values = yaml.safe_load((executables("kueue") / "kueue/charts/kueue/values.yaml").read_text())
    assert values.keys() == VALUES_OF_KUEUE.keys()


def test_the_chart_can_be_a_dependency(tmp_path: Path) -> None:
    shutil.copytree(CHART, tmp_path / "charts/pykueue")
    dependency = {"name": "pykueue", "version": version(), "condition": "pykueue.enabled"}
    described = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [dependency]}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(described))
    told = helm("template", "x", str(tmp_path), "--set", "pykueue.enabled=true,global.region=eu").stdout
    assert "name: kueue-controller-manager" in told
    assert helm("template", "x", str(tmp_path), "--set", "pykueue.enabled=false").stdout.strip() == ""


def test_the_chart_is_installed_upgraded_and_removed_and_queues_stay() -> None:
    assert "0 chart(s) failed" in helm("lint", str(CHART)).stdout
    with Plane.start(pods=False) as plane:
        release = ("pykueue", str(CHART), "--kubeconfig", str(plane.kubeconfig), "--namespace", NAMESPACE)
        helm("install", *release, "--create-namespace")
        found = plane.kubectl("-n", NAMESPACE, "get", "deployment", "kueue-controller-manager", "-o", "name")
        assert "deployment.apps/kueue-controller-manager" in found
        helm("upgrade", *release, "--set", "replicas=1")
        helm("uninstall", "pykueue", *release[2:])
        assert "clusterqueues.kueue.x-k8s.io" in plane.kubectl("get", "crd", "-o", "name")
        assert "deployment" not in plane.kubectl("-n", NAMESPACE, "get", "deployments", "-o", "name")
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=CLUSTER_QUEUE)
        assert "batch" in plane.kubectl("get", "clusterqueues.v1beta2.kueue.x-k8s.io")
        older = plane.kubectl("get", "clusterqueues.v1beta1.kueue.x-k8s.io", check=False)
        assert 'service "kueue-webhook-service" not found' in older


def test_a_changed_configuration_changes_the_pods() -> None:
    with Plane.start(pods=False) as plane:
        release = ("pykueue", str(CHART), "--kubeconfig", str(plane.kubeconfig), "--namespace", NAMESPACE)
        helm("install", *release, "--create-namespace")
        first = deployment_on(plane)["template"]
        helm("upgrade", *release, "--set", "replicas=1")
        assert deployment_on(plane)["template"] == first
        helm("upgrade", *release, "--set", "configuration.waitForPodsReady.timeout=5m")
        assert deployment_on(plane)["template"] != first


def deployment_on(plane: Plane, namespace: str = NAMESPACE) -> Any:
    """The spec of the manager's Deployment."""
    found = plane.kubectl("-n", namespace, "get", "deployment", "kueue-controller-manager", "-o", "yaml")
    return yaml.safe_load(found)["spec"]


def test_the_chart_takes_over_an_installation_by_the_command() -> None:
    """As the guide to the chart describes it; afterwards the chart alone decides what is in the objects."""
    with Plane.start(pods=False) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=rendered(manifests(Install(namespace=NAMESPACE))))
        release = ("pykueue", str(CHART), "--kubeconfig", str(plane.kubeconfig), "--namespace", NAMESPACE)
        refused = helm("install", *release, check=False)
        assert "cannot be imported into the current release" in refused.stderr
        parts = rendered(manifests(Install(namespace=NAMESPACE), ("manager", "webhooks")))
        plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=parts)
        helm("install", *release, "--take-ownership", "--force-conflicts")
        found = plane.kubectl("-n", NAMESPACE, "get", "deployment", "kueue-controller-manager", "-o", "yaml")
        assert "meta.helm.sh/release-name: pykueue" in found
        changed = {"manageJobsWithoutQueueName": "true", "webhook.port": "9000", "metrics.bindAddress": ":9001"}
        helm("upgrade", *release, "--set", ",".join(f"configuration.{key}={value}" for key, value in changed.items()))
        ports = deployment_on(plane)["template"]["spec"]["containers"][0]["ports"]
        assert [port["containerPort"] for port in ports] == [9000, 9001, 8082]
        hooks = plane.kubectl("get", "mutatingwebhookconfiguration", "-o", "yaml")
        assert "mjob.kb.io" in hooks
        assert "names-a-queue" not in hooks


def run_block(plane: Plane, page: str, begin: str) -> None:
    """Run the kubectl commands of the block of a page that begins like this."""
    (block,) = (block for block in commands(page) if block.typed[0].startswith(begin))
    for typed in block.typed:
        words = typed.split()
        if words[0] == "kubectl":
            plane.kubectl(*words[1:], "--timeout=60s")


def test_kueues_chart_is_replaced_and_comes_back() -> None:
    """As docs/install.md and the guide to the chart describe it; the definitions stay, and with them all queues."""
    kueue = ("kueue", str(executables("kueue") / "kueue/charts/kueue"))
    with Plane.start(pods=False) as plane:
        there = ("--kubeconfig", str(plane.kubeconfig), "--namespace", DEFAULT_NAMESPACE)
        helm("install", *kueue, *there, "--create-namespace")
        born = definition_born(plane)
        run_block(plane, "docs/install.md", "kubectl -n kueue-system delete deployment")
        made = rendered(manifests(Install()))
        plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=made)
        run_block(plane, "docs/install.md", "kubectl -n kueue-system delete secret")
        assert helm("list", "--short", *there).stdout == ""
        assert "release: not found" in helm("uninstall", "kueue", *there, check=False).stderr
        helm("install", "pykueue", str(CHART), *there, "--take-ownership", "--force-conflicts")
        helm("uninstall", "pykueue", *there)
        assert "cannot be imported" in helm("install", *kueue, *there, check=False).stderr
        helm("install", *kueue, *there, "--take-ownership", "--force-conflicts")
        assert definition_born(plane) == born


def definition_born(plane: Plane) -> str:
    """The identity of the definition of ClusterQueues, with which its objects would be lost."""
    return plane.kubectl("get", "crd", "clusterqueues.kueue.x-k8s.io", "-o", "jsonpath={.metadata.uid}")


def test_everything_is_removed_as_the_guide_says() -> None:
    """Without helm, which another story has: the manager runs beside the cluster."""
    with Plane.start() as plane, Site.on(plane, ours()) as site, site.ours():
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=f"{CLUSTER_QUEUE}---{QUEUED}")
        plane.kubectl("wait", "--for=jsonpath={.status.ready}=1", "job/long", "--timeout=60s")
        run_block(plane, "deploy/helm/README.md", "kubectl delete jobs")
        assert "kueue" not in plane.kubectl("get", "crd", "-o", "name")
        assert "kueue-batch" not in plane.kubectl("get", "clusterrole", "-o", "name")
