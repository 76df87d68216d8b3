"""Server-side apply and who manages what; `tests/conformance/test_apply.py` holds the same code to a real server."""

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.trees import mappings
from pykueue.apiserver.schema.apply import LAST_APPLIED, ApplyConflictError, ApplyError, applied, kept_times, tracked
from pykueue.apiserver.schema.managedfields import UPDATERS_MAX
from pykueue.apiserver.schema.schemas import Schema, builtin, of_crd

Tree = dict[str, Any]
FIRST, SECOND, THIRD = (f"2026-01-01T00:00:0{second}Z" for second in (1, 2, 3))


def known(api_version: str, kind: str) -> Schema:
    schema = builtin(api_version, kind)
    assert schema is not None
    return schema


MAPS = known("v1", "ConfigMap")
SERVICES = known("v1", "Service")
JOBS = known("batch/v1", "Job")
WIDGETS = of_crd(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "whole": {"type": "array", "items": {"type": "string"}},
                    "fixed": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "additionalProperties": {"type": "string"},
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                        },
                    },
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
)
FREE = of_crd(None)


def settings(schema: Schema) -> Tree:
    if schema is MAPS:
        return {"apiVersion": "v1", "kind": "ConfigMap"}
    if schema is SERVICES:
        return {"apiVersion": "v1", "kind": "Service"}
    if schema is JOBS:
        return {"apiVersion": "batch/v1", "kind": "Job"}
    return {"apiVersion": "example.com/v1", "kind": "Widget"}


