"""Answers ProvisioningRequests from the free capacity of the nodes, where there is no cluster autoscaler.

`checks.autoscaler` decides the answers. Free capacity is what the scheduler would find: without what pods use, what
pods about to be scheduled need, and what is booked for future pods.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykueue.api.checks import ProvisioningRequest
from pykueue.api.codec import decode_as
from pykueue.api.core import ObjectMeta, Tree, condition_tree
from pykueue.api.pods import PodSpec, PodTemplate, read_special, read_with
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import MICROS
from pykueue.checks.autoscaler import answer, is_booked, is_ours, waits_for_room
from pykueue.checks.requeststatus import pod_count
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import POD_TEMPLATES, PROVISIONING_REQUESTS, Kube, Patch
from pykueue.kubecontrollers.podfit import Node, blocked, requested
from pykueue.kubecontrollers.scheduler import Pod, Usage, fullness, shape_of

LOG: Final = logging.getLogger(__name__)

MANAGER: Final = "cluster-autoscaler"


class TemplateBody(Wire):
    """A PodTemplate in wire format."""

    metadata: ObjectMeta = ObjectMeta()
    template: PodTemplate = PodTemplate()


class Template(Frozen):
    """What pods of a template need."""

    namespace: str
    name: str
    version: int
    spec: PodSpec
    requests: Mapping[str, int]
    shape: str
    """The key of pods that fit on the same nodes."""

    @property
    def metadata(self) -> ObjectMeta:
        """The part of its metadata that caches need."""
        return ObjectMeta(name=self.name, namespace=self.namespace, resource_version=str(self.version))


TEMPLATE: Final = msgspec.json.Decoder(TemplateBody, dec_hook=read_special)


def read_template(raw: bytes) -> Template:
    """Decode a template."""
    body = read_with(TEMPLATE, raw)
    metadata, spec = body.metadata, body.template.spec
    version = int(metadata.resource_version or 0)
    return Template(metadata.namespace or "", metadata.name or "", version, spec, requested(spec), shape_of(spec))


class Room:
    """The simulated usage of the nodes."""

    def __init__(self, nodes: Iterable[Node], used: Mapping[str, Usage]) -> None:
        self.plots: list[tuple[Node, Usage]] = []
        for node in nodes:
            usage = Usage()
            taken = used.get(node.name)
            if taken is not None:
                usage.amounts, usage.pods = dict(taken.amounts), taken.pods
            self.plots.append((node, usage))

    def put(self, spec: PodSpec, wanted: Mapping[str, int]) -> bool:
        """Place a pod where the scheduler would; returns whether it fits."""
        fitting = [
            (fullness(node, usage), node.name, usage)
            for node, usage in self.plots
            if blocked(spec, wanted, node, usage.amounts, usage.pods) is None
        ]
        if not fitting:
            return False
        min(fitting, key=lambda one: one[:2])[2].take(wanted, 1)
        return True


class Autoscaler:
    """Answers ProvisioningRequests, oldest first."""

    def __init__(self, kube: Kube, clock: Clock, nodes: Informer[Node], pods: Informer[Pod]) -> None:
        self.kube = kube
        self.clock = clock
        self.nodes = nodes
        self.pods = pods
        self.requests: Informer[ProvisioningRequest] = Informer(
            kube, PROVISIONING_REQUESTS, lambda raw: decode_as(ProvisioningRequest, raw), clock
        )
        self.templates: Informer[Template] = Informer(kube, POD_TEMPLATES, read_template, clock)
        self.by_template = self.requests.index(template_keys)
        # One worker: what one request books is gone for the next.
        self.controller = Controller("autoscaler", self.reconcile, clock)
        self.booked: dict[str, None] = {}
        """Requests that capacity is booked for."""
        self.waiting: dict[str, str] = {}
        """Requests that wait for capacity, and since when."""
        self.consumed: dict[str, int] = {}
        """How many pods have used their booked capacity, by request."""
        self.unplaced: dict[str, Pod] = {}
        """Pods to be scheduled."""
        self.used: dict[str, Usage] = {}
        """What bound pods use of each node; the scheduler's own count is ahead of it."""
        self.hopeless: set[tuple[tuple[str, int], ...]] = set()
        """What did not fit, by shapes and numbers of pods, and will not until something is freed."""
        self.requests.listen(self.request_changed)
        self.templates.listen(self.template_changed)
        pods.listen(self.pod_changed)
        nodes.listen(self.node_changed)

    async def run(self) -> None:
        """Answer requests until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.requests.run(), name="provisioning requests")
            tasks.create_task(self.templates.run(), name="pod templates")
            for informer in (self.requests, self.templates, self.nodes, self.pods):
                await informer.synced.wait()
            tasks.create_task(self.controller.run(), name="autoscaler")

    # Triggers.

    def request_changed(self, change: Change[ProvisioningRequest]) -> None:
        """Handle a request that is new, books capacity, or releases it."""
        key, new = change.key, change.new
        if new is not None and is_booked(new):
            self.booked[key] = None
        elif key in self.booked:
            del self.booked[key]
            self.wake()
        if new is None or not waits_for_room(new):
            self.waiting.pop(key, None)
        if new is not None and is_ours(new):
            self.controller.add(key)

    def template_changed(self, change: Change[Template]) -> None:
        """Look at requests that may have lacked this template."""
        if change.old is None:
            for key in self.by_template.get(change.key):
                self.controller.add(key)

    def pod_changed(self, change: Change[Pod]) -> None:
        """Handle a pod that takes or frees capacity."""
        key, old, new = change.key, change.old, change.new
        self.count(old, -1)
        self.count(new, 1)
        if old is not None and old.node:
            self.used[old.node].take(old.requests, -1)
            if not self.used[old.node].pods:
                del self.used[old.node]
        if new is not None and new.node:
            self.used.setdefault(new.node, Usage()).take(new.requests, 1)
        if new is not None and new.unplaced is not None:
            self.unplaced[key] = new
        else:
            self.unplaced.pop(key, None)
        held = old is not None and (old.node or old.unplaced is not None)
        holds = new is not None and (new.node or new.unplaced is not None)
        if held and not holds:
            self.wake()

    def node_changed(self, change: Change[Node]) -> None:
        """Handle a node: capacity may have changed."""
        old, new = change.old, change.new
        if old is None or new is None or msgspec.structs.replace(old, version=new.version) != new:
            self.wake()

    def count(self, pod: Pod | None, sign: int) -> None:
        """Count a pod that has used its booked capacity, or no longer exists."""
        if pod is None or not pod.consumed:
            return
        key = f"{pod.namespace}/{pod.consumed}"
        left = self.consumed.get(key, 0) + sign
        if left:
            self.consumed[key] = left
        else:
            self.consumed.pop(key, None)

    def wake(self) -> None:
        """Look again at every request that did not fit, oldest first."""
        self.hopeless.clear()
        for key in sorted(self.waiting, key=lambda one: (self.waiting[one], one)):
            self.controller.add(key)

    # Reconciliation.

    async def reconcile(self, key: str) -> float | None:
        """Answer a request; returns the seconds after which to look again."""
        request = self.requests.get(key)
        if request is None or request.metadata.deletion_timestamp is not None or not is_ours(request):
            return None
        pods = self.pods_of(request)
        if pods is None:
            # It is looked at again when the templates exist.
            return None
        now = self.clock.now()
        found = answer(request, lambda: self.fits(key, pods), now)
        if found is None:
            return None
        if found.status != request.status:
            status: Tree = {"conditions": [condition_tree(one) for one in found.status.conditions]}
            if found.status.provisioning_class_details:
                status["provisioningClassDetails"] = {**found.status.provisioning_class_details}
            guard: Tree = {"uid": request.metadata.uid, "resourceVersion": request.metadata.resource_version}
            raw = await self.kube.patch(
                PROVISIONING_REQUESTS,
                request.name,
                msgspec.json.encode({"metadata": guard, "status": status}),
                request.namespace,
                how=Patch.MERGE,
                subresource="status",
                manager=MANAGER,
            )
            request = self.requests.learn(raw)
            last = found.status.conditions[-1]
            LOG.info(
                "autoscaler: answered %s=%s message=%s", last.type, last.status, last.message, extra={"object": key}
            )
        if waits_for_room(request) and self.requests.get(key) is not None:
            self.waiting[key] = request.metadata.creation_timestamp or ""
        return None if found.again is None else max(0, found.again - now) / MICROS

    def pods_of(self, request: ProvisioningRequest) -> list[tuple[Template, int]] | None:
        """The pods of a request; None if a template does not exist."""
        found: list[tuple[Template, int]] = []
        for one in request.spec.pod_sets:
            template = self.templates.get(f"{request.namespace}/{one.pod_template_ref.name}")
            if template is None:
                return None
            found.append((template, one.count))
        return found

    def fits(self, key: str, pods: Sequence[tuple[Template, int]]) -> bool:
        """Whether all these pods fit beside all others that run or have booked capacity."""
        wanted = tuple((template.shape, count) for template, count in pods)
        if wanted in self.hopeless:
            return False
        room = Room(self.nodes.objects.values(), self.used)
        for spec, amounts, count in self.promised(key):
            # Pods that do not fit take nothing from others.
            for _ in range(count):
                if not room.put(spec, amounts):
                    break
        if all(room.put(template.spec, template.requests) for template, count in pods for _ in range(count)):
            return True
        self.hopeless.add(wanted)
        return False

    def promised(self, key: str) -> Iterator[tuple[PodSpec, Mapping[str, int], int]]:
        """Unbound pods with a claim to capacity: of other requests, and about to be bound."""
        for other in self.booked:
            request, taken = self.requests.get(other), self.consumed.get(other, 0)
            if request is None or other == key or pod_count(request) <= taken:
                continue
            for template, count in self.pods_of(request) or ():
                yield template.spec, template.requests, max(0, count - taken)
                taken = max(0, taken - count)
        for pod in self.unplaced.values():
            if pod.unplaced is not None and f"{pod.namespace}/{pod.unplaced.consumes}" not in self.booked:
                yield pod.unplaced.spec, pod.requests, 1


def template_keys(request: ProvisioningRequest) -> Iterable[str]:
    """The PodTemplates that a request refers to."""
    return [f"{request.namespace}/{one.pod_template_ref.name}" for one in request.spec.pod_sets]
