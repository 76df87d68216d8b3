"""What does a body in Kubernetes' binary format say? Bodies put together by hand, and such as are none.

That what kubectl really sends is understood is shown by `test_kubectl`.
"""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.core import Tree
from pykueue.apiserver.schema.schemas import index
from pykueue.apiserver.wire.negotiation import object_in
from pykueue.apiserver.wire.protobuf import MAGIC, MEDIA, Field, messages, object_of
from pykueue.apiserver.wire.statuserrors import StatusError


def number(value: int) -> bytes:
    value &= (1 << 64) - 1
    made = b""
    while value > 0x7F:
        made += bytes([value & 0x7F | 0x80])
        value >>= 7
    return made + bytes([value])


def whole(field: int, value: int) -> bytes:
    return number(field << 3) + number(value)


def part(field: int, *held: bytes | str) -> bytes:
    body = b"".join(one.encode() if isinstance(one, str) else one for one in held)
    return number(field << 3 | 2) + number(len(body)) + body


def envelope(api_version: str, kind: str, *body: bytes) -> bytes:
    return MAGIC + part(1, part(1, api_version), part(2, kind)) + part(2, *body)


METADATA = part(
    1,
    part(1, "j"),
    part(3, ""),
    part(5, ""),
    whole(7, 0),
    part(8),
    part(11, part(1, "team"), part(2, "a")),
    part(12, part(1, "empty")),
    part(14, "one"),
    part(14, "two"),
)


def test_a_job_as_kubectl_would_send_it() -> None:
    requests = part(2, part(1, "cpu"), part(2, part(1, "500m")))
    probe = part(11, part(1, part(2, part(1, "/"), part(2, whole(1, 0), whole(2, 80), part(3, "")))), whole(2, 5))
    container = part(2, part(1, "c"), part(2, "img"), part(3, "sh"), part(3, "-c"), part(8, requests), probe)
    volume = part(1, part(1, "v"), part(2, part(2, part(1, ""))))
    template = part(6, part(1), part(2, volume, container, part(3, "Never"), part(10, "")))
    spec = part(2, whole(1, 0), whole(2, 3), whole(10, 0), template)
    status = part(3, whole(4, 0), part(2, whole(1, 1_800_000_000)))
    body = envelope("batch/v1", "Job", METADATA, spec, status)
    pod: Tree = {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [
            {
                "name": "c",
                "image": "img",
                "command": ["sh", "-c"],
                "resources": {"requests": {"cpu": "500m"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "initialDelaySeconds": 5},
            }
        ],
        "restartPolicy": "Never",
    }
    wanted: Tree = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"team": "a"}, "annotations": {"empty": ""}, "finalizers": ["one", "two"]},
        # A zero that was set on purpose stays; one that nobody set does not.
        "spec": {"parallelism": 0, "completions": 3, "suspend": False, "template": {"spec": pod}},
        "status": {"startTime": "2027-01-15T08:00:00Z"},
    }
    assert object_of(body) == wanted
    assert object_in(body, MEDIA) == wanted


