"""What do we answer the API server? Reviews in, reviews out, and words for what is neither."""

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.controllers.endpoints.admission import NotYetError
from pykueue.controllers.endpoints.webhooks import HOOKS, Answer, Webhooks
from pykueue.jobs.admit_world import AdmitWorld
from pykueue.kube.port import CLUSTER_QUEUES, JOBS
from tests.builders import made

Tree = dict[str, Any]

JOB_PATHS = ("/mutate-batch-v1-job", "/validate-batch-v1-job")
QUEUE = "kueue.x-k8s.io/queue-name"


async def answer(path: str, body: object, world: AdmitWorld | Exception | None = None) -> Answer:
    async def known(namespace: str, owner: Mapping[str, object] | None) -> AdmitWorld:
        if isinstance(world, Exception):
            raise world
        return world or AdmitWorld()

    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await Webhooks(known).answer(path, raw)


async def response(path: str, body: object, world: AdmitWorld | Exception | None = None) -> Tree:
    found = await answer(path, body, world)
    assert found.status == 200, found.body
    review = json.loads(found.body)
    assert review["apiVersion"] == ("apiextensions.k8s.io/v1" if path == "/convert" else "admission.k8s.io/v1")
    assert review["kind"] == ("ConversionReview" if path == "/convert" else "AdmissionReview")
    said: Tree = review["response"]
    assert said["uid"] == "u-1"
    return said


def job(labels: Tree | None = None, **spec: object) -> Tree:
    return made(JOBS, "job", "team", {"labels": labels or {}}, spec={"template": {}, **spec})


