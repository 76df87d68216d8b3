"""Admission on one machine: the embedded API asks what our webhooks would answer, in this process."""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import GROUP, Label
from pykueue.api.trees import text
from pykueue.apiserver.auth.access import stamped
from pykueue.apiserver.verbs import barepods
from pykueue.apiserver.verbs.admission import AdmissionCall
from pykueue.apiserver.verbs.offload import Offload, is_large
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.controllers.endpoints.admission import Admission, NotYetError
from pykueue.controllers.endpoints.webhooks import MUTATED, VALIDATED, AdmissionRequest, Hook, Webhooks
from pykueue.kube.port import Resource


class PodJudge(Protocol):
    """Refuses a Pod or Job that the machine would not run as it asks, with a StatusError; else warnings."""

    def __call__(self, resource: Resource, new: Tree, old: Tree | None, who: Identity) -> tuple[str, ...]:
        """What the author of the object should know."""


class AdmissionAdapter:
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
        if self.pods is None or call.who.is_controller:
            return await self.asked(call)
        work = partial(self.pods, call.served.resource, call.new, call.old, call.who)
        told = await self.offload.run(work, large=is_large(call.new), who=call.who)
        new, warnings = await self.asked(call)
        return new, (*told, *warnings)

    async def asked(self, call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        """What our webhooks would make of an object, and their warnings."""
        new = call.new
        # What our controllers write does not come back to them on a cluster either.
        if call.who.is_controller or not self.judging or call.operation == "DELETE":
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
        """Whether a cluster with our webhooks would ask one of them: `api/install/webhooks` says so to a server."""
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
