"""Read the queues of a server with the rights of one user."""

from collections.abc import Awaitable

from pykueue.api import core
from pykueue.api.trees import Tree
from pykueue.base.struct import Frozen
from pykueue.cli.objects import everything
from pykueue.cli.queues.usage import Usage, local_rows, usage
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.kube.port import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, DeniedError, Kube, NotFoundError


class Queues(Frozen):
    """The queues that a user may read."""

    clusterqueues: tuple[Tree, ...] | None
    """None if the user may not read them."""
    cohorts: tuple[Tree, ...] = ()
    localqueues: tuple[Tree, ...] = ()
    note: str = ""
    """What is left out, and why."""

    def usage(self) -> list[Usage]:
        """How much of their quota they use; of LocalQueues, if ClusterQueues may not be read."""
        return local_rows(self.localqueues) if self.clusterqueues is None else usage(self.clusterqueues, self.cohorts)


async def read_queues(kube: Kube, namespace: str, *, locally: bool = True) -> Queues:
    """The queues; LocalQueues only of `namespace` where others may not be read.

    Without `locally`, LocalQueues are read only where ClusterQueues may not be.
    """
    try:
        owners = tuple(await everything(kube, CLUSTER_QUEUES))
        cohorts = tuple(await everything(kube, COHORTS))
    except DeniedError as error:
        if error.code == UNAUTHORIZED:
            raise
        note = f"you may not read ClusterQueues: showing the usage of namespace {namespace}, without quotas"
        return Queues(None, (), tuple(await everything(kube, LOCAL_QUEUES, namespace)), note)
    return Queues(owners, cohorts, await read_localqueues(kube, namespace) if locally else ())


async def read_localqueues(kube: Kube, namespace: str) -> tuple[Tree, ...]:
    """The LocalQueues of all namespaces, or of one if the others may not be read."""
    found, _ = await permitted(everything(kube, LOCAL_QUEUES))
    if found is None:
        found, _ = await permitted(everything(kube, LOCAL_QUEUES, namespace))
    return tuple(found or ())


async def permitted(found: Awaitable[list[core.Tree]]) -> tuple[list[core.Tree] | None, str]:
    """Objects, or None and the server's message if this user may not read them or the server does not have the kind.

    Raises `DeniedError` if the credentials are rejected.
    """
    try:
        return await found, ""
    except (DeniedError, NotFoundError) as error:
        if error.code == UNAUTHORIZED:
            raise
        return None, error.message
