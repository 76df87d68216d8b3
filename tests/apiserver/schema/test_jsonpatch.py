"""The three kinds of patch that change an object from outside; the fourth is server-side apply."""

import copy
from time import process_time
from typing import Any

import msgspec
import pytest

from pykueue.apiserver.schema.jsonpatch import OPERATIONS_MAX, REJECTED, json_patch, merge_patch, strategic_patch
from pykueue.apiserver.schema.schemas import Schema, builtin, of_crd
from pykueue.apiserver.schema.strategicpatch import PatchError

Tree = dict[str, Any]


def pods() -> Schema:
    schema = builtin("v1", "Pod")
    assert schema is not None
    return schema


MERGES: dict[str, tuple[Tree, Tree, Tree]] = {
    "a value replaces": ({"a": 1}, {"a": 2}, {"a": 2}),
    "null removes": ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    "null of what is not there": ({"b": 2}, {"a": None}, {"b": 2}),
    "objects are merged": ({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}}, {"a": {"c": 2, "d": 3}}),
    "lists are replaced": ({"a": [1, 2]}, {"a": [3, None]}, {"a": [3, None]}),
    "nulls in what is new": ({}, {"a": {"b": None, "c": [{"d": None}]}}, {"a": {"c": [{}]}}),
    "an object for a list": ({"a": [1]}, {"a": {"b": None}}, {"a": {}}),
    "a list for an object": ({"a": {"b": 1}}, {"a": []}, {"a": []}),
}


