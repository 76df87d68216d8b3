"""Tests of how objects come to be and change."""

import asyncio
import contextlib
from collections.abc import Iterator
from time import process_time
from typing import Any

import msgspec
import pytest

from pykueue.api.core import Tree
from pykueue.apiserver.verbs.admission import AdmissionCall, Stage
from pykueue.apiserver.wire.identity import SYSTEM
from pykueue.apiserver.wire.statuserrors import StatusError, forbidden
from pykueue.apiserver.wire.writeterms import DeleteOptions, Operation
from tests.apiserver.desk import APPLY, JSON, STRATEGIC, Desk, decoded, job, pod, refusal


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        yield made


def config(name: str = "c", **data: str) -> Tree:
    return {"metadata": {"name": name}, "data": {**data}}


def test_a_new_object_gets_what_only_the_server_gives(desk: Desk) -> None:
    made = desk.create("configmaps", {"metadata": {"name": "c", "uid": "mine", "generation": 7, "selfLink": "x"}})
    about = made["metadata"]
    assert about["namespace"] == "default"
    assert about["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert len(about["uid"]) == 36
    assert about["resourceVersion"]
    assert about["generation"] == 7
    assert "selfLink" not in about


def test_a_name_is_made_from_its_prefix_and_tried_again_where_it_is_taken(desk: Desk) -> None:
    names = {desk.create("configmaps", {"metadata": {"generateName": "c-"}})["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("c-") and len(name) == 7 for name in names)


def test_a_taken_name_is_refused(desk: Desk) -> None:
    desk.create("jobs", job("x"))
    refused = refusal(lambda: desk.create("jobs", job("x")))
    assert refused.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'jobs.batch "x" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "x", "group": "batch", "kind": "jobs"},
        "code": 409,
    }


def test_nothing_is_created_where_there_is_no_namespace(desk: Desk) -> None:
    refused = refusal(lambda: desk.create("configmaps", config(), "nowhere"))
    assert (refused.code, refused.message) == (404, 'namespaces "nowhere" not found')


def test_nothing_is_created_in_a_namespace_that_ends(desk: Desk) -> None:
    desk.create("namespaces", {"metadata": {"name": "team"}}, "")
    desk.delete("namespaces", "team", "")
    refused = refusal(lambda: desk.create("configmaps", config("x"), "team"))
    assert refused.code == 403
    assert refused.message == (
        'configmaps "x" is forbidden: unable to create new content in namespace team because it is being terminated'
    )
    assert refused.details["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace team is being terminated",
            "field": "metadata.namespace",
        }
    ]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        pytest.param(
            {"apiVersion": "v2"},
            'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version '
            '"v2" in scheme "pkg/runtime/scheme.go:111"',
            id="another version",
        ),
        pytest.param(
            {"apiVersion": "batch/v1", "kind": "Job"},
            "the API version in the data (batch/v1) does not match the expected API version (v1)",
            id="another group",
        ),
        pytest.param(
            {"metadata": {"name": "c", "namespace": "other"}},
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param(
            {"metadata": {"name": "c"}, "data": {"n": 7}},
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct '
            "field ConfigMap.data of type string",
            id="a value of the wrong type",
        ),
    ],
)
def test_a_body_that_does_not_belong_here_is_a_bad_request(desk: Desk, tree: Tree, message: str) -> None:
    refused = refusal(lambda: desk.create("configmaps", tree))
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message == message


def test_unknown_fields_are_dropped_warned_of_or_refused(desk: Desk) -> None:
    tree = {**config(), "dta": {}}
    desk.create("configmaps", {**tree, "metadata": {"name": "ignored"}}, validation="Ignore")
    assert desk.warnings == []
    made = desk.create("configmaps", {**tree, "metadata": {"name": "warned"}}, validation="Warn")
    assert desk.warnings == ['unknown field "dta"']
    assert "dta" not in made
    refused = refusal(lambda: desk.create("configmaps", tree, validation="Strict"))
    assert refused.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dta"'
    )


