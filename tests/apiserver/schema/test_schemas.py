"""What a server does with a body by its schema."""

import copy
from typing import Any

import pytest

from pykueue.api.trees import member
from pykueue.apiserver.schema.godecoder import unconvertible, unreadable
from pykueue.apiserver.schema.jsonpatch import merge_patch
from pykueue.apiserver.schema.schemas import (
    Schema,
    builtin,
    defaulted,
    definitions,
    errors,
    index,
    of_crd,
    pruned,
    references,
    unknown_fields,
)
from pykueue.apiserver.schema.validate import duplicates, is_fine, mistakes

Tree = dict[str, Any]


def known(api_version: str, kind: str) -> Schema:
    schema = builtin(api_version, kind)
    assert schema is not None
    return schema


def custom(**spec: Any) -> Schema:
    """The schema of a kind whose spec has these properties."""
    return of_crd({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}})


def job(**spec: Any) -> Tree:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": spec}


def test_every_recorded_kind_can_be_walked_to_its_end() -> None:
    for version, kinds in index().items():
        every = definitions(version)
        assert {name for one in every.values() for name in references(one)} <= set(every)
        for kind in kinds:
            schema = known(version, kind)
            assert schema.raw["x-kubernetes-group-version-kind"]
            assert "metadata" in schema.node.fields
    assert builtin("v1", "Gadget") is None


def test_recorded_schemas_have_no_descriptions_but_fields_of_that_name() -> None:
    columns = definitions("apiextensions.k8s.io/v1")[
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceColumnDefinition"
    ]
    assert "description" not in columns
    assert member(columns, "properties", "description") == {"type": "string"}


def test_unknown_fields_are_named_by_their_paths() -> None:
    body = job(foo=1, template={"spec": {"containers": [{"name": "a", "bar": 1}], "nodeSelector": {"any": "x"}}})
    body["metadata"]["colour"] = "red"
    assert unknown_fields(known("batch/v1", "Job"), body) == [
        "metadata.colour",
        "spec.foo",
        "spec.template.spec.containers[0].bar",
    ]


def test_unknown_fields_of_a_custom_kind_are_sorted_and_kept_where_it_says_so() -> None:
    schema = custom(free={"type": "object", "x-kubernetes-preserve-unknown-fields": True}, size={"type": "integer"})
    body: Tree = {"metadata": {"b": 1}, "z": 1, "a": 2, "spec": {"free": {"x": {"y": 1}}, "size": 1, "colour": 2}}
    assert unknown_fields(schema, body) == ["a", "metadata.b", "spec.colour", "z"]
    assert pruned(schema, body) == {"metadata": {}, "spec": {"free": {"x": {"y": 1}}, "size": 1}}


