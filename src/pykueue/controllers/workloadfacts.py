"""Builds the level of a Workload for the engine: the object, what it depends on, and reasons not written yet."""

import logging
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from pykueue.api.names import WorkloadCondition
from pykueue.api.pods import LimitRange
from pykueue.api.workload import Workload, held
from pykueue.bridge import inbound
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.pendingreasons import PendingReasons
from pykueue.controllers.writebackoff import WriteBackoff
from pykueue.engine import model
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Gone, Seen
from pykueue.kube.informer import version_of

LOG: Final = logging.getLogger(__name__)


class WorkloadFacts:
    """Reads Workloads, and passes them to the engine."""

    def __init__(
        self,
        cluster: Cluster,
        engine: Engine,
        reasons: PendingReasons,
        backoff: WriteBackoff,
        observe: Callable[[Fact], None],
    ) -> None:
        self.cluster = cluster
        self.engine = engine
        self.reasons = reasons
        self.backoff = backoff
        self.observe = observe
        """Passes a fact to the engine."""
        self.read: dict[str, inbound.Reading] = {}
        """What was read of each Workload."""
        self.around: dict[str, inbound.Surroundings] = {}
        """What the Workloads of each namespace depend on."""

    def see(self, key: str, seen: Workload) -> None:
        """Pass a Workload to the engine; a finished Workload is passed as deleted."""
        self.reasons.see(key, seen, self.cluster.clock.now())
        if held(seen, WorkloadCondition.FINISHED) is not None:
            self.read.pop(key, None)
            if self.engine.item(key) is not None:
                self.observe(Gone("Workload", key))
            return
        try:
            found = self.level(key, seen)
        except ValueError as error:
            LOG.error("workloads: ignored an invalid Workload error=%s", error, extra={"object": key})
            self.observe(Gone("Workload", key))
            return
        self.observe(Seen(found, version_of(seen)))
        self.share(key)

    def remove(self, key: str) -> None:
        """Pass the deletion of a Workload to the engine."""
        self.read.pop(key, None)
        self.observe(Gone("Workload", key))

    def share(self, key: str) -> None:
        """Replace the cached pod sets by those of the engine, which equal workloads share."""
        level, known = self.engine.workload(key), self.read[key]
        shared = known.pod_sets if level is None else level.pod_sets
        if shared is not known.pod_sets and shared == known.pod_sets:
            self.read[key] = replace(known, pod_sets=shared)

    def level(self, key: str, seen: Workload) -> model.Workload:
        """The level of a Workload for the engine."""
        around = self.surroundings(seen.namespace)
        known = self.read.get(key)
        if known is None or not known.holds_of(seen, around):
            known = self.read[key] = inbound.read_workload(seen, around)
        found = inbound.workload(seen, around, known)
        problem = self.backoff.reason(key)
        if problem:
            found = replace(found, held_off=True, problem=problem)
        return self.reasons.level(key, found)

    def surroundings(self, namespace: str) -> inbound.Surroundings:
        """What the Workloads of a namespace depend on besides the objects themselves."""
        found = self.around.get(namespace)
        if found is None:
            objects = self.cluster.limit_ranges.objects
            ranges = tuple(objects[key] for key in sorted(objects) if key.partition("/")[0] == namespace)
            # Namespaces without a LimitRange share one object, and so what was read of equal templates.
            shared = namespace and not ranges
            found = self.around[namespace] = self.surroundings("") if shared else self.with_ranges(ranges)
        return found

    def with_ranges(self, ranges: tuple[LimitRange, ...]) -> inbound.Surroundings:
        """The surroundings in a namespace with these LimitRanges."""
        chosen = self.cluster.settings.intake
        return inbound.Surroundings(
            chosen.resources, ranges, self.cluster.runtime_classes.objects, chosen.boosts, chosen.unqueued
        )

    def forget_surroundings(self, namespace: str) -> None:
        """Drop what the Workloads of a namespace depend on, or of all for an empty name; it is read again on demand."""
        for name in [namespace] if namespace else list(self.around):
            self.around.pop(name, None)