def test_a_dry_run_says_what_would_be_and_stores_nothing(desk: Desk) -> None:
    made = desk.create("jobs", job("x"), dry_run=True)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    assert desk.names("jobs") == []
    desk.create("jobs", job("x"))
    changed = desk.patch("jobs", "x", {"spec": {"suspend": True}}, dry_run=True)
    assert changed["spec"]["suspend"] is True
    assert desk.get("jobs", "x")["spec"]["suspend"] is False


def test_a_replacement_of_an_old_version_is_a_conflict(desk: Desk) -> None:
    first = desk.create("configmaps", config(a="1"))
    desk.patch("configmaps", "c", {"data": {"a": "2"}})
    refused = refusal(lambda: desk.update("configmaps", {**first, "data": {"a": "3"}}))
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )


def test_a_built_in_kind_is_replaced_without_a_version_and_a_custom_one_is_not(desk: Desk) -> None:
    first = desk.create("configmaps", config(a="1"))
    del first["metadata"]["resourceVersion"]
    assert desk.update("configmaps", {**first, "data": {"a": "2"}})["data"] == {"a": "2"}
    flavor = desk.create("resourceflavors", {"metadata": {"name": "f"}}, "")
    del flavor["metadata"]["resourceVersion"]
    refused = refusal(lambda: desk.update("resourceflavors", flavor, ""))
    assert refused.message == (
        'resourceflavors.kueue.x-k8s.io "f" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified '
        "for an update"
    )


def test_a_replacement_of_another_incarnation_is_a_conflict(desk: Desk) -> None:
    first = desk.create("jobs", job("x"))
    first["metadata"]["uid"] = "another"
    refused = refusal(lambda: desk.update("jobs", first))
    own = desk.get("jobs", "x")["metadata"]["uid"]
    assert refused.message == (
        'Operation cannot be fulfilled on jobs.batch "x": StorageError: invalid object, Code: 4, Key: '
        "/registry/jobs/default/x, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
        f"another, UID in object meta: {own}"
    )


@pytest.mark.parametrize("part", ["", "status"])
def test_a_patch_of_another_incarnation_is_refused_to_our_controllers_too(desk: Desk, part: str) -> None:
    first = desk.create("pods", pod("p"))["metadata"]["uid"]
    desk.delete("pods", "p")
    second = desk.create("pods", pod("p"))["metadata"]["uid"]
    meant: Tree = {"metadata": {"uid": first, "labels": {"a": "b"}}, "status": {"phase": "Succeeded"}}
    refused = refusal(lambda: desk.patch("pods", "p", meant, part=part, who=SYSTEM))
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert f"UID in precondition: {first}, UID in object meta: {second}" in refused.message
    assert refusal(lambda: desk.patch("pods", "p", meant, part=part)).code == 422
    assert desk.get("pods", "p")["metadata"]["uid"] == second
    assert desk.patch("pods", "p", {"metadata": {"uid": second}}, part=part, who=SYSTEM)


def test_many_owners_take_no_time(desk: Desk) -> None:
    owners: Any = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": str(number)} for number in range(20_000)]
    began = process_time()
    made = desk.create("configmaps", {"metadata": {"name": "c", "ownerReferences": [*owners, owners[0]]}})
    assert made["metadata"]["ownerReferences"] == owners
    assert len(desk.warnings) == 1
    assert process_time() - began < 5


def test_many_warnings_take_no_time(desk: Desk) -> None:
    unknown: Tree = {f"x{number}": 1 for number in range(60_000)}
    began = process_time()
    desk.create("configmaps", {**config("d"), **unknown})
    assert len(desk.warnings) == 80
    assert process_time() - began < 5


