"""What does a URL ask for? Methods and paths as verbs on resources, and paths that are tricks."""

import pytest

from pykueue.apiserver.wire.paths import RequestInfo, cannot, check_names, request_info, split
from pykueue.apiserver.wire.statuserrors import StatusError


@pytest.mark.parametrize(
    ("method", "target", "wanted"),
    [
        pytest.param("GET", "/api/v1/pods", RequestInfo("list", "", "v1", "pods"), id="a list everywhere"),
        pytest.param("GET", "/api/v1/namespaces/a/pods", RequestInfo("list", "", "v1", "pods", "a"), id="a list"),
        pytest.param("GET", "/api/v1/namespaces/a/pods/p", RequestInfo("get", "", "v1", "pods", "a", "p"), id="a get"),
        pytest.param(
            "HEAD", "/api/v1/namespaces/a/pods/p", RequestInfo("get", "", "v1", "pods", "a", "p"), id="a head"
        ),
        pytest.param(
            "GET",
            "/apis/batch/v1/namespaces/a/jobs?watch=true",
            RequestInfo("watch", "batch", "v1", "jobs", "a"),
            id="a watch",
        ),
        pytest.param("GET", "/api/v1/pods?watch=0", RequestInfo("list", "", "v1", "pods"), id="a watch that is none"),
        pytest.param("GET", "/api/v1/pods?watch", RequestInfo("watch", "", "v1", "pods"), id="a watch without a value"),
        pytest.param(
            "GET", "/api/v1/watch/pods", RequestInfo("watch", "", "v1", "pods"), id="a watch of the older way"
        ),
        pytest.param(
            "POST", "/apis/batch/v1/namespaces/a/jobs", RequestInfo("create", "batch", "v1", "jobs", "a"), id="post"
        ),
        pytest.param("PUT", "/api/v1/nodes/n", RequestInfo("update", "", "v1", "nodes", "", "n"), id="put"),
        pytest.param(
            "PATCH",
            "/api/v1/namespaces/a/pods/p/status",
            RequestInfo("patch", "", "v1", "pods", "a", "p", "status"),
            id="a patch of a status",
        ),
        pytest.param(
            "DELETE", "/api/v1/namespaces/a/pods", RequestInfo("deletecollection", "", "v1", "pods", "a"), id="all"
        ),
        pytest.param(
            "GET", "/api/v1/namespaces/a", RequestInfo("get", "", "v1", "namespaces", "a", "a"), id="a namespace"
        ),
        pytest.param("GET", "/api/v1/namespaces", RequestInfo("list", "", "v1", "namespaces"), id="all namespaces"),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            RequestInfo("update", "", "v1", "namespaces", "a", "a", "finalize"),
            id="the end of a namespace",
        ),
        pytest.param("BREW", "/api/v1/nodes", RequestInfo("", "", "v1", "nodes"), id="an unknown method"),
        pytest.param("GET", "/healthz", None, id="a path of no resource"),
        pytest.param("GET", "/apis/batch/v1", None, id="a version of a group"),
        pytest.param("GET", "/", None, id="the root"),
        pytest.param(
            "GET",
            "/api/v1/namespaces/a%2fb/pods",
            RequestInfo("get", "", "v1", "b", "a", "pods"),
            id="an encoded stroke divides like any other",
        ),
    ],
)
def test_a_path_is_read_as_kubernetes_reads_it(method: str, target: str, wanted: RequestInfo | None) -> None:
    path, query = split(target)
    assert request_info(method, path, query) == wanted


@pytest.mark.parametrize(
    ("call", "says"),
    [
        pytest.param(
            RequestInfo("get", "", "v1", "pods", "a", ".."), "Name parameter invalid: \"..\": may not be '..'", id=".."
        ),
        pytest.param(
            RequestInfo("get", "", "v1", "pods", ".", "p"), "Namespace parameter invalid: \".\": may not be '.'", id="."
        ),
        pytest.param(
            RequestInfo("get", "", "v1", "pods", "a", "%2e"),
            "Name parameter invalid: \"%2e\": may not contain '%'",
            id="twice",
        ),
    ],
)
def test_a_name_that_is_a_trick_is_refused(call: RequestInfo, says: str) -> None:
    with pytest.raises(StatusError) as refused:
        check_names(call)
    assert (refused.value.code, refused.value.message) == (400, says)


def test_a_parameter_that_is_miscoded_is_passed_over() -> None:
    assert split("/?a=%zz&b=1;c=2&d=x%20y+z&e&=f&d=") == ("/", {"d": ["x y z", ""], "e": [""], "": ["f"]})


def test_a_query_with_too_many_parameters_is_refused() -> None:
    with pytest.raises(StatusError, match="more than 100 parameters"):
        split("/api/v1/pods?" + "&".join(f"a{number}=1" for number in range(101)))


def test_what_somebody_may_not_do_is_told_in_the_words_of_kubernetes() -> None:
    call = RequestInfo("list", "batch", "v1", "jobs", "bob", subresource="status")
    assert cannot("ann", "list", call=call, path="") == (
        'User "ann" cannot list resource "jobs/status" in API group "batch" in the namespace "bob"'
    )
    assert cannot("ann", "get", call=None, path="/metrics") == 'User "ann" cannot get path "/metrics"'