def test_values_of_every_form() -> None:
    secret = object_of(envelope("v1", "Secret", part(2, part(1, "k"), part(2, b"\xff\x00")), part(3, "Opaque")))
    assert secret == {"apiVersion": "v1", "kind": "Secret", "data": {"k": "/wA="}, "type": "Opaque"}
    lease = object_of(
        envelope(
            "coordination.k8s.io/v1", "Lease", part(2, part(3, whole(1, 1_800_000_000), whole(2, 5000)), whole(2, 9))
        )
    )
    assert lease["spec"] == {"acquireTime": "2027-01-15T08:00:00.000005Z", "leaseDurationSeconds": 9}
    value = object_of(envelope("scheduling.k8s.io/v1", "PriorityClass", whole(2, -7), whole(3, 1)))
    assert (value["value"], value["globalDefault"]) == (-7, True)
    managed = part(17, part(1, "me"), part(7, part(1, '{"f:x":{}}')))
    entry = object_of(envelope("v1", "ConfigMap", part(1, managed)))
    assert entry["metadata"] == {"managedFields": [{"manager": "me", "fieldsV1": {"f:x": {}}}]}
    named = part(2, whole(1, 1), part(3, "http"))
    handler = part(2, part(2, part(2, part(1, "c"), part(10, part(1, part(2, named))))))
    assert "'port': 'http'" in str(object_of(envelope("v1", "PodTemplate", handler)))
    extra = part(2, part(5, part(1, "scopes"), part(2, part(1, "a"), part(1, "b"))), part(3, "ann"))
    review = object_of(envelope("authorization.k8s.io/v1", "SubjectAccessReview", extra))
    assert review["spec"] == {"user": "ann", "extra": {"scopes": ["a", "b"]}}


@pytest.mark.parametrize("api_version", ["v1", "meta.k8s.io/v1", "batch/v1", "policy/v1"])
def test_the_options_of_a_deletion_have_many_names(api_version: str) -> None:
    body = envelope(api_version, "DeleteOptions", whole(1, 0), part(4, "Orphan"))
    assert object_of(body)["gracePeriodSeconds"] == 0
    assert object_of(body)["propagationPolicy"] == "Orphan"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"kind":"Job"}', id="JSON"),
        pytest.param(MAGIC, id="no more than the beginning"),
        pytest.param(envelope("moose/v1", "Moose"), id="an unknown kind"),
        pytest.param(envelope("v1", "Job"), id="a kind of another group"),
        pytest.param(envelope("v1", "Pod", b"\x0a\xff\xff\xff\xff\x0f"), id="a part beyond the end"),
        pytest.param(envelope("v1", "Pod", b"\xff" * 11), id="a number without an end"),
        pytest.param(envelope("v1", "Pod", b"\x0b"), id="an unknown wire type"),
        pytest.param(envelope("v1", "Pod", whole(1, 5)), id="a number for a part"),
        pytest.param(envelope("v1", "Pod", part(1, part(1, b"\xff"))), id="a text that is none"),
        pytest.param(envelope("v1", "Pod", part(1, part(7, b"x"))), id="a text for a number"),
        pytest.param(envelope("v1", "Pod", part(1, part(8, whole(1, 1 << 62)))), id="a time in no calendar"),
        pytest.param(envelope("v1", "Pod", part(1, part(17, part(7, part(1, "{"))))), id="JSON that is none"),
    ],
)
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(StatusError) as refused:
        object_of(body)
    assert refused.value.code == 400


@given(st.binary(max_size=300), st.sampled_from(["Pod", "ConfigMap", "Node", "Event"]))
def test_no_bytes_do_any_harm(noise: bytes, kind: str) -> None:
    with contextlib.suppress(StatusError):
        assert msgspec.json.encode(object_of(envelope("v1", kind, noise)))


def test_every_field_of_the_table_is_one_of_the_schemas() -> None:
    """The table was read from Go's types and the schemas were asked of a server; they must agree."""
    kinds = {
        ("core/v1.Pod", "v1", "Pod"),
        ("batch/v1.Job", "batch/v1", "Job"),
        ("core/v1.Node", "v1", "Node"),
    }
    for message, api_version, kind in kinds:
        assert kind in index()[api_version]
        assert {field.name for field in messages()[message].values()} == {"metadata", "spec", "status"}
    referred = {field.kind for held in messages().values() for field in held.values()}
    known = {
        "s",
        "b",
        "i",
        "f",
        "y",
        "Time",
        "MicroTime",
        "Quantity",
        "IntOrString",
        "RawExtension",
        "FieldsV1",
        "List:s",
    }
    assert referred <= known | set(messages())
    assert messages()["core/v1.Volume"][2] == Field("", "core/v1.VolumeSource", False, False, True)
