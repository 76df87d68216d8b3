"""Does a real API server take our definitions, and judge objects by them as our rules do?

It has no webhook to help it, but for Workloads of v1beta2, whose rules are the webhook's.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import yaml

from pykueue.api import schema
from pykueue.api.fields import aggregate
from pykueue.api.install.crds import crds
from pykueue.api.kinds import KINDS
from pykueue.api.names import GROUP
from pykueue.api.rules.table import BY_WEBHOOK, check_webhook, default, webhook_name
from pykueue.api.trees import Tree, text
from pykueue.kube.port import Resource
from tests.api.rules.cases import Case
from tests.api.rules.cases_workload import WORKLOAD_CASES
from tests.e2e.backend import only_on_plane
from tests.e2e.judging import JUDGED, RULE, complete, expected, misshapen, refused, versions
from tests.plane.client import RESOURCES, ApiError, Client, path_of
from tests.plane.plane import Plane, executables
from tests.plane.programs import ACCOUNT, LEASE, NAMESPACE, Site, ours

only_on_plane("a real API server reads our definitions and judges by their CEL; ours judges by the rules")

# The tests share a plane of their own, so one worker takes them all.
pytestmark = pytest.mark.xdist_group("crds")

GROUPS = {"v1beta2": "newer.example.com", "v1beta1": "older.example.com"}
"""Each version stands alone in a group of its own, so that it is the stored one and needs no conversion."""


def alone(version: str) -> list[dict[str, Any]]:
    """The definitions of one version only, with the status beside the rest, so that one write carries all."""
    found: list[dict[str, Any]] = deepcopy([*crds()])
    for crd in found:
        spec = crd["spec"]
        crd["metadata"]["name"] = f"{spec['names']['plural']}.{GROUPS[version]}"
        spec |= {"group": GROUPS[version], "conversion": {"strategy": "None"}}
        spec["versions"] = [one | {"storage": True} for one in spec["versions"] if one["name"] == version]
        spec["versions"][0].pop("subresources", None)
    return found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane.start(pods=False) as started:
        started.apply_all([*crds()])
        for version in GROUPS:
            started.apply_all(alone(version))
        for plural in (kind.plural for kind in KINDS.values() if kind.group == GROUP):
            for group in (GROUP, *GROUPS.values()):
                name = f"{plural}.{group}"
                started.client.wait_for("CustomResourceDefinition", name, until=established, what="Established")
        for kind in (kind.kind for kind in KINDS.values() if kind.group == GROUP):
            # The first to ask for a list of a new kind is told to come back.
            patiently(started, partial(started.client.objects, kind))
        yield started


def patiently(plane: Plane, call: Callable[[], Any]) -> Any:
    """What a call answers, once the server has got used to definitions that were just applied."""
    found: list[Any] = []
    plane.retried(lambda: found.append(call()))
    return found[-1]


def established(crd: dict[str, Any]) -> bool:
    found = {one["type"]: one["status"] for one in crd.get("status", {}).get("conditions", [])}
    assert found.get("NonStructuralSchema", "False") == "False"
    return found.get("Established") == "True"


def resource(kind: str, version: str) -> Resource:
    known = KINDS[kind]
    return Resource(GROUPS[version], version, known.plural, kind, known.scope == "Namespaced")


def sent(tree: Tree, kind: str, version: str) -> dict[str, Any]:
    """The object as it is sent."""
    place = {"namespace": "default"} if resource(kind, version).namespaced else {}
    metadata = {**tree.get("metadata", {}), "name": "one", **place}  # type: ignore[dict-item]  # decoded JSON is Json
    return {**tree, "apiVersion": f"{GROUPS[version]}/{version}", "kind": kind, "metadata": metadata}


@pytest.mark.parametrize(("case", "version", "good"), JUDGED)
def test_the_server_judges_as_the_rules_do(plane: Plane, case: Case, version: str, good: bool) -> None:
    kind = RULE[case.rule].kind
    new, old = (case.good, case.good_before) if good else (case.bad, case.bad_before)
    new, old = complete(new), None if old is None else complete(old)
    where = resource(kind, version)
    place = "default" if where.namespaced else ""
    path, client = path_of(where, place, "one"), plane.client
    client.raw("DELETE", path)
    tree = sent(new, kind, version)
    if old is None:
        found = refused(client, "POST", path_of(where, place), tree)
    else:
        stored = client.request("POST", path_of(where, place), sent(old, kind, version))
        tree["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        found = refused(client, "PUT", path, tree)

    assert found == expected(kind, version, new, old)
    judged_elsewhere = RULE[case.rule].surface == "webhook" or (kind, version) in BY_WEBHOOK
    assert judged_elsewhere or bool(found) == (not good)


@pytest.fixture(scope="module")
def asking() -> Iterator[Plane]:
    """A plane whose server asks a manager about each Workload, all of which stays as it was written.

    The status stands beside the rest, so that one write carries all, and the manager does not lead: it answers only.
    """
    manifests = deepcopy(ours())
    for crd in manifests:
        if crd["metadata"]["name"] == f"workloads.{GROUP}":
            for version in crd["spec"]["versions"]:
                version.pop("subresources")
    with Plane.start(pods=False) as plane, Site.on(plane, manifests) as site:
        lease = {
            "holderIdentity": "another",
            "leaseDurationSeconds": 36_000,
            "renewTime": "2026-01-31T12:00:00.000000Z",
        }
        named = {"name": LEASE, "namespace": NAMESPACE}
        plane.client.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": named, "spec": lease})
        with site.ours():
            yield plane


@pytest.fixture(scope="module")
def unasked(asking: Plane) -> Iterator[Client]:
    """The manager's own account, about whose writes nobody is asked."""
    client = Client(asking.url, asking.token(NAMESPACE, ACCOUNT), str(asking.ca))
    yield client
    client.close()


