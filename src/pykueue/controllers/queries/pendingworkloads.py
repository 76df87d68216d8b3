"""Answers the visibility API: the pending workloads of a queue in order, from the engine of the leader."""

from collections.abc import Callable, Generator
from typing import Final

from pykueue.api.core import OwnerReference
from pykueue.api.visibility import (
    PENDING_WORKLOADS,
    SUMMARY,
    VISIBILITY_GROUP,
    VISIBILITY_VERSIONS,
    options_in,
    summary,
)
from pykueue.api.workload import Workload
from pykueue.base.turns import in_steps
from pykueue.bridge.pendingrows import rows_of_local_queue, rows_of_queue
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.queries.group import check_leads
from pykueue.engine.engine import Engine
from pykueue.kube.aggregated import (
    AggregatedCall,
    AggregatedGroup,
    AggregatedResource,
    bad_request,
    not_found,
)
from pykueue.kube.informer import Informer

OF_QUEUES: Final = AggregatedResource("clusterqueues", "clusterqueue", PENDING_WORKLOADS, SUMMARY)
OF_LOCAL_QUEUES: Final = AggregatedResource("localqueues", "localqueue", PENDING_WORKLOADS, SUMMARY, namespaced=True)


class PendingWorkloads:
    """Lists pending workloads for the visibility API."""

    def __init__(self, cluster: Callable[[], Cluster], engine: Callable[[], Engine]) -> None:
        self.cluster = cluster
        self.engine = engine

    @property
    def group(self) -> AggregatedGroup:
        """The group to serve."""
        return AggregatedGroup(VISIBILITY_GROUP, VISIBILITY_VERSIONS, (OF_QUEUES, OF_LOCAL_QUEUES), self.answer)

    async def answer(self, call: AggregatedCall) -> bytes:
        """A PendingWorkloadsSummary, in JSON."""
        engine = check_leads(self.engine())
        return summary(call.version, await in_steps(self.rows(engine, call)))

    def rows(self, engine: Engine, call: AggregatedCall) -> Generator[None, None, list[bytes]]:
        """The rows, in JSON."""
        try:
            options = options_in(call.query)
        except ValueError as error:
            raise bad_request(str(error)) from None
        workloads = self.cluster().workloads

        def owners(key: str) -> tuple[OwnerReference, ...]:
            return owners_of(workloads, key)

        if call.resource == OF_QUEUES.path:
            if engine.queue(call.name) is None:
                raise not_found(VISIBILITY_GROUP, OF_QUEUES.singular, call.name)
            return rows_of_queue(engine, call.name, options, owners)
        key = f"{call.namespace}/{call.name}"
        if engine.local_queue(key) is None:
            raise not_found(VISIBILITY_GROUP, OF_LOCAL_QUEUES.singular, call.name)
        return rows_of_local_queue(engine, key, options, owners)


def owners_of(workloads: Informer[Workload], key: str) -> tuple[OwnerReference, ...]:
    """The owners of a Workload; none once it is deleted."""
    found = workloads.get(key)
    return () if found is None else found.metadata.owner_references
