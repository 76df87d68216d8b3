"""What does the API answer? Calls without a socket: forms, refusals, streams, and who may do what."""

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from pykueue.api.core import Tree
from pykueue.api.names import Annotation
from pykueue.apiserver.verbs.admission import AdmissionCall
from pykueue.apiserver.wire.messages import Response
from pykueue.apiserver.wire.statuserrors import BODY_MAX
from tests import builders
from tests.apiserver.standing import Stand, told
from tests.builders import job

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
MERGE = {"content-type": "application/merge-patch+json"}
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, node: str = "box") -> dict[str, Any]:
    return builders.pod(name, nodeName=node, containers=[{"name": "a", "image": "x"}, {"name": "b", "image": "x"}])


@asynccontextmanager
async def furnished() -> AsyncIterator[Stand]:
    """A stand of its own."""
    stand = Stand()
    await stand.furnish()
    try:
        yield stand
    finally:
        await stand.store.close()


async def lines(response: Response, count: int) -> list[Any]:
    """The first events of a stream, which is closed then."""
    assert response.code == 200
    assert not isinstance(response.body, bytes)
    found: list[Any] = []
    try:
        async with asyncio.timeout(10):
            async for piece in response.body:
                assert piece.endswith(b"\n")
                found += map(msgspec.json.decode, piece.splitlines())
                if len(found) >= count:
                    break
    finally:
        await response.body.aclose()  # type: ignore[attr-defined]  # it is a generator
    return found[:count]


async def test_a_short_body_that_repeats_itself_is_large_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    async with furnished() as stand:
        registry = stand.registry

        async def admit(call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
            seen.append(call.large)
            return call.new, ()

        monkeypatch.setattr(registry.writing.admission, "admit", admit)
        variables = ", ".join(f"{{name: V{number}}}" for number in range(40))
        first = f"  - {{name: a, image: x, env: &all [{variables}]}}\n"
        others = "".join(f"  - {{name: c{number}, image: x, env: *all}}\n" for number in range(60))
        body = f"kind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n{first}{others}"
        made = await stand.call("POST", PODS, body.encode(), headers={"content-type": "application/yaml"})
        assert (made.code, seen) == (201, [True, True])
        seen.clear()
        await stand.call("POST", PODS, pod("q"))
        assert seen == [False, False]


async def test_an_object_from_its_creation_to_its_end() -> None:
    async with furnished() as stand:
        made = await stand.call("POST", MAPS, config("a", k="v"))
        assert made.code == 201
        assert told(made)["metadata"]["uid"]
        got = await stand.call("GET", f"{MAPS}/a")
        assert told(got) == told(made)
        assert isinstance(got.body, bytes)
        assert got.body.endswith(b"}\n")
        put = await stand.call("PUT", f"{MAPS}/a", config("a", k="w"))
        assert (put.code, told(put)["data"]) == (200, {"k": "w"})
        merged = await stand.call("PATCH", f"{MAPS}/a", {"data": {"l": "x"}}, headers=MERGE)
        assert (merged.code, told(merged)["data"]) == (200, {"k": "w", "l": "x"})
        gone = await stand.call("DELETE", f"{MAPS}/a")
        uid = told(made)["metadata"]["uid"]
        assert told(gone) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": uid},
        }
        assert (await stand.call("GET", f"{MAPS}/a")).code == 404


async def test_some_kinds_come_into_being_by_being_replaced() -> None:
    async with furnished() as stand:
        leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        lease = {"metadata": {"name": "l", "namespace": "default"}, "spec": {"holderIdentity": "me"}}
        made = await stand.call("PUT", f"{leases}/l", lease)
        assert made.code == 201
        assert (await stand.call("PUT", f"{leases}/l", told(made))).code == 200
        assert (await stand.call("PUT", f"{MAPS}/none", config("none"))).code == 404