WORKLOADS = [
    pytest.param(case, good, id=f"{case.rule} {case.title}, {'good' if good else 'bad'}")
    for case in WORKLOAD_CASES
    if "v1beta2" in versions(RULE[case.rule])
    for good in (True, False)
]


@pytest.mark.parametrize(("case", "good"), WORKLOADS)
def test_the_webhook_judges_workloads_by_every_rule(asking: Plane, unasked: Client, case: Case, good: bool) -> None:
    new, old = (case.good, case.good_before) if good else (case.bad, case.bad_before)
    new, old = complete(new), None if old is None else complete(old)
    where, client = RESOURCES["Workload"], asking.client
    path = path_of(where, "default", "one")
    client.raw("DELETE", path)
    tree = {**sent(new, "Workload", "v1beta2"), "apiVersion": f"{GROUP}/v1beta2"}
    if old is None:
        code, body = client.raw("POST", path_of(where, "default"), tree)
    else:
        before = {**sent(old, "Workload", "v1beta2"), "apiVersion": f"{GROUP}/v1beta2"}
        stored = unasked.request("POST", path_of(where, "default"), before)
        tree["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        code, body = client.raw("PUT", path, tree)

    wrong = misshapen("Workload", "v1beta2", schema.defaults(KINDS["Workload"].view, new))
    says = by_webhook(new, old)
    assert code == (422 if wrong else 403 if says else 201 if old is None else 200), body
    if code == 403:
        assert json.loads(body)["message"] == says
    assert case.gates or wrong or (code < 300) == good


def by_webhook(new: Any, old: Any) -> str:
    """What our rules have against a Workload, in the words of a webhook; nothing, where it may be."""
    view = KINDS["Workload"].view
    new = schema.defaults(view, new)
    errors = check_webhook("Workload", new if old else default("Workload", new), old and schema.defaults(view, old))
    return f'admission webhook "{webhook_name("Workload")}" denied the request: {aggregate(errors)}' if errors else ""


def served(name: str, **more: Any) -> dict[str, Any]:
    """A workload as the server stores it by our definition."""
    tree: dict[str, Any] = {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": "queue", "podSets": [{"name": "main", "count": 2, "template": TEMPLATE}]},
    }
    return tree | more


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "newField": {"deep": [1]}}]}}


def test_a_pod_template_comes_back_as_it_was_sent_and_the_rest_is_pruned(plane: Plane) -> None:
    tree = served("pruned")
    tree["spec"] |= {"surprise": 1}
    tree["spec"]["podSets"][0] |= {"surprise": 1}
    stored = plane.client.create(tree)
    assert stored["spec"]["podSets"] == [{"name": "main", "count": 2, "template": TEMPLATE}]
    assert stored["spec"].keys() == {"active", "podSets", "queueName"}


def test_pod_sets_of_one_name_are_refused(asking: Plane) -> None:
    tree = served("twice")
    tree["spec"]["podSets"] *= 2
    with pytest.raises(ApiError) as refusal:
        asking.client.create(tree)
    assert refusal.value.message == (
        'admission webhook "vworkload.kb.io" denied the request: spec.podSets[1]: Duplicate value: {"name":"main"}'
    )


