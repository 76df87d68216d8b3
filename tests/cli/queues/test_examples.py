"""Do the example's queues share a machine, whatever it has?"""

import pytest

from pykueue.api.trees import items, mappings, text
from pykueue.cli.queues.examples import example, shared

GI = 2**30


def quotas(amounts: dict[str, int]) -> list[dict[str, str]]:
    found = []
    for tree in example(amounts):
        for _, group in mappings(tree, "spec", "resourceGroups"):
            for _, flavor in mappings(group, "flavors"):
                found.append({text(one, "name"): text(one, "nominalQuota") for _, one in mappings(flavor, "resources")})
    return found


def test_each_team_gets_half() -> None:
    assert quotas({"cpu": 8000, "memory": 32 * GI}) == [{"cpu": "4", "memory": "16384Mi"}] * 2


def test_what_cannot_be_halved_goes_to_the_first() -> None:
    assert quotas({"cpu": 3000, "memory": GI, "nvidia.com/gpu": 3}) == [
        {"cpu": "1500m", "memory": "512Mi", "nvidia.com/gpu": "2"},
        {"cpu": "1500m", "memory": "512Mi", "nvidia.com/gpu": "1"},
    ]


@pytest.mark.parametrize(("amount", "parts"), [(1, ["1", "0"]), (5, ["3", "2"]), (8, ["4", "4"])])
def test_nothing_is_lost(amount: int, parts: list[str]) -> None:
    assert [shared("nvidia.com/gpu", amount, place) for place in range(2)] == parts


def test_every_queue_has_a_door_and_covers_what_it_has() -> None:
    trees = example({"cpu": 8000, "memory": GI})
    queues = [text(tree, "metadata", "name") for tree in trees if text(tree, "kind") == "ClusterQueue"]
    doors = [text(tree, "spec", "clusterQueue") for tree in trees if text(tree, "kind") == "LocalQueue"]
    assert queues == doors == ["team-a", "team-b"]
    covered = [
        items(group, "coveredResources") for tree in trees for _, group in mappings(tree, "spec", "resourceGroups")
    ]
    assert covered == [["cpu", "memory"]] * 2
