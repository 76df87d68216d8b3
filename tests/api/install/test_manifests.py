"""Does an installation hold together: the names agree, and each object is where it can be found?"""

from typing import Any

import pytest
import yaml

from pykueue.api.config.types import (
    Configuration,
    Health,
    InternalCertManagement,
    LeaderElection,
    Metrics,
    VisibilityServer,
    Webhook,
)
from pykueue.api.config.unbuilt import read_built
from pykueue.api.install.deployment import CHECKSUM, shipped
from pykueue.api.install.install import Install
from pykueue.api.install.manifests import PARTS, manifests, rendered
from pykueue.api.install.rbac import MANAGER, rbac
from pykueue.api.trees import items, text


def objects(install: Install | None = None) -> dict[str, Any]:
    made = manifests(install or Install())
    found: dict[str, Any] = {f"{tree['kind']} {text(tree, 'metadata', 'name')}": tree for tree in made}
    assert len(found) == len(made)
    return found


def test_yaml_reads_back_as_it_was_written() -> None:
    made = manifests(Install())
    assert [*yaml.safe_load_all(rendered(made))] == [*made]


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param({"a": "yes", "b": "1", "c": "", "d": "null", "e": "2026-01-31"}, id="texts that look otherwise"),
        pytest.param({"a": "one\ntwo\n", "b": "x: y # z", "c": "\u0085\u2028é"}, id="texts that need care"),
        pytest.param({"a": [], "b": {}, "c": [{"d": [1, 2.5, True, None]}]}, id="values of all sorts"),
    ],
)
def test_yaml_is_written_with_care(tree: dict[str, Any]) -> None:
    assert yaml.safe_load(rendered([tree])) == tree


def test_nothing_stands_before_its_namespace_and_its_kind() -> None:
    kinds = [tree["kind"] for tree in manifests(Install())]
    assert kinds.index("Namespace") == 0
    assert kinds.index("CustomResourceDefinition") < kinds.index("MutatingAdmissionPolicy")
    assert kinds[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]


def test_the_shipped_configuration_can_be_used() -> None:
    loaded, mistakes = read_built(shipped("batch"))
    assert not mistakes
    assert loaded is not None
    assert loaded.configuration.namespace == "batch"
    assert not loaded.warnings


def test_services_lead_to_the_pods() -> None:
    found = objects()
    pod = found["Deployment kueue-controller-manager"]["spec"]["template"]
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    for name in ("kueue-webhook-service", "kueue-controller-manager-metrics-service"):
        service = found[f"Service {name}"]["spec"]
        assert service["selector"].items() <= pod["metadata"]["labels"].items()
        assert {port["targetPort"] for port in service["ports"]} <= ports
    selector = found["Deployment kueue-controller-manager"]["spec"]["selector"]["matchLabels"]
    # Kueue's own selector: a Deployment's cannot be changed, and ours takes its place.
    assert selector == {"control-plane": "controller-manager"}
    assert found["PodDisruptionBudget kueue-manager-pdb"]["spec"]["selector"]["matchLabels"] == selector


def test_another_configuration_replaces_the_pods() -> None:
    """The manager reads its Configuration once, so the pod template has to change with it."""

    def template(install: Install) -> Any:
        return objects(install)["Deployment kueue-controller-manager"]["spec"]["template"]

    before = template(Install())
    assert template(Install(text=shipped("kueue-system"))) == before
    after = template(Install(text=shipped("kueue-system") + "manageJobsWithoutQueueName: true\n"))
    assert after["metadata"]["annotations"].pop(CHECKSUM) != before["metadata"]["annotations"].pop(CHECKSUM)
    assert after == before


def test_no_metrics_no_service_for_them() -> None:
    found = objects(Install(configuration=Configuration(metrics=Metrics(bind_address="0"))))
    assert "Service kueue-controller-manager-metrics-service" not in found
    container = found["Deployment kueue-controller-manager"]["spec"]["template"]["spec"]["containers"][0]
    assert [port["name"] for port in container["ports"]] == ["webhook-server", "visibility"]


def test_no_health_server_no_probes() -> None:
    found = objects(Install(configuration=Configuration(health=Health(health_probe_bind_address="0"))))
    (container,) = found["Deployment kueue-controller-manager"]["spec"]["template"]["spec"]["containers"]
    assert not [key for key in container if key.endswith("Probe")]
    (usual,) = objects()["Deployment kueue-controller-manager"]["spec"]["template"]["spec"]["containers"]
    assert [key for key in usual if key.endswith("Probe")] == ["livenessProbe", "readinessProbe"]


