"""Warning Events on Pods that name a queue but are not queued, until plain pods and pod groups are built."""

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
    """The phase of a Pod."""

    phase: str = ""


class Pod(Wire):
    """The part of a Pod that is used here."""

    metadata: ObjectMeta = ObjectMeta()
    status: PodStatus = PodStatus()


POD: Final = msgspec.json.Decoder(Pod)


def read_pod(raw: bytes) -> Pod:
    """Decode a Pod with as little of its metadata as necessary, since there may be many."""
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
    """Watches only the Pods with a queue label."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pods: Informer[Pod] = Informer(cluster.reading, PODS, read_pod, cluster.clock, labels=Label.QUEUE)
        self.pods.listen(self.pod_changed)

    async def run(self) -> None:
        """Report until cancelled."""
        await self.pods.run()

    def pod_changed(self, change: Change[Pod]) -> None:
        """Handle a Pod that was added or changed."""
        old, new = change.old, change.new
        if new is None or (old is not None and old.metadata.uid == new.metadata.uid and is_bare(old)):
            return
        if is_bare(new) and self.selected(new.metadata.namespace or ""):
            self.cluster.events.warning(ref(PODS, new.metadata), REASON, NOTE, REPORTER)

    def selected(self, namespace: str) -> bool:
        """Whether jobs of a namespace are queued; an unknown namespace counts as one where they are."""
        found, selector = self.cluster.namespaces.get(namespace), self.cluster.settings.intake.namespaces
        return found is None or selector is None or matches(selector, found.metadata.labels)


def is_bare(pod: Pod) -> bool:
    """Whether an unfinished Pod names a queue and has no controller that could be queued in its place."""
    metadata = pod.metadata
    going = pod.status.phase not in ENDED and metadata.deletion_timestamp is None
    return going and metadata.labels[Label.QUEUE] != "" and controller_of(metadata) is None
