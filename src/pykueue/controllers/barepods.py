"""Which Pods ask for a queue in vain? A Warning Event on each, until plain pods and pod groups are built."""

from typing import Final

import msgspec

from pykueue.api.core import ObjectMeta, controller_of, matches
from pykueue.api.names import Label
from pykueue.base.struct import Wire
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.events import ref
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import PODS

REPORTER: Final = "kueue-pod-controller"
REASON: Final = "Unsupported"
NOTE: Final = (
    "this pod runs outside the quota: plain pods and pod groups are not queued yet, so its queue name has no effect; "
    "create a Job instead"
)
ENDED: Final = frozenset({"Succeeded", "Failed"})


class PodStatus(Wire):
    """How far a Pod has come."""

    phase: str = ""


class Pod(Wire):
    """What of a Pod matters here."""

    metadata: ObjectMeta = ObjectMeta()
    status: PodStatus = PodStatus()


POD: Final = msgspec.json.Decoder(Pod)


def read_pod(raw: bytes) -> Pod:
    """The Pod, with no more of its metadata than is needed: there may be many."""
    pod = POD.decode(raw)
    metadata = pod.metadata
    owner = controller_of(metadata)
    kept = ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        deletion_timestamp=metadata.deletion_timestamp,
        labels={Label.QUEUE: metadata.labels.get(Label.QUEUE, "")},
        owner_references=() if owner is None else (owner,),
    )
    return Pod(kept, pod.status)


class BarePods:
    """Follows the Pods with a queue label, and no others."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pods: Informer[Pod] = Informer(cluster.reading, PODS, read_pod, cluster.clock, labels=Label.QUEUE)
        self.pods.listen(self.hear)

    async def run(self) -> None:
        """Report until cancelled."""
        await self.pods.run()

    def hear(self, change: Change[Pod]) -> None:
        """A Pod has come or changed."""
        old, new = change.old, change.new
        if new is None or (old is not None and old.metadata.uid == new.metadata.uid and is_bare(old)):
            return
        if is_bare(new) and self.selected(new.metadata.namespace or ""):
            self.cluster.events.warning(ref(PODS, new.metadata), REASON, NOTE, REPORTER)

    def selected(self, namespace: str) -> bool:
        """Whether jobs of a namespace are queued; one that we have not heard of yet counts as if they were."""
        found, selector = self.cluster.namespaces.get(namespace), self.cluster.settings.intake.namespaces
        return found is None or selector is None or matches(selector, found.metadata.labels)


def is_bare(pod: Pod) -> bool:
    """Whether a Pod that has not ended names a queue and has no controller that could be queued in its place."""
    metadata = pod.metadata
    going = pod.status.phase not in ENDED and metadata.deletion_timestamp is None
    return going and metadata.labels[Label.QUEUE] != "" and controller_of(metadata) is None