def test_certificates_of_others_are_mounted() -> None:
    given = InternalCertManagement(enable=False)
    made = Install(configuration=Configuration(internal_cert_management=given, webhook=Webhook(cert_dir="/certs")))
    pod = objects(made)["Deployment kueue-controller-manager"]["spec"]["template"]["spec"]
    assert {"name": "cert", "secret": {"secretName": "kueue-webhook-server-cert"}} in pod["volumes"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["cert"] == "/certs"
    assert "cert" not in str(objects()["Deployment kueue-controller-manager"])


def test_names_of_your_own_are_used_throughout() -> None:
    mine = InternalCertManagement(webhook_service_name="hooks", webhook_secret_name="keys")
    elsewhere = LeaderElection(resource_namespace="elections")
    found = objects(Install(configuration=Configuration(internal_cert_management=mine, leader_election=elsewhere)))
    assert "Service hooks" in found
    assert "Secret keys" in found
    assert found["Role kueue-manager-secrets-role"]["rules"][0]["resourceNames"] == ["keys"]
    assert found["Role kueue-leader-election-role"]["metadata"]["namespace"] == "elections"
    assert "kueue-webhook-service" not in str(found)


def test_the_manager_runs_without_privileges() -> None:
    pod = objects()["Deployment kueue-controller-manager"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [*container["command"], *container["args"]] == [
        "pykueue",
        "manager",
        "--config=/controller_manager_config.yaml",
    ]


def test_every_binding_gives_a_role_that_there_is_to_the_account_that_there_is() -> None:
    found = objects(Install(namespace="batch"))
    bound = [tree for name, tree in found.items() if name.split()[0].endswith("Binding") and "roleRef" in tree]
    assert len(bound) == 5
    given = ["extension-apiserver-authentication-reader"]
    for tree in bound:
        role = tree["roleRef"]
        assert f"{role['kind']} {role['name']}" in found or role["name"] in given
        assert tree["subjects"] == [
            {"kind": "ServiceAccount", "name": "kueue-controller-manager", "namespace": "batch"}
        ]
    assert "ServiceAccount kueue-controller-manager" in found


def test_the_manager_may_not_do_everything() -> None:
    for rule in MANAGER:
        assert "*" not in str(rule)
        assert rule["resources"] != ["secrets"]
    written = {name for rule in MANAGER if "create" in items(rule, "verbs") for name in items(rule, "resources")}
    assert written == {"workloads", "events", "podtemplates", "provisioningrequests"}


def test_secrets_are_one_secret() -> None:
    (rule,) = objects()["Role kueue-manager-secrets-role"]["rules"]
    assert rule["resourceNames"] == ["kueue-webhook-server-cert"]


def test_users_may_not_see_the_quota_of_others() -> None:
    labelled: dict[str, Any] = {text(tree, "metadata", "name"): tree for tree in rbac(Install())}
    user = "rbac.kueue.x-k8s.io/batch-user"
    taken_in = {name for name, tree in labelled.items() if user in tree["metadata"]["labels"]}
    assert taken_in == {
        f"kueue-{role}-role"
        for role in (
            "localqueue-viewer",
            "workload-viewer",
            "job-editor",
            "job-viewer",
            "pending-workloads-lq-viewer",
        )
    } | {"pykueue-query-role"}
    selector = labelled["kueue-batch-user-role"]["aggregationRule"]["clusterRoleSelectors"]
    assert selector == [{"matchLabels": {user: "true"}}]


def test_the_visibility_api_has_kueues_names_and_goes_with_its_gate() -> None:
    found = objects(Install(namespace="batch"))
    service = found["Service kueue-visibility-server"]
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 8082}]
    for version in ("v1beta1", "v1beta2"):
        assert found[f"APIService {version}.visibility.kueue.x-k8s.io"]["spec"] == {
            "group": "visibility.kueue.x-k8s.io",
            "groupPriorityMinimum": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "kueue-visibility-server", "namespace": "batch"},
            "version": version,
            "versionPriority": 100,
        }
    binding = found["RoleBinding kueue-visibility-server-auth-reader"]
    assert binding["metadata"]["namespace"] == "kube-system"
    without = objects(Install(configuration=Configuration(feature_gates={"VisibilityOnDemand": False})))
    assert not [name for name in without if "visibility" in name]
    moved = objects(Install(configuration=Configuration(visibility_server=VisibilityServer(bind_port=9082))))
    assert moved["Service kueue-visibility-server"]["spec"]["ports"][0]["targetPort"] == 9082


def test_each_part_is_a_part() -> None:
    assert sum(len(manifests(Install(), only=(part,))) for part in PARTS) == len(manifests(Install()))


def test_flow_control_of_the_aggregated_apis_is_kueues_and_only_printed_on_request() -> None:
    trees: list[Any] = list(manifests(Install(), ("visibility-apf",)))
    assert [(tree["kind"], tree["metadata"]["name"]) for tree in trees] == [
        ("PriorityLevelConfiguration", "kueue-visibility"),
        ("FlowSchema", "kueue-visibility"),
    ]
    assert trees[1]["spec"]["rules"][0]["resourceRules"][0]["apiGroups"] == [
        "visibility.kueue.x-k8s.io",
        "query.pykueue.io",
    ]
    assert not [tree for tree in manifests(Install()) if text(tree, "metadata", "name") == "kueue-visibility"]
