"""Does each rule speak when it should, in the right words, and only then? And what does a user get to read?"""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.rules.rule import Context, Rule
from pykueue.api.rules.table import RULES, check, default, reject, rules_of, warnings
from pykueue.api.trees import Tree
from tests.api.rules.cases import FLAVOR_CASES, QUEUE_CASES, Case, cluster_queue, group, pod_set, workload
from tests.api.rules.cases_workload import WORKLOAD_CASES

CASES = [*QUEUE_CASES, *FLAVOR_CASES, *WORKLOAD_CASES]
BY_ID = {rule.id: rule for rule in RULES}
KINDS = sorted({rule.kind for rule in RULES})


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.rule} {case.title}") for case in CASES])
def test_rule(case: Case) -> None:
    rule = BY_ID[case.rule]
    version = "v1beta1" if rule.version == "v1beta1" else "v1beta2"

    judged = [str(error) for error in rule.judge(case.bad, case.bad_before, Context(case.gates))]
    checked = [str(error) for error in check(rule.kind, case.bad, case.bad_before, case.gates, version=version)]

    assert judged == list(case.says)
    assert set(judged) <= set(checked)
    assert check(rule.kind, case.good, case.good_before, case.gates, version=version) == ()


def test_every_rule_has_a_case() -> None:
    assert sorted(BY_ID) == sorted({case.rule for case in CASES})


def test_ids_are_unique() -> None:
    assert len(BY_ID) == len(RULES)


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.rule} {case.title}") for case in CASES])
def test_the_message_in_the_table_is_the_one_a_user_reads(case: Case) -> None:
    message = BY_ID[case.rule].message
    fixed = [part for part in message.replace("%s", "%d").split("%d") if part]

    for error in case.says:
        assert all(part in error for part in fixed)


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in RULES if rule.gate])
def test_a_rule_is_silent_when_its_gate_is_off(rule: Rule) -> None:
    case = next(case for case in CASES if case.rule == rule.id)
    gates = {**case.gates, str(rule.gate): False}

    assert list(rule.judge(case.bad, case.bad_before, Context(gates))) == []


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in RULES if rule.on == ("update",)])
def test_a_rule_of_updates_is_silent_at_creation(rule: Rule) -> None:
    case = next(case for case in CASES if case.rule == rule.id)

    assert list(rule.judge(case.bad, None, Context(case.gates))) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def parts(tree: object) -> list[list[str | int]]:
    """The way to each node of a tree."""
    inner: list[tuple[str | int, object]] = []
    if isinstance(tree, Mapping):
        inner = list(tree.items())
    elif isinstance(tree, list):
        inner = list(enumerate(tree))
    return [[], *([key, *rest] for key, node in inner for rest in parts(node))]


def replaced(tree: object, way: list[str | int], node: object) -> object:
    """The tree with another node at the end of the way."""
    if not way:
        return node
    key, *rest = way
    if isinstance(tree, list):
        return [replaced(item, rest, node) if index == key else item for index, item in enumerate(tree)]
    assert isinstance(tree, Mapping)
    return {name: replaced(value, rest, node) if name == key else value for name, value in tree.items()}


@st.composite
def broken_trees(draw: st.DrawFn) -> tuple[str, Tree, Tree | None]:
    """A case's object in which something was replaced by anything at all."""
    case = draw(st.sampled_from(CASES))
    trees: list[Tree | None] = []
    for tree in (draw(st.sampled_from([case.good, case.bad])), draw(st.sampled_from([None, case.good, case.bad]))):
        ways = [way for way in parts(tree) if way]
        broken = replaced(tree, draw(st.sampled_from(ways)), draw(JSON)) if ways else tree
        assert broken is None or isinstance(broken, Mapping)
        trees.append(broken)
    assert trees[0] is not None
    return BY_ID[case.rule].kind, trees[0], trees[1]


ALL_ON = {str(rule.gate): True for rule in RULES if rule.gate}