class Object:
    """An object that is written to, again and again; it checks that nothing given is changed."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.live: Tree | None = None

    def body(self, **parts: Any) -> Tree:
        metadata = {"name": "x", **parts.pop("metadata", {})}
        return {**settings(self.schema), "metadata": metadata, **parts}

    def apply(
        self, manager: str, now: str = FIRST, *, force: bool = False, subresource: str = "", **parts: Any
    ) -> Tree:
        before, wanted = copy.deepcopy(self.live), self.body(**parts)
        kept = copy.deepcopy(wanted)
        self.live = applied(
            self.live,
            wanted,
            manager=manager,
            force=force,
            api_version=wanted["apiVersion"],
            schema=self.schema,
            now=now,
            subresource=subresource,
        )
        assert wanted == kept
        assert before is None or before["metadata"]["name"] == "x"
        return self.live

    def update(self, manager: str, now: str = FIRST, *, subresource: str = "", **parts: Any) -> Tree:
        after = self.body(**parts)
        if self.live is not None:
            after["metadata"] = {"uid": "1", **after["metadata"]}
        self.live = tracked(
            self.live,
            after,
            manager=manager,
            api_version=after["apiVersion"],
            schema=self.schema,
            now=now,
            subresource=subresource,
        )
        return self.live

    def owners(self) -> dict[str, Any]:
        """What each manager owns, by `name` or `name/operation`."""
        assert self.live is not None
        return {one["manager"]: one["fieldsV1"] for one in self.live["metadata"].get("managedFields", [])}

    def entry(self, manager: str) -> Tree:
        assert self.live is not None
        return next(one for one in self.live["metadata"]["managedFields"] if one["manager"] == manager)


def test_who_applies_owns_what_they_mention() -> None:
    thing = Object(MAPS)
    tree = thing.apply("a", metadata={"labels": {"l": "1"}}, data={"x": "1"})
    assert tree["metadata"]["managedFields"] == [
        {
            "manager": "a",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": FIRST,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:l": {}}}, "f:data": {"f:x": {}}},
        }
    ]


def test_a_create_owns_what_it_adds_containers_too() -> None:
    thing = Object(MAPS)
    thing.update("a", metadata={"labels": {"l": "1"}}, data={"x": "1"})
    assert thing.owners() == {"a": {"f:metadata": {"f:labels": {".": {}, "f:l": {}}}, "f:data": {".": {}, "f:x": {}}}}


def test_parts_that_a_built_in_object_always_has_are_owned_by_nobody() -> None:
    thing = Object(JOBS)
    template = {"metadata": {}, "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}}
    thing.update("a", spec={"template": template, "parallelism": 1}, status={})
    container: Tree = {
        ".": {},
        "f:name": {},
        "f:env": {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
    }
    assert thing.owners() == {
        "a": {
            "f:spec": {
                "f:parallelism": {},
                "f:template": {"f:spec": {"f:containers": {'k:{"name":"c"}': container}}},
            }
        }
    }


def test_a_custom_object_has_nothing_before_it_is_made() -> None:
    thing = Object(WIDGETS)
    thing.update("a", spec={"size": 1})
    assert thing.owners() == {"a": {"f:spec": {".": {}, "f:size": {}}}}


def test_what_is_no_longer_applied_goes() -> None:
    thing = Object(MAPS)
    thing.apply("a", metadata={"labels": {"l": "1"}}, data={"x": "1", "y": "2"})
    tree = thing.apply("a", SECOND, data={"y": "2"})
    assert "labels" not in tree["metadata"]
    assert tree["data"] == {"y": "2"}
    assert thing.owners() == {"a": {"f:data": {"f:y": {}}}}


def test_what_another_owns_too_stays() -> None:
    thing = Object(MAPS)
    thing.apply("a", data={"x": "1", "y": "2"})
    thing.apply("b", data={"x": "1"})
    tree = thing.apply("a", data={})
    assert tree["data"] == {"x": "1"}
    assert thing.owners() == {"a": {"f:data": {}}, "b": {"f:data": {"f:x": {}}}}


def test_what_an_updater_set_stays_when_the_applier_lets_go() -> None:
    thing = Object(MAPS)
    thing.apply("a", data={"x": "1"})
    assert thing.live is not None
    thing.update("u", SECOND, data={"x": "1", "z": "9"})
    tree = thing.apply("a", THIRD)
    assert tree["data"] == {"z": "9"}
    assert thing.owners() == {"u": {"f:data": {"f:z": {}}}}


def test_an_equal_value_is_shared() -> None:
    thing = Object(MAPS)
    thing.apply("a", data={"x": "1"})
    thing.apply("b", SECOND, data={"x": "1"})
    assert thing.owners() == {"a": {"f:data": {"f:x": {}}}, "b": {"f:data": {"f:x": {}}}}


def test_another_value_is_a_conflict() -> None:
    thing = Object(MAPS)
    thing.apply("a", data={"x": "1"})
    with pytest.raises(ApplyConflictError) as caught:
        thing.apply("b", data={"x": "2"})
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "a": .data.x'
    assert caught.value.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".data.x"}
    ]
    assert thing.owners() == {"a": {"f:data": {"f:x": {}}}}


def test_conflicts_are_listed_by_manager_with_how_and_where_they_wrote() -> None:
    thing = Object(JOBS)
    thing.apply("z", spec={"parallelism": 1, "completions": 1})
    thing.update("a", SECOND, spec={"parallelism": 1, "completions": 1, "suspend": True})
    thing.update("s", SECOND, subresource="status", spec=thing.live["spec"], status={"active": 1})  # type: ignore[index]  # decoded JSON is Json
    with pytest.raises(ApplyConflictError) as caught:
        thing.apply("b", spec={"parallelism": 2, "completions": 3, "suspend": False})
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "a" using batch/v1:\n- .spec.suspend\n'
        'conflicts with "z":\n- .spec.completions\n- .spec.parallelism'
    )
    with pytest.raises(ApplyConflictError) as caught:
        thing.apply("b", subresource="status", status={"active": 2})
    said = 'Apply failed with 1 conflict: conflict with "s" with subresource "status" using batch/v1: .status.active'
    assert caught.value.message == said


def test_force_takes_the_field_over() -> None:
    thing = Object(MAPS)
    thing.apply("a", data={"x": "1", "y": "1"})
    tree = thing.apply("b", SECOND, force=True, data={"x": "2"})
    assert tree["data"] == {"x": "2", "y": "1"}
    assert thing.owners() == {"a": {"f:data": {"f:y": {}}}, "b": {"f:data": {"f:x": {}}}}


def test_an_update_takes_over_what_it_changes_and_whoever_is_left_with_nothing_goes() -> None:
    thing = Object(MAPS)
    thing.apply("a", data={"x": "1"})
    thing.update("u", SECOND, data={"x": "2"})
    assert thing.owners() == {"u": {"f:data": {"f:x": {}}}}


def test_a_removed_field_is_owned_by_nobody() -> None:
    thing = Object(MAPS)
    thing.update("a", data={"x": "1", "y": "1"})
    thing.update("b", SECOND, data={"y": "1"})
    assert thing.owners() == {"a": {"f:data": {".": {}, "f:y": {}}}}


def test_times_move_when_something_changed() -> None:
    thing = Object(MAPS)
    thing.apply("a", FIRST, data={"x": "1"})
    thing.apply("a", SECOND, data={"x": "1"})
    assert thing.entry("a")["time"] == FIRST
    thing.apply("a", THIRD, data={"x": "2"})
    assert thing.entry("a")["time"] == THIRD
    thing.update("u", FIRST, data={"x": "2", "y": "1"})
    thing.update("u", SECOND, data={"x": "2", "y": "1"})
    assert thing.entry("u")["time"] == FIRST


def test_entries_stand_appliers_first_then_by_age() -> None:
    thing = Object(MAPS)
    thing.update("u2", FIRST, data={"a": "1"})
    thing.update("u1", SECOND, data={"a": "1", "b": "1"})
    thing.apply("z", THIRD, data={"c": "1"})
    assert thing.live is not None
    assert [one["manager"] for one in thing.live["metadata"]["managedFields"]] == ["z", "u2", "u1"]


def test_what_was_there_before_the_first_apply_has_an_owner() -> None:
    thing = Object(MAPS)
    thing.live = thing.body(metadata={"uid": "1"}, data={"x": "1"})
    with pytest.raises(ApplyConflictError) as caught:
        thing.apply("a", data={"x": "2"})
    assert 'conflict with "before-first-apply" using v1: .data.x' in caught.value.message
    thing.apply("a", SECOND, data={"y": "1"})
    assert thing.owners() == {"a": {"f:data": {"f:y": {}}}, "before-first-apply": {"f:data": {".": {}, "f:x": {}}}}


def test_updates_are_not_tracked_before_the_first_apply() -> None:
    thing = Object(MAPS)
    thing.live = thing.body(metadata={"uid": "1"}, data={"x": "1"})
    thing.update("u", data={"x": "2"})
    assert thing.owners() == {}


@pytest.mark.parametrize("entries", [[], [{}]], ids=repr)
def test_managed_fields_can_be_forgotten(entries: list[Tree]) -> None:
    thing = Object(MAPS)
    thing.update("a", data={"x": "1"})
    thing.update("b", metadata={"managedFields": entries}, data={"x": "2"})
    assert thing.owners() == {}


def test_an_update_may_bring_managed_fields_of_its_own_and_bad_ones_do_nothing() -> None:
    thing = Object(MAPS)
    thing.update("a", data={"x": "1"})
    entry = {"manager": "c", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    brought = {**entry, "time": FIRST, "fieldsV1": {"f:data": {"f:x": {}}}}
    thing.update("b", metadata={"managedFields": [brought]}, data={"x": "1"})
    assert thing.owners() == {"c": {"f:data": {"f:x": {}}}}
    for broken in ({**brought, "operation": "Guess"}, {**brought, "apiVersion": ""}, {**brought, "fieldsType": "V2"}):
        thing.update("b", metadata={"managedFields": [broken]}, data={"x": "1"})
        assert thing.owners() == {"c": {"f:data": {"f:x": {}}}}
    thing.update("b", metadata={"managedFields": [{**brought, "fieldsV1": {"x": {}}}]}, data={"x": "1"})
    assert thing.owners() == {"c": {"f:data": {"f:x": {}}}}


def test_managed_fields_that_cannot_be_read_stop_an_apply_and_are_forgotten_by_an_update() -> None:
    thing = Object(MAPS)
    thing.update("a", data={"x": "1"})
    assert thing.live is not None
    thing.live["metadata"]["managedFields"] = [{"manager": "a"}]
    with pytest.raises(ApplyError, match=r"^failed to decode managed fields: operation must be `Apply` or `Update`$"):
        thing.apply("b", data={"x": "1"})
    thing.update("u", data={"x": "2"})
    assert thing.owners() == {}


def test_status_and_the_rest_have_owners_of_their_own() -> None:
    thing = Object(WIDGETS)
    thing.apply("a", spec={"size": 1}, status={"phase": "lost"})
    assert thing.owners() == {"a": {"f:spec": {"f:size": {}}}}
    thing.live = {**thing.live, "status": {}}  # type: ignore[dict-item]  # decoded JSON is Json
    thing.apply("a", SECOND, subresource="status", metadata={"labels": {"l": "1"}}, status={"phase": "done"})
    assert [(one.get("subresource", ""), one["fieldsV1"]) for one in thing.live["metadata"]["managedFields"]] == [
        ("", {"f:spec": {"f:size": {}}}),
        ("status", {"f:status": {"f:phase": {}}}),
    ]


def test_whoever_scales_is_known_without_a_time() -> None:
    thing = Object(WIDGETS)
    thing.update("a", FIRST, spec={"size": 1})
    for size in (2, 3):
        thing.update("b", SECOND, subresource="scale", spec={"size": size})
        entry = thing.entry("b")
        assert "time" not in entry
        assert (entry["subresource"], entry["fieldsV1"]) == ("scale", {"f:spec": {"f:size": {}}})


def test_a_kind_without_a_status_subresource_has_its_status_owned_like_the_rest() -> None:
    body: Tree = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}}
    body["status"] = {"phase": "new"}
    tree = applied(
        None,
        body,
        manager="a",
        force=False,
        api_version="example.com/v1",
        schema=WIDGETS,
        now=FIRST,
        status=False,
    )
    assert mappings(tree, "metadata", "managedFields")[0][1]["fieldsV1"] == {"f:status": {"f:phase": {}}}


def test_items_of_a_list_with_keys_are_owned_one_by_one() -> None:
    thing = Object(SERVICES)
    thing.apply("a", spec={"ports": [{"port": 80, "name": "web"}]})
    tree = thing.apply("b", spec={"ports": [{"port": 80, "protocol": "UDP"}, {"port": 443, "protocol": "TCP"}]})
    assert tree["spec"]["ports"] == [
        {"port": 80, "name": "web"},
        {"port": 80, "protocol": "UDP"},
        {"port": 443, "protocol": "TCP"},
    ]
    assert thing.owners()["a"] == {
        "f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}}}
    }
    assert thing.apply("b", spec={})["spec"]["ports"] == [{"port": 80, "name": "web"}]


ORDERS: dict[str, tuple[str, str, str]] = {
    "new ones stand last": ("ab", "c", "abc"),
    "the wanted order wins": ("abc", "cba", "cba"),
    "others stay where they were among them": ("axb", "ba", "xba"),
    "a new one before an old one": ("ab", "cb", "acb"),
    "the same": ("abc", "abc", "abc"),
}


@pytest.mark.parametrize(("live", "wanted", "order"), ORDERS.values(), ids=ORDERS.keys())
def test_two_orders_are_brought_together(live: str, wanted: str, order: str) -> None:
    thing = Object(WIDGETS)
    thing.update("u", spec={"tags": list(live)})
    assert "".join(thing.apply("a", spec={"tags": list(wanted)})["spec"]["tags"]) == order


def test_items_of_a_set_are_shared_and_go_with_their_last_owner() -> None:
    thing = Object(WIDGETS)
    thing.apply("a", spec={"tags": ["x", "y"]})
    thing.apply("b", spec={"tags": ["y", "z"]})
    assert thing.owners()["b"] == {"f:spec": {"f:tags": {'v:"y"': {}, 'v:"z"': {}}}}
    tree = thing.apply("a", spec={"tags": []})
    assert tree["spec"]["tags"] == ["y", "z"]


@pytest.mark.parametrize(("field", "one", "two"), [("whole", ["a"], ["a", "b"]), ("fixed", {"a": "1"}, {"b": "1"})])
def test_an_atomic_list_or_map_is_one_value(field: str, one: Any, two: Any) -> None:
    thing = Object(WIDGETS)
    thing.apply("a", spec={field: one})
    assert thing.owners() == {"a": {"f:spec": {f"f:{field}": {}}}}
    with pytest.raises(ApplyConflictError):
        thing.apply("b", spec={field: two})
    assert thing.apply("b", force=True, spec={field: two})["spec"][field] == two
    assert thing.owners() == {"b": {"f:spec": {f"f:{field}": {}}}}


@pytest.mark.parametrize("schema", [WIDGETS, FREE], ids=["a free place", "a free kind"])
def test_where_anything_goes_maps_are_merged_and_lists_are_one_value(schema: Schema) -> None:
    thing = Object(schema)
    thing.apply("a", spec={"free": {"x": {"y": 1}, "list": [{"name": "a"}]}})
    tree = thing.apply("b", spec={"free": {"x": {"z": 2}}})
    assert tree["spec"]["free"] == {"x": {"y": 1, "z": 2}, "list": [{"name": "a"}]}
    free = thing.owners()["a"]["f:spec"]["f:free"]
    assert {step: below for step, below in free.items() if step != "."} == {
        "f:x": {".": {}, "f:y": {}},
        "f:list": {},
    }
    with pytest.raises(ApplyConflictError):
        thing.apply("b", spec={"free": {"list": []}})


def test_a_value_may_change_its_shape_where_anything_goes() -> None:
    thing = Object(WIDGETS)
    thing.apply("a", spec={"free": {"x": {"y": 1}}})
    tree = thing.apply("a", SECOND, spec={"free": {"x": "flat"}})
    assert tree["spec"]["free"] == {"x": "flat"}
    assert thing.apply("a", THIRD, spec={"free": {"x": ["deep"]}})["spec"]["free"] == {"x": ["deep"]}


def test_a_truth_is_no_number() -> None:
    thing = Object(WIDGETS)
    thing.apply("a", FIRST, spec={"free": {"x": 1, "list": [0]}})
    with pytest.raises(ApplyConflictError):
        thing.apply("b", spec={"free": {"x": True}})
    tree = thing.apply("a", SECOND, spec={"free": {"x": True, "list": [False]}})
    assert json.dumps(tree["spec"]["free"]) == '{"x": true, "list": [false]}'
    assert thing.entry("a")["time"] == SECOND
    other: Any = kept_times(tree, {**tree, "spec": {"free": {"x": 1, "list": [False]}}})
    assert other["spec"]["free"]["x"] == 1


BAD: dict[str, tuple[Schema, Tree, str]] = {
    "an unknown field": (MAPS, {"colour": 1}, ".colour: field not declared in schema"),
    "another type": (
        JOBS,
        {"spec": {"parallelism": "2"}},
        ".spec.parallelism: expected numeric (int or float), got string",
    ),
    "twice": (
        WIDGETS,
        {"spec": {"parts": [{"name": "a"}, {"name": "a"}]}},
        '.spec.parts: duplicate entries for key [name="a"]',
    ),
    "no key": (
        WIDGETS,
        {"spec": {"parts": [{"size": 1}]}},
        '.spec.parts: element 0: associative list with keys has an element that omits all key fields ["name"]'
        " (and doesn't have default values for any key fields)",
    ),
    "two things": (
        WIDGETS,
        {"spec": {"a": 1, "b": 2}},
        "errors:\n  .spec.a: field not declared in schema\n  .spec.b: field not declared in schema",
    ),
}


@pytest.mark.parametrize(("schema", "parts", "message"), BAD.values(), ids=BAD.keys())
def test_what_does_not_fit_the_schema_cannot_be_applied(schema: Schema, parts: Tree, message: str) -> None:
    thing = Object(schema)
    kind = {"v1": "/v1, Kind=ConfigMap", "batch/v1": "batch/v1, Kind=Job"}.get(
        settings(schema)["apiVersion"], "example.com/v1, Kind=Widget"
    )
    with pytest.raises(ApplyError) as caught:
        thing.apply("a", **parts)
    assert caught.value.message == f"failed to create typed patch object (/x; {kind}): {message}"
    assert caught.value.code == 500


def test_an_apply_names_its_kind_and_brings_no_managers() -> None:
    thing = Object(MAPS)
    with pytest.raises(ApplyError, match=r"^metadata\.managedFields must be nil$") as caught:
        thing.apply("a", metadata={"managedFields": []})
    assert caught.value.code == 400
    with pytest.raises(ApplyError, match=r"^invalid object type: /v2, Kind=ConfigMap$"):
        applied(
            None,
            {"apiVersion": "v2", "kind": "ConfigMap"},
            manager="a",
            force=False,
            api_version="v1",
            schema=MAPS,
            now=FIRST,
        )


def test_many_updaters_are_put_together() -> None:
    thing = Object(MAPS)
    data: dict[str, str] = {}
    for number in range(UPDATERS_MAX + 3):
        data[f"k{number:02}"] = "1"
        thing.update(f"u{number:02}", f"2026-01-01T00:00:{number:02}Z", data=dict(data))
    owners = thing.owners()
    assert len(owners) == UPDATERS_MAX
    assert owners["ancient-changes"] == {"f:data": {".": {}, **{f"f:k{number:02}": {} for number in range(4)}}}


def test_kubectl_takes_over_what_it_applied_from_the_client_side() -> None:
    thing = Object(MAPS)
    before = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"x": "1"}}
    note = {LAST_APPLIED: json.dumps(before)}
    thing.update("kubectl-client-side-apply", metadata={"annotations": note}, data={"x": "1", "y": "1"})
    with pytest.raises(ApplyConflictError) as caught:
        thing.apply("kubectl", data={"x": "2", "y": "2"})
    assert [one.path for one in caught.value.conflicts] == [".data.y"]
    tree = thing.apply("kubectl", SECOND, data={"x": "2"})
    assert tree["data"] == {"x": "2", "y": "1"}
    assert json.loads(tree["metadata"]["annotations"][LAST_APPLIED]) == {**before, "data": {"x": "2"}}
    with pytest.raises(ApplyConflictError):
        thing.apply("another", data={"x": "3"})


def test_times_alone_are_no_change() -> None:
    thing = Object(MAPS)
    old = thing.apply("a", FIRST, data={"x": "1"})
    entry = {**old["metadata"]["managedFields"][0], "time": SECOND}
    new = {**old, "metadata": {**old["metadata"], "managedFields": [entry]}}
    assert kept_times(old, new) == old
    other = {**new, "data": {"x": "2"}}
    assert kept_times(old, other) == other
    added = {**old, "metadata": {**old["metadata"], "managedFields": [entry, {**entry, "manager": "b"}]}}
    assert kept_times(old, added) == added


def test_owners_in_another_version_are_looked_at_in_that_version() -> None:
    older = of_crd(
        {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"extent": {"type": "integer"}}}},
        }
    )

    def lift(tree: Tree, version: str) -> tuple[Tree, Schema] | None:
        spec = tree.get("spec") or {}
        size = spec.get("size", spec.get("extent"))
        match version:
            case "example.com/v1":
                return {**tree, "spec": {} if size is None else {"size": size}}, WIDGETS
            case "example.com/v1beta1":
                return {**tree, "spec": {} if size is None else {"extent": size}}, older
        return None

    def entry(version: str, fields: Tree) -> Tree:
        return {
            "manager": version,
            "operation": "Apply",
            "apiVersion": f"example.com/{version}",
            "time": FIRST,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }

    def body(size: int | None, **metadata: Any) -> Tree:
        spec = {} if size is None else {"size": size}
        return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x", **metadata}, "spec": spec}

    entries = [entry("v1beta1", {"f:spec": {"f:extent": {}}}), entry("v0", {"f:spec": {"f:gone": {}}})]
    live = body(1, managedFields=entries)
    with pytest.raises(ApplyConflictError) as caught:
        applied(
            live,
            body(2),
            manager="a",
            force=False,
            api_version="example.com/v1",
            schema=WIDGETS,
            now=SECOND,
            lift=lift,
        )
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "v1beta1": .spec.extent'
    tree = tracked(
        live, body(2, uid="1"), manager="u", api_version="example.com/v1", schema=WIDGETS, now=SECOND, lift=lift
    )
    assert [one["manager"] for _, one in mappings(tree, "metadata", "managedFields")] == ["u"]
    again = applied(
        live,
        body(None),
        manager="v1beta1",
        force=False,
        api_version="example.com/v1",
        schema=WIDGETS,
        now=SECOND,
        lift=lift,
    )
    assert not again["spec"]


NAMES = st.sampled_from(
    [
        "metadata",
        "spec",
        "labels",
        "finalizers",
        "ownerReferences",
        "uid",
        "parts",
        "tags",
        "name",
        "free",
        "fixed",
        "template",
        "containers",
        "env",
        "ports",
        "port",
        "managedFields",
        "operation",
        "apiVersion",
        "fieldsV1",
        "f:x",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3) | st.sampled_from(["Apply", "v1", "TCP"])
TREES = st.recursive(
    LEAVES, lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=4), max_leaves=14
)
BODIES = st.builds(
    lambda metadata, parts: {"metadata": metadata, **parts},
    st.dictionaries(NAMES, TREES, max_size=3),
    st.dictionaries(st.sampled_from(["spec", "status"]), TREES),
)


@given(st.sampled_from([MAPS, SERVICES, JOBS, WIDGETS, FREE]), BODIES, BODIES, st.sampled_from(["", "status"]))
def test_whatever_is_sent_is_merged_or_refused(schema: Schema, one: Tree, two: Tree, subresource: str) -> None:
    live, body = {**settings(schema), **one}, {**settings(schema), **two}
    about: Tree = {
        "manager": "m",
        "api_version": body["apiVersion"],
        "schema": schema,
        "now": FIRST,
        "subresource": subresource,
    }
    before = copy.deepcopy((live, body))
    made = tracked(live, body, **about)
    assert {name: made[name] for name in body if name != "metadata"} == {
        name: body[name] for name in body if name != "metadata"
    }
    with suppress(ApplyError, ApplyConflictError):
        again = applied(live, body, force=True, **about)
        assert applied(again, body, force=False, **about) == again, "applying the same again changes nothing"
    assert (live, body) == before
