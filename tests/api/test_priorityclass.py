"""Is a PriorityClass read as Kubernetes reads it?"""

import pytest

from pykueue.api.core import Json, Tree
from pykueue.api.pods import TemplateError
from pykueue.api.priorityclass import SYSTEM, VERSION, read_priority_class


def tree(name: str = "a", **fields: Json) -> Tree:
    return {"apiVersion": VERSION, "kind": "PriorityClass", "metadata": {"name": name}, **fields}


def test_a_class_is_read() -> None:
    found = read_priority_class(tree(value=-5, globalDefault=True, preemptionPolicy="Never", description=None))
    assert (found.name, found.value, found.global_default) == ("a", -5, True)


@pytest.mark.parametrize("name", SYSTEM)
def test_the_classes_of_every_cluster_may_be_written_out(name: str) -> None:
    assert read_priority_class(tree(name, value=SYSTEM[name])).value == SYSTEM[name]


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        pytest.param(tree(), "value", id="no value"),
        pytest.param(tree(value=None), "value", id="null"),
        pytest.param(tree(value="1"), "value", id="a text"),
        pytest.param(tree(value=1.5), "value", id="a half"),
        pytest.param(tree(value=10**9 + 1), "value", id="higher than users may go"),
        pytest.param(tree(value=-(2**31) - 1), "value", id="lower than 32 bits"),
        pytest.param(tree(value=1, globalDefault="yes"), "globalDefault", id="no truth value"),
        pytest.param(tree("system-mine", value=1), "metadata.name", id="a reserved name"),
    ],
)
def test_a_mistake_is_told_with_its_place(wrong: Tree, path: str) -> None:
    with pytest.raises(TemplateError) as caught:
        read_priority_class(wrong)
    assert caught.value.path == path
