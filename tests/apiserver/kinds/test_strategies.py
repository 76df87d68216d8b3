"""The table of strategies: each row is found, and kinds without a row get the plain strategy of their group."""

import pytest

from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.kinds.strategies import BUILTIN, CUSTOM, KUEUE, STRATEGIES
from pykueue.apiserver.kinds.strategy import Strategy

CATALOG = Catalog()


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_row_is_the_strategy_of_a_served_kind(name: str) -> None:
    found = [one for one in CATALOG.all() if str(one.resource) == name]
    assert found, f"{name}: is not served; correct the key, or remove the row"
    assert all(one.strategy is STRATEGIES[name] for one in found)


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        pytest.param("services", BUILTIN, id="built-in"),
        pytest.param("clusterqueues.kueue.x-k8s.io", KUEUE, id="Kueue's"),
        pytest.param("provisioningrequests.autoscaling.x-k8s.io", CUSTOM, id="custom"),
    ],
)
def test_a_kind_without_a_row_is_treated_as_its_group(name: str, strategy: Strategy) -> None:
    found = [one for one in CATALOG.all() if str(one.resource) == name]
    assert found
    assert all(one.strategy is strategy for one in found)
