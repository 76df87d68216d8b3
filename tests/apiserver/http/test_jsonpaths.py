"""What does a column's path point at?"""

import pytest

from pykueue.api.core import Json
from pykueue.apiserver.http.jsonpaths import PathError, found, steps

TREE: Json = {
    "spec": {"a.b": 1, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2, "on": True}], "none": None},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        pytest.param(".spec.list[0].n", ["x"], id="an item"),
        pytest.param(".spec.list[-1].n", ["y"], id="the last item"),
        pytest.param(".spec.list[5].n", [], id="no such item"),
        pytest.param(".spec.list[*].v", [1, 2], id="all items"),
        pytest.param(".spec['a.b']", [1], id="a key in quotes"),
        pytest.param(r".spec.a\.b", [1], id="a dot that is shielded"),
        pytest.param(".spec.none", [None], id="nothing that is there"),
        pytest.param(".spec.absent.deeper", [], id="what is not there"),
        pytest.param('.status.conditions[?(@.type=="Ready")].status', ["True"], id="a condition"),
        pytest.param(".status.conditions[?(@.type=='Ready')].status", ["True"], id="in single quotes"),
        pytest.param('.status.conditions[?(@.type != "Ready")].status', ["False"], id="all but one"),
        pytest.param(".spec.list[?(@.v==2)].n", ["y"], id="by a number"),
        pytest.param(".spec.list[?(@.on==true)].n", ["y"], id="by a truth"),
        pytest.param("{.spec.list[0].v}", [1], id="in braces"),
        pytest.param("spec", [], id="no path"),
        pytest.param(".spec[", [], id="half a path"),
        pytest.param("", [], id="empty"),
        pytest.param("." + "a" * 2000, [], id="too long"),
    ],
)
def test_what_lies_under_a_path(path: str, values: list[Json]) -> None:
    assert found(TREE, path) == values


def test_a_path_that_cannot_be_read_says_where() -> None:
    with pytest.raises(PathError, match="cannot be read from character 6 on"):
        steps(".spec[")