def test_a_built_in_kind_is_kept_as_its_fields_are_written() -> None:
    body = job(
        colour=1,
        suspend=None,
        selector={},
        template={
            "metadata": {"labels": {"a": None}, "annotations": {}},
            "spec": {"volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [], "containers": []},
        },
    )
    before = copy.deepcopy(body)
    assert pruned(known("batch/v1", "Job"), body)["spec"] == {
        "selector": {},
        "template": {
            "metadata": {"labels": {"a": ""}},
            "spec": {"volumes": [{"name": "v", "emptyDir": {}}], "containers": []},
        },
    }
    assert body == before


def test_quantities_and_times_have_one_spelling() -> None:
    limits = {"cpu": 0.5, "memory": "1024Mi", "example.com/x": 2, "odd": "x"}
    body = job(template={"spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]}})
    body["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00.5+01:00"
    tree: Any = pruned(known("batch/v1", "Job"), body)
    spelled = {"cpu": "500m", "memory": "1Gi", "example.com/x": "2", "odd": "x"}
    assert tree["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == spelled
    assert tree["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    lease: Any = pruned(known("coordination.k8s.io/v1", "Lease"), {"spec": {"renewTime": "2026-01-01T00:00:00Z"}})
    assert lease["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"


def test_nothing_is_copied_that_needs_no_change() -> None:
    body = job(template={"spec": {"containers": [{"name": "a", "resources": {}}]}, "metadata": {}}) | {"status": {}}
    schema = known("batch/v1", "Job")
    assert pruned(schema, body) is body
    assert defaulted(schema, body) is body
    other = custom(a={"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}})
    tree: Tree = {"metadata": {}, "spec": {"a": [{"b": "x"}]}}
    assert pruned(other, tree) is tree
    assert defaulted(other, tree) is tree


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"spec": {"suspend": False}}, id="a scalar"),
        pytest.param({"spec": {"template": {"metadata": {"labels": {"a": "b"}, "odd": 1}}}}, id="a map"),
        pytest.param({"spec": {"template": {"spec": {"nodeSelector": {}, "odd": 1}}}}, id="what is dropped"),
        pytest.param({"spec": {"template": {"spec": {"containers": [{"name": "b"}]}}}}, id="a list"),
        pytest.param({"spec": {"template": {"spec": {"volumes": None}}}}, id="removed"),
        pytest.param({"spec": {"template": None}, "status": {"active": 1, "odd": 2}}, id="removed and added"),
        pytest.param({"spec": None}, id="a member"),
    ],
)
def test_parts_of_a_stored_object_are_not_completed_again(patch: Tree) -> None:
    schema = known("batch/v1", "Job")
    containers = [{"name": "a", "resources": {"requests": {"cpu": "1000m"}}}]
    volumes = [{"name": "v", "emptyDir": {}}]
    body = job(suspend=True, template={"spec": {"containers": containers, "volumes": volumes}})
    stored = defaulted(schema, pruned(schema, body))
    new = merge_patch(stored, patch)
    whole = defaulted(schema, pruned(schema, copy.deepcopy(new)))
    assert defaulted(schema, pruned(schema, new, stored), stored) == whole
    assert pruned(schema, stored, stored) is stored


def test_defaults_of_a_custom_kind_are_added_to_what_has_changed() -> None:
    inner = {"type": "object", "properties": {"size": {"type": "integer", "default": 1}, "name": {"type": "string"}}}
    schema = custom(a=inner, b=inner)
    stored = defaulted(schema, {"metadata": {}, "spec": {"a": {}, "b": {}}})
    new = merge_patch(stored, {"spec": {"a": {"size": None, "name": "x"}}})
    done = defaulted(schema, pruned(schema, new, stored), stored)
    assert done["spec"] == {"a": {"size": 1, "name": "x"}, "b": {"size": 1}}
    assert member(done, "spec", "b") is member(stored, "spec", "b")


def test_parts_that_an_object_always_has_are_filled_in() -> None:
    body: Tree = {"metadata": {}, "spec": {"ports": [{"port": 80}]}}
    assert defaulted(known("v1", "Service"), body) == {
        "metadata": {},
        "spec": {"ports": [{"port": 80, "protocol": "TCP"}]},
        "status": {"loadBalancer": {}},
    }
    pod = defaulted(known("v1", "Pod"), {"spec": {"containers": [{"name": "a"}]}})
    assert pod == {"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {}}]}, "status": {}}


def test_defaults_of_a_custom_kind_reach_down_and_replace_nulls_that_may_not_be() -> None:
    schema = custom(
        size={"type": "integer", "default": 3},
        maybe={"type": "string", "nullable": True, "default": "x"},
        inner={"type": "object", "default": {}, "properties": {"deep": {"type": "string", "default": "d"}}},
        many={"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}},
    )
    body: Tree = {"metadata": {}, "spec": {"size": None, "maybe": None, "many": [{}, {"n": 2}], "gone": None}}
    tree = defaulted(schema, pruned(schema, body))
    assert tree["spec"] == {"size": 3, "maybe": None, "inner": {"deep": "d"}, "many": [{"n": 1}, {"n": 2}]}
    first, second = (defaulted(schema, {"spec": {}})["spec"] for _ in range(2))
    assert first is not second
    assert member(first, "inner") is not member(second, "inner")


LIMITS: dict[str, tuple[Tree, Any, str]] = {
    "another type": ({"type": "integer"}, "x", 'Invalid value: "string": @ must be of type integer: "string"'),
    "a whole float is an integer": ({"type": "integer"}, 3.0, ""),
    "null": ({"type": "integer"}, None, 'Invalid value: "null": @ must be of type integer: "null"'),
    "nullable": ({"type": "integer", "nullable": True}, None, ""),
    "none of those on offer": (
        {"type": "string", "enum": ["a", "b"]},
        "c",
        'Unsupported value: "c": supported values: "a", "b"',
    ),
    "too small": ({"type": "integer", "minimum": 1}, 0, "Invalid value: 0: @ should be greater than or equal to 1"),
    "at an open end": (
        {"type": "number", "maximum": 1, "exclusiveMaximum": True},
        1,
        "Invalid value: 1: @ should be less than 1",
    ),
    "no multiple": ({"type": "integer", "multipleOf": 5}, 7, "Invalid value: 7: @ should be a multiple of 5"),
    "too short": ({"type": "string", "minLength": 1}, "", 'Invalid value: "": @ should be at least 1 chars long'),
    "too long": ({"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
    "no match": ({"type": "string", "pattern": "^a+$"}, "ab", "Invalid value: \"ab\": @ should match '^a+$'"),
    "a newline at the end does not match": (
        {"type": "string", "pattern": "^a+$"},
        "a\n",
        "Invalid value: \"a\\n\": @ should match '^a+$'",
    ),
    "found anywhere": ({"type": "string", "pattern": "b"}, "abc", ""),
    "too many items": (
        {"type": "array", "maxItems": 1, "items": {"type": "string"}},
        ["a", "b"],
        "Too many: 2: must have at most 1 items",
    ),
    "too few items": (
        {"type": "array", "minItems": 1, "items": {"type": "string"}},
        [],
        "Invalid value: 0: @ should have at least 1 items",
    ),
    "twice in a set": (
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        ["a", "b", "a"],
        '[2]: Duplicate value: "a"',
    ),
    "twice in a list with keys": (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n", "p"],
            "items": {
                "type": "object",
                "properties": {"n": {"type": "string"}, "p": {"type": "string", "default": "TCP"}},
            },
        },
        [{"n": "a"}, {"n": "a", "p": "TCP"}],
        '[1]: Duplicate value: {"n":"a","p":"TCP"}',
    ),
    "a missing field": (
        {"type": "object", "required": ["y"], "properties": {"y": {"type": "string"}}},
        {},
        ".y: Required value",
    ),
    "either": ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "50%", ""),
    "neither": (
        {"x-kubernetes-int-or-string": True},
        True,
        'Invalid value: "boolean": @ must be of type integer,string: "boolean"',
    ),
    "a quantity as a large number": (
        {"x-kubernetes-int-or-string": True},
        1e30,
        'Invalid value: "number": @ must be of type integer,string: "number"',
    ),
    "none of several": (
        {"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
        "c",
        '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf), '
        "spec.x: Invalid value: \"c\": @ should match '^a'",
    ),
    "two of several": (
        {"type": "string", "oneOf": [{"pattern": "^a"}, {"pattern": "b$"}]},
        "ab",
        '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives',
    ),
    "not all": (
        {"type": "string", "allOf": [{"pattern": "^a"}, {"maxLength": 2}]},
        "abc",
        "Too long: may not be more than 2 bytes, "
        '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)',
    ),
    "too large for its format": (
        {"type": "integer", "format": "int32"},
        3_000_000_000,
        '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x',
    ),
    "no integer": (
        {"type": "integer"},
        1.5,
        'Invalid value: "number": @ must be of type integer: "number", '
        '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x',
    ),
    "what is within first": (
        {
            "type": "object",
            "required": ["b"],
            "properties": {
                "a": {"type": "object", "required": ["z"], "properties": {"y": {"type": "integer"}}},
                "b": {"type": "string"},
            },
        },
        {"a": {"y": "x"}},
        '.a.y: Invalid value: "string": spec.x.a.y in body must be of type integer: "string", '
        "spec.x.a.z: Required value, spec.x.b: Required value",
    ),
    "no bytes": ({"type": "string", "format": "byte"}, "%", 'Invalid value: "%": @ must be of type byte: "%"'),
    "no address": (
        {"type": "string", "format": "ipv4"},
        "1.2.3",
        'Invalid value: "1.2.3": @ must be of type ipv4: "1.2.3"',
    ),
    "no day": (
        {"type": "string", "format": "date"},
        "2026-02-30",
        'Invalid value: "2026-02-30": @ must be of type date: "2026-02-30"',
    ),
    "no duration": (
        {"type": "string", "format": "duration"},
        "soon",
        'Invalid value: "soon": @ must be of type duration: "soon"',
    ),
    "a duration": ({"type": "string", "format": "duration"}, "1h30m", ""),
    "what must not be": (
        {"type": "string", "not": {"pattern": "^a"}},
        "ab",
        '<nil>: Invalid value: "": "spec.x" must not validate the schema (not)',
    ),
    "no time": (
        {"type": "string", "format": "date-time"},
        "soon",
        'Invalid value: "soon": @ must be of type date-time: "soon"',
    ),
}


@pytest.mark.parametrize(("limits", "value", "message"), LIMITS.values(), ids=LIMITS.keys())
def test_limits(limits: Tree, value: Any, message: str) -> None:
    found = errors(custom(x=limits), {"spec": {"x": value}})
    said = message.replace("@", "spec.x in body")
    wanted = (
        said
        if said.startswith("<nil>")
        else f"spec.x{said}"
        if said.startswith(("[", "."))
        else f"spec.x: {said}"
        if said
        else ""
    )
    assert ", ".join(map(str, found)) == wanted


@pytest.mark.parametrize(("limits", "value", "message"), LIMITS.values(), ids=LIMITS.keys())
def test_the_quick_look_agrees_with_the_long_one(limits: Tree, value: Any, message: str) -> None:
    node = custom(x=limits).node
    tree: Tree = {"metadata": {"labels": 3}, "spec": {"x": value, "unknown": 1}}
    assert is_fine(node, tree) == (not message) == (not [*mistakes(node, tree, ""), *duplicates(node, tree, "")])


def test_a_text_that_means_nothing_is_of_the_wrong_type() -> None:
    (found,) = errors(custom(x={"type": "string", "format": "date-time"}), {"spec": {"x": "soon"}})
    assert found.code == "TypeInvalid"


def test_metadata_is_not_judged_by_the_schema() -> None:
    assert errors(custom(), {"metadata": {"labels": 3, "name": 5}, "spec": {}}) == []


BODIES: dict[str, tuple[Tree, str]] = {
    "a text for a number": (job(parallelism="2"), "string into JobSpec.spec.parallelism of type int32"),
    "too large": (job(parallelism=3_000_000_000), "number 3000000000 into JobSpec.spec.parallelism of type int32"),
    "a number for a text in a list": (
        job(template={"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}),
        "number into EnvVar.spec.template.spec.containers.env.value of type string",
    ),
    "a number for a label": (
        {"metadata": {"labels": {"a": 1}}},
        "number into ObjectMeta.metadata.labels of type string",
    ),
    "an object for a list": (
        job(template={"spec": {"containers": {}}}),
        "object into PodSpec.spec.template.spec.containers of type []v1.Container",
    ),
    "a list for an object": (job(template=[]), "array into JobSpec.spec.template of type v1.PodTemplateSpec"),
    "no quantity": (
        job(template={"spec": {"containers": [{"resources": {"limits": {"cpu": "one"}}}]}}),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    "no time": (
        {"metadata": {"creationTimestamp": "soon"}},
        'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"',
    ),
    "a truth in a probe": (
        job(template={"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": True}}}]}}),
        "bool into HTTPGetAction.spec.template.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
    ),
    "what fits": (job(parallelism=2, template={"spec": {"containers": [{"resources": {"limits": {"cpu": 1}}}]}}), ""),
}


PATCHED: dict[str, tuple[Tree, str]] = {
    "a number for a text": (
        job(template={"spec": {"containers": [{"image": 1}]}}),
        "cannot convert int64 to string",
    ),
    "a text for a list": (job(template={"spec": {"containers": "x"}}), "cannot restore slice from string"),
    "a list for an object": (job(template=[]), "cannot restore struct from: slice"),
    "an object for a text": (job(managedBy={}), "cannot convert map[string]interface {} to string"),
    "a text for a map": ({"metadata": {"labels": "x"}}, "cannot restore map from string"),
    "what fits": (job(template={"spec": {"containers": [{"image": "i"}]}}), ""),
}


@pytest.mark.parametrize(("body", "message"), PATCHED.values(), ids=PATCHED.keys())
def test_results_of_patches_that_cannot_be_read(body: Tree, message: str) -> None:
    assert unconvertible(known("batch/v1", "Job"), body) == message


@pytest.mark.parametrize(("body", "message"), BODIES.values(), ids=BODIES.keys())
def test_bodies_that_cannot_be_read(body: Tree, message: str) -> None:
    said = unreadable(known("batch/v1", "Job"), body)
    assert said.removeprefix("json: cannot unmarshal ").replace("Go struct field ", "") == message