@pytest.mark.parametrize(("tree", "patch", "wanted"), MERGES.values(), ids=MERGES.keys())
def test_merge_patch(tree: Tree, patch: Tree, wanted: Tree) -> None:
    before = copy.deepcopy((tree, patch))
    assert merge_patch(tree, patch) == wanted
    assert (tree, patch) == before


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        ([], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("x", "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
    ],
    ids=repr,
)
def test_a_merge_patch_is_an_object(patch: Any, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        merge_patch({}, patch)
    assert (caught.value.message, caught.value.code) == (message, 400)


def test_what_a_merge_patch_does_not_touch_is_shared() -> None:
    tree: Tree = {"a": {"b": 1}, "c": {"d": 1}}
    assert merge_patch(tree, {"a": {"b": 2}})["c"] is tree["c"]


DOCUMENT: Tree = {"a": {"b": [1, 2, 3]}, "x/y": {"~": 1}, "n": None}

STEPS: dict[str, tuple[list[Tree], str, Any]] = {
    "add a field": ([{"op": "add", "path": "/a/c", "value": 1}], "/a/c", 1),
    "add over a field": ([{"op": "add", "path": "/a/b", "value": 1}], "/a/b", 1),
    "add between items": ([{"op": "add", "path": "/a/b/1", "value": 9}], "/a/b", [1, 9, 2, 3]),
    "add at the end": ([{"op": "add", "path": "/a/b/-", "value": 9}], "/a/b", [1, 2, 3, 9]),
    "add at the end by number": ([{"op": "add", "path": "/a/b/3", "value": 9}], "/a/b", [1, 2, 3, 9]),
    "add from the end": ([{"op": "add", "path": "/a/b/-1", "value": 9}], "/a/b", [1, 2, 3, 9]),
    "add nothing is null": ([{"op": "add", "path": "/a/c"}], "/a/c", None),
    "remove a field": ([{"op": "remove", "path": "/a/b"}], "/a", {}),
    "remove an item": ([{"op": "remove", "path": "/a/b/0"}], "/a/b", [2, 3]),
    "remove the last item": ([{"op": "remove", "path": "/a/b/-1"}], "/a/b", [1, 2]),
    "replace a field": ([{"op": "replace", "path": "/a/b", "value": 5}], "/a/b", 5),
    "replace a field that is not there": ([{"op": "replace", "path": "/a/c", "value": 5}], "/a/c", 5),
    "replace an item": ([{"op": "replace", "path": "/a/b/2", "value": 5}], "/a/b", [1, 2, 5]),
    "replace everything": ([{"op": "replace", "path": "", "value": {"z": 1}}], "", {"z": 1}),
    "move": ([{"op": "move", "from": "/a/b/0", "path": "/a/c"}], "/a", {"b": [2, 3], "c": 1}),
    "copy": (
        [{"op": "copy", "from": "/a/b", "path": "/d"}, {"op": "add", "path": "/d/-", "value": 4}],
        "/a/b",
        [1, 2, 3],
    ),
    "escapes": ([{"op": "replace", "path": "/x~1y/~0", "value": 2}], "/x~1y", {"~": 2}),
    "test": ([{"op": "test", "path": "/a/b", "value": [1, 2, 3]}], "/a/b", [1, 2, 3]),
    "test null of what is not there": ([{"op": "test", "path": "/a/z", "value": None}], "/a/b", [1, 2, 3]),
    "several in turn": (
        [{"op": "add", "path": "/q", "value": {}}, {"op": "add", "path": "/q/r", "value": 1}],
        "/q",
        {"r": 1},
    ),
}


def at(tree: Any, path: str) -> Any:
    for step in path.split("/")[1:]:
        tree = tree[step.replace("~1", "/").replace("~0", "~")]
    return tree


@pytest.mark.parametrize(("operations", "path", "wanted"), STEPS.values(), ids=STEPS.keys())
def test_json_patch(operations: list[Tree], path: str, wanted: Any) -> None:
    before = copy.deepcopy(DOCUMENT)
    assert at(json_patch(DOCUMENT, operations), path) == wanted  # type: ignore[arg-type]  # a table gives it as an object
    assert before == DOCUMENT


FAILURES: dict[str, tuple[Tree, str]] = {
    "remove what is not there": (
        {"op": "remove", "path": "/a/z"},
        "error in remove for path: '/a/z': Unable to remove nonexistent key: z: missing value",
    ),
    "remove beyond the end": (
        {"op": "remove", "path": "/a/b/3"},
        "error in remove for path: '/a/b/3': Unable to access invalid index: 3: invalid index referenced",
    ),
    "add below nothing": (
        {"op": "add", "path": "/z/y", "value": 1},
        'add operation does not apply: doc is missing path: "/z/y": missing value',
    ),
    "add below a number": (
        {"op": "add", "path": "/a/b/0/c", "value": 1},
        'add operation does not apply: doc is missing path: "/a/b/0/c": missing value',
    ),
    "add beyond the end": (
        {"op": "add", "path": "/a/b/5", "value": 1},
        "error in add for path: '/a/b/5': Unable to access invalid index: 5: invalid index referenced",
    ),
    "add at no index": (
        {"op": "add", "path": "/a/b/x", "value": 1},
        "error in add for path: '/a/b/x': value was not a proper array index: 'x'",
    ),
    "add at an index of more digits than a number has": (
        {"op": "add", "path": f"/a/b/{'9' * 5000}", "value": 1},
        f"error in add for path: '/a/b/{'9' * 5000}': value was not a proper array index: '{'9' * 5000}'",
    ),
    "remove at an index of more digits than a number has": (
        {"op": "remove", "path": f"/a/b/{'9' * 5000}"},
        f"error in remove for path: '/a/b/{'9' * 5000}': Unable to access invalid index: {'9' * 5000}: "
        "invalid index referenced",
    ),
    "a test that fails": ({"op": "test", "path": "/a/b", "value": []}, "testing value /a/b failed: test failed"),
    "true is not one": ({"op": "test", "path": "/a/b/0", "value": True}, "testing value /a/b/0 failed: test failed"),
    "replace everything by a number": (
        {"op": "replace", "path": "", "value": 1},
        "replace operation value must be object or array",
    ),
    "move from nowhere": (
        {"op": "move", "from": "/z/y", "path": "/q"},
        "move operation does not apply: doc is missing from path: /z/y: missing value",
    ),
    "no path": (
        {"op": "add", "value": 1},
        "add operation failed to decode path: operation missing path field: missing value",
    ),
    "an unknown operation": ({"op": "shuffle", "path": "/a"}, "Unexpected kind: shuffle"),
    "no operation": ({"path": "/a"}, "Unexpected kind: unknown"),
}


@pytest.mark.parametrize(("operation", "why"), FAILURES.values(), ids=FAILURES.keys())
def test_a_json_patch_that_does_not_apply(operation: Tree, why: str) -> None:
    before = copy.deepcopy(DOCUMENT)
    with pytest.raises(PatchError) as caught:
        json_patch(DOCUMENT, [{"op": "add", "path": "/first", "value": 1}, operation])
    assert (caught.value.message, caught.value.code, caught.value.detail) == (REJECTED, 422, why)
    assert before == DOCUMENT


def test_what_a_json_patch_copies_is_limited() -> None:
    doubling: Any = [{"op": "copy", "from": "/a", "path": f"/a/{step}"} for step in range(40)]
    with pytest.raises(PatchError) as caught:
        json_patch({"a": {"b": "x" * 100}}, doubling)
    assert (caught.value.message, caught.value.code) == (REJECTED, 422)
    assert caught.value.detail.endswith(f", exceeding the limit {3 * 1024 * 1024}")
    assert len(msgspec.json.encode(json_patch({"a": {"b": "x" * 100}}, doubling[:10]))) > 100_000


def test_a_json_patch_is_a_list_of_operations_and_not_too_long() -> None:
    with pytest.raises(PatchError, match=r"cannot unmarshal object into Go value of type \[\]handlers\.jsonPatchOp"):
        json_patch({}, {})
    with pytest.raises(PatchError, match=r"cannot unmarshal number into Go value of type handlers\.jsonPatchOp"):
        json_patch({}, [3])
    with pytest.raises(PatchError, match=r"is 10000, got 10001") as caught:
        json_patch({}, [{"op": "test", "path": "/a", "value": None}] * (OPERATIONS_MAX + 1))
    assert caught.value.code == 413


def containers(*pairs: str) -> list[Tree]:
    """Containers from `name=image`."""
    return [dict(zip(("name", "image"), pair.split("="), strict=False)) for pair in pairs]


STRATEGIES: dict[str, tuple[Tree, Tree, Tree]] = {
    "items are merged by their key": (
        {"spec": {"containers": containers("a=1", "b=2")}},
        {"spec": {"containers": containers("b=3")}},
        {"spec": {"containers": containers("a=1", "b=3")}},
    ),
    "a new item of the patch comes first": (
        {"spec": {"containers": containers("a=1")}},
        {"spec": {"containers": containers("c=3")}},
        {"spec": {"containers": containers("c=3", "a=1")}},
    ),
    "an item is deleted": (
        {"spec": {"containers": containers("a=1", "b=2")}},
        {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
        {"spec": {"containers": containers("b=2")}},
    ),
    "a list is replaced": (
        {"spec": {"containers": containers("a=1", "b=2")}},
        {"spec": {"containers": [{"$patch": "replace"}, *containers("c=3")]}},
        {"spec": {"containers": containers("c=3")}},
    ),
    "an order is given": (
        {"spec": {"containers": containers("a=1", "b=2", "c=3")}},
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": containers("a=9"),
            }
        },
        {"spec": {"containers": containers("b=2", "c=3", "a=9")}},
    ),
    "an order for a new list": (
        {"spec": {}},
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": containers("b=1", "a=2"),
            }
        },
        {"spec": {"containers": containers("b=1", "a=2")}},
    ),
    "plain values are a set": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["c", "b"]}},
        {"metadata": {"finalizers": ["c", "a", "b"]}},
    ),
    "plain values are deleted": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"]}},
        {"metadata": {"finalizers": ["b"]}},
    ),
    "a list that is no merge list is replaced": (
        {"spec": {"tolerations": [{"key": "a"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
    ),
    "an object is replaced": (
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"$patch": "replace", "c": "3"}}},
        {"metadata": {"labels": {"c": "3"}}},
    ),
    "an object is emptied": (
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "delete"}}},
        {"metadata": {"labels": {}}},
    ),
    "other fields are dropped": (
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
        {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}},
    ),
    "null removes": (
        {"metadata": {"labels": {"a": "1"}}, "spec": {"hostname": "h"}},
        {"metadata": {"labels": None}, "spec": {"hostname": None, "subdomain": None}},
        {"metadata": {}, "spec": {}},
    ),
    "directions in what is new are not kept": (
        {"spec": {}},
        {"spec": {"containers": [{"name": "a", "$patch": "delete"}, *containers("b=1")], "os": {"$patch": "replace"}}},
        {"spec": {"containers": containers("b=1")}},
    ),
}


