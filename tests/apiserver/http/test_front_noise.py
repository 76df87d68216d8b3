"""Does the API stand whatever comes? Calls drawn at random, by users and by nobody; none may be a failure of ours."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.core import Json
from tests.apiserver.standing import Stand

ROOTS = (
    "",
    "/api/v1",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/ann",
    "/apis/batch/v1/namespaces/ann",
    "/apis/kueue.x-k8s.io/v1beta2",
    "/apis/kueue.x-k8s.io/v1beta1/namespaces/ann",
    "/apis/apiextensions.k8s.io/v1",
    "/apis/authorization.k8s.io/v1",
    "/openapi/v3",
)
SEGMENTS = st.sampled_from(
    (
        *("pods", "jobs", "configmaps", "secrets", "workloads", "clusterqueues", "namespaces", "events", "nodes"),
        *("customresourcedefinitions", "selfsubjectaccessreviews", "status", "log", "exec", "scale", "binding"),
        *("eviction", "watch", "a", "..", ".", "%2e%2e", "%00", "%ff", "%2f", "a%25", "A_b", "", "x" * 300),
    )
)
QUERIES = st.dictionaries(
    st.sampled_from(
        (
            *(
                "limit",
                "continue",
                "watch",
                "resourceVersion",
                "resourceVersionMatch",
                "labelSelector",
                "fieldSelector",
            ),
            *(
                "timeoutSeconds",
                "sendInitialEvents",
                "allowWatchBookmarks",
                "dryRun",
                "fieldManager",
                "force",
                "pretty",
            ),
            *("fieldValidation", "propagationPolicy", "gracePeriodSeconds", "orphanDependents", "includeObject"),
            *("tailLines", "sinceSeconds", "sinceTime", "follow", "container", "hash"),
        )
    ),
    st.sampled_from(
        (
            *("", "0", "1", "-1", "true", "false", "x", "9223372036854775807", "99999999999999999999", "1e3", "All"),
            *("Exact", "NotOlderThan", "a=b", "a in (b", "!!", "metadata.name=a", "metadata.name!=a", "status.phase=x"),
            *("%00", "%F0%9F%90%BC", "Strict", "Foreground", "Object", "2027-01-15T08:00:00Z", "eyJydiI6MX0", "a%0Ab"),
        )
    ),
    max_size=4,
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "accept": st.sampled_from(
            (
                *("*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml", ";;,=", "a/b;q=x"),
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            )
        ),
        "content-type": st.sampled_from(
            (
                *("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "x", ";"),
                *("application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"),
                "application/strategic-merge-patch+json",
            )
        ),
        "impersonate-user": st.sampled_from(("ann", "zoe", "")),
        "user-agent": st.sampled_from(("curl/8", "kubectl/1.32", "\x00", "")),
    },
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**64) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("metadata", "spec", "status", "kind", "apiVersion", "name", "namespace", "labels", "annotations"),
                    *("data", "template", "containers", "finalizers", "ownerReferences", "op", "path", "value", "from"),
                    *("uid", "resourceVersion", "managedFields", "conditions", "names", "group", "versions", "schema"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
BODIES = st.binary(max_size=30) | TREES.map(msgspec.json.encode)


@pytest.fixture(scope="module")
def runner() -> Iterator[tuple[asyncio.Runner, Stand]]:
    with asyncio.Runner() as running:
        stand = Stand()
        running.run(stand.furnish())
        for name in ("a", "b"):
            tree: Json = {"metadata": {"name": name, "namespace": "ann"}, "data": {"k": "v"}}
            running.run(stand.call("POST", "/api/v1/namespaces/ann/configmaps", tree))
        yield running, stand
        running.run(stand.store.close())


@given(
    st.sampled_from(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "BREW", "OPTIONS")),
    st.sampled_from(ROOTS),
    st.lists(SEGMENTS, max_size=4),
    QUERIES,
    HEADERS,
    BODIES,
    st.sampled_from(("admin", "ann", "")),
)
def test_no_call_is_too_odd_to_be_answered(
    runner: tuple[asyncio.Runner, Stand],
    verb: str,
    root: str,
    segments: list[str],
    query: dict[str, str],
    headers: dict[str, str],
    body: bytes,
    who: str,
) -> None:
    running, stand = runner
    target = "/".join((root, *segments)) + "?" + "&".join(f"{name}={value}" for name, value in query.items())

    async def call() -> None:
        response = await stand.call(verb, target, body, who=who, headers=headers)
        assert response.code < 500 or response.code == 501, response.body
        if isinstance(response.body, bytes):
            return
        try:
            async with asyncio.timeout(0.01):
                async for _ in response.body:
                    pass
        except TimeoutError:
            pass
        finally:
            await response.body.aclose()  # type: ignore[attr-defined]  # it is a generator

    running.run(call())
