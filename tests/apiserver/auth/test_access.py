"""Who asks, and may they? Tokens and certificates, the table of roles, and what is stamped on what users write."""

import pytest

from pykueue.api.core import Tree
from pykueue.api.names import Annotation
from pykueue.apiserver.auth.access import (
    ANONYMOUS,
    Access,
    identity_of,
    with_recorded_creator,
)
from pykueue.apiserver.auth.users import Users
from pykueue.apiserver.wire.identity import MASTERS, SYSTEM, Identity, Peer
from pykueue.apiserver.wire.paths import RequestInfo
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.kube.port import JOBS, LIMIT_RANGES, PODS, SECRETS, Resource

USERS = Users()
ADMIN_TOKEN = USERS.add("root", role="admin")
ANN_TOKEN = USERS.add("ann")
BOB_TOKEN = USERS.add("bob", namespace="lab")
USERS.add("carl", namespace="lab")
USERS.certify("ann", "aa")
ACCESS = Access(USERS)
STAMPED_KINDS = (JOBS, PODS, SECRETS, Resource("", "v1", "configmaps", "ConfigMap", True))
ADMIN, ANN, BOB, CARL = (identity_of(USERS.all()[name]) for name in ("root", "ann", "bob", "carl"))


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_token_or_a_certificate_says_who_asks() -> None:
    assert ACCESS.authenticate(bearer(ANN_TOKEN), None) == ANN
    assert ACCESS.authenticate({}, Peer("ann", "aa")) == ANN
    assert ACCESS.authenticate(bearer(ADMIN_TOKEN), Peer("ann", "aa")) == ADMIN
    assert ACCESS.authenticate({}, None) == ANONYMOUS
    assert ADMIN.admin
    assert MASTERS in ADMIN.groups
    assert not ANN.admin


@pytest.mark.parametrize(
    "headers",
    [bearer("x"), bearer(""), {"authorization": ANN_TOKEN}, {"authorization": f"Basic {ANN_TOKEN}"}],
    ids=["a wrong token", "no token", "no scheme", "another scheme"],
)
def test_what_proves_nothing_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(StatusError) as refused:
        ACCESS.authenticate(headers, None)
    assert (refused.value.code, refused.value.reason) == (401, "Unauthorized")


def test_a_certificate_that_was_not_given_out_is_refused() -> None:
    with pytest.raises(StatusError, match="Unauthorized"):
        ACCESS.authenticate({}, Peer("ann", "bb"))
    with pytest.raises(StatusError, match="Unauthorized"):
        ACCESS.authenticate({}, Peer("root", "aa"))


@pytest.mark.parametrize(
    ("who", "verb", "group", "resource", "subresource", "namespace", "name", "allowed"),
    [
        pytest.param(ADMIN, "delete", "", "nodes", "", "", "n", True, id="an admin may all"),
        pytest.param(ANN, "create", "batch", "jobs", "", "ann", "", True, id="a Job in the own namespace"),
        pytest.param(ANN, "create", "batch", "jobs", "", "lab", "", False, id="a Job in another's"),
        pytest.param(ANN, "list", "batch", "jobs", "", "", "", False, id="Jobs everywhere"),
        pytest.param(ANN, "get", "", "pods", "log", "ann", "p", True, id="output of a pod"),
        pytest.param(ANN, "update", "", "pods", "status", "ann", "p", False, id="a pod's status"),
        pytest.param(ANN, "create", "", "pods", "binding", "ann", "p", False, id="where a pod runs"),
        pytest.param(ANN, "patch", "batch", "jobs", "status", "ann", "j", False, id="a Job's status"),
        pytest.param(ANN, "create", "", "secrets", "", "ann", "", True, id="a Secret"),
        pytest.param(ANN, "get", "", "secrets", "", "lab", "s", False, id="another's Secret"),
        pytest.param(ANN, "create", "", "events", "", "ann", "", False, id="an Event is not for users to write"),
        pytest.param(ANN, "watch", "events.k8s.io", "events", "", "ann", "", True, id="Events"),
        pytest.param(ANN, "list", "kueue.x-k8s.io", "workloads", "", "ann", "", True, id="the own Workloads"),
        pytest.param(ANN, "patch", "kueue.x-k8s.io", "workloads", "", "ann", "w", False, id="a Workload is not theirs"),
        pytest.param(ANN, "patch", "kueue.x-k8s.io", "workloads", "status", "ann", "w", False, id="nor its status"),
        pytest.param(ANN, "update", "kueue.x-k8s.io", "localqueues", "", "ann", "q", False, id="nor a queue"),
        pytest.param(ANN, "list", "kueue.x-k8s.io", "clusterqueues", "", "", "", True, id="ClusterQueues"),
        pytest.param(ANN, "update", "kueue.x-k8s.io", "clusterqueues", "", "", "q", False, id="a quota is not theirs"),
        pytest.param(ANN, "get", "", "namespaces", "", "ann", "ann", True, id="the own namespace"),
        pytest.param(ANN, "watch", "", "namespaces", "", "", "ann", True, id="the own namespace, watched"),
        pytest.param(ANN, "list", "", "namespaces", "", "", "", False, id="all namespaces"),
        pytest.param(ANN, "delete", "", "namespaces", "", "ann", "ann", False, id="the end of the own namespace"),
        pytest.param(ANN, "list", "", "nodes", "", "", "", True, id="nodes"),
        pytest.param(ANN, "create", "apiextensions.k8s.io", "customresourcedefinitions", "", "", "", False, id="kinds"),
        pytest.param(ANN, "create", "authorization.k8s.io", "selfsubjectaccessreviews", "", "", "", True, id="may I"),
        pytest.param(ANN, "create", "authorization.k8s.io", "subjectaccessreviews", "", "", "", False, id="may they"),
        pytest.param(ANN, "create", "authentication.k8s.io", "tokenreviews", "", "", "", False, id="whose token"),
        pytest.param(ANN, "escalate", "batch", "jobs", "", "ann", "", False, id="a verb that nobody knows"),
        pytest.param(ANONYMOUS, "list", "", "nodes", "", "", "", False, id="nobody in particular"),
        pytest.param(Identity("x"), "get", "", "pods", "", "", "p", False, id="somebody without a namespace"),
    ],
)
def test_the_table_of_roles(
    who: Identity,
    verb: str,
    group: str,
    resource: str,
    subresource: str,
    namespace: str,
    name: str,
    allowed: bool,
) -> None:
    assert ACCESS.may(who, verb, group, resource, subresource, namespace, name) is allowed