@pytest.mark.parametrize(("tree", "patch", "wanted"), STRATEGIES.values(), ids=STRATEGIES.keys())
def test_strategic_patch(tree: Tree, patch: Tree, wanted: Tree) -> None:
    before = copy.deepcopy((tree, patch))
    assert strategic_patch(tree, patch, pods()) == wanted
    assert (tree, patch) == before


MISTAKES: dict[str, tuple[Tree, str, int]] = {
    "an unknown direction": (
        {"metadata": {"labels": {"$patch": "shuffle"}}},
        "unknown patch type: shuffle in map: map[$patch:shuffle]",
        500,
    ),
    "an item without its key": (
        {"spec": {"containers": [{"image": "x"}]}},
        "map: map[image:x] does not contain declared merge key: name",
        500,
    ),
    "fields that are not retained": (
        {"spec": {"$retainKeys": ["hostname"], "subdomain": "x"}},
        "invalid patch format of retainKeys",
        400,
    ),
    "retained keys are a list": ({"spec": {"$retainKeys": "hostname"}}, "invalid patch format of retainKeys", 400),
    "another order": (
        {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": containers("b=1")}},
        "The order in patch list:\n[map[image:1 name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
        500,
    ),
    "an order of nothing": ({"spec": {"$setElementOrder": []}}, "invalid patch format of setElementOrder list", 400),
    "merging said of an item": (
        {"spec": {"containers": [{"name": "a", "$patch": "merge"}]}},
        "merging lists cannot yet be specified in the patch",
        500,
    ),
}


@pytest.mark.parametrize(("patch", "message", "code"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_strategic_patch_that_makes_no_sense(patch: Tree, message: str, code: int) -> None:
    tree = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": containers("a=1")}}
    with pytest.raises(PatchError) as caught:
        strategic_patch(tree, patch, pods())  # type: ignore[arg-type]  # a table gives it as an object
    assert (caught.value.message, caught.value.code) == (message, code)


def test_a_custom_kind_takes_no_strategic_patch() -> None:
    with pytest.raises(PatchError, match="strategic merge patch format is not supported"):
        strategic_patch({}, {}, of_crd(None))
    with pytest.raises(PatchError, match="cannot unmarshal array into Go value"):
        strategic_patch({}, [], pods())


LONG = 30_000
"""So many that to compare each with each would take minutes."""


@pytest.mark.parametrize("directive", ["", "$deleteFromPrimitiveList/", "$setElementOrder/"])
def test_a_strategic_patch_of_a_long_set_takes_no_time(directive: str) -> None:
    names = [f"a.b/{number}" for number in range(LONG)]
    began = process_time()
    patch: Any = {f"{directive}finalizers": names, **({"finalizers": names} if "Order" in directive else {})}
    before: Tree = {"metadata": {"finalizers": [*reversed(names), "x.y/z"]}}
    made = strategic_patch(before, {"metadata": patch}, pods())
    assert at(made, "/metadata/finalizers") == (["x.y/z"] if "delete" in directive else [*names, "x.y/z"])
    assert process_time() - began < 5


def test_a_strategic_patch_of_a_long_list_takes_no_time() -> None:
    named: list[Any] = [{"name": f"c{number}", "image": "a"} for number in range(LONG)]
    changes: list[Any] = [{"name": one["name"], "image": "b"} for one in named[: LONG // 2]]
    gone: list[Any] = [{"name": one["name"], "$patch": "delete"} for one in named[LONG // 2 :]]
    began = process_time()
    made = strategic_patch({"spec": {"containers": named}}, {"spec": {"containers": [*changes, *gone]}}, pods())
    assert at(made, "/spec/containers") == changes
    assert process_time() - began < 5
