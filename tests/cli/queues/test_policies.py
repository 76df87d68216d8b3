"""What do the policies of a queue mean?"""

from typing import Any

import pytest

from pykueue.cli.queues.policies import Limit, policies, words
from tests import builders


def queue(**spec: Any) -> Any:
    return builders.cluster_queue("main", "4", **spec)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        pytest.param({}, "is in no cohort, so it neither borrows nor lends", id="alone"),
        pytest.param({"cohortName": "lab"}, "shares quota in cohort lab", id="cohort"),
        pytest.param({"cohortName": "lab"}, "waits until others return what they borrow", id="no reclaim"),
        pytest.param(
            {"cohortName": "lab", "preemption": {"reclaimWithinCohort": "Any"}},
            "reclaims quota that others in its cohort borrow",
            id="reclaim",
        ),
        pytest.param(
            {"cohortName": "lab", "preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}},
            "may preempt jobs of lower priority in its cohort even to borrow",
            id="borrow",
        ),
        pytest.param(
            {"preemption": {"withinClusterQueue": "LowerPriority"}},
            "a job may preempt jobs of lower priority in this queue",
            id="within",
        ),
        pytest.param({}, "no job preempts another one in this queue", id="nothing"),
        pytest.param({"stopPolicy": "Hold"}, "is stopped: it admits nothing, and running jobs continue", id="stopped"),
        pytest.param(
            {"queueingStrategy": "StrictFIFO"},
            "starts jobs strictly in order; the first one in line blocks those behind it",
            id="strict",
        ),
        pytest.param(
            {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}},
            "tries the next flavor before it borrows",
            id="fungibility",
        ),
    ],
)
def test_words(spec: dict[str, Any], sentence: str) -> None:
    assert sentence in [*words(queue(**spec))]


def test_a_queue_knows_its_limits_and_its_doors() -> None:
    groups = [
        {
            "coveredResources": ["cpu"],
            "flavors": [{"name": "a", "resources": [{"name": "cpu", "nominalQuota": 4, "borrowingLimit": 2}]}],
        }
    ]
    doors = [
        builders.local_queue("b", "lab"),
        builders.local_queue("a", "lab"),
        builders.local_queue("x", "lab", "other"),
    ]
    found = policies([queue(resourceGroups=groups, cohortName="lab", stopPolicy="None")], doors)["main"]
    assert found.limits == (Limit("a", "cpu", "2", ""),)
    assert found.local_queues == ("lab/a", "lab/b")
    assert (found.cohort, found.stop_policy) == ("lab", "None")
