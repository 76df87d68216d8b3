"""Create the namespace and LocalQueues of a new user."""

from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import GROUP
from pykueue.api.trees import text
from pykueue.base.clock import SystemClock
from pykueue.cli.objects import names
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import CredentialError
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, ExistsError, Kube, KubeError

API_VERSION: Final = f"{GROUP}/v1beta2"


class PrepareError(Exception):
    """The namespace or queues could not be created."""


async def prepare(connection: Connection, namespace: str, queues: tuple[str, ...], *, keep: bool) -> list[str]:
    """Create a namespace with LocalQueues for these ClusterQueues, or for all; return their names.

    With `keep` and no queues given, existing LocalQueues of the namespace are kept and none is added.
    """
    kube = HttpKube(connection, SystemClock(), agent="pykueue-user")
    try:
        there = await names(kube, CLUSTER_QUEUES)
        wrong = [name for name in queues if name not in there]
        if wrong:
            raise PrepareError(
                f"--queue: no ClusterQueue {wrong[0]!r}; "
                + (f"use one of: {', '.join(there)}" if there else "none exists yet, create one first")
            )
        if keep and not queues and (kept := await names(kube, LOCAL_QUEUES, namespace)):
            return kept
        await ensure(kube, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for name in queues or there:
            await ensure(
                kube,
                {
                    "apiVersion": API_VERSION,
                    "kind": "LocalQueue",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {"clusterQueue": name},
                },
            )
        return list(queues or there)
    except (KubeError, CredentialError) as error:
        raise PrepareError(f"{connection.server}: {error}") from error
    finally:
        await kube.close()


async def ensure(kube: Kube, tree: Tree) -> None:
    """Create an object unless it exists."""
    namespace = text(tree, "metadata", "namespace")
    try:
        await kube.create(LOCAL_QUEUES if namespace else NAMESPACES, msgspec.json.encode(tree), namespace)
    except ExistsError:
        return
