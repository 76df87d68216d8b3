"""Answers `previews` and `clusterpreviews`: what changes would do, computed by a child from the leader's engine.

The child names every workload. What the caller may not read is left out of its answer here, and counted.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api.core import Tree
from pykueue.api.names import DEFAULT_QUEUE, GROUP
from pykueue.api.previews import (
    CLUSTER_PREVIEW,
    PREVIEW,
    Affected,
    Preview,
    PreviewSpec,
    PreviewStatus,
    possible_names,
    split_target,
)
from pykueue.api.query import CLUSTER_PREVIEWS, PREVIEWS
from pykueue.api.trees import mappings, text
from pykueue.base.turns import in_steps
from pykueue.bridge.previews import KIND, Question
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.queries.deadlines import deadlines
from pykueue.controllers.queries.group import RETRY_SECONDS, check_leads
from pykueue.controllers.queries.pendingworkloads import owners_of
from pykueue.controllers.queries.questions import Questions
from pykueue.controllers.queries.readable import readable
from pykueue.controllers.queries.snapshots import question
from pykueue.engine.engine import Engine
from pykueue.jobs.workload import workload_name
from pykueue.kube.aggregated import (
    AggregatedCall,
    AggregatedError,
    AggregatedResource,
    bad_request,
    unavailable,
)
from pykueue.kube.port import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    KubeError,
    NotFoundError,
    Resource,
)

OF_NAMESPACE: Final = AggregatedResource(PREVIEWS, "preview", "", PREVIEW, namespaced=True)
OF_CLUSTER: Final = AggregatedResource(CLUSTER_PREVIEWS, "clusterpreview", "", CLUSTER_PREVIEW)
BODY_MAX: Final = 1024 * 1024
"""The most bytes of changes: more would hold the event loop while they are read."""
CHANGES_MAX: Final = 1_000
CHANGE_CHARACTERS_MAX: Final = 1_000
SETTABLE: Final = {"ClusterQueue": CLUSTER_QUEUES, "Cohort": COHORTS, "LocalQueue": LOCAL_QUEUES}
BODY: Final = msgspec.json.Decoder(Preview)
STATUS: Final = msgspec.json.Decoder(PreviewStatus)


class Previews:
    """Asks a child, and shows a caller what of its answer the caller may see."""

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        engine: Callable[[], Engine],
        questions: Questions,
        machine: Callable[[], Mapping[str, int]],
    ) -> None:
        self.cluster = cluster
        self.engine = engine
        self.questions = questions
        self.machine = machine
        """What the one machine has of each resource; empty on a cluster."""

    async def answer(self, call: AggregatedCall) -> bytes:
        """A Preview with its status, in JSON; raises `AggregatedError`."""
        engine = check_leads(self.engine())
        self.questions.check(call.caller.name)
        asked = read_body(call)
        cluster = self.cluster()
        try:
            objects = tuple([one async for one in self.around(asked.spec, call.namespace)])
        except KubeError as error:
            raise unavailable(
                f"the manager could not read what the changes refer to: {error}", RETRY_SECONDS
            ) from error
        now = cluster.clock.now()
        parameters = Question(
            asked.spec,
            cluster.settings.loaded,
            now,
            objects,
            dict(self.workloads_of((*asked.spec.delete, *jobs_in(asked.spec, call.namespace)))),
            call.namespace,
            machine=self.machine(),
        )
        if asked.spec.waits:
            limits = await in_steps(deadlines(cluster))
            parameters = replace(parameters, limits=limits, learned=cluster.run_times.learned(now))
        try:
            encoded = msgspec.msgpack.encode(parameters)
        except OverflowError as error:
            raise bad_request(f"a number in the changes is too large: {error}") from None
        pieces = question(KIND, encoded, engine)
        found = STATUS.decode(await self.questions.ask(call.caller.name, pieces))
        kind = PREVIEW if call.namespace else CLUSTER_PREVIEW
        status = self.with_jobs(await self.shown(found, call))
        return msgspec.json.encode(Preview(kind=kind, spec=asked.spec, status=status))

    # What the changes refer to.

    async def around(self, spec: PreviewSpec, namespace: str) -> AsyncIterator[Tree]:
        """The objects that the changes refer to, and that the engine does not know whole."""
        jobs = [one for one in spec.objects if one.get("kind") in ("Job", "Workload")]
        spaces = {text(one, "metadata", "namespace") or namespace or "default" for one in jobs}
        if namespace:
            spaces &= {namespace}
        if spaces:
            for resource in (WORKLOAD_PRIORITY_CLASSES, PRIORITY_CLASSES, RUNTIME_CLASSES):
                async for one in self.listed(resource, ""):
                    yield one
            async for one in self.listed(LIMIT_RANGES, next(iter(spaces)) if len(spaces) == 1 else ""):
                yield one
        for name in sorted(spaces):
            for made in self.known_of(name):
                yield made
        for resource, key in dict.fromkeys(self.targets(() if namespace else (*spec.set, *spec.drain))):
            within, _, name = key.rpartition("/")
            try:
                raw = await self.cluster().reading.get(resource, name, within)
            except NotFoundError:
                continue
            tree: Tree = msgspec.json.decode(raw)
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **tree}

    async def listed(self, resource: Resource, namespace: str) -> AsyncIterator[Tree]:
        """The objects of a kind, of one namespace or of all."""
        async for page in self.cluster().reading.pages(resource, namespace):
            for _, one in mappings(msgspec.json.decode(page), "items"):
                yield {"apiVersion": resource.api_version, "kind": resource.kind, **one}  # type: ignore[dict-item]  # decoded JSON

    def known_of(self, namespace: str) -> Iterator[Tree]:
        """A namespace and the LocalQueue for jobs that name none, as far as they exist."""
        cluster = self.cluster()
        found = cluster.namespaces.get(namespace)
        if found is not None:
            labels: Tree = dict(found.metadata.labels)
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
        queue = cluster.local_queues.get(f"{namespace}/{DEFAULT_QUEUE}")
        if queue is not None:
            metadata: Tree = {"name": DEFAULT_QUEUE, "namespace": namespace}
            spec: Tree = {"clusterQueue": queue.spec.cluster_queue}
            yield {"apiVersion": LOCAL_QUEUES.api_version, "kind": "LocalQueue", "metadata": metadata, "spec": spec}

    def targets(self, assignments: Iterable[str]) -> Iterator[tuple[Resource, str]]:
        """The objects that assignments may be for."""
        cluster = self.cluster()
        known = {
            "ClusterQueue": cluster.cluster_queues.objects.keys(),
            "Cohort": cluster.cohorts.objects.keys(),
            "LocalQueue": cluster.local_queues.objects.keys(),
        }
        for one in assignments:
            kind, rest = split_target(one) or ("", "")
            if kind in SETTABLE:
                names = (rest, *possible_names(rest))
                yield from ((SETTABLE[kind], name) for name in names if name in known[kind])

    def workloads_of(self, targets: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The Jobs among these targets, and their Workloads."""
        for one in targets:
            kind, key = split_target(one) or ("", "")
            if kind != JOBS.kind:
                continue
            namespace, _, name = key.rpartition("/")
            job = self.cluster().jobs.get(f"{namespace or 'default'}/{name}")
            if job is not None:
                made = workload_name(kind=JOBS.kind, group=JOBS.group, name=name, uid=job.metadata.uid or "")
                yield f"{namespace or 'default'}/{name}", f"{namespace or 'default'}/{made}"

    # What the caller may see.

    async def shown(self, found: PreviewStatus, call: AggregatedCall) -> PreviewStatus:
        """The answer without the names that the caller may not read."""
        caller = call.caller
        spaces = {one.partition("/")[0] for row in found.affected for one in (row.workload, row.by) if one}
        found = redacted(found, await readable(caller, call.namespace, spaces))
        if not await caller.may("list", GROUP, CLUSTER_QUEUES.plural, ""):
            locals_ = self.cluster().local_queues.objects.items()
            own = {one.spec.cluster_queue for key, one in locals_ if key.partition("/")[0] == call.namespace}
            found = replace(found, queues=tuple(one for one in found.queues if one.name in own))
        return found

    def with_jobs(self, found: PreviewStatus) -> PreviewStatus:
        """The answer with the names of Jobs."""
        return replace(found, affected=tuple(replace(one, job=one.job or self.job_of(one)) for one in found.affected))

    def job_of(self, one: Affected) -> str:
        """The name of the Job of a workload; empty if it has none."""
        return next((owner.name for owner in owners_of(self.cluster().workloads, one.workload) if owner.controller), "")


