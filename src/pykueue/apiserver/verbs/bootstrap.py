"""Creates the namespaces and priority classes that exist in every cluster."""

from typing import Final

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.validation_rest import SYSTEM_CLASSES
from pykueue.apiserver.storage.store import Key
from pykueue.apiserver.verbs.registry import Registry
from pykueue.apiserver.wire.writeterms import Terms

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
USES: Final = {
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    ),
}
TERMS: Final = Terms(manager="kube-apiserver")


async def begin(registry: Registry) -> None:
    """Create the missing initial objects of a cluster."""
    for name in NAMESPACES:
        await ensure(registry, "", "namespaces", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})
    for name, value in SYSTEM_CLASSES.items():
        tree: Tree = {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name},
            "value": value,
            "description": USES[name],
        }
        await ensure(registry, "scheduling.k8s.io", "priorityclasses", tree)


async def ensure(registry: Registry, group: str, plural: str, tree: Tree) -> None:
    """Create an object unless it exists."""
    served = registry.catalog.find(group, "v1", plural)
    metadata = tree["metadata"]
    assert served is not None
    assert isinstance(metadata, dict)
    if registry.store.latest(Key(served.storage, "", str(metadata["name"]))) is None:
        await registry.create(served, tree, "", TERMS)
