"""What do the webhooks fill in, refuse and convert, as the API server asks them? Texts as users read them."""

import base64
import http.client
import itertools
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import builders
from tests.e2e.job import KUEUE, QUEUE
from tests.e2e.team import Team
from tests.plane.client import ApiError, shown
from tests.plane.programs import NAMESPACE

OLDER = "kueue.x-k8s.io/v1beta1"
LIMIT = "kueue.x-k8s.io/max-exec-time-seconds"
CLASS = "kueue.x-k8s.io/priority-class"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
MINIMUM = "kueue.x-k8s.io/job-min-parallelism"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
GATED = "kueue.x-k8s.io/admission-gated-by"
SLICE = "kueue.x-k8s.io/podset-slice-required-topology"
SIZE = "kueue.x-k8s.io/podset-slice-size"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
TEMPLATE = "spec.template.metadata.annotations"
DENIED = 'admission webhook "vjob.kb.io" denied the request: '
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)

COUNT = itertools.count()

Tree = dict[str, Any]


def refused(team: Team, labels: Tree, annotations: Tree | None = None, placed: Tree | None = None, **spec: Any) -> str:
    """What the API server answers to a Job like this."""
    template: Tree = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    if placed:
        template["metadata"] = {"annotations": placed}
    tree = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "wrong",
            "namespace": team.namespace,
            "labels": {QUEUE: "main", **labels},
            "annotations": annotations or {},
        },
        "spec": {"template": template, **spec},
    }
    with pytest.raises(ApiError) as error:
        team.client.create(tree)
    assert error.value.code == 403
    assert error.value.reason == "Forbidden"
    return error.value.message


@pytest.mark.parametrize(
    ("how", "says"),
    [
        pytest.param(
            {"labels": {QUEUE: "a_b"}}, f'metadata.labels[{QUEUE}]: Invalid value: "a_b": {SUBDOMAIN}', id="queue"
        ),
        pytest.param(
            {"labels": {LIMIT: "abc"}},
            f'metadata.labels[{LIMIT}]: Invalid value: "abc": strconv.Atoi: parsing "abc": invalid syntax',
            id="no number of seconds",
        ),
        pytest.param(
            {"labels": {LIMIT: "0"}},
            f"metadata.labels[{LIMIT}]: Invalid value: 0: should be greater than 0",
            id="no seconds",
        ),
        pytest.param(
            {"labels": {}, "annotations": {MINIMUM: "4"}, "parallelism": 4},
            f"metadata.annotations[{MINIMUM}]: Invalid value: 4: should be between 0 and 3",
            id="all pods at least",
        ),
        pytest.param(
            {"labels": {}, "annotations": {EQUAL: "maybe"}},
            f'metadata.annotations[{EQUAL}]: Invalid value: "maybe": strconv.ParseBool: parsing "maybe": '
            "invalid syntax",
            id="neither true nor false",
        ),
        pytest.param(
            {"labels": {}, "annotations": {EQUAL: "true"}, "parallelism": 2},
            f'[metadata.annotations[{EQUAL}]: Invalid value: "true": should not be enabled for NonIndexed jobs, '
            f"spec.completions: Invalid value: null: should be equal to parallelism when {EQUAL} annotation is true]",
            id="out of step",
        ),
        pytest.param(
            {"labels": {}, "annotations": {GATED: "x"}},
            f'metadata.annotations[{GATED}]: Invalid value: "x": must be a domain-prefixed path '
            '(such as "acme.io/foo")',
            id="gate",
        ),
        pytest.param(
            {"labels": {}, "placed": {SLICE: "rack", SIZE: "3"}, "parallelism": 2},
            f'{TEMPLATE}[{SIZE}]: Invalid value: "3": must not be greater than pod set count 2',
            id="slices larger than the whole",
        ),
        pytest.param(
            {"labels": {}, "placed": {REQUIRED: "rack", PREFERRED: "rack"}},
            f'{TEMPLATE}: Invalid value: must not contain more than one topology annotation: ["{REQUIRED}", '
            f'"{PREFERRED}", "{UNCONSTRAINED}"]',
            id="two modes of placement",
        ),
        pytest.param(
            {"labels": {LIMIT: "0"}, "annotations": {PREBUILT: "A", GATED: "a.io/x,a.io/x"}},
            f'[metadata.annotations[{PREBUILT}]: Invalid value: "A": {SUBDOMAIN}, '
            f"metadata.labels[{LIMIT}]: Invalid value: 0: should be greater than 0, "
            f'metadata.annotations[{GATED}]: Invalid value: "a.io/x,a.io/x": duplicate gate name: a.io/x]',
            id="three mistakes in order",
        ),
    ],
)
def test_a_mistaken_job_is_refused_in_kueues_words(team: Team, how: Tree, says: str) -> None:
    assert refused(team, **how) == DENIED + says