def test_no_object_grows_for_ever(desk: Desk) -> None:
    def owner(number: int) -> Tree:
        return {"apiVersion": "v1", "kind": "X", "name": "n" * 1_000_000, "uid": str(number)}

    desk.create("configmaps", {"metadata": {"name": "c", "ownerReferences": [owner(0), owner(1)]}})
    more: Any = [{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner(2)}]
    desk.patch("configmaps", "c", more, how=JSON)
    more[0]["value"] = owner(3)
    refused = refusal(lambda: desk.patch("configmaps", "c", more, how=JSON))
    assert (refused.code, refused.message) == (500, "etcdserver: request is too large")
    large: Tree = {"metadata": {"name": "d", "ownerReferences": [*map(owner, range(4))]}}
    assert refusal(lambda: desk.create("configmaps", large)).code == 500
    assert refusal(lambda: desk.create("configmaps", large, dry_run=True)).code == 500
    assert desk.names("configmaps", "default") == ["c"]
    # What is stored can always be deleted, and our controllers can write of it.
    desk.patch("configmaps", "c", more, how=JSON, who=SYSTEM)
    assert desk.patch("configmaps", "c", {"metadata": {"ownerReferences": None}})["metadata"]["name"] == "c"
    assert desk.delete("configmaps", "c")[1]


