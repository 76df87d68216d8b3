"""Tests of how objects go."""

import contextlib
from collections.abc import Iterator

import pytest

from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.writeterms import DeleteOptions
from tests.apiserver.desk import Desk, job, pod, refusal
from tests.apiserver.standing import stamp


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        yield made


def test_an_object_that_nobody_holds_is_gone_at_once(desk: Desk) -> None:
    desk.create("configmaps", {"metadata": {"name": "c"}})
    watch = desk.watch("configmaps", version=str(desk.store.version))
    body, gone = desk.delete("configmaps", "c")
    assert gone
    how, seen = watch.next()
    assert (how, seen["metadata"]["name"]) == ("DELETED", "c")
    assert int(seen["metadata"]["resourceVersion"]) == desk.store.version
    assert body["metadata"]["uid"] == seen["metadata"]["uid"]
    assert refusal(lambda: desk.get("configmaps", "c")).message == 'configmaps "c" not found'
    watch.close()


def test_an_object_with_finalizers_waits_for_them(desk: Desk) -> None:
    desk.create("configmaps", {"metadata": {"name": "c", "finalizers": ["x.io/hold"]}})
    body, gone = desk.delete("configmaps", "c")
    assert not gone
    assert body["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
    assert body["metadata"]["deletionGracePeriodSeconds"] == 0
    refused = refusal(lambda: desk.create("configmaps", {"metadata": {"name": "c"}}))
    assert refused.message == 'object is being deleted: configmaps "c" already exists'
    added = {"metadata": {"finalizers": ["x.io/hold", "x.io/more"]}}
    assert refusal(lambda: desk.patch("configmaps", "c", added)).message == (
        'ConfigMap "c" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is '
        'being deleted, found new finalizers []string{"x.io/more"}'
    )
    desk.patch("configmaps", "c", {"metadata": {"finalizers": None}})
    assert desk.names("configmaps") == []


def test_a_pod_that_runs_has_its_grace(desk: Desk) -> None:
    desk.create("pods", pod("p", nodeName="here", terminationGracePeriodSeconds=20))
    body, gone = desk.delete("pods", "p")
    assert not gone
    assert body["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:20Z"
    assert body["metadata"]["deletionGracePeriodSeconds"] == 20
    assert body["metadata"]["generation"] == 2
    desk.run(desk.clock.advance(5))
    body, _ = desk.delete("pods", "p", grace=30)
    assert body["metadata"]["deletionGracePeriodSeconds"] == 20
    body, _ = desk.delete("pods", "p", grace=10)
    assert body["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:10Z"
    _, gone = desk.delete("pods", "p", grace=0)
    assert gone


@pytest.mark.parametrize("seconds", [10**15, 2**63 - 1])
def test_a_grace_beyond_any_calendar_is_cut(desk: Desk, seconds: int) -> None:
    desk.create("pods", pod("p", nodeName="here", terminationGracePeriodSeconds=seconds))
    desk.create("pods", pod("q", nodeName="here"))
    for name, grace in (("p", None), ("q", seconds)):
        body, gone = desk.delete("pods", name, grace=grace)
        assert not gone
        assert body["metadata"]["deletionGracePeriodSeconds"] == 2**31 - 1
        assert body["metadata"]["deletionTimestamp"] == "2095-02-02T11:14:07Z"


@pytest.mark.parametrize("how", ["not bound", "ended"])
def test_a_pod_of_which_nothing_runs_goes_at_once(desk: Desk, how: str) -> None:
    desk.create("pods", pod("p", **({"nodeName": "here"} if how == "ended" else {})))
    if how == "ended":
        desk.patch("pods", "p", {"status": {"phase": "Succeeded"}}, part="status")
    assert desk.delete("pods", "p")[1]
    assert desk.names("pods") == []


def test_a_pod_with_finalizers_stays_after_its_last_delete(desk: Desk) -> None:
    tree = pod("p", nodeName="here")
    desk.create("pods", {**tree, "metadata": {"name": "p", "finalizers": ["batch.kubernetes.io/job-tracking"]}})
    assert not desk.delete("pods", "p")[1]
    body, gone = desk.delete("pods", "p", grace=0)
    assert not gone
    assert body["metadata"]["deletionGracePeriodSeconds"] == 0
    desk.patch("pods", "p", {"metadata": {"finalizers": None}})
    assert desk.names("pods") == []


@pytest.mark.parametrize(
    ("kind", "policy", "finalizer"),
    [
        ("jobs", "Orphan", ["orphan"]),
        ("jobs", "Foreground", ["foregroundDeletion"]),
        ("jobs", "", ["orphan"]),
        ("configmaps", "Orphan", ["orphan"]),
        ("configmaps", "Foreground", ["foregroundDeletion"]),
    ],
)
def test_dependents_are_left_to_the_garbage_collector(desk: Desk, kind: str, policy: str, finalizer: list[str]) -> None:
    desk.create(kind, job("x") if kind == "jobs" else {"metadata": {"name": "x"}})
    body, gone = desk.delete(kind, "x", propagation=policy)
    assert not gone
    assert body["metadata"]["finalizers"] == finalizer


def test_a_job_deleted_without_a_policy_is_warned_of(desk: Desk) -> None:
    desk.create("jobs", job("x"))
    desk.delete("jobs", "x")
    assert desk.warnings[0].startswith("child pods are preserved by default when jobs are deleted")
    desk.create("jobs", job("y"))
    assert desk.delete("jobs", "y", propagation="Background")[1]
    assert desk.warnings == []


def test_preconditions_are_kept(desk: Desk) -> None:
    made = desk.create("jobs", job("x"))["metadata"]
    refused = refusal(lambda: desk.delete("jobs", "x", uid="other"))
    assert refused.code == 409
    assert refused.message == (
        f'Operation cannot be fulfilled on Job.batch "x": the UID in the precondition (other) does not match the UID '
        f"in record ({made['uid']}). The object might have been deleted and then recreated"
    )
    assert refusal(lambda: desk.delete("jobs", "x", version="1")).code == 409
    assert desk.delete("jobs", "x", uid=made["uid"], version=made["resourceVersion"], propagation="Background")[1]


def test_a_dry_run_deletes_nothing(desk: Desk) -> None:
    desk.create("configmaps", {"metadata": {"name": "c"}})
    assert desk.delete("configmaps", "c", dry_run=True)[1]
    assert desk.names("configmaps", "default") == ["c"]


def test_a_namespace_ends_when_it_is_finalized(desk: Desk) -> None:
    desk.create("namespaces", {"metadata": {"name": "team"}}, "")
    body, gone = desk.delete("namespaces", "team", "")
    assert not gone
    assert body["status"]["phase"] == "Terminating"
    assert desk.delete("namespaces", "team", "")[1] is False
    desk.patch("namespaces", "team", {"spec": {"finalizers": []}}, "", part="finalize")
    assert "team" not in desk.names("namespaces")


def test_some_namespaces_stay(desk: Desk) -> None:
    refused = refusal(lambda: desk.delete("namespaces", "default", ""))
    assert refused.message == 'namespaces "default" is forbidden: this namespace may not be deleted'


def test_a_selection_is_deleted_together(desk: Desk) -> None:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        desk.create("configmaps", {"metadata": {"name": name, "labels": {"color": color}}})
    work = desk.registry.delete_collection(
        desk.served("configmaps"), "default", DeleteOptions(), desk.terms(), labels="color=red"
    )
    assert len(desk.run(work).items) == 2
    assert desk.names("configmaps", "default") == ["b"]


def test_of_a_selection_that_holds_what_is_anothers_nothing_is_deleted() -> None:
    ann, bob = (Identity(name, frozenset({"system:authenticated"}), "default") for name in ("ann", "bob"))
    with contextlib.closing(Desk(stamp)) as desk:
        for name, who in (("a", ann), ("b", bob), ("c", ann)):
            desk.create("configmaps", {"metadata": {"name": name}}, who=who)
        served, options = desk.served("configmaps"), DeleteOptions()

        def delete(fields: str) -> None:
            terms = desk.terms(who=ann)
            desk.run(desk.registry.delete_collection(served, "default", options, terms, fields=fields))

        assert refusal(lambda: delete("")).code == 403
        assert desk.names("configmaps") == ["a", "b", "c"]
        delete("metadata.name!=b")
        assert desk.names("configmaps") == ["b"]
