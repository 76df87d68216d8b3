"""What do the fields mean? OpenAPI documents that clients can follow to the end."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pykueue.apiserver.http.discovery import Discovery
from pykueue.apiserver.http.openapi import OpenApi
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.wire.messages import Response, request
from pykueue.apiserver.wire.statuserrors import StatusError

REF = "#/components/schemas/"


@pytest.fixture(scope="module")
def openapi() -> OpenApi:
    return OpenApi(Discovery(Catalog()))


def asked(openapi: OpenApi, target: str, **headers: str) -> Response:
    call = request("GET", target, headers=headers)
    response = openapi.answer(call.path, call)
    assert response is not None
    return response


def told(openapi: OpenApi, target: str) -> Any:
    body = asked(openapi, target).body
    assert isinstance(body, bytes)
    return msgspec.json.decode(body)


def references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def test_every_document_of_the_index_is_whole(openapi: OpenApi) -> None:
    paths = told(openapi, "/openapi/v3")["paths"]
    assert {"api/v1", "apis/batch/v1", "apis/kueue.x-k8s.io/v1beta2", "apis/kueue.x-k8s.io/v1beta1"} <= set(paths)
    for held in paths.values():
        document = told(openapi, held["serverRelativeURL"])
        schemas = document["components"]["schemas"]
        missing = {one for one in references(document) if one.removeprefix(REF) not in schemas}
        assert missing == set()


def test_a_document_is_kept_for_good_under_its_hash(openapi: OpenApi) -> None:
    url = told(openapi, "/openapi/v3")["paths"]["apis/batch/v1"]["serverRelativeURL"]
    headers = dict(asked(openapi, url).headers)
    assert "immutable" in headers["Cache-Control"]
    assert "Cache-Control" not in dict(asked(openapi, "/openapi/v3/apis/batch/v1").headers)
    assert asked(openapi, url, **{"if-none-match": headers["ETag"]}).code == 304


def test_a_client_learns_what_a_patch_takes(openapi: OpenApi) -> None:
    """kubectl asks this before it leaves the check of fields, or a dry run, to the server."""
    path = told(openapi, "/openapi/v3/apis/batch/v1")["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]
    patch = path["patch"]
    assert {"dryRun", "fieldValidation", "fieldManager", "force"} <= {one["name"] for one in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"] == {"group": "batch", "version": "v1", "kind": "Job"}


@pytest.mark.parametrize(
    ("path", "name", "field", "words"),
    [
        ("apis/batch/v1", "io.k8s.api.batch.v1.JobSpec", "backoffLimit", "Specifies the number of retries"),
        ("api/v1", "io.k8s.api.core.v1.Container", "args", "Arguments to the entrypoint."),
        ("api/v1", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels", "Map of string keys and values"),
    ],
)
def test_the_fields_of_built_in_kinds_are_described(
    openapi: OpenApi, path: str, name: str, field: str, words: str
) -> None:
    schema = told(openapi, f"/openapi/v3/{path}")["components"]["schemas"][name]
    assert schema["description"]
    assert schema["properties"][field]["description"].startswith(words)


def test_every_recorded_definition_is_described(openapi: OpenApi) -> None:
    schemas = told(openapi, "/openapi/v3/api/v1")["components"]["schemas"]
    bare = {
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, held in schema.get("properties", {}).items()
        if not held.get("description")
    }
    assert bare == set()


def test_the_fields_of_our_kinds_are_described(openapi: OpenApi) -> None:
    schemas = told(openapi, "/openapi/v3/apis/kueue.x-k8s.io/v1beta2")["components"]["schemas"]
    workload = schemas["io.x-k8s.kueue.v1beta2.Workload"]
    assert workload["properties"]["spec"]["properties"]["queueName"]["description"]
    assert workload["x-kubernetes-group-version-kind"] == [
        {"group": "kueue.x-k8s.io", "version": "v1beta2", "kind": "Workload"}
    ]
    assert workload["properties"]["metadata"]["allOf"]


def test_the_merge_rules_of_built_in_kinds_are_there(openapi: OpenApi) -> None:
    schemas = told(openapi, "/openapi/v3/api/v1")["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


def test_a_new_kind_has_a_document(openapi: OpenApi) -> None:
    catalog = Catalog()
    grown = OpenApi(Discovery(catalog))
    before = told(grown, "/openapi/v3")["paths"]
    schema: dict[str, Any] = {"type": "object", "properties": {"spec": {"type": "object", "description": "What."}}}
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names: dict[str, Any] = {"plural": "tests", "kind": "Test"}
    catalog.install({"metadata": {"name": "x"}, "spec": {"group": "a.b", "names": names, "versions": [version]}})
    after = told(grown, "/openapi/v3")["paths"]
    assert set(after) - set(before) == {"apis/a.b/v1"}
    schemas = told(grown, "/openapi/v3/apis/a.b/v1")["components"]["schemas"]
    assert schemas["b.a.v1.Test"]["properties"]["spec"]["description"] == "What."


def test_what_is_not_there(openapi: OpenApi) -> None:
    call = request("GET", "/openapi/v3/apis/none/v1")
    with pytest.raises(StatusError, match="could not find the requested resource"):
        openapi.answer(call.path, call)
    call = request("GET", "/openapi/v2", headers={"accept": "text/html"})
    with pytest.raises(StatusError, match="only the following media types are accepted: application/json, ") as refused:
        openapi.answer(call.path, call)
    assert refused.value.code == 406
    assert openapi.answer("/elsewhere", call) is None


V2 = "#/definitions/"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        pytest.param("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", PROTOBUF, id="as kubectl asks"),
        pytest.param(PROTOBUF, PROTOBUF, id="by its proper name"),
        pytest.param("application/json", "application/json", id="JSON"),
        pytest.param("*/*", "application/json", id="anything"),
        pytest.param("", "application/json", id="nothing said"),
        pytest.param(
            f"text/html, {PROTOBUF};q=0.5, application/json;q=0.9", "application/json", id="what is liked best"
        ),
    ],
)
def test_the_older_document_comes_in_the_type_that_is_asked_for(openapi: OpenApi, accept: str, media: str) -> None:
    response = asked(openapi, "/openapi/v2", accept=accept)
    headers = dict(response.headers)
    assert (response.code, headers["Content-Type"]) == (200, media)
    assert asked(openapi, "/openapi/v2", **{"accept": accept, "if-none-match": headers["ETag"]}).code == 304


def test_the_older_document_is_whole(openapi: OpenApi) -> None:
    document = told(openapi, "/openapi/v2")
    assert document["swagger"] == "2.0"
    missing = {one for one in references(document) if one.removeprefix(V2) not in document["definitions"]}
    assert missing == set()
    job = document["definitions"]["io.k8s.api.batch.v1.Job"]
    assert job["x-kubernetes-group-version-kind"] == [{"group": "batch", "version": "v1", "kind": "Job"}]
    patch = document["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]["patch"]
    assert {"name": "fieldValidation", "in": "query", "type": "string", "uniqueItems": True} in patch["parameters"]
    assert patch["responses"]["200"]["schema"] == {"$ref": f"{V2}io.k8s.api.batch.v1.Job"}


def test_the_older_document_says_nothing_that_its_clients_cannot_read(openapi: OpenApi) -> None:
    """kubectl gives up the whole document at an array without items, or at a reference with a type."""

    def check(node: object) -> None:
        if isinstance(node, dict):
            assert not {"allOf", "anyOf", "oneOf", "nullable"} & node.keys()
            assert node.get("type") != "array" or isinstance(node.get("items"), dict)
            assert "$ref" not in node or node.keys() <= {"$ref", "description"}
            for inner in node.values():
                check(inner)

    for held in told(openapi, "/openapi/v2")["definitions"].values():
        check({**held, "properties": None})
        for one in held.get("properties", {}).values():
            check(one)