@pytest.mark.parametrize(
    ("who", "verb", "path", "allowed"),
    [
        pytest.param(ANONYMOUS, "get", "/healthz", True, id="health for all"),
        pytest.param(ANONYMOUS, "get", "/version", True, id="the version for all"),
        pytest.param(ANONYMOUS, "get", "/apis", False, id="discovery for users"),
        pytest.param(ANN, "get", "/apis/batch/v1", True, id="discovery"),
        pytest.param(ANN, "get", "/openapi/v3", True, id="fields"),
        pytest.param(ANN, "get", "/apisecret", False, id="a path that only begins alike"),
        pytest.param(ANN, "get", "/metrics", False, id="metrics for admins"),
        pytest.param(ANN, "post", "/version", False, id="another verb"),
        pytest.param(ADMIN, "get", "/metrics", True, id="metrics"),
    ],
)
def test_paths_that_are_none_of_resources(who: Identity, verb: str, path: str, allowed: bool) -> None:
    assert ACCESS.may_path(who, verb, path) is allowed


def test_a_refusal_is_worded_as_kubernetes_words_it() -> None:
    with pytest.raises(StatusError) as refused:
        ACCESS.check(ANN, "list", call=RequestInfo("list", "batch", "v1", "jobs", "bob"), path="")
    assert refused.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'jobs.batch is forbidden: User "ann" cannot list resource "jobs" in API group "batch" '
        'in the namespace "bob"',
        "reason": "Forbidden",
        "details": {"group": "batch", "kind": "jobs"},
        "code": 403,
    }
    with pytest.raises(StatusError, match='nodes "n" is forbidden'):
        ACCESS.check(ANN, "delete", call=RequestInfo("delete", "", "v1", "nodes", "", "n"), path="")
    with pytest.raises(StatusError, match=r'^forbidden: User "ann" cannot get path "/metrics"$'):
        ACCESS.check(ANN, "get", call=None, path="/metrics")
    with pytest.raises(StatusError, match='User "system:anonymous" cannot get path "/metrics"'):
        ACCESS.check(ANONYMOUS, "get", call=None, path="/metrics")


def test_only_an_admin_acts_for_another() -> None:
    assert ACCESS.authenticate(bearer(ADMIN_TOKEN) | {"impersonate-user": "ann"}, None) == ANN
    stranger = ACCESS.authenticate(bearer(ADMIN_TOKEN) | {"impersonate-user": "zoe"}, None)
    assert (stranger.name, stranger.admin) == ("zoe", False)
    grouped = ACCESS.authenticate(bearer(ADMIN_TOKEN) | {"impersonate-user": "zoe", "impersonate-group": MASTERS}, None)
    assert grouped.admin
    for header in ({"impersonate-user": "root"}, {"impersonate-group": MASTERS}):
        with pytest.raises(StatusError, match=r'cannot impersonate resource "(users|groups)"'):
            ACCESS.authenticate(bearer(ANN_TOKEN) | header, None)


