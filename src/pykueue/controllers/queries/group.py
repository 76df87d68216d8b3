"""Serves `query.pykueue.io`: each question has a resource and a handler, which asks the leader's engine."""

from collections.abc import Mapping
from typing import Final

from pykueue.api.query import QUERY_GROUP, QUERY_VERSION
from pykueue.engine.engine import Engine
from pykueue.kube.aggregated import AggregatedCall, AggregatedGroup, AggregatedResource, Answer, unavailable

RETRY_SECONDS: Final = 2
FOLLOWS: Final = "this replica of the manager does not lead, and only the leader knows the order; try again"
UNREAD: Final = "the manager has not read all queues and workloads yet; try again"


def query_group(handlers: Mapping[AggregatedResource, Answer]) -> AggregatedGroup:
    """The group to serve."""
    by_path = {resource.path: answer for resource, answer in handlers.items()}

    async def answer(call: AggregatedCall) -> bytes:
        return await by_path[call.resource](call)

    return AggregatedGroup(QUERY_GROUP, (QUERY_VERSION,), tuple(handlers), answer)


def check_leads(engine: Engine) -> Engine:
    """The engine, if it knows the answers; raises `AggregatedError` otherwise."""
    if not engine.leading:
        raise unavailable(FOLLOWS, RETRY_SECONDS)
    if not engine.synced:
        raise unavailable(UNREAD, RETRY_SECONDS)
    return engine