def test_a_running_job_stays_in_its_queue_and_class(team: Team) -> None:
    queue = team.queue(cpu=2)
    job = queue.job("one")
    job.runs()
    high = team.priority("high", 5)
    for labels, says in (
        ({QUEUE: "other"}, f'metadata.labels[{QUEUE}]: Invalid value: "other": field is immutable'),
        (
            {CLASS: high},
            f'metadata.labels[{CLASS}]: Invalid value: "{high}": WorkloadPriorityClass cannot be added to a '
            "non-suspended workload",
        ),
        ({LIMIT: "5"}, f'metadata.labels[{LIMIT}]: Invalid value: "5": field is immutable'),
    ):
        before = job.tree()
        try:
            accepted = job.patch({"metadata": {"labels": labels}})
        except ApiError as error:
            assert error.message == DENIED + says  # noqa: PT017  # what was accepted instead is told at length
        else:
            pytest.fail(f"{labels} were accepted\n{shown(before)}\n{shown(accepted)}\n{team.log_about('')}")


def test_a_job_that_names_a_queue_is_held_back_from_the_start(team: Team) -> None:
    team.queue(cpu=1)
    made = team.client.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "one", "namespace": team.namespace, "labels": {QUEUE: "main"}},
            "spec": {
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}},
            },
        }
    )
    assert made["spec"]["suspend"] is True


def test_a_mistaken_queue_is_refused_by_the_webhook_of_its_kind(team: Team) -> None:
    with pytest.raises(ApiError) as error:
        team.cluster_queue("wrong", {"f": {"cpu": {"nominalQuota": "-1"}}})
    assert error.value.code == 403
    assert error.value.message == (
        'admission webhook "vclusterqueue.kb.io" denied the request: spec.resourceGroups[0].flavors[0].resources[0]'
        '.nominalQuota: Invalid value: "-1": must be greater than or equal to 0'
    )


@pytest.mark.ours("Kueue's definition has a schema of the template: the same is refused with 422, in other words")
def test_a_workload_whose_template_is_no_template_is_refused(team: Team) -> None:
    def created(name: str, template: Tree) -> Tree:
        pod_sets = [{"name": "main", "count": 1, "template": template}]
        return team.create(builders.workload(name, "main", namespace=team.namespace, podSets=pod_sets))

    good: Tree = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    wrong: dict[str, Tree] = {
        '.spec.containers[0].resources.requests.cpu: Invalid value: "xx": ': {
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "xx"}}}]}
        },
        '.spec.restartPolicy: Invalid value: "integer": ': {"spec": {**good["spec"], "restartPolicy": 7}},
        ".spec.containers: Required value": {"spec": {}},
    }
    for says, template in wrong.items():
        with pytest.raises(ApiError) as error:
            created("wrong", template)
        at = "spec.podSets[0].template"
        assert f'admission webhook "vworkload.kb.io" denied the request: {at}{says}' in str(error.value)
    created("right", good)


def test_a_queue_is_kept_while_it_is_in_use(team: Team) -> None:
    queue = team.queue(cpu=1)
    made = team.get("ClusterQueue", queue.cluster_queue)
    assert made["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]


def test_an_older_manifest_is_read_in_either_version(team: Team) -> None:
    check = team.check("approval")
    flavor = team.flavor()
    quota = {"name": "cpu", "nominalQuota": "4", "borrowingLimit": "1"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": [quota]}]}
    older = {
        "apiVersion": OLDER,
        "kind": "ClusterQueue",
        "metadata": {"name": team.own("older")},
        "spec": {
            "cohort": "all",
            "admissionChecks": [check],
            "resourceGroups": [group],
            "namespaceSelector": {},
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
        },
    }
    path = "/apis/kueue.x-k8s.io"
    team.client.request("POST", f"{path}/v1beta1/clusterqueues", older)
    team.made.append(("ClusterQueue", team.own("older"), ""))
    newer = team.client.request("GET", f"{path}/v1beta2/clusterqueues/{team.own('older')}")
    assert newer["apiVersion"] == KUEUE
    assert newer["spec"]["cohortName"] == "all"
    assert newer["spec"]["admissionChecksStrategy"] == {"admissionChecks": [{"name": check}]}
    assert newer["spec"]["flavorFungibility"]["whenCanBorrow"] == "MayStopSearch"
    back = team.client.request("GET", f"{path}/v1beta1/clusterqueues/{team.own('older')}")
    assert back["apiVersion"] == OLDER
    assert back["spec"]["cohort"] == "all"
    assert "cohortName" not in back["spec"]
    listed = team.client.request("GET", f"{path}/v1beta1/clusterqueues")
    assert {one["apiVersion"] for one in listed["items"]} == {OLDER}


def test_a_mistake_in_an_older_manifest_is_found_too(team: Team) -> None:
    quota = {"name": "cpu", "nominalQuota": "-4"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    tree = {
        "apiVersion": OLDER,
        "kind": "ClusterQueue",
        "metadata": {"name": team.own("older")},
        "spec": {"resourceGroups": [group]},
    }
    with pytest.raises(ApiError) as error:
        team.client.request("POST", "/apis/kueue.x-k8s.io/v1beta1/clusterqueues", tree)
    assert error.value.message == (
        'admission webhook "vclusterqueue.kb.io" denied the request: spec.resourceGroups[0].flavors[0].resources[0]'
        '.nominalQuota: Invalid value: "-4": must be greater than or equal to 0'
    )


@pytest.mark.plane("a real API server calls webhooks over the network and must trust them")
def test_whoever_asks_us_trusts_our_authority(team: Team) -> None:
    secret = team.client.get("Secret", "kueue-webhook-server-cert", NAMESPACE)["data"]
    assert set(secret) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    for stage in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{stage}webhookconfigurations"
        found = team.client.request("GET", f"{path}/kueue-{stage}-webhook-configuration")
        assert {one["clientConfig"]["caBundle"] for one in found["webhooks"]} == {secret["ca.crt"]}
    for plural in ("workloads", "clusterqueues", "localqueues", "cohorts", "multikueueclusters"):
        crd = team.client.get("CustomResourceDefinition", f"{plural}.kueue.x-k8s.io")
        assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == secret["ca.crt"]


@pytest.mark.ours("what is not built yet is our own affair")
def test_a_user_is_warned_of_what_is_not_built_yet(team: Team) -> None:
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "elastic",
            "namespace": team.namespace,
            "labels": {QUEUE: "main"},
            "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
        },
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}},
    }
    said = team.kubectl("create", "-f", "-", "--dry-run=server", stdin=json.dumps(manifest), check=False)
    assert "Warning: metadata.annotations[kueue.x-k8s.io/elastic-job]: elastic jobs are not supported yet" in said
    assert "created" in said


