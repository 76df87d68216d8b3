"""What runs where there is no cluster? An API of our own on a store, what Kubernetes itself would do, our controllers.

The controllers are those of a cluster (`app`); the API's admission asks what its webhooks would answer. Who runs the
pods comes from outside: processes of this machine (`appmachine`), or a script in a test (`testing.embedded`).
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pykueue.api.configfile import Loaded
from pykueue.api.core import Tree
from pykueue.api.names import GROUP, Label
from pykueue.api.trees import text
from pykueue.app import CONTROLLERS, Controllers, end
from pykueue.base.clock import Clock
from pykueue.base.datafolder import DATABASE
from pykueue.base.struct import Frozen
from pykueue.bridge.outbound import pending_condition
from pykueue.controllers.admission import Admission, NotYetError
from pykueue.controllers.webhooks import MUTATED, VALIDATED, AdmissionRequest, Hook, Webhooks
from pykueue.kube.lease import Always
from pykueue.kube.notices import Notice
from pykueue.kube.port import NAMESPACES, ExistsError, Resource
from pykueue.kubecontrollers.autoscaler import Autoscaler
from pykueue.kubecontrollers.eventretention import EventRetention
from pykueue.kubecontrollers.finishedretention import JOBS_KEPT, PODS_KEPT, Retention
from pykueue.kubecontrollers.garbage import Garbage
from pykueue.kubecontrollers.jobcontroller import JobController
from pykueue.kubecontrollers.lostpods import LostPods
from pykueue.kubecontrollers.namespaces import Namespaces
from pykueue.kubecontrollers.scheduler import Scheduler
from pykueue.kubecontrollers.ttl import Ttl
from pykueue.local import barepods
from pykueue.local.access import stamped
from pykueue.local.admission import AdmissionCall
from pykueue.local.beginnings import begin
from pykueue.local.catalog import Catalog
from pykueue.local.identity import SYSTEM, Identity
from pykueue.local.inprocess import LocalKube
from pykueue.local.offload import Offload, is_large
from pykueue.local.registry import Registry
from pykueue.local.statuses import StatusError
from pykueue.local.store import Store

LOG: Final = logging.getLogger(__name__)

PARTS: Final = frozenset(CONTROLLERS) - {"pods", "webhooks"}
"""The API asks admission in this process instead of webhooks, and refuses pods that would run outside the quota."""
LAG_SECONDS: Final = 0.1
"""By so much the number of a Job's ready pods may lag behind, for fewer writes."""


class LocalPlan(Frozen):
    """What to run on one machine."""

    loaded: Loaded
    data: Path | None = None
    """The folder with everything that outlives this process; None: all is in memory, and gone at its end."""
    parts: frozenset[str] = PARTS
    admission: bool = True
    """Whether what is written is judged and completed as our webhooks would."""
    journal: Path | None = None
    identity: str = "pykueue"
    seed: int = 0
    jobs_kept: int | None = JOBS_KEPT
    pods_kept: int | None = PODS_KEPT
    lag_seconds: float = LAG_SECONDS
    autoscaler: bool = True
    """Whether ProvisioningRequests of the classes that we know are answered from the room on the nodes."""


class PodJudge(Protocol):
    """Refuses a Pod or Job that the machine would not run as it asks, with a StatusError; else warnings."""

    def __call__(self, resource: Resource, new: Tree, old: Tree | None, who: Identity) -> tuple[str, ...]:
        """What the author of the object should know."""


