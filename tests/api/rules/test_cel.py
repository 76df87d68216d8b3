"""Do a rule's CEL and its Python say the same?"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.rules.rule import Context, Rule
from pykueue.api.rules.table import RULES
from pykueue.api.trees import Tree, nodes
from tests.api.rules.cases import FLAVOR_CASES, QUEUE_CASES, Case
from tests.api.rules.cases_workload import WORKLOAD_CASES
from tests.api.rules.cel import CelError, evaluate

CASES = [*QUEUE_CASES, *FLAVOR_CASES, *WORKLOAD_CASES]
SCHEMA = [rule for rule in RULES if rule.surface == "CEL"]
KIND = {rule.id: rule.kind for rule in RULES}


def refused(rule: Rule, new: Tree, old: Tree | None) -> list[str]:
    """Where an API server would refuse this object by the rule's CEL."""
    found = []
    for path, node, before in nodes(rule.cel_at, new, old):
        transition = "oldSelf" in rule.cel
        scope = {"oldSelf": before} if transition else {}
        if not (transition and before is None) and not evaluate(rule.cel, self=node, **scope):
            found.append(path)
    return found


def objects_of(kind: str) -> list[Tree]:
    """Every object that a case of this kind shows, good or bad."""
    shown = [case for case in CASES if KIND[case.rule] == kind]
    trees = [tree for case in shown for tree in (case.good, case.bad, case.good_before, case.bad_before)]
    return [tree for tree in trees if tree is not None]


OBJECTS = {kind: objects_of(kind) for kind in {rule.kind for rule in SCHEMA}}


def judged(rule: Rule, new: Tree, old: Tree | None) -> list[str]:
    """Where the Python of the rule refuses this object."""
    return [error.path for error in rule.judge(new, old, Context({}))]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case.rule} {case.title}") for case in CASES if "-CEL-" in case.rule]
)
def test_cel_accepts_and_refuses_as_shown(case: Case) -> None:
    rule = next(rule for rule in SCHEMA if rule.id == case.rule)

    assert refused(rule, case.good, case.good_before) == []
    assert refused(rule, case.bad, case.bad_before) == judged(rule, case.bad, case.bad_before) != []


@st.composite
def histories(draw: st.DrawFn) -> tuple[Rule, Tree, Tree | None]:
    rule = draw(st.sampled_from(SCHEMA))
    return rule, draw(st.sampled_from(OBJECTS[rule.kind])), draw(st.none() | st.sampled_from(OBJECTS[rule.kind]))


@given(st.lists(histories(), min_size=30, max_size=60))
def test_cel_and_python_agree(drawn: list[tuple[Rule, Tree, Tree | None]]) -> None:
    for rule, new, old in drawn:
        assert refused(rule, new, old) == judged(rule, new, old), rule.id


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in RULES])
def test_where_and_when(rule: Rule) -> None:
    assert bool(rule.cel) == (rule.surface == "CEL")
    assert rule.surface == "webhook" or (rule.on == ("update",)) == ("oldSelf" in rule.cel)
    # A node inside a list has no past, so a rule there may not ask for it.
    assert not ("oldSelf" in rule.cel and "[]" in rule.cel_at)
    assert rule.fields
    # Quotes in a CEL text are single, so that the text can stand in a YAML file as it is.
    assert not re.search(r'["\n\\]', rule.cel)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("1 + 2 == 3 && !(2 < 1)", True, id="numbers"),
        pytest.param("'a b' in ['a', 'a b'] ? size([1]) == 1 : 1 == 2", True, id="a list and a choice"),
        pytest.param(
            "self.a.all(x, x > 0) && self.a.exists_one(x, x == 2) && !self.a.exists(x, x == 3)", True, id="all"
        ),
        pytest.param("self.b == 1 || true_", True, id="one side decides, though the other fails"),
        pytest.param("has(self.a) && !has(self.b) && self.a[size(self.a) - 1] == 2", True, id="presence"),
        pytest.param("self.a == [2, 1]", False, id="order counts"),
    ],
)
def test_the_reader_of_cel(expression: str, value: bool) -> None:
    assert evaluate(expression, self={"a": [1, 2]}, true_=True) is value


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("self.b == 1", id="an absent field"),
        pytest.param("self.a && true_", id="a list is no truth"),
        pytest.param("true_ true_", id="two values"),
        pytest.param("(true_", id="an open bracket"),
        pytest.param("self.a @ 3", id="no such operator"),
        pytest.param("1 < 'a'", id="a number and a text"),
        pytest.param("self.a[2] == 1", id="beyond the end"),
    ],
)
def test_what_the_reader_of_cel_refuses(expression: str) -> None:
    with pytest.raises(CelError):
        evaluate(expression, self={"a": [1, 2]}, true_=True)
