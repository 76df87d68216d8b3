"""Who answers for the line? The leader alone, once it has read everything."""

import pytest

from pykueue.controllers.cluster import Cluster
from pykueue.controllers.queries.pendingworkloads import PendingWorkloads
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Leading, Synced
from pykueue.kube.aggregated import AggregatedCall, AggregatedError


class Anyone:
    """A caller who may do everything."""

    name = "ann"

    async def may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        return True


CALL = AggregatedCall("v1beta2", "clusterqueues/pendingworkloads", "", "main", Anyone())


def nothing() -> Cluster:
    raise AssertionError("nobody who may not answer reads the cluster")


async def refusal(engine: Engine) -> AggregatedError:
    with pytest.raises(AggregatedError) as caught:
        await PendingWorkloads(nothing, lambda: engine).answer(CALL)
    return caught.value


async def test_a_follower_says_so_and_when_to_ask_again() -> None:
    engine = Engine()
    engine.observe(Synced())
    engine.observe(Leading(False))
    error = await refusal(engine)
    assert (error.code, error.reason, error.details) == (503, "ServiceUnavailable", {"retryAfterSeconds": 2})
    assert "does not lead" in error.message


async def test_a_leader_that_has_not_read_everything_says_so() -> None:
    error = await refusal(Engine())
    assert (error.code, "not read all queues" in error.message) == (503, True)