async def test_an_apply_creates_and_changes() -> None:
    async with furnished() as stand:
        headers = {"content-type": "application/apply-patch+yaml"}
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"
        made = await stand.call("PATCH", f"{MAPS}/a?fieldManager=me", text, headers=headers)
        assert (made.code, told(made)["data"]) == (201, {"k": "v"})
        again = await stand.call("PATCH", f"{MAPS}/a?fieldManager=me", text, headers=headers)
        assert again.code == 200
        nobody = await stand.call("PATCH", f"{MAPS}/a", text, headers=headers)
        assert nobody.code == 422
        assert "fieldManager: Required value: is required for apply patch" in told(nobody)["message"]


async def test_lists_in_every_form() -> None:
    async with furnished() as stand:
        for name in "abc":
            await stand.call("POST", MAPS, config(name, k=name))
        whole = told(await stand.call("GET", MAPS))
        assert (whole["kind"], whole["apiVersion"]) == ("ConfigMapList", "v1")
        assert [one["metadata"]["name"] for one in whole["items"]] == ["a", "b", "c"]
        page = told(await stand.call("GET", f"{MAPS}?limit=2", headers=TABLE))
        assert page["kind"] == "Table"
        assert [row["cells"][:2] for row in page["rows"]] == [["a", 1], ["b", 1]]
        assert page["metadata"]["remainingItemCount"] == 1
        token = page["metadata"]["continue"]
        rest = told(await stand.call("GET", f"{MAPS}?limit=2&continue={token}", headers=TABLE))
        assert [row["cells"][0] for row in rest["rows"]] == ["c"]
        assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
        partial = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
        bare = told(await stand.call("GET", f"{MAPS}?labelSelector=x", headers=partial))
        assert (bare["kind"], bare["items"]) == ("PartialObjectMetadataList", [])
        one = told(await stand.call("GET", f"{MAPS}/a?includeObject=Object", headers=TABLE))
        assert one["rows"][0]["object"]["data"] == {"k": "a"}
        text = await stand.call("GET", MAPS, headers={"accept": "application/yaml"})
        assert isinstance(text.body, bytes)
        assert b"kind: ConfigMapList" in text.body
        pretty = await stand.call("GET", f"{MAPS}?pretty=true")
        assert isinstance(pretty.body, bytes)
        assert b'\n  "kind": "ConfigMapList"' in pretty.body