def test_a_write_that_changes_nothing_keeps_the_version_and_makes_no_event(desk: Desk) -> None:
    first = desk.create("jobs", job("x"))
    version = desk.store.version
    desk.run(desk.clock.advance(5))
    again = desk.update("jobs", first)
    patched = desk.patch("jobs", "x", {"spec": {"parallelism": 1}})
    assert again["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]
    assert desk.store.version == version


def test_only_changes_of_the_spec_are_counted(desk: Desk) -> None:
    assert desk.create("jobs", job("x"))["metadata"]["generation"] == 1
    assert desk.patch("jobs", "x", {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 1
    assert desk.patch("jobs", "x", {"spec": {"suspend": True}})["metadata"]["generation"] == 2
    assert desk.patch("jobs", "x", {"status": {"active": 1}}, part="status")["metadata"]["generation"] == 2


def test_status_and_spec_are_written_apart(desk: Desk) -> None:
    made = desk.create("jobs", {**job("x"), "status": {"active": 3}})
    assert made["status"] == {}
    changed = desk.patch("jobs", "x", {"spec": {"suspend": True}, "status": {"active": 3}}, part="status")
    assert (changed["spec"]["suspend"], changed["status"]) == (False, {"active": 3})
    changed = desk.patch("jobs", "x", {"spec": {"suspend": True}, "status": {"active": 5}})
    assert (changed["spec"]["suspend"], changed["status"]) == (True, {"active": 3})


def test_a_patch_with_a_version_insists_on_it(desk: Desk) -> None:
    first = desk.create("configmaps", config(a="1"))
    desk.patch("configmaps", "c", {"data": {"a": "2"}})
    stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    assert refusal(lambda: desk.patch("configmaps", "c", stale)).code == 409


def test_every_kind_of_patch_does_its_part(desk: Desk) -> None:
    desk.create("pods", pod("p"))
    desk.patch("pods", "p", {"metadata": {"labels": {"a": "1", "b": "2"}}})
    desk.patch("pods", "p", [{"op": "remove", "path": "/metadata/labels/a"}], how=JSON)
    image = {"spec": {"containers": [{"name": "c", "image": "busybox:2"}]}}
    made = desk.patch("pods", "p", image, how=STRATEGIC)
    assert made["metadata"]["labels"] == {"b": "2"}
    assert made["spec"]["containers"][0]["image"] == "busybox:2"
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    refused = refusal(lambda: desk.patch("workloads", "w", {}, how=STRATEGIC))
    assert refused.code == 415


def test_an_apply_creates_and_then_changes(desk: Desk) -> None:
    made = desk.apply("configmaps", "c", config("c", a="1"), manager="one")
    assert made["metadata"]["managedFields"][0]["operation"] == "Apply"
    made = desk.apply("configmaps", "c", config("c", b="2"), manager="one")
    assert made["data"] == {"b": "2"}
    refused = refusal(lambda: desk.apply("configmaps", "c", config("c", b="3"), manager="two"))
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "one": .data.b'
    forced = desk.apply("configmaps", "c", config("c", b="3"), manager="two", force=True)
    assert forced["data"] == {"b": "3"}


@pytest.mark.parametrize(
    ("kind", "tree", "trouble"),
    [
        (
            "pods",
            pod("x", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": ".."}}}]),
            "quantit",
        ),
        ("secrets", {"data": {"a": "!!not base64"}}, "illegal base64 data at input byte 0"),
        ("jobs", job("x", parallelism=10**12), "cannot convert int64 to int32"),
        ("jobs", job("x", activeDeadlineSeconds=1.5), "cannot convert float64 to int64"),
    ],
)
def test_an_apply_of_what_cannot_be_read_is_refused(desk: Desk, kind: str, tree: Tree, trouble: str) -> None:
    refused = refusal(lambda: desk.apply(kind, "x", tree))
    assert refused.code == 500
    assert refused.message.startswith("failed to convert new object (/x; ")
    assert trouble in refused.message
    sound: Tree = {"pods": pod("x"), "jobs": job("x", suspend=True)}.get(kind, {})
    desk.apply(kind, "x", sound)
    assert refusal(lambda: desk.apply(kind, "x", tree, force=True)).code == 500


def test_an_apply_may_be_yaml(desk: Desk) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  a: b\n"
    assert desk.patch("configmaps", "c", body, how=APPLY)["data"] == {"a": "b"}


def test_a_patch_to_what_is_not_there_finds_nothing(desk: Desk) -> None:
    assert refusal(lambda: desk.patch("jobs", "x", {})).message == 'jobs.batch "x" not found'


def test_an_older_version_is_converted_in_and_out(desk: Desk) -> None:
    tree: Tree = {"metadata": {"name": "cq"}, "spec": {"cohort": "all", "namespaceSelector": {}}}
    made = desk.create("clusterqueues/v1beta1", tree, "")
    assert made["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    assert made["spec"]["cohort"] == "all"
    stored = desk.get("clusterqueues", "cq", "")
    assert (stored["apiVersion"], stored["spec"]["cohortName"]) == ("kueue.x-k8s.io/v1beta2", "all")
    desk.patch("clusterqueues/v1beta1", "cq", {"spec": {"cohort": "other"}}, "")
    assert desk.get("clusterqueues", "cq", "")["spec"]["cohortName"] == "other"


def test_events_are_one_thing_under_two_names(desk: Desk) -> None:
    tree: Tree = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "hello",
        "reason": "Said",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "x",
        "reportingInstance": "y",
        "action": "say",
    }
    events = next(one for one in desk.registry.catalog.all() if one.resource.api_version == "events.k8s.io/v1")
    tree |= {"apiVersion": "events.k8s.io/v1", "kind": "Event"}
    desk.run(desk.registry.create(events, tree, "default", desk.terms()))
    old = desk.get("events", "e")
    assert (old["apiVersion"], old["message"], old["involvedObject"]["name"]) == ("v1", "hello", "p")


def test_admission_completes_between_defaults_and_judgement() -> None:
    seen: list[tuple[Stage, Operation, str, bool]] = []

    async def admit(call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        seen.append((call.stage, call.operation, call.who.name, call.old is not None))
        if call.stage == "mutate" and call.operation == "CREATE":
            spec: Any = call.new["spec"]
            return {**call.new, "spec": {**spec, "suspend": True}}, ("be warned",)
        if call.stage == "validate" and call.operation == "UPDATE":
            raise forbidden(call.served.resource, "x", "it is mine")
        return call.new, ()

    with contextlib.closing(Desk(admit)) as desk:
        made = desk.create("jobs", job("x"))
        assert made["spec"]["suspend"] is True
        assert desk.warnings == ["be warned"]
        managed = msgspec.json.encode(made["metadata"]["managedFields"])
        assert b"f:suspend" in managed
        refused = refusal(lambda: desk.patch("jobs", "x", {"spec": {"parallelism": 2}}))
        assert refused.message == 'jobs.batch "x" is forbidden: it is mine'
    assert seen == [
        ("mutate", "CREATE", "ada", False),
        ("validate", "CREATE", "ada", False),
        ("mutate", "UPDATE", "ada", True),
        ("validate", "UPDATE", "ada", True),
    ]


def test_a_namespace_that_ends_while_an_object_is_judged_takes_it_no_longer() -> None:
    async def admit(call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        if call.stage == "validate" and call.served.storage == "configmaps":
            await made.registry.delete(made.served("namespaces"), "team", "", DeleteOptions(), made.terms(who=SYSTEM))
        return call.new, ()

    with contextlib.closing(Desk(admit)) as made:
        made.create("namespaces", {"metadata": {"name": "team"}}, namespace="")
        refused = refusal(lambda: made.create("configmaps", config(), "team"))
        assert "because it is being terminated" in refused.message
        assert made.names("configmaps", "team") == []


def test_patches_that_meet_are_all_done() -> None:
    async def slow(call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        await asyncio.sleep(0)
        return call.new, ()

    with contextlib.closing(Desk(slow)) as desk:
        desk.create("configmaps", config())

        async def everyone() -> None:
            served = desk.served("configmaps")
            await asyncio.gather(
                *(
                    desk.registry.patch(
                        served,
                        "c",
                        msgspec.json.encode({"data": {f"k{number}": "v"}}),
                        "default",
                        desk.terms(),
                        how="application/merge-patch+json",
                    )
                    for number in range(20)
                )
            )

        desk.run(everyone())
        assert len(desk.get("configmaps", "c")["data"]) == 20


def test_creates_that_meet_leave_one(desk: Desk) -> None:
    served = desk.served("configmaps")
    tree: Tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}

    async def both() -> list[bytes | BaseException]:
        calls = (desk.registry.create(served, tree, "default", desk.terms()) for _ in range(2))
        return await asyncio.gather(*calls, return_exceptions=True)

    first, second = desk.run(both())
    assert isinstance(first, bytes)
    assert decoded(first)["metadata"]["name"] == "c"
    assert isinstance(second, StatusError)
    assert second.reason == "AlreadyExists"


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        pytest.param({"metadata": {"name": "other"}}, "the name of the object (other) does not match", id="name"),
        pytest.param(
            {"metadata": {"uid": "other"}}, 'metadata.uid: Invalid value: "other": field is immutable', id="uid"
        ),
        pytest.param(
            {"metadata": {"labels": {"a b": "c"}}}, 'metadata.labels: Invalid value: "a b": name part must', id="labels"
        ),
        pytest.param(
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}]}},
            'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
            id="owners",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a b"]}},
            'metadata.finalizers: Invalid value: "a b": name part',
            id="finalizers",
        ),
    ],
)
def test_metadata_that_breaks_rules_is_refused(desk: Desk, patch: Tree, error: str) -> None:
    desk.create("configmaps", config())
    assert error in refusal(lambda: desk.patch("configmaps", "c", patch)).message


@pytest.mark.parametrize("name", ["A", "a/b", "..", "x" * 254, "-a"])
def test_names_that_cannot_be_are_refused(desk: Desk, name: str) -> None:
    refused = refusal(lambda: desk.create("configmaps", config(name)))
    assert refused.code == 422
    assert "metadata.name: Invalid value" in refused.message


def test_a_body_that_is_nested_too_deep_is_a_bad_request(desk: Desk) -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = {"a": deep}
    tree: Tree = {"metadata": {"name": "w"}, "spec": {"podSets": [{"name": "main", "count": 1, "template": deep}]}}
    refused = refusal(lambda: desk.create("workloads", tree))
    assert (refused.code, refused.message) == (400, "json: exceeded max depth")