@given(broken_trees(), st.sampled_from(["v1beta1", "v1beta2"]))
def test_no_tree_makes_a_rule_fail(broken: tuple[str, Tree, Tree | None], version: str) -> None:
    kind, new, old = broken
    for error in check(kind, new, old, ALL_ON, version=version):
        assert str(error)
    default(kind, new, {"PartialAdmission": False})


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(["spec", "status", "metadata"]), JSON))
def test_no_json_makes_a_rule_fail(kind: str, tree: Tree) -> None:
    check(kind, tree, tree, ALL_ON)
    default(kind, tree, ALL_ON)


@given(st.sampled_from(CASES))
def test_checking_changes_nothing(case: Case) -> None:
    before = repr((case.bad, case.bad_before))
    check(BY_ID[case.rule].kind, case.bad, case.bad_before, ALL_ON)
    assert repr((case.bad, case.bad_before)) == before


def test_all_errors_come_at_once_in_the_order_of_the_rules() -> None:
    queue = cluster_queue(
        resourceGroups=[group({"name": "cpu", "nominalQuota": "-1", "lendingLimit": "1"})],
        fairSharing={"weight": "-2"},
    )
    assert [str(error) for error in check("ClusterQueue", queue)] == [
        'spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "-1": '
        "must be greater than or equal to 0",
        'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "1": '
        "must be nil when cohort is empty",
        'spec.fairSharing: Invalid value: "-2": must be greater than or equal to 0',
        'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "1": '
        "must be less than or equal to the nominalQuota",
    ]


def test_a_webhook_forbids() -> None:
    rejection = reject("ClusterQueue", cluster_queue(fairSharing={"weight": "-1"}))
    assert rejection is not None
    assert (rejection.code, rejection.reason) == (403, "Forbidden")
    assert rejection.message == (
        'admission webhook "vclusterqueue.kb.io" denied the request: '
        'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0'
    )


def test_the_schema_answers_before_the_webhook() -> None:
    queue = cluster_queue(
        preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}},
        fairSharing={"weight": "-1"},
    )
    rejection = reject("ClusterQueue", queue)
    assert rejection is not None
    assert (rejection.code, rejection.reason, len(rejection.errors)) == (422, "Invalid", 1)
    assert rejection.message == (
        'ClusterQueue.kueue.x-k8s.io "one" is invalid: spec.preemption: Invalid value: "object": '
        "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
    )


def test_several_errors_are_listed_in_brackets() -> None:
    pods = [{"count": 1, "podTemplateRef": {"name": "t"}}]
    old = {"spec": {"podSets": pods, "provisioningClassName": "a", "parameters": {}}}
    new = {
        "metadata": {"name": "p"},
        "spec": {"podSets": pods, "provisioningClassName": "b", "parameters": {"a": "b"}},
    }
    rejection = reject("ProvisioningRequest", new, old)
    assert rejection is not None
    assert rejection.message == (
        'ProvisioningRequest.autoscaling.x-k8s.io "p" is invalid: '
        '[spec.provisioningClassName: Invalid value: "b": Value is immutable, '
        'spec.parameters: Invalid value: "object": Value is immutable]'
    )


def test_a_good_object_is_not_rejected() -> None:
    assert reject("ClusterQueue", cluster_queue()) is None
    assert reject("Workload", workload(), workload()) is None


GATED_BY = "kueue.x-k8s.io/admission-gated-by"


@pytest.mark.parametrize(("version", "code"), [("v1beta2", 403), ("v1beta1", 422)])
def test_a_workload_is_judged_by_the_webhook_unless_it_is_written_in_the_older_version(version: str, code: int) -> None:
    rejection = reject("Workload", workload(pod_set(count=2, minCount=3)), version=version)
    assert rejection is not None
    assert (rejection.code, rejection.errors[0].path) == (code, "spec.podSets[0]")


def test_the_types_answer_with_the_schema() -> None:
    rejection = reject("ClusterQueue", cluster_queue(cohortName=5))
    assert rejection is not None
    assert (rejection.code, [error.path for error in rejection.errors]) == (422, ["spec.cohortName"])