async def test_a_watch_in_every_form() -> None:
    async with furnished() as stand:
        await stand.call("POST", MAPS, config("a"))
        version = told(await stand.call("GET", MAPS))["metadata"]["resourceVersion"]
        plain = await stand.call("GET", f"{MAPS}?watch=true&resourceVersion={version}")
        tables = await stand.call("GET", f"{MAPS}?watch=true&resourceVersion={version}", headers=TABLE)
        await stand.call("PUT", f"{MAPS}/a", config("a", k="v"))
        await stand.call("DELETE", f"{MAPS}/a")
        seen = await lines(plain, 2)
        assert [one["type"] for one in seen] == ["MODIFIED", "DELETED"]
        assert seen[0]["object"]["kind"] == "ConfigMap"
        first, second = await lines(tables, 2)
        assert [head["name"] for head in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert first["object"]["rows"][0]["cells"][:2] == ["a", 1]
        assert second["object"]["columnDefinitions"] is None


async def test_a_watch_begins_with_what_there_is_and_ends_in_time() -> None:
    async with furnished() as stand:
        await stand.call("POST", MAPS, config("a"))
        older = await lines(await stand.call("GET", f"{MAPS}?watch=1"), 1)
        assert [(one["type"], one["object"]["metadata"]["name"]) for one in older] == [("ADDED", "a")]
        target = f"{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        newer = await lines(await stand.call("GET", target), 2)
        assert newer[1]["type"] == "BOOKMARK"
        assert newer[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        short = await stand.call("GET", f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={stand.store.version}")
        assert await lines(short, 1) == []


async def test_a_watch_of_a_single_name_by_its_path() -> None:
    async with furnished() as stand:
        await stand.call("POST", MAPS, config("a"))
        await stand.call("POST", MAPS, config("b"))
        seen = await lines(await stand.call("GET", "/api/v1/watch/namespaces/default/configmaps/b"), 1)
        assert seen[0]["object"]["metadata"]["name"] == "b"


@pytest.mark.parametrize(
    ("verb", "target", "body", "headers", "code", "says"),
    [
        pytest.param("GET", "/nowhere", b"", {}, 404, None, id="an unknown path"),
        pytest.param(
            "GET",
            "/api/v1/moose",
            b"",
            {},
            404,
            "the server could not find the requested resource",
            id="an unknown kind",
        ),
        pytest.param("GET", "/apis/none/v1/pods", b"", {}, 404, None, id="an unknown group"),
        pytest.param(
            "GET", "/apis/batch/v9/jobs", b"", {}, 404, "the server could not find the requested resource", id="version"
        ),
        pytest.param("HEAD", MAPS, b"", {}, 405, "the server does not allow this method", id="a head"),
        pytest.param(
            "GET",
            f"{PODS}/p/moose",
            b"",
            {},
            404,
            "the server could not find the requested resource",
            id="an unknown subresource",
        ),
        pytest.param("GET", f"{PODS}/p", b"", {}, 404, 'pods "p" not found', id="an unknown object"),
        pytest.param("GET", f"{JOBS}/p", b"", {}, 404, 'jobs.batch "p" not found', id="an unknown object of a group"),
        pytest.param(
            "PUT", PODS, b"{}", {}, 405, "the server does not allow this method on the requested resource", id="put all"
        ),
        pytest.param(
            "BREW", PODS, b"", {}, 405, "the server does not allow this method on the requested resource", id="brew"
        ),
        pytest.param(
            "POST", "/api/v1/pods", b"{}", {}, 405, "the server does not allow this method", id="create everywhere"
        ),
        pytest.param("POST", "/version", b"", {}, 405, "the server does not allow this method", id="post to a path"),
        pytest.param(
            "GET",
            "/api/v1/namespaces/default/nodes",
            b"",
            {},
            404,
            "the server could not find the requested resource",
            id="a kind of the cluster in a namespace",
        ),
        pytest.param(
            "GET", "/api/v1/pods/p", b"", {}, 404, "the server could not find", id="a pod without a namespace"
        ),
        pytest.param("POST", MAPS, b"{", {}, 400, "couldn't get version/kind; json parse error", id="bad JSON"),
        pytest.param("POST", MAPS, b"[]", {}, 400, "couldn't get version/kind", id="a list"),
        pytest.param("POST", JOBS, b'{"spec":' * 100_000 + b"1" + b"}" * 100_000, {}, 400, "", id="nested too deep"),
        pytest.param("GET", "/apis/kueue.x-k8s.io/v9/cohorts", b"", {}, 404, None, id="a version of a custom group"),
        pytest.param("POST", MAPS, b"a: [", {"content-type": "application/yaml"}, 400, "yaml:", id="bad YAML"),
        pytest.param("POST", MAPS, b"<x/>", {"content-type": "text/xml"}, 415, "unknown format", id="XML"),
        pytest.param(
            "POST",
            MAPS,
            b"k8s\x00",
            {"content-type": "application/vnd.kubernetes.protobuf"},
            400,
            "(must be of type ConfigMap): couldn't read the protobuf body",
            id="bad protobuf",
        ),
        pytest.param("PATCH", f"{MAPS}/a", b"{}", {}, 415, "415: Unsupported Media Type", id="a patch of no type"),
        pytest.param(
            "GET", MAPS, b"", {"accept": "text/html"}, 406, "Available representations: application/json", id="HTML"
        ),
        pytest.param("GET", f"{MAPS}?limit=x", b"", {}, 400, "invalid syntax", id="no limit"),
        pytest.param("GET", f"{MAPS}?limit={'9' * 40}", b"", {}, 400, "out of range", id="too large a limit"),
        pytest.param("GET", f"{MAPS}?continue=moose", b"", {}, 400, "continue key is not valid", id="no token"),
        pytest.param("GET", f"{MAPS}?labelSelector=!!", b"", {}, 400, "", id="no selector"),
        pytest.param("GET", f"{MAPS}?fieldSelector=x=y", b"", {}, 400, "", id="no field"),
        pytest.param("GET", f"{MAPS}?watch=1&fieldSelector=x=y", b"", {}, 400, "", id="no field to watch by"),
        pytest.param("GET", f"{MAPS}?resourceVersion=x", b"", {}, 400, "", id="no version"),
        pytest.param("GET", f"{MAPS}?watch=1&timeoutSeconds=1e9", b"", {}, 400, "invalid syntax", id="no time"),
        pytest.param("DELETE", f"{MAPS}/a?gracePeriodSeconds=x", b"", {}, 400, "invalid syntax", id="no grace"),
        pytest.param("DELETE", f"{MAPS}/a?propagationPolicy=Up", b"", {}, 422, "Unsupported value", id="no policy"),
        pytest.param("DELETE", f"{MAPS}/a", b'{"kind":"Pod"}', {}, 400, 'no kind "Pod"', id="odd options"),
        pytest.param("POST", f"{MAPS}?dryRun=Some", b"{}", {}, 422, "Unsupported value", id="half a dry run"),
        pytest.param("POST", f"{MAPS}?fieldValidation=Lax", b"{}", {}, 422, "Unsupported value", id="lax"),
        pytest.param("GET", f"{MAPS}/..", b"", {}, 400, "Name parameter invalid", id="two dots"),
        pytest.param("GET", f"{MAPS}/%2e%2e", b"", {}, 400, "Name parameter invalid", id="two dots, encoded"),
        pytest.param("GET", f"{MAPS}/a%2525", b"", {}, 400, "may not contain '%'", id="encoded twice"),
        pytest.param("GET", f"{MAPS}/..%2f..%2fsecrets", b"", {}, 404, "", id="strokes, encoded"),
        pytest.param("GET", f"{MAPS}/a%00b", b"", {}, 404, "not found", id="a NUL"),
        pytest.param("GET", f"{MAPS}/{'a' * 5000}", b"", {}, 404, "not found", id="an overlong name"),
        pytest.param("GET", f"{MAPS}/%ff%fe", b"", {}, 404, "not found", id="no text"),
        pytest.param("POST", MAPS, b"x" * (BODY_MAX + 1), {}, 413, "limit is 3145728", id="too large a body"),
        pytest.param("POST", f"{PODS}/p/exec", b"", {}, 404, 'pods "p" not found', id="exec in no pod"),
        pytest.param(
            "GET", f"{PODS}/p/portforward", b"", {}, 501, "its ports are this machine's own", id="port-forward"
        ),
    ],
)
async def test_whatever_is_wrong_is_said_and_the_server_lives(
    verb: str, target: str, body: bytes, headers: dict[str, str], code: int, says: str | None
) -> None:
    async with furnished() as stand:
        response = await stand.call(verb, target, body, headers=headers)
        assert response.code == code
        if says is None:
            assert response.body == b"404 page not found\n"
            return
        status = told(response)
        assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
        assert status["code"] == code
        assert status["reason"]
        assert says in status["message"]
        assert (await stand.call("GET", "/healthz")).code == 200


async def test_fields_that_are_there_twice_or_unknown() -> None:
    async with furnished() as stand:
        body = b'{"metadata":{"name":"a"},"data":{"k":"v","k":"w"}}'
        strict = await stand.call("POST", f"{MAPS}?fieldValidation=Strict", body)
        assert strict.code == 400
        assert told(strict)["message"] == (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
            'duplicate field "data.k"'
        )
        both = await stand.call("POST", f"{MAPS}?fieldValidation=Strict", b'{"x":1,"data":{"k":"v","k":"w"}}')
        assert told(both)["message"].endswith('strict decoding error: unknown field "x", duplicate field "data.k"')
        warned = await stand.call("POST", MAPS, body)
        assert warned.code == 201
        assert ("Warning", '299 - "duplicate field \\"data.k\\""') in warned.headers


async def test_who_is_refused_is_warned_too() -> None:
    async with furnished() as stand:
        refused = await stand.call("POST", MAPS, {"metadata": {"name": "A"}, "x": 1})
        assert refused.code == 422
        assert ("Warning", '299 - "unknown field \\"x\\""') in refused.headers


async def test_an_older_version_is_answered_with_a_warning() -> None:
    async with furnished() as stand:
        response = await stand.call("GET", "/apis/kueue.x-k8s.io/v1beta1/clusterqueues")
        assert [value for name, value in response.headers if name == "Warning"] == [
            '299 - "This version is deprecated. Use v1beta2 instead."'
        ]


async def test_deletions_that_take_their_time() -> None:
    async with furnished() as stand:
        await stand.call("POST", JOBS, job("a"))
        foreground = await stand.call("DELETE", f"{JOBS}/a", {"propagationPolicy": "Foreground"})
        assert foreground.code == 200
        assert told(foreground)["metadata"]["finalizers"] == ["foregroundDeletion"]
        await stand.call("POST", JOBS, job("b"))
        await stand.call("PATCH", f"{JOBS}/b", {"metadata": {"finalizers": ["x/y"]}}, headers=MERGE)
        assert (await stand.call("DELETE", f"{JOBS}/b", {"orphanDependents": False})).code == 202
        await stand.call("POST", PODS, pod("p"))
        graceful = await stand.call("DELETE", f"{PODS}/p")
        assert graceful.code == 200
        assert told(graceful)["metadata"]["deletionGracePeriodSeconds"] == 30
        at_once = await stand.call("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
        assert told(at_once)["kind"] == "Pod"
        for name in "xyz":
            await stand.call("POST", MAPS, config(name))
        many = await stand.call("DELETE", f"{MAPS}?fieldSelector=metadata.name!=z")
        assert [one["metadata"]["name"] for one in told(many)["items"]] == ["x", "y"]


async def test_the_output_of_containers() -> None:
    async with furnished() as stand:
        await stand.call("POST", PODS, pod("p"))

        async def output(query: str) -> bytes:
            response = await stand.call("GET", f"{PODS}/p/log?{query}")
            assert response.code == 200
            assert not isinstance(response.body, bytes)
            return b"".join([piece async for piece in response.body])

        assert await output("container=a&tailLines=2") == b"a: line 4\na: line 5\n"
        assert (await output("container=b&follow=true")).count(b"\n") == 5
        unclear = await stand.call("GET", f"{PODS}/p/log")
        assert unclear.code == 400
        assert "choose one of: [a b]" in told(unclear)["message"]
        previous = await stand.call("GET", f"{PODS}/p/log?container=a&previous=true")
        assert previous.code == 400
        assert "previous terminated container" in told(previous)["message"]
        removed = await stand.call("GET", f"{PODS}/p/log?container=a&pykueuePosition=5")
        assert (removed.code, told(removed)["message"]) == (404, "the output of this container is no longer kept")
        await stand.call("POST", PODS, pod("q", node=""))
        assert (await stand.call("GET", f"{PODS}/q/log?container=a")).code == 204
        assert (await stand.call("GET", f"{PODS}/none/log")).code == 404


async def test_nobody_comes_in_without_saying_who() -> None:
    async with furnished() as stand:
        for target in ("/healthz", "/livez", "/readyz", "/livez/ping", "/version"):
            assert (await stand.call("GET", target, who="")).code == 200
        for target in ("/", "/api", "/apis", "/metrics", "/openapi/v3", MAPS, f"{MAPS}/a", "/nowhere"):
            response = await stand.call("GET", target, who="")
            assert (response.code, told(response)["reason"]) == (403, "Forbidden")
            assert 'User "system:anonymous" cannot' in told(response)["message"]
        wrong = await stand.call("GET", "/healthz", who="", headers={"authorization": "Bearer x"})
        assert wrong.code == 401


async def test_a_user_stays_in_the_own_namespace() -> None:
    async with furnished() as stand:
        own = "/apis/batch/v1/namespaces/ann/jobs"
        assert (await stand.call("POST", own, job("mine"), who="ann")).code == 201
        for verb, target in (
            ("GET", JOBS),
            ("GET", "/apis/batch/v1/jobs"),
            ("POST", JOBS),
            ("GET", "/api/v1/namespaces"),
            ("DELETE", "/api/v1/namespaces/ann"),
            ("GET", "/api/v1/namespaces/lab/secrets/x"),
            ("GET", "/metrics"),
            ("PUT", f"{own}/mine/status"),
            ("GET", "/api/v1/namespaces/ann/../lab/secrets"),
            ("GET", "/api/v1/namespaces/ann%2f..%2flab/secrets"),
        ):
            refused = await stand.call(verb, target, {} if verb in ("POST", "PUT") else b"", who="ann")
            assert (refused.code, told(refused)["reason"]) == (403, "Forbidden"), target
        listed = await stand.call("GET", JOBS, who="ann")
        assert told(listed)["message"] == (
            'jobs.batch is forbidden: User "ann" cannot list resource "jobs" in API group "batch" '
            'in the namespace "default"'
        )
        named = await stand.call("GET", "/api/v1/namespaces?fieldSelector=metadata.name=ann", who="ann")
        assert [one["metadata"]["name"] for one in told(named)["items"]] == ["ann"]
        for target in (
            "/api/v1/nodes",
            "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
            "/api/v1/namespaces/ann",
            "/apis",
        ):
            assert (await stand.call("GET", target, who="ann")).code == 200


async def test_a_user_is_told_what_is_not_supported() -> None:
    async with furnished() as stand:
        assert (await stand.call("POST", "/api/v1/namespaces/ann/pods/p/portforward", who="ann")).code == 501
        assert (await stand.call("POST", f"{PODS}/p/portforward", who="ann")).code == 403


async def test_two_users_of_a_namespace_leave_each_others_jobs_alone() -> None:
    async with furnished() as stand:
        lab = "/apis/batch/v1/namespaces/lab/jobs"
        made = await stand.call(
            "POST", lab, job("j", metadata={"annotations": {Annotation.CREATOR: "admin"}}), who="bob"
        )
        assert told(made)["metadata"]["annotations"][Annotation.CREATOR] == "bob"
        forged = {"metadata": {"annotations": {Annotation.CREATOR: "carl"}}}
        for verb, body in (("PATCH", forged), ("DELETE", b""), ("PUT", job("j"))):
            refused = await stand.call(verb, f"{lab}/j", body, who="carl", headers=MERGE if verb == "PATCH" else None)
            assert refused.code == 403, verb
            assert 'it was created by "bob"' in told(refused)["message"]
        assert (await stand.call("DELETE", lab, who="carl")).code == 403
        kept = await stand.call("PATCH", f"{lab}/j", forged, who="bob", headers=MERGE)
        assert told(kept)["metadata"]["annotations"][Annotation.CREATOR] == "bob"
        assert (await stand.call("DELETE", f"{lab}/j", who="bob")).code == 200


async def test_reviews_are_answered() -> None:
    async with furnished() as stand:
        target = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        attributes = {"verb": "create", "group": "batch", "resource": "jobs", "namespace": "lab"}
        answered = await stand.call("POST", target, {"spec": {"resourceAttributes": attributes}}, who="ann")
        assert (answered.code, told(answered)["status"]) == (201, {"allowed": False})
        myself = await stand.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, who="ann")
        assert told(myself)["status"]["userInfo"]["username"] == "ann"
        other = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        assert (await stand.call("POST", other, {"spec": {}}, who="ann")).code == 403


async def test_paths_beside_the_resources() -> None:
    async with furnished() as stand:
        assert (await stand.call("GET", "/metrics")).body == b"things_total 1\n"
        assert told(await stand.call("GET", "/version"))["minor"] == "36"
        assert "/apis" in told(await stand.call("GET", "/"))["paths"]
        assert told(await stand.call("GET", "/openapi/v3"))["paths"]
        assert told(await stand.call("GET", "/api/v1"))["kind"] == "APIResourceList"
        stand.front.missing = lambda: ["the store is being opened"]
        waiting = await stand.call("GET", "/readyz")
        assert (waiting.code, waiting.body) == (503, b"not ready:\n- the store is being opened\n")
        assert (await stand.call("GET", "/livez")).code == 200


async def test_a_failure_of_ours_is_an_answer_too(caplog: pytest.LogCaptureFixture) -> None:
    async with furnished() as stand:

        def broken() -> Generator[None, None, list[bytes]]:
            yield
            raise ZeroDivisionError

        stand.front.page = broken
        response = await stand.call("GET", "/metrics")
        assert (response.code, told(response)["reason"]) == (500, "InternalError")
        assert "GET /metrics failed" in caplog.text
