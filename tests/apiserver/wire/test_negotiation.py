"""In which form is it sent, and wanted? Accept headers, content types, and bodies that are not what they say."""

import pytest

from pykueue.api.core import Json
from pykueue.apiserver.wire.negotiation import (
    JSON,
    YAML,
    Negotiated,
    check_media,
    decoded,
    encoded,
    is_pretty,
    object_in,
    wanted,
)
from pykueue.apiserver.wire.statuserrors import StatusError

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    ("header", "choice"),
    [
        pytest.param("", Negotiated(), id="nothing"),
        pytest.param("*/*", Negotiated(), id="anything"),
        pytest.param("application/*", Negotiated(), id="any application"),
        pytest.param(KUBECTL, Negotiated("table"), id="kubectl get"),
        pytest.param(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io", Negotiated("table", version="v1beta1"), id="older"
        ),
        pytest.param(
            "application/json;as=Moose;v=v1;g=meta.k8s.io, application/json", Negotiated(), id="an unknown form"
        ),
        pytest.param(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Negotiated("metadata"), id="metadata"
        ),
        pytest.param("application/vnd.kubernetes.protobuf, application/json", Negotiated(), id="protobuf or else JSON"),
        pytest.param("application/yaml", Negotiated(media=YAML), id="YAML"),
        pytest.param("application/json;q=0.1, application/yaml;q=0.9", Negotiated(media=YAML), id="by liking"),
        pytest.param("application/json;stream=watch", Negotiated(stream=True), id="a stream"),
        pytest.param("application/json;pretty=1", Negotiated(pretty=True), id="laid out"),
    ],
)
def test_the_first_form_on_offer_is_taken(header: str, choice: Negotiated) -> None:
    assert wanted(header) == choice


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("application/vnd.kubernetes.protobuf", "406: Not Acceptable"),
        ("text/html", "406: Not Acceptable"),
        (
            "application/json;stream=tv",
            "only the following media types are accepted: application/json, application/yaml",
        ),
    ],
)
def test_a_form_that_nobody_offers_is_refused(header: str, says: str) -> None:
    with pytest.raises(StatusError) as refused:
        wanted(header)
    assert refused.value.code == 406
    assert refused.value.message.partition("\n")[0] == says


def test_discovery_is_a_form_of_its_own() -> None:
    header = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    assert wanted(header, forms=("object", "discovery")) == Negotiated("discovery", version="v2")
    assert wanted(header) == Negotiated()


def test_a_type_that_is_not_read_is_refused() -> None:
    assert check_media("") == JSON
    assert check_media("application/json; charset=utf-8") == JSON
    with pytest.raises(StatusError) as refused:
        check_media("text/xml")
    assert refused.value.code == 415
    assert "accepted media types include: application/json, application/yaml" in refused.value.message


def merged(inner: bytes, depth: int) -> bytes:
    """A mapping that merges ten times what merges ten times, and so on."""
    for level in range(depth):
        inner = b"{<<: [&a%d %s%s]}" % (level, inner, b",*a%d" % level * 9)
    return b"x: " + inner


@pytest.mark.parametrize(
    ("body", "media"),
    [
        pytest.param(b"{", JSON, id="half an object"),
        pytest.param(b"\xff\xfe", JSON, id="no text"),
        pytest.param(b"[" * 100_000, JSON, id="a hundred thousand brackets"),
        pytest.param(b"a: [", YAML, id="half a list"),
        pytest.param(b"\xc3\x28", YAML, id="no text in YAML"),
        pytest.param(b"- " * 20_000, YAML, id="a deep list"),
        pytest.param(b"? [a]\n: b", YAML, id="a list as a key"),
        pytest.param(b"a: &a [*a]", YAML, id="a list in itself"),
        pytest.param(b"a: &a [x,x]\nb: &b [" + b"*a," * 600 + b"]\nc: [" + b"*b," * 600 + b"]", YAML, id="a bomb"),
        pytest.param(merged(b"{k: v}", 8), YAML, id="a bomb of merges"),
        pytest.param(merged(b"{}", 8), YAML, id="a bomb of merges of nothing"),
        pytest.param(b"a: &a {<<: *a}", YAML, id="a mapping merged into itself"),
        pytest.param(b"a: {<<: 1}", YAML, id="a number merged in"),
        pytest.param(b"a: 1\n---\nb: 2\n", YAML, id="two documents"),
        pytest.param(b"[]", JSON, id="a list"),
        pytest.param(b'"x"', JSON, id="a text"),
    ],
)
def test_a_body_that_is_no_object_is_refused(body: bytes, media: str) -> None:
    with pytest.raises(StatusError) as refused:
        object_in(body, media)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(b"{a: 1, b: [x, 2.5, null, true]}", {"a": 1, "b": ["x", 2.5, None, True]}, id="plain values"),
        pytest.param(b"1: x\ntrue: y\n", {"1": "x", "true": "y"}, id="keys become texts"),
        pytest.param(b"d: 2026-01-31", {"d": "2026-01-31"}, id="a date is a text"),
        pytest.param(b"a: &x {k: v}\nb: {<<: *x, l: w}", {"a": {"k": "v"}, "b": {"k": "v", "l": "w"}}, id="a merge"),
        pytest.param(
            b"{<<: [{a: 1, b: 1}, {b: 2, c: 2}], c: 3, <<: {d: 4}}",
            {"a": 1, "b": 1, "c": 3, "d": 4},
            id="of several merges the first holds, and the mapping's own before all",
        ),
        pytest.param(b"a: &x {k: v}\nb: *x\n", {"a": {"k": "v"}, "b": {"k": "v"}}, id="an alias"),
    ],
)
def test_yaml_says_what_json_could_say(body: bytes, says: Json) -> None:
    assert decoded(body, YAML) == says


def test_what_is_sent_can_be_read_again() -> None:
    tree = {"b": [1, "ä"], "a": {"c": None}}
    for media in (JSON, YAML):
        for pretty in (False, True):
            assert object_in(encoded(tree, media, pretty=pretty), media) == tree


def test_people_get_it_laid_out() -> None:
    assert is_pretty(Negotiated(), "", "curl/8.0")
    assert not is_pretty(Negotiated(), "0", "curl/8.0")
    assert is_pretty(Negotiated(), "true", "kubectl/1.32")
    assert not is_pretty(Negotiated(), "", "kubectl/1.32")
