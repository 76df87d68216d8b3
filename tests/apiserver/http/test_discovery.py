"""What is served here? Discovery in its plain and its aggregated form, with tags, and as kinds come and go."""

from typing import Any

import msgspec
import pytest

from pykueue.apiserver.http.discovery import Discovery, rank
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.wire.messages import Response, request
from pykueue.apiserver.wire.statuserrors import StatusError

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "tests.stable.example.com"},
    "spec": {
        "group": "stable.example.com",
        "scope": "Namespaced",
        "names": {"plural": "tests", "kind": "Test", "shortNames": ["tt"]},
        "versions": [
            {
                "name": version,
                "served": True,
                "storage": version == "v1",
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
            for version in ("v1beta1", "v1")
        ],
    },
}


def asked(discovery: Discovery, path: str, **headers: str) -> Response | None:
    return discovery.answer(path, request("GET", path, headers={"accept": "application/json"} | headers))


def told(discovery: Discovery, path: str, **headers: str) -> Any:
    response = asked(discovery, path, **headers)
    assert response is not None
    assert isinstance(response.body, bytes)
    return msgspec.json.decode(response.body)


@pytest.fixture(scope="module")
def discovery() -> Discovery:
    return Discovery(Catalog())


def test_the_versions_of_the_core(discovery: Discovery) -> None:
    made = told(discovery, "/api")
    assert (made["kind"], made["versions"]) == ("APIVersions", ["v1"])


def test_the_groups(discovery: Discovery) -> None:
    made = told(discovery, "/apis")
    assert made["kind"] == "APIGroupList"
    groups = {one["name"]: one for one in made["groups"]}
    assert "" not in groups
    assert groups["kueue.x-k8s.io"]["preferredVersion"]["version"] == "v1beta2"
    assert [one["version"] for one in groups["kueue.x-k8s.io"]["versions"]] == ["v1beta2", "v1beta1"]
    one = told(discovery, "/apis/batch")
    assert (one["kind"], one["apiVersion"], one["name"]) == ("APIGroup", "v1", "batch")


def test_the_resources_of_a_group(discovery: Discovery) -> None:
    made = told(discovery, "/apis/batch/v1")
    assert (made["kind"], made["apiVersion"], made["groupVersion"]) == ("APIResourceList", "v1", "batch/v1")
    named = {one["name"]: one for one in made["resources"]}
    assert named["jobs"]["singularName"] == "job"
    assert named["jobs"]["namespaced"] is True
    assert "deletecollection" in named["jobs"]["verbs"]
    assert named["jobs/status"]["verbs"] == ["get", "patch", "update"]
    assert named["jobs"]["storageVersionHash"] == "mudhfqk/qZY="
    core = {one["name"]: one for one in told(discovery, "/api/v1")["resources"]}
    assert core["pods"]["shortNames"] == ["po"]
    assert core["pods/eviction"]["group"] == "policy"


def test_everything_at_once(discovery: Discovery) -> None:
    response = asked(discovery, "/apis", accept=f"{AGGREGATED},application/json")
    assert response is not None
    assert dict(response.headers)["Content-Type"] == AGGREGATED
    made = told(discovery, "/apis", accept=AGGREGATED)
    assert made["apiVersion"] == "apidiscovery.k8s.io/v2"
    (batch,) = (one for one in made["items"] if one["metadata"]["name"] == "batch")
    (version,) = batch["versions"]
    (jobs,) = (one for one in version["resources"] if one["resource"] == "jobs")
    assert jobs["responseKind"] == {"group": "batch", "version": "v1", "kind": "Job"}
    assert jobs["scope"] == "Namespaced"
    assert [one["subresource"] for one in jobs["subresources"]] == ["status"]
    (core,) = told(discovery, "/api", accept=AGGREGATED)["items"]
    assert core["versions"][0]["version"] == "v1"


def test_both_forms_tell_the_same(discovery: Discovery) -> None:
    for group in told(discovery, "/apis", accept=AGGREGATED)["items"]:
        for version in group["versions"]:
            path = f"/apis/{group['metadata']['name']}/{version['version']}"
            plain = {one["name"] for one in told(discovery, path)["resources"]}
            whole = {one["resource"] for one in version["resources"]} | {
                f"{one['resource']}/{sub['subresource']}"
                for one in version["resources"]
                for sub in one.get("subresources", ())
            }
            assert plain == whole


def test_a_client_that_has_it_need_not_read_it_again(discovery: Discovery) -> None:
    first = asked(discovery, "/apis", accept=AGGREGATED)
    assert first is not None
    tag = dict(first.headers)["ETag"]
    again = asked(discovery, "/apis", **{"accept": AGGREGATED, "if-none-match": tag})
    assert again is not None
    assert (again.code, again.body) == (304, b"")
    plain = asked(discovery, "/apis", **{"if-none-match": tag})
    assert plain is not None
    assert plain.code == 200


def test_a_new_kind_is_told_of_and_forgotten_with_its_definition() -> None:
    catalog = Catalog()
    discovery = Discovery(catalog)
    assert asked(discovery, "/apis/stable.example.com") is None
    catalog.install(DEFINITION)
    made = told(discovery, "/apis/stable.example.com")
    assert made["preferredVersion"]["version"] == "v1"
    assert told(discovery, "/apis/stable.example.com/v1beta1")["resources"][0]["shortNames"] == ["tt"]
    catalog.forget("tests.stable.example.com")
    assert asked(discovery, "/apis/stable.example.com") is None


@pytest.mark.parametrize("path", ["/apis/none", "/api/v2", "/apis//v1", "/healthz"])
def test_what_is_not_there_is_not_told_of(discovery: Discovery, path: str) -> None:
    assert asked(discovery, path) is None


def test_a_version_that_is_not_there_is_said_to_be_missing(discovery: Discovery) -> None:
    with pytest.raises(StatusError, match="could not find the requested resource"):
        asked(discovery, "/apis/batch/v9")


def test_versions_are_preferred_as_kubernetes_prefers_them() -> None:
    names = ["foo", "v1alpha1", "v1beta1", "v1beta2", "v1", "v2beta1", "v2", "v10"]
    assert sorted(names, key=rank) == ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1", "foo"]