def read_body(call: AggregatedCall) -> Preview:
    """The question; raises `AggregatedError` if it is none."""
    if len(call.body) > BODY_MAX:
        message = f"the changes are larger than {BODY_MAX >> 10} KiB; split them"
        raise AggregatedError(413, "RequestEntityTooLarge", message)
    try:
        found = BODY.decode(call.body)
    except msgspec.DecodeError as error:
        raise bad_request(f"this is no {PREVIEW if call.namespace else CLUSTER_PREVIEW}: {error}") from None
    spec = found.spec
    named = (*spec.set, *spec.delete, *spec.drain)
    if len(named) > CHANGES_MAX or any(len(one) > CHANGE_CHARACTERS_MAX for one in named):
        raise bad_request(
            f"set, delete and drain may have {CHANGES_MAX} entries of {CHANGE_CHARACTERS_MAX} characters; ask in parts"
        )
    return found


def jobs_in(spec: PreviewSpec, namespace: str) -> Iterator[str]:
    """The Jobs among the objects, as targets."""
    for one in spec.objects:
        if one.get("kind") == JOBS.kind:
            within = text(one, "metadata", "namespace") or namespace or "default"
            yield f"job/{within}/{text(one, 'metadata', 'name')}"


def redacted(found: PreviewStatus, namespaces: frozenset[str]) -> PreviewStatus:
    """The answer with workloads of other namespaces counted, not named."""
    hidden: dict[str, int] = dict(found.hidden)
    rows: list[Affected] = []
    for one in found.affected:
        if one.workload.partition("/")[0] not in namespaces:
            hidden[one.effect] = hidden.get(one.effect, 0) + 1
        elif one.by and one.by.partition("/")[0] not in namespaces:
            rows.append(replace(one, by=""))
        else:
            rows.append(one)
    return replace(found, affected=tuple(rows), hidden=hidden)
