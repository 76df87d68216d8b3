"""Find a job's topmost queued owner by following owner references."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from pykueue.api.config.types import FRAMEWORKS
from pykueue.api.core import KubeObject, ObjectMeta, OwnerReference, controller_of
from pykueue.base.struct import Frozen
from pykueue.jobs.kind import Described
from pykueue.jobs.seen import Ancestor, Ancestry
from pykueue.jobs.workload import queue_label
from pykueue.kube.port import DeniedError, Kube, NotFoundError, Resource

LOG: Final = logging.getLogger(__name__)

DEPTH_MAX: Final = 10
REMEMBERED: Final = 4096
NO_OWNERS: Final = Ancestry()
OBJECT: Final = msgspec.json.Decoder(KubeObject)


class OwnerLink(Frozen):
    """An owner: its identity, its own owner, and, for a queued kind, its state."""

    uid: str
    above: OwnerReference | None
    ancestor: Ancestor | None = None


def group_kind(reference: OwnerReference) -> tuple[str, str]:
    """The group and kind that a reference names."""
    group, slash, _ = reference.api_version.rpartition("/")
    return (group if slash else ""), reference.kind


def known_kinds(external: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """The kinds of owner to look at: every framework, external frameworks, and ReplicaSet."""
    found = {("apps", "ReplicaSet")}
    for name in (*FRAMEWORKS.values(), *external):
        kind, _, rest = name.partition(".")
        found.add((rest.partition(".")[2], kind))
    return frozenset(found)


class Ancestors:
    """Finds the topmost owner of a job that is queued itself."""

    def __init__(
        self,
        kube: Kube,
        queued: Mapping[tuple[str, str], Callable[[str], Described | None]],
        admitted: Callable[[tuple[str, str], str], bool],
        *,
        external: tuple[str, ...] = (),
        queueless: bool = False,
    ) -> None:
        self.kube = kube
        self.queued = queued
        """By group and kind of queued jobs: returns the object of a key."""
        self.admitted = admitted
        """Whether the job of this kind and key has an unfinished Workload that is admitted."""
        self.queueless = queueless
        self.known = known_kinds(external)
        self.remembered: OrderedDict[str, OwnerReference | None] = OrderedDict()
        """The owners of owners of other kinds, by UID; they never change."""

    async def of(self, job: Described) -> Ancestry:
        """What is known of a job's owners."""
        reference = controller_of(job.metadata)
        if reference is None or group_kind(reference) not in self.known:
            return NO_OWNERS
        namespace = job.metadata.namespace or ""
        top: Ancestor | None = None
        passed = {job.metadata.uid}
        while reference is not None and group_kind(reference) in self.known:
            if reference.uid in passed:
                # Objects that own each other in a cycle belong to no queued owner.
                return Ancestry(too_deep=True)
            link = await self.owner(reference, namespace)
            if link is None:
                return Ancestry(missing=True)
            if link.uid != reference.uid:
                break
            top = link.ancestor or top
            if len(passed) > DEPTH_MAX:
                return Ancestry(too_deep=True)
            passed.add(link.uid)
            reference = link.above
        return Ancestry(top)

    async def owner(self, reference: OwnerReference, namespace: str) -> OwnerLink | None:
        """The object that a reference names; None if it does not exist."""
        kind = group_kind(reference)
        find = self.queued.get(kind)
        if find is None:
            return await self.other(reference, namespace)
        key = f"{namespace}/{reference.name}"
        found = find(key)
        if found is None:
            return None
        metadata = found.metadata
        queue = queue_label(metadata)
        counts = bool(queue) or self.queueless
        ancestor = Ancestor(queue, self.admitted(kind, key)) if counts else None
        return OwnerLink(metadata.uid or "", controller_of(metadata), ancestor)

    async def other(self, reference: OwnerReference, namespace: str) -> OwnerLink:
        """An owner of a kind that is not queued here; only its own owner matters."""
        if reference.uid in self.remembered:
            self.remembered.move_to_end(reference.uid)
            return OwnerLink(reference.uid, self.remembered[reference.uid])
        group, kind = group_kind(reference)
        version = reference.api_version.rpartition("/")[2]
        resource = Resource(group, version, f"{kind.lower()}s", kind, True)
        try:
            metadata = OBJECT.decode(await self.kube.get(resource, reference.name, namespace)).metadata
        except NotFoundError:
            # Dependents of a deleted owner are deleted too, so there is nothing to wait for.
            return OwnerLink(reference.uid, None)
        except DeniedError as error:
            LOG.info("ancestors: may not read an owner owner=%s/%s error=%s", namespace, reference.name, error)
            metadata = ObjectMeta(uid=reference.uid)
        link = OwnerLink(metadata.uid or "", controller_of(metadata))
        if link.uid == reference.uid:
            self.remembered[link.uid] = link.above
            if len(self.remembered) > REMEMBERED:
                self.remembered.popitem(last=False)
        return link
