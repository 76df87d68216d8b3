"""Is the API server told to ask about what is ours, and about nothing else?"""

from typing import Any

import pytest

from pykueue.api.config.types import Configuration, Integrations
from pykueue.api.core import LabelSelector
from pykueue.api.install.install import Install
from pykueue.api.install.webhooks import CREATED_WITH_QUEUE, EVER_WITH_QUEUE, webhooks

EVERY_JOB = Install(configuration=Configuration(manage_jobs_without_queue_name=True))


def hooks(install: Install | None = None) -> dict[str, Any]:
    """Every webhook by its name."""
    made: Any = webhooks(install or Install())
    return {hook["name"]: hook for tree in made for hook in tree.get("webhooks", ())}


def conditions(hook: Any) -> dict[str, str]:
    return {one["name"]: one["expression"] for one in hook["matchConditions"]}


def test_names_and_paths_are_kueues() -> None:
    found = {name: hook["clientConfig"]["service"]["path"] for name, hook in hooks().items()}
    assert found == {
        "mclusterqueue.kb.io": "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue",
        "mresourceflavor.kb.io": "/mutate-kueue-x-k8s-io-v1beta2-resourceflavor",
        "mworkload.kb.io": "/mutate-kueue-x-k8s-io-v1beta2-workload",
        "mjob.kb.io": "/mutate-batch-v1-job",
        "vclusterqueue.kb.io": "/validate-kueue-x-k8s-io-v1beta2-clusterqueue",
        "vcohort.kb.io": "/validate-kueue-x-k8s-io-v1beta2-cohort",
        "vresourceflavor.kb.io": "/validate-kueue-x-k8s-io-v1beta2-resourceflavor",
        "vworkload.kb.io": "/validate-kueue-x-k8s-io-v1beta2-workload",
        "vjob.kb.io": "/validate-batch-v1-job",
    }


def test_the_status_of_a_workload_is_judged_too() -> None:
    (rule,) = hooks()["vworkload.kb.io"]["rules"]
    assert rule["resources"] == ["workloads", "workloads/status"]
    assert rule["operations"] == ["CREATE", "UPDATE"]
    (rule,) = hooks()["mworkload.kb.io"]["rules"]
    assert (rule["resources"], rule["operations"]) == (["workloads"], ["CREATE"])


def test_the_managers_own_writes_do_not_come_back_to_it() -> None:
    for hook in hooks(Install(namespace="batch")).values():
        said = conditions(hook)["not-our-own-write"]
        assert said == "request.userInfo.username != 'system:serviceaccount:batch:kueue-controller-manager'"


def test_only_jobs_with_a_queue_are_asked_about() -> None:
    found = hooks()
    assert conditions(found["mjob.kb.io"])["names-a-queue"] == CREATED_WITH_QUEUE
    assert conditions(found["vjob.kb.io"])["names-a-queue"] == EVER_WITH_QUEUE
    assert {hook["failurePolicy"] for hook in found.values()} == {"Fail"}


def test_the_default_queue_is_found_by_a_policy() -> None:
    policy, binding, *_ = (tree for tree in map(dict, webhooks(Install())))
    spec: Any = policy["spec"]
    assert spec["paramKind"] == {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"}
    assert spec["failurePolicy"] == "Ignore"
    bound: Any = binding["spec"]
    assert bound["paramRef"] == {"name": "default", "parameterNotFoundAction": "Allow"}


def test_or_by_asking_us_which_may_fail() -> None:
    made = Install(default_queues="webhook")
    hook = hooks(made)["mjob-default-queue.kb.io"]
    assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
    assert conditions(hook)["names-no-queue"] == f"!{CREATED_WITH_QUEUE}"
    assert [tree["kind"] for tree in webhooks(made)] == [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]


def test_every_job_is_asked_about_where_every_job_is_managed() -> None:
    found = hooks(EVERY_JOB)
    assert [*conditions(found["mjob.kb.io"])] == [*conditions(found["vjob.kb.io"])] == ["not-our-own-write"]
    assert "mjob-default-queue.kb.io" not in found
    assert len(webhooks(EVERY_JOB)) == 2


@pytest.mark.parametrize(
    ("configuration", "selector"),
    [
        pytest.param(
            Configuration(),
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "batch"]}
                ]
            },
            id="everywhere but in two",
        ),
        pytest.param(
            Configuration(managed_jobs_namespace_selector=LabelSelector(match_labels={"team": "a"})),
            {"matchLabels": {"team": "a"}},
            id="where the Configuration says",
        ),
    ],
)
def test_jobs_are_asked_about_in_managed_namespaces(configuration: Configuration, selector: object) -> None:
    found = hooks(Install(namespace="batch", configuration=configuration))
    asked = {name: hook["namespaceSelector"] for name, hook in found.items() if "namespaceSelector" in hook}
    assert asked == {"mjob.kb.io": selector, "vjob.kb.io": selector}


def test_jobs_of_enabled_kinds_that_are_not_built_are_asked_about_to_warn_and_never_held_up() -> None:
    configuration = Configuration(integrations=Integrations(frameworks=("batch/job", "ray.io/rayjob", "pod")))
    found = hooks(Install(configuration=configuration))
    added = found.keys() - hooks().keys()
    assert added == {"vrayjob.kb.io", "vpod.kb.io"}
    for name, path, resource in (
        ("vrayjob.kb.io", "/validate-ray-io-v1-rayjob", "rayjobs"),
        ("vpod.kb.io", "/validate--v1-pod", "pods"),
    ):
        hook = found[name]
        assert hook["clientConfig"]["service"]["path"] == path
        assert hook["rules"][0]["resources"] == [resource]
        assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
        assert conditions(hook)["names-a-queue"] == CREATED_WITH_QUEUE
        assert hook["namespaceSelector"] == found["vjob.kb.io"]["namespaceSelector"]
    assert "has-no-controller" in conditions(found["vpod.kb.io"])