def job(creator: str | None, template: str | None = None, image: str = "x") -> Tree:
    metadata: Tree = {"name": "j"}
    if creator is not None:
        metadata["annotations"] = {Annotation.CREATOR: creator, "other": "kept"}
    inner: Tree = {"spec": {"image": image}}
    if template is not None:
        inner["metadata"] = {"annotations": {Annotation.CREATOR: template}}
    return {"metadata": metadata, "spec": {"template": inner}}


def creator_of(tree: Tree) -> object:
    metadata = tree["metadata"]
    assert isinstance(metadata, dict)
    annotations = metadata.get("annotations", {})
    assert isinstance(annotations, dict)
    return annotations.get(Annotation.CREATOR)


@pytest.mark.parametrize("kind", STAMPED_KINDS, ids=str)
@pytest.mark.parametrize("forged", [None, "root", "ann"], ids=["nothing", "another's name", "the own name"])
def test_who_creates_is_on_record_whatever_a_client_writes(forged: str | None, kind: Resource) -> None:
    assert creator_of(with_recorded_creator("CREATE", kind, job(forged), None, ANN)) == "ann"


@pytest.mark.parametrize("written", [None, "root"], ids=["removed", "changed"])
def test_the_record_outlives_every_change(written: str | None) -> None:
    assert creator_of(with_recorded_creator("UPDATE", JOBS, job(written), job("bob"), BOB)) == "bob"
    assert creator_of(with_recorded_creator("UPDATE", JOBS, job(written), job("bob"), ADMIN)) == "bob"
    assert creator_of(with_recorded_creator("UPDATE", JOBS, job("bob"), job(None), ADMIN)) is None


@pytest.mark.parametrize("kind", STAMPED_KINDS, ids=str)
def test_nobody_changes_or_deletes_what_another_has_created(kind: Resource) -> None:
    old = job("bob")
    for operation in ("UPDATE", "DELETE"):
        with pytest.raises(StatusError) as refused:
            with_recorded_creator(operation, kind, old, old, CARL)
        assert refused.value.code == 403
        assert refused.value.message.startswith(f'{kind} "j" is forbidden: it was created by "bob"')
        for who in (BOB, ADMIN):
            with_recorded_creator(operation, kind, old, old, who)
    with pytest.raises(StatusError, match=f'{kind} "j" is forbidden: it was created by another user'):
        with_recorded_creator("DELETE", kind, job(None), job(None), CARL)


def test_who_only_calls_themselves_the_system_sets_no_record() -> None:
    said = {"impersonate-user": SYSTEM.name, "impersonate-group": MASTERS}
    actor = ACCESS.authenticate(bearer(ADMIN_TOKEN) | said, None)
    assert (actor.name, actor.groups, actor.is_controller) == (SYSTEM.name, SYSTEM.groups, False)
    assert creator_of(with_recorded_creator("CREATE", PODS, job("root"), None, actor)) == SYSTEM.name
    assert creator_of(with_recorded_creator("UPDATE", PODS, job("root"), job("bob"), actor)) == "bob"


def test_a_template_cannot_carry_the_record_in() -> None:
    made = with_recorded_creator("CREATE", JOBS, job(None, template="root"), None, ANN)
    assert "root" not in repr(made)
    kept = with_recorded_creator("UPDATE", JOBS, job("ann", template="root"), job("ann"), ANN)
    assert "root" not in repr(kept)


@pytest.mark.parametrize(
    "kind", [LIMIT_RANGES, Resource("batch.volcano.sh", "v1", "jobs", "Job", True)], ids=["another", "a namesake"]
)
def test_other_kinds_are_left_alone_and_nothing_is_changed_in_place(kind: Resource) -> None:
    other: Tree = {"metadata": {"annotations": {Annotation.CREATOR: "x"}}}
    assert with_recorded_creator("CREATE", kind, other, None, ANN) is other
    before = job("root", template="root")
    with_recorded_creator("CREATE", JOBS, before, None, ANN)
    assert before == job("root", template="root")


def test_the_rules_of_a_user_are_shown_for_the_namespace_asked_about() -> None:
    own, _ = ACCESS.rules(ANN, "ann")
    elsewhere, paths = ACCESS.rules(ANN, "lab")
    assert any("jobs" in str(rule) for rule in own)
    assert not any("'jobs'" in str(rule) for rule in elsewhere)
    assert "/openapi" in str(paths)
    assert ACCESS.rules(ADMIN, "x")[0] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert ACCESS.rules(ANONYMOUS, "x") == ([], [])
