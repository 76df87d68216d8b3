"""Admission for the embedded API server: run our webhooks in process."""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import GROUP, Label
from pykueue.api.trees import text
from pykueue.apiserver.auth.access import with_recorded_creator
from pykueue.apiserver.verbs import barepods
from pykueue.apiserver.verbs.admission import AdmissionCall
from pykueue.apiserver.verbs.offload import Offload
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.controllers.endpoints.admission import Admission, NotYetError
from pykueue.controllers.endpoints.webhooks import MUTATED, VALIDATED, AdmissionRequest, Hook, Webhooks, WriteOptions
from pykueue.kube.port import Resource


class PodJudge(Protocol):
    """Rejects a Pod or Job that the machine cannot run as specified, with a StatusError; else returns warnings."""

    def __call__(self, resource: Resource, new: Tree, old: Tree | None, who: Identity) -> tuple[str, ...]:
        """Warnings for the author of the object."""


class AdmissionAdapter:
    """Defaults and validates objects as the webhooks of a cluster do, and records their creator."""

    def __init__(self, *, judging: bool = True) -> None:
        self.judging = judging
        self.offload = Offload(inline=True)
        """Runs the validation of large objects; replaced by that of the registry."""
        self.admission: Admission | None = None
        """None until the controllers exist; then nothing is validated."""
        self.pods: PodJudge | None = None
        """Validates pod specs for the machine that runs them; None if pods are not run."""

    async def __call__(self, call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        """The admitted object and warnings; a rejection raises StatusError."""
        if call.stage == "mutate" or call.operation == "DELETE":
            # Subresources too: a binding carries annotations.
            new = with_recorded_creator(call.operation, call.served.resource, call.new, call.old, call.who)
            return await self.asked(msgspec.structs.replace(call, new=new))
        if self.pods is None or call.who.is_controller:
            return await self.asked(call)
        work = partial(self.pods, call.served.resource, call.new, call.old, call.who)
        told = await self.offload.run(work, large=call.large, who=call.who)
        new, warnings = await self.asked(call)
        return new, (*told, *warnings)

    async def asked(self, call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        """The object and warnings that our webhooks return."""
        new = call.new
        # On a cluster, too, the webhooks skip the writes of our controllers.
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
                options=WriteOptions(call.validation),
            )
            perform = partial(self.offload.run, large=call.large, who=call.who)
            verdict = await Webhooks(self.admission.world, perform).verdict(hook, request)
        except NotYetError as error:
            raise denied(hook, 503, "ServiceUnavailable", str(error)) from error
        if not verdict.allowed:
            raise denied(hook, 403, "Forbidden", verdict.message)
        return (new if verdict.tree is None else owned(verdict.tree)), verdict.warnings

    async def asks(self, admission: Admission, hook: Hook, call: AdmissionCall) -> bool:
        """Whether a cluster would call one of our webhooks, by the rules in `api/install/webhooks`."""
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
        # On a cluster an admission policy sets the default queue first.
        return hook.stage == "mutate" and world.default_queue


def denied(hook: Hook, code: int, reason: str, message: str) -> StatusError:
    """A rejection, worded as kube-apiserver reports that of a webhook."""
    name = f"{hook.stage[0]}{hook.kind.lower()}.kb.io"
    return StatusError(code, reason, f'admission webhook "{name}" denied the request: {message}')


def names_queue(tree: Tree) -> bool:
    """Whether a Job has a non-empty queue name."""
    return text(tree, "metadata", "labels", Label.QUEUE) != ""


def owned(tree: Mapping[str, object]) -> Tree:
    """A copy of an admitted object as decoded JSON."""
    made: Tree = msgspec.json.decode(msgspec.json.encode(tree))
    return made
