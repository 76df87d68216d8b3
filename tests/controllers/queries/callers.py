"""Callers of the aggregated API whose rights are known."""

from pykueue.api.names import GROUP


class Reader:
    """A caller who may list Workloads of some namespaces (all if one is empty), and perhaps ClusterQueues."""

    name = "ann"

    def __init__(self, *namespaces: str, queues: bool = False) -> None:
        self.namespaces = namespaces
        self.queues = queues
        self.asked: list[str] = []

    async def may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        assert (verb, group) == ("list", GROUP)
        self.asked.append(namespace)
        return self.queues if resource == "clusterqueues" else namespace in self.namespaces