@pytest.mark.parametrize(
    ("kind", "tree", "old", "code", "path"),
    [
        pytest.param("ClusterQueue", cluster_queue(cohort="A"), None, 422, "spec.cohort", id="by its types"),
        pytest.param(
            "Workload",
            {"spec": {"podSets": [{"template": {}}], "priorityClassName": "p"}},
            None,
            422,
            "spec",
            id="by a rule that only the schema of v1beta1 has",
        ),
        pytest.param(
            "ClusterQueue",
            cluster_queue(cohort="c", fairSharing={"weight": "-1"}),
            None,
            403,
            "spec.fairSharing",
            id="by the webhook",
        ),
        pytest.param(
            "Workload",
            workload(annotations={GATED_BY: "a.io/x,a.io/y"}),
            workload(annotations={GATED_BY: "a.io/x"}),
            403,
            f"metadata.annotations[{GATED_BY}]",
            id="by the webhook, at a change",
        ),
    ],
)
def test_v1beta1_is_refused(kind: str, tree: Tree, old: Tree | None, code: int, path: str) -> None:
    rejection = reject(kind, tree, old, ALL_ON, version="v1beta1")
    assert rejection is not None
    assert (rejection.code, rejection.errors[0].path) == (code, path)


def test_the_webhook_sees_v1beta1_as_v1beta2() -> None:
    lends = [group({"name": "cpu", "nominalQuota": "2", "lendingLimit": "1"})]
    assert reject("ClusterQueue", cluster_queue(resourceGroups=lends, cohort="c"), version="v1beta1") is None
    rejection = reject("ClusterQueue", cluster_queue(resourceGroups=lends), version="v1beta1")
    assert rejection is not None
    assert rejection.code == 403
    assert "must be nil when cohort is empty" in rejection.message


def test_an_unknown_kind_has_no_rules() -> None:
    assert check("Pod", {"spec": {}}) == ()


def test_of_v1beta1_only_the_schema_is_judged() -> None:
    assert {rule.surface for kind in KINDS for rule in rules_of(kind, version="v1beta1")} == {"CEL"}


@pytest.mark.parametrize(
    ("kind", "version", "texts"),
    [
        pytest.param(
            "Workload", "v1beta1", ("This version is deprecated. Use v1beta2 instead.",), id="the old version"
        ),
        pytest.param("Workload", "v1beta2", (), id="the new version"),
        pytest.param("MultiKueueConfig", "v1beta1", (), id="the one kind that is not deprecated"),
    ],
)
def test_warnings(kind: str, version: str, texts: tuple[str, ...]) -> None:
    assert warnings(kind, version) == texts


IN_USE = "kueue.x-k8s.io/resource-in-use"


@pytest.mark.parametrize(
    ("kind", "tree", "gates", "after"),
    [
        pytest.param(
            "ClusterQueue", {"spec": {}}, {}, {"spec": {}, "metadata": {"finalizers": [IN_USE]}}, id="a queue is kept"
        ),
        pytest.param(
            "ResourceFlavor",
            {"metadata": {"name": "f", "finalizers": ["a"]}},
            {},
            {"metadata": {"name": "f", "finalizers": ["a", IN_USE]}},
            id="a flavor is kept, as others keep it",
        ),
        pytest.param(
            "ResourceFlavor",
            {"metadata": {"finalizers": [IN_USE]}},
            {},
            {"metadata": {"finalizers": [IN_USE]}},
            id="nothing is kept twice",
        ),
        pytest.param("Cohort", {"spec": {}}, {}, {"spec": {}}, id="a cohort is left alone"),
        pytest.param(
            "Workload",
            {"spec": {"podSets": [{"count": 2, "minCount": 1}]}},
            {},
            {"spec": {"podSets": [{"count": 2, "minCount": 1, "name": "main"}]}},
            id="a pod set alone is the main one",
        ),
        pytest.param(
            "Workload",
            {"spec": {"podSets": [{"name": "a", "minCount": 1}, {"count": 1}]}},
            {"PartialAdmission": False},
            {"spec": {"podSets": [{"name": "a"}, {"count": 1}]}},
            id="no partial admission without the gate",
        ),
        pytest.param("Workload", {"spec": {}}, {}, {"spec": {}}, id="no pod sets"),
    ],
)
def test_defaults(kind: str, tree: Tree, gates: Mapping[str, bool], after: Tree) -> None:
    before = repr(tree)
    assert default(kind, tree, gates) == after
    assert repr(tree) == before