def review(tree: Tree | None, old: Tree | None = None, **request: object) -> Tree:
    named = tree or old or {}
    group, _, version = str(named.get("apiVersion", "")).rpartition("/")
    asked = {
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": named.get("kind", "")},
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": named["metadata"].get("namespace", ""),
        "name": named["metadata"]["name"],
        "object": tree,
        "oldObject": old,
        "dryRun": True,
        "userInfo": {"username": "kim"},
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def patch_of(said: Tree) -> object:
    assert said["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(said["patch"]))


def test_every_path_of_kueues_is_there() -> None:
    ours = ("clusterqueue", "resourceflavor", "workload")
    jobs = (
        "-v1-pod",
        "apps-v1-deployment",
        "apps-v1-statefulset",
        "batch-v1-job",
        "jobset-x-k8s-io-v1alpha2-jobset",
        "leaderworkerset-x-k8s-io-v1-leaderworkerset",
        "kubeflow-org-v1-jaxjob",
        "kubeflow-org-v1-paddlejob",
        "kubeflow-org-v1-pytorchjob",
        "kubeflow-org-v1-tfjob",
        "kubeflow-org-v1-xgboostjob",
        "kubeflow-org-v2beta1-mpijob",
        "trainer-kubeflow-org-v1alpha1-trainjob",
        "ray-io-v1-raycluster",
        "ray-io-v1-rayjob",
        "ray-io-v1-rayservice",
        "sparkoperator-k8s-io-v1beta2-sparkapplication",
        "workload-codeflare-dev-v1beta2-appwrapper",
    )
    assert set(HOOKS) == {
        *(f"/{stage}-kueue-x-k8s-io-v1beta2-{kind}" for stage in ("mutate", "validate") for kind in ours),
        "/validate-kueue-x-k8s-io-v1beta2-cohort",
        *(f"/{stage}-{kind}" for stage in ("mutate", "validate") for kind in jobs),
    }


async def test_what_is_filled_in_comes_as_a_patch() -> None:
    said = await response(JOB_PATHS[0], review(job({QUEUE: "q"})))
    assert said["allowed"] is True
    assert patch_of(said) == [{"op": "add", "path": "/spec/suspend", "value": True}]


async def test_nothing_to_fill_in_is_no_patch() -> None:
    assert await response(JOB_PATHS[0], review(job({QUEUE: "q"}, suspend=True))) == {"uid": "u-1", "allowed": True}


async def test_a_refusal_has_the_message_alone() -> None:
    said = await response(JOB_PATHS[1], review(job({"kueue.x-k8s.io/max-exec-time-seconds": "0"})))
    assert said["allowed"] is False
    assert said["status"] == {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: Invalid value: 0: should be greater than 0",
    }


@pytest.mark.parametrize("path", sorted(HOOKS))
async def test_a_deletion_is_allowed_on_every_path(path: str) -> None:
    hook = HOOKS[path]
    tree = {"apiVersion": f"{hook.group}/v1".lstrip("/"), "kind": hook.kind, "metadata": {"name": "x"}}
    said = await response(path, review(None, tree, operation="DELETE"))
    assert said == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize("path", sorted(path for path, hook in HOOKS.items() if hook.kind not in ("Job",)))
async def test_a_kind_that_is_not_queued_passes_unchanged(path: str) -> None:
    hook = HOOKS[path]
    if hook.group == "kueue.x-k8s.io":
        return
    tree = {
        "apiVersion": f"{hook.group}/v1".lstrip("/"),
        "kind": hook.kind,
        "metadata": {"name": "x", "namespace": "team", "labels": {QUEUE: "a_b"}},
        "spec": {"replicas": 3},
    }
    said = {"uid": "u-1", "allowed": True}
    warning = f"metadata.labels[{QUEUE}]: {hook.kind}s are not queued yet; this one counts against no quota"
    warned = said if hook.stage == "mutate" else {**said, "warnings": [warning]}
    assert await response(path, review(tree), AdmitWorld(default_queue=True)) == warned
    assert await response(path, review(tree, tree, operation="UPDATE"), AdmitWorld()) == said, "once is enough"
    assert await response(path, review(tree), AdmitWorld(selected=False)) == said


async def test_a_pod_with_a_controller_passes_without_a_warning() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": True}
    metadata = {"name": "x", "namespace": "team", "labels": {QUEUE: "q"}, "ownerReferences": [owner]}
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    assert await response("/validate--v1-pod", review(tree)) == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize(
    ("tree", "warning"),
    [
        pytest.param(
            {**job(suspend=True), "metadata": {"name": "x", "annotations": {"kueue.x-k8s.io/elastic-job": "true"}}},
            "metadata.annotations[kueue.x-k8s.io/elastic-job]: elastic jobs are not supported yet; "
            "remove the annotation",
            id="elastic",
        ),
        pytest.param(
            job(managedBy="kueue.x-k8s.io/multikueue"),
            "spec.managedBy: sending workloads to other clusters, MultiKueue, is not supported yet",
            id="on another cluster",
        ),
        pytest.param(
            job(template={"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}}),
            "spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]: topology-aware scheduling is "
            "not supported yet; remove the annotation",
            id="in one place",
        ),
    ],
)
async def test_what_is_not_built_yet_is_warned_of_once(tree: Tree, warning: str) -> None:
    said = await response(JOB_PATHS[1], review(tree))
    assert said["allowed"] is True
    assert said["warnings"] == [warning]
    assert "warnings" not in await response(JOB_PATHS[0], review(tree)), "the other webhook says nothing of it"
    assert "warnings" not in await response(JOB_PATHS[1], review(tree, tree)), "nor is it said again"


async def test_a_weight_that_has_no_effect_is_warned_of() -> None:
    tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Cohort",
        "metadata": {"name": "x"},
        "spec": {"fairSharing": {"weight": "2"}},
    }
    said = await response("/validate-kueue-x-k8s-io-v1beta2-cohort", review(tree))
    assert said["warnings"] == [
        "spec.fairSharing.weight: fair sharing is off, so the weight has no effect; fairSharing in the Configuration "
        "enables it"
    ]
    path = "/validate-kueue-x-k8s-io-v1beta2-cohort"
    assert "warnings" not in await response(path, review(tree), AdmitWorld(fair_sharing=True))
    tree["spec"] = {"fairSharing": {"weight": "-1"}}
    said = await response("/validate-kueue-x-k8s-io-v1beta2-cohort", review(tree))
    assert not said["allowed"]
    assert "warnings" not in said, "it has to be corrected first"


async def test_a_mistake_of_ours_is_a_refusal_with_a_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    said = await response(JOB_PATHS[0], review(job()), ZeroDivisionError("a bug"))
    assert said["allowed"] is False
    assert said["status"]["code"] == 500
    assert "a bug" not in said["status"]["message"]
    assert "ZeroDivisionError" in caplog.text
    assert "Job team/job" in caplog.text


async def test_a_question_that_comes_too_early_is_to_be_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    said = await response(JOB_PATHS[0], review(job()), NotYetError("try again"))
    assert said["status"] == {
        "status": "Failure",
        "code": 503,
        "reason": "ServiceUnavailable",
        "message": "try again",
    }
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        pytest.param(JOB_PATHS[0], b"", 400, "the body cannot be decoded", id="nothing"),
        pytest.param(JOB_PATHS[0], b"{", 400, "the body cannot be decoded", id="half a review"),
        pytest.param(JOB_PATHS[0], b"\xff\xfe", 400, "the body cannot be decoded", id="no text"),
        pytest.param(JOB_PATHS[0], b"[" * 100_000, 400, "the body cannot be decoded", id="very deep"),
        pytest.param(JOB_PATHS[0], {}, 400, "missing required field `request`", id="no request"),
        pytest.param(JOB_PATHS[0], {**review(job()), "request": None}, 400, "$.request", id="a null request"),
        pytest.param(JOB_PATHS[0], review(job(), operation="EAT"), 400, "'EAT'", id="an odd operation"),
        pytest.param(JOB_PATHS[0], review(job(), object="x"), 400, "$.request.object", id="no object"),
        pytest.param(
            JOB_PATHS[0],
            {**review(job()), "apiVersion": "admission.k8s.io/v1beta1"},
            400,
            "use admission.k8s.io/v1",
            id="an older review",
        ),
        pytest.param(JOB_PATHS[0], review(job(), kind={"kind": "Pod"}), 400, "this path is for Job", id="another kind"),
        pytest.param("/mutate-x", review(job()), 404, "there is no webhook here", id="no such path"),
        pytest.param("/convert", {}, 400, "missing required field `request`", id="no conversion"),
        pytest.param("/convert", review(job()), 400, "desiredAPIVersion", id="another review"),
    ],
)
async def test_what_is_no_review_is_answered_in_words(path: str, body: object, status: int, says: str) -> None:
    found = await answer(path, body)
    assert found.status == status
    assert found.content_type == "text/plain"
    assert says in found.body.decode()


def wish(*objects: object, version: str = "v1beta1") -> Tree:
    asked = {"uid": "u-1", "desiredAPIVersion": f"kueue.x-k8s.io/{version}", "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": asked}


def queue(name: str, version: str = "v1beta2", **spec: object) -> Tree:
    return made(CLUSTER_QUEUES, name, spec=spec) | {"apiVersion": f"kueue.x-k8s.io/{version}"}


async def test_objects_are_converted_in_their_order_either_way() -> None:
    newer = [queue(f"q{index}", cohortName=f"c{index}") for index in range(3)]
    older = [queue(f"q{index}", "v1beta1", cohort=f"c{index}") for index in range(3)]
    down = await response("/convert", wish(*newer))
    assert down["result"] == {"status": "Success"}
    assert down["convertedObjects"] == older
    assert (await response("/convert", wish(*older, version="v1beta2")))["convertedObjects"] == newer
    assert (await response("/convert", wish(*older)))["convertedObjects"] == older, "already as wanted"


async def test_everything_that_cannot_be_converted_is_named() -> None:
    said = await response(
        "/convert", wish(queue("a"), 3, {"apiVersion": "v1", "kind": "Pod"}, {**queue("b"), "kind": "Queue"})
    )
    assert said["convertedObjects"] == []
    assert said["result"]["status"] == "Failure"
    assert said["result"]["message"] == (
        "objects[1]: is not an object but int; objects[2]: Pod of v1 is unknown; "
        "objects[3]: Queue of kueue.x-k8s.io/v1beta2 is unknown"
    )


async def test_a_version_that_is_not_served_cannot_be_wished_for() -> None:
    said = await response("/convert", wish(queue("a"), version="v1"))
    assert said["result"]["status"] == "Failure"
    assert "is not served; use kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2" in said["result"]["message"]


async def test_a_long_list_is_converted_while_others_get_their_turn() -> None:
    many = [queue(f"q{index}", cohortName="all") for index in range(500)]
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def known(namespace: str, owner: Mapping[str, object] | None) -> AdmitWorld:
        return AdmitWorld()

    async def story() -> Answer:
        task = asyncio.create_task(others())
        try:
            return await Webhooks(known).answer("/convert", json.dumps(wish(*many)).encode())
        finally:
            task.cancel()

    found = json.loads((await story()).body)["response"]["convertedObjects"]
    assert [one["metadata"]["name"] for one in found] == [f"q{index}" for index in range(500)]
    assert turns >= 5


@pytest.mark.parametrize("value", [10**30, -(2**63), 1.5, "\u0085", "\U0001f600", None, [], {}])
async def test_fields_that_we_do_not_know_come_through_a_conversion_as_they_are(value: object) -> None:
    said = await response("/convert", wish(queue("a", unknown={"deep": [value]})))
    assert said["convertedObjects"][0]["spec"] == {"unknown": {"deep": [value]}}


KEYS = st.sampled_from(
    [
        *("metadata", "spec", "status", "labels", "annotations", "template", "containers", "podSets", "count", "name"),
        *("resourceGroups", "flavors", "resources", "nominalQuota", "ownerReferences", "parallelism", "completions"),
        *("conditions", "admission", "nodeTaints", "minCount", "finalizers", "suspend", "admissionChecks"),
        *(QUEUE, "kueue.x-k8s.io/max-exec-time-seconds", "kueue.x-k8s.io/job-min-parallelism"),
        *("kueue.x-k8s.io/admission-gated-by", "kueue.x-k8s.io/podset-slice-required-topology-constraints"),
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
TREES = st.dictionaries(
    KEYS,
    st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5)),
    max_size=6,
)
JUDGED = (*JOB_PATHS, *(path for path in sorted(HOOKS) if "kueue-x-k8s-io" in path))


@given(path=st.sampled_from(JUDGED), new=TREES, old=st.none() | TREES)
async def test_no_object_whatever_it_looks_like_is_too_much_for_us(path: str, new: Tree, old: Tree | None) -> None:
    hook = HOOKS[path]
    asked = {
        "uid": "u-1",
        "kind": {"group": hook.group, "version": "v1", "kind": hook.kind},
        "operation": "CREATE" if old is None else "UPDATE",
        "object": new,
        "oldObject": old,
    }
    said = await response(path, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked})
    assert said["allowed"] or said["status"]["code"] == 403
