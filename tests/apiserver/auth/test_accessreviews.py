"""May somebody do this, and who am I? Reviews, answered by the table of roles."""

import pytest

from pykueue.api.core import Json, Tree
from pykueue.apiserver.auth.access import Access, identity_of
from pykueue.apiserver.auth.accessreviews import review
from pykueue.apiserver.auth.users import Users
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.base.units import Instant

USERS = Users()
TOKEN = USERS.add("ann")
USERS.add("root", role="admin")
ACCESS = Access(USERS)
NOW = Instant(0)
ANN, ADMIN = (identity_of(USERS.all()[name]) for name in ("ann", "root"))
JOBS: Tree = {"verb": "create", "group": "batch", "resource": "jobs", "namespace": "ann"}


def status(kind: str, spec: Tree, *, who: str = "root", namespace: str = "") -> Json:
    answered = review(ACCESS, ADMIN if who == "root" else ANN, kind, {"spec": spec}, namespace, NOW)
    assert answered is not None
    assert answered["kind"] == kind
    assert answered["spec"] == spec
    return answered["status"]


def test_may_i() -> None:
    assert status("SelfSubjectAccessReview", {"resourceAttributes": JOBS}, who="ann") == {"allowed": True}
    elsewhere = JOBS | {"namespace": "bob"}
    assert status("SelfSubjectAccessReview", {"resourceAttributes": elsewhere}, who="ann") == {"allowed": False}
    path: Tree = {"verb": "get", "path": "/metrics"}
    assert status("SelfSubjectAccessReview", {"nonResourceAttributes": path}, who="ann") == {"allowed": False}


def test_may_they() -> None:
    assert status("SubjectAccessReview", {"user": "ann", "resourceAttributes": JOBS}) == {"allowed": True}
    assert status("SubjectAccessReview", {"user": "zoe", "resourceAttributes": JOBS}) == {"allowed": False}
    masters: list[Json] = ["system:masters"]
    spec: Tree = {"user": "zoe", "groups": masters, "resourceAttributes": JOBS}
    assert status("SubjectAccessReview", spec) == {"allowed": True}
    spec = {"user": "ann", "resourceAttributes": JOBS}
    assert status("LocalSubjectAccessReview", spec, namespace="ann") == {"allowed": True}
    with pytest.raises(StatusError, match=r'Invalid value: "ann": must match metadata.namespace'):
        status("LocalSubjectAccessReview", spec, namespace="bob")


@pytest.mark.parametrize("spec", [{}, {"resourceAttributes": JOBS, "nonResourceAttributes": {"path": "/"}}])
def test_a_question_is_about_one_thing(spec: Tree) -> None:
    with pytest.raises(StatusError, match="exactly one of nonResourceAttributes or resourceAttributes"):
        status("SelfSubjectAccessReview", spec)


def test_who_am_i() -> None:
    info: Tree = {"username": "ann", "groups": ["pykueue:users", "system:authenticated"]}
    assert status("SelfSubjectReview", {}, who="ann") == {"userInfo": info}


def test_whose_token_is_it() -> None:
    found = status("TokenReview", {"token": TOKEN})
    assert isinstance(found, dict)
    assert found["authenticated"] is True
    assert status("TokenReview", {"token": "x"}) == {"user": {}, "error": "invalid bearer token"}


def test_all_that_i_may() -> None:
    found = status("SelfSubjectRulesReview", {"namespace": "ann"}, who="ann")
    assert isinstance(found, dict)
    assert found["incomplete"] is False
    assert "'jobs'" in str(found["resourceRules"])


def test_another_kind_is_no_review() -> None:
    assert review(ACCESS, ANN, "Job", {}, "", NOW) is None
