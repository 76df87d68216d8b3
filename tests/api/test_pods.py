"""Are pod templates read as Kubernetes reads them, and is what cannot be read refused with its place?"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.core import QUANTITY, Toleration
from pykueue.api.pods import (
    Affinity,
    Container,
    Job,
    LimitRange,
    NodeSelectorRequirement,
    PodSpec,
    PodTemplate,
    ResourceList,
    RuntimeClass,
    TemplateError,
    decode,
    decode_template,
    from_tree,
    node_problem,
)
from pykueue.base.units import Quantity, parse_quantity

FULL = b"""{
  "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}, "creationTimestamp": null},
  "spec": {
    "restartPolicy": "Never",
    "priority": 7,
    "priorityClassName": "high",
    "runtimeClassName": "gvisor",
    "nodeSelector": {"disk": "ssd"},
    "overhead": {"cpu": "100m"},
    "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": 4}},
    "resourceClaims": [{"name": "gpu"}],
    "topologySpreadConstraints": [{"maxSkew": 1}],
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}],
    "affinity": {
      "podAffinity": {"any": ["thing"]},
      "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
      ]}}
    },
    "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"}],
    "containers": [{
      "name": "main",
      "image": "busybox",
      "ports": [{"containerPort": 80}],
      "resources": {
        "requests": {"cpu": 0.5, "memory": "1Gi"}, "limits": {"nvidia.com/gpu": 1}, "claims": [{"name": "gpu"}]
      }
    }]
  }
}"""


def test_every_field_that_we_read_is_read() -> None:
    template = decode_template(FULL)
    spec = template.spec
    assert (template.metadata.labels, template.metadata.annotations) == ({"team": "a"}, {"note": "b"})
    assert (spec.priority, spec.priority_class_name, spec.runtime_class_name) == (7, "high", "gvisor")
    assert spec.node_selector == {"disk": "ssd"}
    assert spec.overhead == {"cpu": parse_quantity("100m")}
    assert spec.resources is not None
    assert (spec.resources.requests, spec.resources.limits) == (
        {"cpu": parse_quantity("3")},
        {"cpu": parse_quantity("4")},
    )
    assert (spec.resource_claims, spec.topology_spread_constraints) == (({"name": "gpu"},), ({"maxSkew": 1},))
    assert spec.tolerations == (Toleration(key="spot", operator="Exists", effect="NoSchedule", toleration_seconds=3),)
    assert isinstance(spec.affinity, Affinity)
    assert spec.affinity.pod_affinity == {"any": ["thing"]}
    assert spec.affinity.node_affinity is not None
    required = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    assert required.node_selector_terms[0].match_expressions == (NodeSelectorRequirement("zone", "In", ("a", "b")),)
    assert [container.is_sidecar() for container in spec.init_containers] == [True, False]
    (main,) = spec.containers
    assert (main.name, main.ports, main.resources.claims) == ("main", ({"containerPort": 80},), ({"name": "gpu"},))
    assert main.resources.requests == {"cpu": parse_quantity("0.5"), "memory": parse_quantity("1Gi")}
    assert main.resources.limits == {"nvidia.com/gpu": parse_quantity("1")}


@pytest.mark.parametrize(
    ("text", "requests"),
    [
        pytest.param(b'{"cpu": "1500m"}', {"cpu": Quantity(1_500_000_000)}, id="a text"),
        pytest.param(b'{"cpu": 2}', {"cpu": Quantity(2_000_000_000)}, id="a whole number"),
        pytest.param(b'{"cpu": 0.25}', {"cpu": Quantity(250_000_000)}, id="a fraction"),
        pytest.param(b'{"cpu": null}', {}, id="null is absent"),
        pytest.param(b"null", {}, id="no requests at all"),
        pytest.param(
            b'{"cpu": null, "x": 18446744073709551616}', {"x": parse_quantity("9223372036854775807")}, id="huge"
        ),
    ],
)
def test_quantities_are_texts_or_numbers(text: bytes, requests: dict[str, Quantity]) -> None:
    template = decode_template(b'{"spec": {"containers": [{"resources": {"requests": ' + text + b"}}]}}")
    assert template.spec.containers[0].resources.requests == requests


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(
            b'{"spec": {"containers": [{}, {"resources": {"limits": {"cpu": "lots"}}}]}}',
            "spec.containers[1].resources.limits: cpu: 'lots' is not a quantity; "
            "write a number with an optional suffix, as in 500m, 2, 1.5Gi",
            id="a text that is not a quantity",
        ),
        pytest.param(
            b'{"spec": {"overhead": {"cpu": true}}}',
            "spec.overhead: cpu: True is not a quantity; write a text or a number, as in 500m, 2, 1.5Gi",
            id="a truth value for a quantity",
        ),
        pytest.param(
            b'{"spec": {"overhead": [1]}}',
            'spec.overhead: [1] is not a JSON object; write quantities by resource name, as in {"cpu": 1}',
            id="a list for quantities",
        ),
        pytest.param(
            b'{"spec": {"overhead": {"cpu": 1e999}}}', "spec.overhead[...]: Number out of range", id="beyond any float"
        ),
        pytest.param(b'{"spec": {"containers": {}}}', "spec.containers: Expected `array`, got `object`", id="no list"),
        pytest.param(
            b'{"spec": {"nodeSelector": {"a": 1}}}', "spec.nodeSelector[...]: Expected `str`, got `int`", id="no text"
        ),
        pytest.param(b"null", "Expected `object`, got `null`", id="nothing"),
        pytest.param(b"", "Input data was truncated; send one JSON object in UTF-8", id="an empty text"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(raw: bytes, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        decode_template(raw)
    assert str(caught.value) == message
    assert message.startswith(caught.value.path)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"[" * 100_000, id="too deep from the start"),
        pytest.param(b'{"spec": {"affinity": {"podAffinity": ' + b"[" * 100_000, id="too deep within"),
        pytest.param(b'{"spec": {"runtimeClassName": "\xff"}}', id="not UTF-8"),
        pytest.param(b'{"spec": {"priority": ' + b"9" * 5_000 + b"}}", id="a number of thousands of digits"),
    ],
)
def test_hostile_text_is_a_template_error(raw: bytes) -> None:
    with pytest.raises(TemplateError):
        decode_template(raw)


def test_nulls_are_absent_fields_everywhere() -> None:
    spec = {"containers": [{"resources": None}], "affinity": None, "nodeSelector": None, "initContainers": None}
    nulls = {"metadata": None, "spec": spec}
    assert from_tree(nulls, PodTemplate) == PodTemplate(spec=PodSpec(containers=(Container(),)))


def test_a_tree_that_is_no_json_is_refused() -> None:
    with pytest.raises(TemplateError, match="use plain JSON values"):
        from_tree({"spec": object()}, PodTemplate)


def test_a_limit_range_is_read() -> None:
    raw = b"""{"metadata": {"name": "r", "namespace": "ns"}, "spec": {"limits": [
        {"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "1"}, "default": {"cpu": "3"},
         "defaultRequest": {"cpu": "2"}}]}}"""
    (item,) = decode(raw, LimitRange).spec.limits
    found = [item.max, item.min, item.default, item.default_request]
    assert item.type == "Container"
    assert found == [ResourceList(cpu=parse_quantity(text)) for text in ("4", "1", "3", "2")]


def test_a_runtime_class_is_read() -> None:
    found = decode(
        b'{"metadata": {"name": "kata"}, "handler": "k", "overhead": {"podFixed": {"cpu": "1"}}}', RuntimeClass
    )
    assert found.metadata.name == "kata"
    assert found.overhead is not None
    assert found.overhead.pod_fixed == {"cpu": parse_quantity("1")}


def test_the_template_of_a_job_is_kept_as_it_came() -> None:
    spec = b'{"parallelism": 3, "completions": 5, "suspend": true, "template": {"x":  1}}'
    raw = b'{"metadata": {"uid": "u"}, "spec": ' + spec + b"}"
    job = decode(raw, Job)
    assert (job.metadata.uid, job.spec.parallelism, job.spec.completions, job.spec.suspend) == ("u", 3, 5, True)
    assert bytes(job.spec.template) == b'{"x":  1}'
    assert decode_template(job.spec.template) == PodTemplate()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["metadata", "spec", "labels", "containers", "initContainers", "overhead", "resources", "requests", "affinity"]
NAMED = st.recursive(
    JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=12,
)


def read(raw: bytes) -> PodTemplate | TemplateError:
    """What comes of reading: any other error fails the test."""
    try:
        return decode_template(raw)
    except TemplateError as error:
        return error


@given(NAMED)
def test_any_json_is_a_template_or_a_template_error(tree: object) -> None:
    found = read(msgspec.json.encode(tree))
    assert isinstance(found, PodTemplate) or found.problem


@given(st.text())
def test_any_text_for_a_quantity_is_a_quantity_or_a_template_error(text: str) -> None:
    found = read(msgspec.json.encode({"spec": {"containers": [{"resources": {"requests": {"cpu": text}}}]}}))
    if isinstance(found, TemplateError):
        assert found.path == "spec.containers[0].resources.requests"
        assert found.problem.startswith("cpu: ")
    else:
        assert found.spec.containers[0].resources.requests == {"cpu": parse_quantity(text)}


@given(st.from_regex(QUANTITY))
def test_whatever_has_the_form_of_a_quantity_is_one_or_a_template_error(text: str) -> None:
    found = read(msgspec.json.encode({"spec": {"overhead": {"cpu": text}}}))
    assert isinstance(found, PodTemplate) or found.path == "spec.overhead"


@given(st.binary())
def test_any_bytes_are_a_template_or_a_template_error(raw: bytes) -> None:
    found = read(raw)
    assert isinstance(found, PodTemplate) or found.problem


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (
            ("PodScheduled", "False", "Unschedulable", "0/1 nodes: 1 Insufficient cpu. x: y."),
            "0/1 nodes: 1 Insufficient cpu",
        ),
        (("PodScheduled", "False", "SchedulingGated", "gated"), ""),
        (("PodScheduled", "True", "", ""), ""),
        (("Ready", "False", "Unschedulable", "no"), ""),
    ],
)
def test_a_pod_without_a_node_says_why(condition: tuple[str, str, str, str], says: str) -> None:
    assert node_problem(*condition) == (f"waits for a node: {says}" if says else "")