class Doorkeeper:
    """Completes and judges what is written, as the webhooks of a cluster do, and notes who created it."""

    def __init__(self, *, judging: bool = True) -> None:
        self.judging = judging
        self.offload = Offload(inline=True)
        """Where large objects are judged; the registry's own once there is one."""
        self.admission: Admission | None = None
        """Absent while no controllers are there to know the cluster; then nothing is judged."""
        self.pods: PodJudge | None = None
        """Says what the machine that runs the pods makes of their specs; absent where no machine does."""

    async def __call__(self, call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        """The object as it is to be, and warnings; a refusal is a StatusError."""
        if call.stage == "mutate" or call.operation == "DELETE":
            # Subresources too: a binding carries annotations.
            new = stamped(call.operation, call.served.resource, call.new, call.old, call.who)
            return await self.asked(msgspec.structs.replace(call, new=new))
        if self.pods is None or call.who is SYSTEM:
            return await self.asked(call)
        work = partial(self.pods, call.served.resource, call.new, call.old, call.who)
        told = await self.offload.run(work, large=is_large(call.new), who=call.who)
        new, warnings = await self.asked(call)
        return new, (*told, *warnings)

    async def asked(self, call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        """What our webhooks would make of an object, and their warnings."""
        new = call.new
        # What our controllers write does not come back to them on a cluster either.
        if call.who is SYSTEM or not self.judging or call.operation == "DELETE":
            return new, ()
        if call.stage == "validate" and not call.subresource:
            warnings = barepods.judge(call)
            if warnings:
                return new, warnings
        if self.admission is None:
            return new, ()
        hook = Hook(call.stage, call.served.resource.group, call.served.resource.kind)
        try:
            if not await self.asks(self.admission, hook, call):
                return new, ()
            request = AdmissionRequest(
                uid="",
                operation=call.operation,
                namespace=text(new, "metadata", "namespace"),
                name=text(new, "metadata", "name"),
                sub_resource=call.subresource,
                new=dict(new),
                old=None if call.old is None else dict(call.old),
            )
            perform = partial(self.offload.run, large=is_large(new), who=call.who)
            verdict = await Webhooks(self.admission.world, perform).verdict(hook, request)
        except NotYetError as error:
            raise denied(hook, 503, "ServiceUnavailable", str(error)) from error
        if not verdict.allowed:
            raise denied(hook, 403, "Forbidden", verdict.message)
        return (new if verdict.tree is None else owned(verdict.tree)), verdict.warnings

    async def asks(self, admission: Admission, hook: Hook, call: AdmissionCall) -> bool:
        """Whether a cluster with our webhooks would ask one of them: `api/manifests_webhooks` says so to a server."""
        if hook.stage == "mutate" and call.operation != "CREATE":
            return False
        if hook.group == GROUP:
            kinds = MUTATED if hook.stage == "mutate" else VALIDATED
            status = (hook.stage, hook.kind, call.subresource) == ("validate", "Workload", "status")
            return hook.kind in kinds and (call.subresource == "" or status)
        if (hook.group, hook.kind) != ("batch", "Job") or call.subresource:
            return False
        world = await admission.world(text(call.new, "metadata", "namespace"), None)
        if not world.selected:
            return False
        if world.queueless or names_queue(call.new) or (call.old is not None and names_queue(call.old)):
            return True
        # A policy gives such a Job the default queue first, where there is one.
        return hook.stage == "mutate" and world.default_queue


def denied(hook: Hook, code: int, reason: str, message: str) -> StatusError:
    """A refusal in the words in which an API server tells of a webhook's."""
    name = f"{hook.stage[0]}{hook.kind.lower()}.kb.io"
    return StatusError(code, reason, f'admission webhook "{name}" denied the request: {message}')


def names_queue(tree: Tree) -> bool:
    """Whether a Job names a queue; an empty name is none."""
    return text(tree, "metadata", "labels", Label.QUEUE) != ""


def owned(tree: Mapping[str, object]) -> Tree:
    """What admission made of an object, as one of its own."""
    made: Tree = msgspec.json.decode(msgspec.json.encode(tree))
    return made


class Local:
    """Store, API, and all that acts on it but for the runner of pods."""

    def __init__(self, plan: LocalPlan, clock: Clock) -> None:
        self.plan = plan
        self.clock = clock
        self.store = Store.open(None if plan.data is None else plan.data / DATABASE, clock)
        self.catalog = Catalog()
        self.doorkeeper = Doorkeeper(judging=plan.admission)
        # What is in memory is a test's, and does the same each time.
        luck = random.Random(plan.seed) if plan.data is None else None
        self.registry = Registry(self.store, self.catalog, clock, self.doorkeeper, luck=luck)
        self.doorkeeper.offload = self.registry.offload
        self.kube = LocalKube(self.registry)
        self.jobs = JobController(self.kube, clock, self.tell, batch=plan.lag_seconds)
        scheduler = Scheduler(self.kube, clock, self.kube.bind, self.tell)
        self.works: dict[str, Callable[[], Coroutine[None, None, None]]] = {
            "jobs": self.jobs.run,
            "ttl": Ttl(self.kube, clock, self.jobs.jobs).run,
            "retention": Retention(
                self.kube, clock, self.jobs.jobs, self.jobs.pods, most_jobs=plan.jobs_kept, most_pods=plan.pods_kept
            ).run,
            "event retention": EventRetention(self.kube, clock).run,
            "garbage": Garbage(self.kube, clock, self.resources).run,
            "namespaces": Namespaces(self.kube, clock, self.resources).run,
            "scheduler": scheduler.run,
            "lost pods": LostPods(self.kube, clock, scheduler.nodes, scheduler.pods).run,
        }
        """What goes on from start to end, by name."""
        if plan.autoscaler:
            self.works["autoscaler"] = Autoscaler(self.kube, clock, scheduler.nodes, scheduler.pods).run
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.controllers = self.new_controllers(plan.loaded, plan.parts)

    def new_controllers(self, loaded: Loaded, parts: frozenset[str]) -> Controllers:
        """Our controllers with a Configuration; from now on admission goes by it too."""
        plan = self.plan
        made = Controllers(
            LocalKube(self.registry),
            LocalKube(self.registry),
            Always(),
            self.clock,
            loaded,
            parts=parts,
            journal=plan.journal,
            identity=plan.identity,
            seed=plan.seed,
        )
        self.doorkeeper.admission = made.admission
        return made

    def reason(self, key: str) -> Tree | None:
        """The condition that is to come on a Workload that waits; None where the engine knows no more than it says."""
        found = self.controllers.pump.reasons.of(key)
        return None if found is None else pending_condition(found)

    def resources(self) -> Iterable[Resource]:
        """Every kind of which there are objects, in the version in which they are stored."""
        return [one.resource for one in self.catalog.stored()]

    def tell(self, notice: Notice) -> None:
        """Have an Event written, by whoever writes those of our controllers: names of Events tell instants apart."""
        self.controllers.cluster.events.say(
            "Warning" if notice.warning else "Normal",
            notice.about,
            notice.reason,
            notice.note,
            notice.reporter,
            notice.action,
        )

    async def prepare(self) -> None:
        """Make the objects that are there from the first moment on."""
        await begin(self.registry)
        name = self.plan.loaded.configuration.namespace
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        with contextlib.suppress(ExistsError):
            await self.kube.create(NAMESPACES, body)

    def start(self) -> None:
        """Begin to act."""
        for name, work in self.works.items():
            self.begin(name, work)
        self.controllers.start()

    def begin(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do something until the end."""
        self.tasks[name] = asyncio.get_running_loop().create_task(work(), name=name)

    async def attend(self, stop: asyncio.Event) -> None:
        """Return when told to stop; raises what any of us fails with."""
        waiting = asyncio.ensure_future(self.controllers.attend(stop))
        try:
            done, _ = await asyncio.wait({waiting, *self.tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            for name, task in self.tasks.items():
                assert not task.done(), f"{name} ended by itself, and nobody told it to"
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})

    def failures(self) -> Iterable[BaseException]:
        """What ended anything that should go on."""
        for task in (*self.tasks.values(), *self.controllers.tasks.values()):
            if task.done() and not task.cancelled():
                error = task.exception()
                if error is not None:
                    yield error

    async def land(self) -> None:
        """Stop acting, in the order in which one needs the other."""
        await self.controllers.land()
        await end(self.tasks, *self.tasks)

    async def restart(self, loaded: Loaded, parts: frozenset[str]) -> None:
        """Stop our controllers, and start them with another Configuration on the objects that are there."""
        await self.controllers.land()
        self.controllers = self.new_controllers(loaded, parts)
        self.controllers.start()

    async def close(self) -> None:
        """Let go of the store."""
        await self.kube.close()
        await self.store.close()
