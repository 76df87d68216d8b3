"""May an object name this owner? Only one that its author has created, unless an admin says so."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from pykueue.apiserver.wire.identity import Identity
from tests.apiserver.desk import MERGE, Desk, job, refusal
from tests.apiserver.standing import stamp

ANN, BOB = (Identity(name, frozenset({"system:authenticated"}), "default") for name in ("ann", "bob"))


@pytest.fixture
def desk() -> Iterator[Desk]:
    with closing(Desk(stamp)) as made:
        yield made


def claim(kind: str, owner: Any) -> Any:
    reference = {"apiVersion": owner["apiVersion"], "kind": kind, "name": owner["metadata"]["name"]}
    return [{**reference, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}]


def test_nobody_names_an_owner_that_another_has_created(desk: Desk) -> None:
    owner = desk.create("jobs", job("j"), who=ANN)
    theirs: Any = {"metadata": {"name": "c", "ownerReferences": claim("Job", owner)}}
    refused = refusal(lambda: desk.create("configmaps", theirs, who=BOB))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        'configmaps "c" is forbidden: its owner Job "j" was created by "ann", and User "bob" may only name owners of '
        "their own"
    )
    desk.create("configmaps", {"metadata": {"name": "c"}}, who=BOB)
    for change in (
        lambda: desk.patch("configmaps", "c", theirs, how=MERGE, who=BOB),
        lambda: desk.apply("configmaps", "c", theirs, who=BOB),
        lambda: desk.update("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", **theirs}, who=BOB),
    ):
        assert refusal(change).code == 403
    desk.create("configmaps", {"metadata": {"name": "d", "ownerReferences": claim("Job", owner)}}, who=ANN)


def test_an_owner_that_no_user_has_created_is_nobodys(desk: Desk) -> None:
    owner = desk.create("clusterqueues", {"metadata": {"name": "q"}, "spec": {}}, namespace="")
    theirs: Any = {"metadata": {"name": "c", "ownerReferences": claim("ClusterQueue", owner)}}
    assert "was created by another user" in refusal(lambda: desk.create("configmaps", theirs, who=BOB)).message


def test_an_owner_that_an_admin_has_named_stays(desk: Desk) -> None:
    owner = desk.create("jobs", job("j"), who=ANN)
    desk.create("configmaps", {"metadata": {"name": "c"}}, who=BOB)
    desk.patch("configmaps", "c", {"metadata": {"ownerReferences": claim("Job", owner)}})
    assert desk.patch("configmaps", "c", {"data": {"a": "b"}}, who=BOB)["metadata"]["ownerReferences"]


@pytest.mark.parametrize("wrong", [{"uid": "u"}, {"name": "nobody"}, {"kind": "Unknown"}])
def test_an_owner_that_is_not_there_may_be_named(desk: Desk, wrong: dict[str, str]) -> None:
    (reference,) = claim("Job", desk.create("jobs", job("j"), who=ANN))
    desk.create("configmaps", {"metadata": {"name": "c", "ownerReferences": [{**reference, **wrong}]}}, who=BOB)
