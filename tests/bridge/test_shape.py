"""Do templates ask for nodes as they are written, and share a key exactly when they are alike?"""

import re
from hashlib import sha256
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.pods import PodSpec, PodTemplate, from_tree
from pykueue.bridge.shape import Selection, selection, shape_key


def pod(spec: object) -> PodSpec:
    return from_tree({"spec": spec}, PodTemplate).spec


def needing(*terms: object) -> dict[str, object]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


ZONE = {"key": "zone", "operator": "In", "values": ["b", "a"]}
SSD = {"key": "ssd", "operator": "Exists"}
PREFERRED = {"weight": 1, "preference": {"matchExpressions": [ZONE]}}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        pytest.param({}, Selection(), id="nothing"),
        pytest.param(
            {"nodeSelector": {"b": "2", "a": "1"}},
            Selection(node_selector=(("a", "1"), ("b", "2"))),
            id="labels, in order",
        ),
        pytest.param(
            needing({"matchExpressions": [ZONE, SSD]}, {"matchExpressions": [SSD]}),
            Selection(affinity=((("zone", "In", ("b", "a")), ("ssd", "Exists", ())), (("ssd", "Exists", ()),))),
            id="terms as they are written",
        ),
        pytest.param(
            needing({"matchExpressions": [SSD], "matchFields": [ZONE]}, {"matchFields": [ZONE]}),
            Selection(affinity=((("ssd", "Exists", ()),), ())),
            id="fields are left out, and a term of nothing else is empty",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERRED]}}},
            Selection(),
            id="preferences are left out",
        ),
        pytest.param({"affinity": {"podAffinity": {"x": 1}}}, Selection(), id="other pods are left out"),
        pytest.param(
            {
                "tolerations": [
                    {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "gpu", "value": "yes", "tolerationSeconds": 3},
                    {"operator": "Exists"},
                ]
            },
            Selection(
                tolerations=(
                    ("spot", "Exists", "", "NoSchedule"),
                    ("gpu", "Equal", "yes", ""),
                    ("", "Exists", "", ""),
                )
            ),
            id="tolerations, equality being the default",
        ),
    ],
)
def test_what_pods_require_of_their_nodes(spec: object, found: Selection) -> None:
    assert selection(pod(spec)) == found


def asking(**requests: object) -> dict[str, object]:
    return {"resources": {"requests": requests}}


PLAIN: dict[str, object] = {"containers": [asking(cpu="1")]}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"containers": [asking(cpu="2")]}, id="another request"),
        pytest.param({"containers": [asking(cpu="1"), asking()]}, id="another container"),
        pytest.param({"initContainers": PLAIN["containers"]}, id="an init container instead"),
        pytest.param({"containers": [{**asking(cpu="1"), "ports": [{"hostPort": 1}]}]}, id="a port"),
        pytest.param({**PLAIN, "nodeSelector": {"a": "b"}}, id="a node selector"),
        pytest.param({**PLAIN, **needing({"matchExpressions": [SSD]})}, id="a node affinity"),
        pytest.param({**PLAIN, **needing({"matchFields": [SSD]})}, id="an affinity for a field"),
        pytest.param({**PLAIN, "affinity": {"podAntiAffinity": {"x": 1}}}, id="a pod affinity"),
        pytest.param({**PLAIN, "tolerations": [{"operator": "Exists"}]}, id="a toleration"),
        pytest.param({**PLAIN, "runtimeClassName": "kata"}, id="a runtime class"),
        pytest.param({**PLAIN, "priority": 0}, id="a priority"),
        pytest.param({**PLAIN, "topologySpreadConstraints": [{"maxSkew": 1}]}, id="a spread constraint"),
        pytest.param({**PLAIN, "overhead": {"cpu": "1"}}, id="an overhead"),
        pytest.param({**PLAIN, "resourceClaims": [{"name": "gpu"}]}, id="a claim"),
        pytest.param({**PLAIN, "resources": {"requests": {"cpu": "1"}}}, id="a request of the pod"),
        pytest.param({**PLAIN, "resources": {}}, id="an empty block of the pod"),
    ],
)
def test_what_a_scheduler_reads_changes_the_key(other: dict[str, object]) -> None:
    assert shape_key(pod(other)) != shape_key(pod(PLAIN))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"containers": [asking(cpu="1000m")]}, id="the same amount in other words"),
        pytest.param({"containers": [asking(cpu=1)]}, id="the same amount as a number"),
        pytest.param({"containers": [{**asking(cpu="1"), "name": "x", "image": "y"}]}, id="a name and an image"),
        pytest.param({"containers": [{"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 9}}}]}, id="a limit"),
        pytest.param({**PLAIN, "priorityClassName": "high", "restartPolicy": "Never"}, id="fields of no concern"),
        pytest.param({**PLAIN, "nodeSelector": {}, "tolerations": [], "affinity": None}, id="empty fields"),
    ],
)
def test_what_a_scheduler_does_not_read_leaves_the_key(other: dict[str, object]) -> None:
    assert shape_key(pod(other)) == shape_key(pod(PLAIN))


def test_a_key_is_the_start_of_a_digest_that_any_process_finds_again() -> None:
    text = (
        '{"affinity":null,"containers":[{"ports":[],"requests":{"cpu":"1","memory":"1Gi"}}],"initContainers":[],'
        '"nodeSelector":{},"overhead":{},"priority":null,"resourceClaims":[],"runtimeClassName":null,'
        '"tolerations":[],"topologySpreadConstraints":[]}'
    )
    found = shape_key(pod({"containers": [asking(memory="1024Mi", cpu="1000m")]}))
    assert found == sha256(text.encode()).hexdigest()[:16]


LABELS = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=4)


@given(LABELS, st.randoms(use_true_random=False))
def test_the_order_of_members_is_no_difference(labels: dict[str, str], random: Random) -> None:
    items = list(labels.items())
    random.shuffle(items)
    one, other = (pod({"nodeSelector": dict(order)}) for order in (labels.items(), items))
    assert shape_key(one) == shape_key(other)
    assert selection(one) == selection(other)


@given(LABELS, LABELS)
def test_keys_agree_exactly_where_labels_do(one: dict[str, str], other: dict[str, str]) -> None:
    keys = [shape_key(pod({"nodeSelector": labels})) for labels in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)
    assert all(re.fullmatch("[0-9a-f]{16}", key) for key in keys)