def settings_of(team: Team) -> Tree:
    """The Configuration that the manager was started with."""
    words = Path(f"/proc/{team.cluster.given.pid}/cmdline").read_bytes().decode().split("\0")
    file = next(word.partition("=")[2] for word in words if word.startswith("--config="))
    found: Tree = yaml.safe_load(Path(file).read_text())
    return found


@pytest.mark.plane("service accounts and their roles are those of a real API server")
@pytest.mark.ours("Kueue signs its metrics with a certificate of its own")
def test_metrics_are_for_those_whom_a_role_lets(team: Team) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    for name in ("reader", "stranger"):
        team.create({**account, "metadata": {"name": name, "namespace": team.namespace}})
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": team.own("reader")},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": team.own("reader")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": team.own("reader")},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": team.namespace}],
    }
    for plural, tree in (("clusterroles", role), ("clusterrolebindings", binding)):
        team.client.request("POST", f"/apis/rbac.authorization.k8s.io/v1/{plural}", tree)
    secret = team.client.get("Secret", "kueue-webhook-server-cert", NAMESPACE)["data"]
    trust = ssl.create_default_context(cadata=base64.b64decode(secret["ca.crt"]).decode())
    port = int(settings_of(team)["metrics"]["bindAddress"].rpartition(":")[2])

    def asked(token: str) -> tuple[int, str]:
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=10)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found

    assert asked("")[0] == 401
    assert asked("nonsense")[0] == 401
    assert asked(team.cluster.plane.token(team.namespace, "stranger"))[0] == 403
    status, body = asked(team.cluster.plane.token(team.namespace, "reader"))
    assert status == 200
    assert "kueue_" in body
    reviews = 'controller_runtime_webhook_requests_total{webhook="/mutate-batch-v1-job",code="200"}'
    team.queue(cpu=1).job("reviewed")
    _, body = asked(team.cluster.plane.token(team.namespace, "reader"))
    assert reviews in body


@pytest.mark.ours("Kueue holds it back, and nobody ever starts it")
@pytest.mark.manager(config={"managedJobsNamespaceSelector": {"matchLabels": {"queued": "yes"}}})
def test_a_job_where_the_selector_selects_nothing_starts_by_itself(team: Team) -> None:
    tree = team.job("free", "main").tree()
    assert tree["spec"].get("suspend") is not True
    team.client.patch("Namespace", team.namespace, {"metadata": {"labels": {"queued": "yes"}}})
    team.eventually(
        lambda: team.job(f"held-{next(COUNT)}", "main").tree()["spec"]["suspend"] is True, "a Job that is held back"
    )


@pytest.mark.ours("Kueue says nothing of it")
@pytest.mark.manager(config={"waitForPodsReady": {"timeout": "5m", "requeuingStrategy": {"timestamp": "Creation"}}})
def test_a_strict_queue_where_evicted_workloads_keep_their_place_is_warned_of(team: Team) -> None:
    def said(strategy: str) -> str:
        tree = {
            "apiVersion": KUEUE,
            "kind": "ClusterQueue",
            "metadata": {"name": team.own("strict")},
            "spec": {"queueingStrategy": strategy},
        }
        return team.kubectl("create", "-f", "-", "--dry-run=server", stdin=json.dumps(tree), check=False)

    assert "Warning: spec.queueingStrategy: with StrictFIFO and requeuingStrategy.timestamp Creation" in said(
        "StrictFIFO"
    )
    assert "Warning" not in said("BestEffortFIFO")