def test_workloads_are_found_by_their_cluster_queue(plane: Plane) -> None:
    plane.client.create(served("found"))
    plane.client.apply(bare("found") | admitted("QuotaReserved", queue="sought"), "kueue-admission", "status")
    found = plane.client.objects("Workload", "default", fields="status.admission.clusterQueue=sought")
    assert [tree["metadata"]["name"] for tree in found] == ["found"]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("clusterqueues", "NAME COHORT PENDING WORKLOADS"),
        ("localqueues", "NAME CLUSTERQUEUE PENDING WORKLOADS ADMITTED WORKLOADS"),
        ("workloads", "NAME QUEUE RESERVED IN ADMITTED FINISHED AGE"),
        ("workloadpriorityclasses", "NAME VALUE"),
        ("multikueueclusters", "NAME CONNECTED AGE"),
        ("resourceflavors", "NAME AGE"),
    ],
)
def test_kubectl_prints_the_columns(plane: Plane, kind: str, columns: str) -> None:
    where = path_of(Resource(GROUP, "v1beta2", kind, ""))
    asked = {**plane.client.headers, "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    client = Client(plane.url, "", str(plane.ca))
    client.headers = asked
    table = client.request("GET", where)
    client.close()
    shown = [column["name"].upper() for column in table["columnDefinitions"] if not column["priority"]]
    assert " ".join(shown) == columns


def test_kubectl_explains(plane: Plane) -> None:
    told = plane.kubectl("explain", "clusterqueue.spec.preemption.withinClusterQueue")
    assert "LowerOrNewerEqualPriority" in told
    assert "Which workloads of the same queue may be preempted." in told


def bare(name: str) -> dict[str, Any]:
    """What an apply names its object by."""
    return {key: value for key, value in served(name).items() if key != "spec"}


def admitted(*conditions: str, queue: str = "queue", evictions: int = 0) -> dict[str, Any]:
    """A status as a manager applies it."""
    told = {"reason": "Because", "message": "", "lastTransitionTime": "2026-01-31T12:00:00Z"}
    given = {"name": "main", "count": 2, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2"}}
    status: dict[str, Any] = {
        "conditions": [{"type": kind, "status": "True", **told} for kind in conditions],
        "admission": {"clusterQueue": queue, "podSetAssignments": [given]},
    }
    if evictions:
        status["schedulingStats"] = {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": evictions}]}
    return {"status": status}


def test_applies_go_on_across_an_exchange_of_the_definitions(plane: Plane) -> None:
    """Both managers apply the same fields, on Kueue's definition and on ours, and each removes what the other wrote."""
    client = plane.client
    theirs = their_definition()
    ours: dict[str, Any] = next(
        deepcopy(tree) for tree in crds() if text(tree, "metadata", "name") == f"workloads.{GROUP}"
    )
    ours["spec"]["conversion"] = {"strategy": "None"}

    def apply(status: dict[str, Any], manager: str = "kueue-admission") -> Any:
        return patiently(plane, partial(client.apply, bare("swapped") | status, manager, "status"))["status"]

    def serve(definition: dict[str, Any]) -> None:
        """Exchange the definition, and wait until the server goes by it: only ours keeps a field it does not know."""
        client.apply(definition)
        path = f"{path_of(RESOURCES['Workload'], 'default')}?dryRun=All"

        def seen() -> bool:
            made = patiently(plane, partial(client.request, "POST", path, served("seen")))
            return ("newField" in made["spec"]["podSets"][0]["template"]["spec"]["containers"][0]) == (
                definition is ours
            )

        assert client.soon(seen)

    serve(theirs)
    client.create(served("swapped"))
    apply(admitted("QuotaReserved", evictions=1))
    apply({"status": {"reclaimablePods": [{"name": "main", "count": 1}]}}, "kueue-reclaimable-pods")
    for definition, evictions in ((ours, 2), (theirs, 3), (ours, 4)):
        serve(definition)
        again = admitted("QuotaReserved", "Admitted", evictions=evictions)
        found = apply(again)
        assert [one["type"] for one in found["conditions"]] == ["QuotaReserved", "Admitted"]
        assert found["schedulingStats"] == again["status"]["schedulingStats"]
        assert found["admission"] == again["status"]["admission"]
        assert found["reclaimablePods"] == [{"name": "main", "count": 1}]

    assert apply({"status": {}}) == {"reclaimablePods": [{"name": "main", "count": 1}]}


def test_managers_keep_and_drop_conditions_of_their_own(plane: Plane) -> None:
    """Each condition is owned whole; both apply with force, as managers do."""
    client = plane.client
    client.create(served("shared"))

    def apply(manager: str, *conditions: str, **more: str) -> set[str]:
        listed = [{**condition, **more} for condition in admitted(*conditions)["status"]["conditions"]]
        tree = bare("shared") | {"status": {"conditions": listed}}
        found = client.apply(tree, manager, "status").get("status", {}).get("conditions", [])
        return {f"{one['type']}={one['status']}" for one in found}

    admission, ready = "kueue-admission", "kueue-job-controller-PodsReady"
    assert apply(admission, "QuotaReserved", "Admitted") == {"QuotaReserved=True", "Admitted=True"}
    assert apply(ready, "PodsReady") == {"QuotaReserved=True", "Admitted=True", "PodsReady=True"}
    assert apply(admission, "QuotaReserved") == {"QuotaReserved=True", "PodsReady=True"}
    assert apply(ready, "PodsReady", status="False") == {"QuotaReserved=True", "PodsReady=False"}
    # A condition that both apply is taken from one by the other, and stays with whoever applied it last.
    assert apply(ready, "PodsReady", "QuotaReserved", status="False") == {"QuotaReserved=False", "PodsReady=False"}
    assert apply(admission) == {"QuotaReserved=False", "PodsReady=False"}
    assert apply(ready) == set()


def their_definition() -> dict[str, Any]:
    """The definition of Workloads that Kueue ships."""
    file = executables("kueue") / "kueue" / "config" / "components" / "crd" / "bases" / f"{GROUP}_workloads.yaml"
    found: dict[str, Any] = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    found["spec"]["conversion"] = {"strategy": "None"}
    return found
