"""The controller of the admission checks of `kueue.x-k8s.io/provisioning-request`.

It reads a Workload's checks and ProvisioningRequests, plans with `checks.provisioning`, and writes. It watches the
autoscaler's kinds only once such a check exists, so a cluster without them logs no errors. If the kinds are missing,
the checks report it, and they become active when the kinds are installed.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pykueue.api.checks import AdmissionCheck, ProvisioningRequest, ProvisioningRequestConfig
from pykueue.api.codec import decode_as
from pykueue.api.core import KubeObject, Tree, controller_of
from pykueue.api.names import Annotation, CheckController, Label
from pykueue.api.trees import text
from pykueue.api.workload import AdmissionCheckState, Workload
from pykueue.base.units import MICROS, format_instant
from pykueue.bridge.outbound import check_tree, slice_of
from pykueue.bridge.statuses import with_active
from pykueue.checks.parameters import HOW, referenced, timeout, verdict
from pykueue.checks.provisioning import Ask, Check, CheckInput, CheckPlan, Rules, plan
from pykueue.checks.requestspec import API_VERSION
from pykueue.controllers.ancestors import group_kind
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.events import ref
from pykueue.controllers.metadatawrites import set_metadata
from pykueue.controllers.workloadwrites import MANAGER, guarded
from pykueue.engine.wording import shortened
from pykueue.jobs.seen import key_of
from pykueue.jobs.workload import owner_reference
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import (
    ADMISSION_CHECKS,
    POD_TEMPLATES,
    PROVISIONING_CONFIGS,
    PROVISIONING_REQUESTS,
    WORKLOADS,
    ConflictError,
    DeniedError,
    ExistsError,
    KubeError,
    NotFoundError,
    Patch,
    RejectedError,
)

LOG: Final = logging.getLogger(__name__)

REPORTER: Final = "kueue-provisioning-request-controller"
WORKERS: Final = 8
HINDERED_SECONDS: Final = 10.0
PATIENCE: Final = 5 * MICROS


class Provisioning:
    """Reconciles ProvisioningRequests and the check states of Workloads."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        gates = cluster.settings.gates
        self.rules = Rules(gates["CleanupProvisioningRequestsOnEviction"], gates["KeepQuotaForProvReqRetry"])
        reading, clock = cluster.reading, cluster.clock
        self.configs: Informer[ProvisioningRequestConfig] = Informer(
            reading, PROVISIONING_CONFIGS, lambda raw: decode_as(ProvisioningRequestConfig, raw), clock
        )
        self.requests: Informer[ProvisioningRequest] = Informer(
            reading,
            PROVISIONING_REQUESTS,
            lambda raw: decode_as(ProvisioningRequest, raw),
            clock,
            patience=PATIENCE,
        )
        self.templates: Informer[KubeObject] = Informer(
            reading,
            POD_TEMPLATES,
            msgspec.json.Decoder(KubeObject).decode,
            clock,
            labels=f"{Label.MANAGED}=true",
            patience=PATIENCE,
        )
        self.deleted: set[str] = set()
        """UIDs of requests that we have deleted but that the informer still shows."""
        self.controller = Controller("provisioning-workload", self.reconcile, clock, WORKERS)
        self.checks = Controller("provisioning-admissioncheck", self.reconcile_check, clock)
        self.asked_of = asyncio.Event()
        """Set once a check of this controller exists."""
        self.acts = False
        self.by_workload = self.requests.index(workload_keys)
        self.by_check = cluster.workloads.index(
            lambda seen: tuple(state.name for state in seen.status.admission_checks)
        )
        cluster.checks.listen(self.check_changed)
        cluster.workloads.listen(self.workload_changed)
        self.configs.listen(self.config_changed)
        self.requests.listen(self.request_changed)
        self.requests.turns.append(self.turned)
        self.templates.turns.append(self.turned)
        self.templates.listen(self.template_changed)

    # Triggers.

    def check_changed(self, change: Change[AdmissionCheck]) -> None:
        """Reconcile a check of ours, and the Workloads that list it."""
        ours = [seen for seen in (change.old, change.new) if seen is not None and is_ours(seen)]
        if not ours:
            return
        self.asked_of.set()
        self.checks.add(change.key)
        old, new = change.old, change.new
        if old is None or new is None or old.spec != new.spec or timeout(old) != timeout(new):
            self.add_all(self.by_check.get(change.key))

    def config_changed(self, change: Change[ProvisioningRequestConfig]) -> None:
        """Reconcile the checks that refer to a configuration."""
        for name, check in self.cluster.checks.objects.items():
            parameters = check.spec.parameters
            if is_ours(check) and parameters is not None and parameters.name == change.key:
                self.look_again(name)

    def workload_changed(self, change: Change[Workload]) -> None:
        """Reconcile a Workload that has a check or a request of ours."""
        new = change.new
        if self.acts and new is not None and self.concerns(change.key, new):
            self.controller.add(change.key)

    def concerns(self, key: str, seen: Workload) -> bool:
        """Whether a Workload lists a check of ours, or has a request."""
        return bool(self.by_workload.get(key) or self.our_checks(seen))

    def request_changed(self, change: Change[ProvisioningRequest]) -> None:
        """Reconcile the Workload of a request."""
        for seen in (change.old, change.new):
            if seen is not None:
                self.add_all(workload_keys(seen))
        if change.old is not None and (change.new is None or change.new.metadata.uid != change.old.metadata.uid):
            self.deleted.discard(change.old.metadata.uid or "")

    def template_changed(self, change: Change[KubeObject]) -> None:
        """Reconcile the Workload of a request whose template was deleted or edited."""
        if change.new is not None and not is_edited(change.new):
            return
        owner = None if change.old is None else controller_of(change.old.metadata)
        request = None if owner is None else self.requests.get(f"{change.key.partition('/')[0]}/{owner.name}")
        if request is not None:
            self.add_all(workload_keys(request))

    @property
    def trouble(self) -> str:
        """Why requests or their templates cannot be read; empty if they can."""
        return f"{self.requests.trouble}; {HOW}" if self.requests.trouble else self.templates.trouble

    def turned(self) -> None:
        """Reconcile all our checks after requests or templates became readable or unreadable."""
        for name, check in self.cluster.checks.objects.items():
            if is_ours(check):
                self.look_again(name)

    def look_again(self, check: str) -> None:
        """Reconcile a check, and the Workloads that list it."""
        self.checks.add(check)
        self.add_all(self.by_check.get(check))

    def add_all(self, keys: Iterable[str]) -> None:
        """Reconcile Workloads."""
        for key in list(keys) if self.acts else ():
            self.controller.add(key)

    def our_checks(self, seen: Workload) -> Mapping[str, AdmissionCheck]:
        """The checks of this controller that a Workload lists, by name."""
        found = {one.name: self.cluster.checks.get(one.name) for one in seen.status.admission_checks}
        return {name: check for name, check in found.items() if check is not None and is_ours(check)}

    # Reconciliation.

    async def run(self) -> None:
        """Run the controllers until cancelled; called only on the leader."""
        await self.asked_of.wait()
        async with asyncio.TaskGroup() as tasks:
            for informer in (self.configs, self.requests, self.templates):
                tasks.create_task(informer.run(), name=f"follow {informer.resource}")
            await self.configs.synced.wait()
            tasks.create_task(self.checks.run())
            await self.requests.synced.wait()
            await self.templates.synced.wait()
            self.acts = True
            try:
                for key, seen in self.cluster.workloads.objects.items():
                    if self.concerns(key, seen):
                        self.controller.add(key)
                await self.controller.run()
            finally:
                self.acts = False

    async def reconcile_check(self, name: str) -> float | None:
        """Write whether a check is active."""
        seen = self.cluster.checks.get(name)
        if seen is None or not is_ours(seen):
            return None
        trouble = self.trouble
        if not trouble and not (self.requests.synced.is_set() and self.templates.synced.is_set()):
            return None  # Reconciled again when that is known.
        found = verdict(seen, self.configs.objects, trouble)
        conditions = with_active(seen.status.conditions, found, seen.metadata.generation, self.cluster.clock.now())
        if conditions is not None:
            body = guarded(seen.metadata, {"status": {"conditions": conditions}})
            raw = await self.cluster.kube.patch(
                ADMISSION_CHECKS, name, body, how=Patch.MERGE, subresource="status", manager=MANAGER
            )
            self.cluster.checks.learn(raw)
            LOG.info("%s: %s", found.reason, found.message, extra={"object": name})
        return None

    async def reconcile(self, key: str) -> float | None:
        """Reconcile a Workload's checks and requests; returns the seconds after which to look again."""
        workload = self.cluster.workloads.get(key)
        if workload is None:
            # The garbage collector deletes its requests.
            return None
        now = self.cluster.clock.now()
        found = plan(self.read(workload), now)
        if found.states:
            workload = await self.write_states(workload, found)
        for request in found.deletes:
            await self.delete(request)
        for name, request in found.hand_over:
            await self.hand_over(name, request)
        for one in found.hindered:
            await self.report_problem(workload, one.check, one.why)
        await self.ask_all(workload, () if self.trouble else found.asks)
        waits = [] if found.again is None else [max(0, found.again - now) / MICROS]
        return min([*waits, *([HINDERED_SECONDS] if found.hindered else [])], default=None)

    def read(self, workload: Workload) -> CheckInput:
        """The input of the plan for a Workload."""
        namespace = workload.namespace
        checks: dict[str, Check] = {}
        for name, check in self.our_checks(workload).items():
            config = referenced(check, self.configs.objects)
            checks[name] = Check(None if isinstance(config, str) else config.spec, timeout(check))
        requests = tuple(
            one
            for one in self.by_workload.get(key_of(workload)).values()
            if owner_uid(one) == workload.metadata.uid and one.metadata.uid not in self.deleted
        )
        named = {one.pod_template_ref.name for request in requests for one in request.spec.pod_sets}
        known = {name: self.templates.get(f"{namespace}/{name}") for name in named}
        templates = {name: owner_uid(one) for name, one in known.items() if one is not None and not is_edited(one)}
        return CheckInput(
            workload,
            checks,
            requests,
            templates,
            self.cluster.flavors.objects,
            self.may_run_again(workload),
            self.rules,
        )

    def may_run_again(self, workload: Workload) -> bool:
        """Whether the job of a Workload retries failed pods."""
        owner = controller_of(workload.metadata)
        if owner is None or group_kind(owner) != ("batch", "Job"):
            return True
        job = self.cluster.jobs.get(f"{workload.namespace}/{owner.name}")
        return job is None or job.spec.backoff_limit != 0

    async def write_states(self, workload: Workload, found: CheckPlan) -> Workload:
        """Write the planned check states, with an Event for each change; returns the Workload."""
        known = {one.name: one for one in workload.status.admission_checks}
        written = await self.write(workload, found.states)
        for one in found.states:
            before = known[one.name].state
            if one.state != before:
                note = f"Admission check {one.name} updated state from {before} to {one.state}"
                note += f" with message: {one.message}" if one.message else ""
                self.cluster.events.normal(ref(WORKLOADS, workload.metadata), "AdmissionCheckUpdated", note, REPORTER)
                LOG.info("%s", note, extra={"object": key_of(workload)})
        return written

    async def write(self, workload: Workload, states: Iterable[AdmissionCheckState]) -> Workload:
        """Write these check states and keep the others; returns the Workload."""
        new = {one.name: one for one in states}
        status = slice_of(workload)
        status["admissionChecks"] = [check_tree(new.get(one.name, one)) for one in workload.status.admission_checks]
        return await self.cluster.writes.admission(workload, status)

    async def delete(self, request: ProvisioningRequest) -> None:
        """Delete a request, unless another one has its name by now."""
        # Its conditions no longer count, even while the informer still shows it.
        self.deleted.add(request.metadata.uid or "")
        try:
            await self.cluster.kube.delete(
                PROVISIONING_REQUESTS, request.name, request.namespace, uid=request.metadata.uid or ""
            )
        except (NotFoundError, ConflictError):
            LOG.debug("provisioning: request already deleted or replaced", extra={"object": request.name})
        except KubeError:
            self.deleted.discard(request.metadata.uid or "")
            raise

    async def ask_all(self, workload: Workload, asks: Iterable[Ask]) -> None:
        """Make all planned attempts; raises the error of the first that failed."""
        wrong: list[KubeError] = []
        for ask in asks:
            try:
                await self.ask(workload, ask)
            except NotFoundError as error:
                # A conflicting object, or a kind, was just deleted; retry.
                wrong.append(ConflictError(error.what, error.code, error.reason, error.message))
            except KubeError as error:
                wrong.append(error)
        if wrong:
            raise wrong[0]

    async def ask(self, workload: Workload, ask: Ask) -> None:
        """Make an attempt: create the templates and the request, then make the request the owner of the templates."""
        request = text(ask.request, "metadata", "name")
        for tree in ask.templates:
            name = text(tree, "metadata", "name")
            try:
                await self.make_template(workload, name, tree)
            except (RejectedError, DeniedError, ExistsError) as error:
                await self.report_problem(workload, ask.check, f'Error creating PodTemplate "{name}": {error.message}')
                raise
        try:
            raw = await self.cluster.kube.create(
                PROVISIONING_REQUESTS, msgspec.json.encode(ask.request), workload.namespace
            )
        except (RejectedError, DeniedError, ExistsError) as error:
            if isinstance(error, ExistsError) and await self.is_ours_already(workload, request):
                return
            why = f'Error creating ProvisioningRequest "{request}": {error.message}'
            await self.report_problem(workload, ask.check, why)
            raise
        made = self.requests.learn(raw)
        self.cluster.events.normal(
            ref(WORKLOADS, workload.metadata),
            "ProvisioningRequestCreated",
            f'Created ProvisioningRequest: "{request}"',
            REPORTER,
            "Created",
        )
        LOG.info("provisioning: requested capacity request=%s", request, extra={"object": key_of(workload)})
        for tree in ask.templates:
            await self.hand_over(text(tree, "metadata", "name"), made)

    async def make_template(self, workload: Workload, name: str, tree: Tree) -> None:
        """Create a template; one that an interrupted or refused attempt left behind is used again, or replaced."""
        known = self.templates.get(f"{workload.namespace}/{name}")
        if known is not None and is_unused(known, workload, tree):
            return
        body = msgspec.json.encode(tree)
        try:
            raw = await self.cluster.kube.create(POD_TEMPLATES, body, workload.namespace)
        except ExistsError:
            left = self.templates.learn(await self.cluster.kube.get(POD_TEMPLATES, name, workload.namespace))
            if is_unused(left, workload, tree):
                return
            if not await self.is_left_over(workload, left):
                raise
            await self.cluster.kube.delete(POD_TEMPLATES, name, workload.namespace, uid=left.metadata.uid or "")
            raw = await self.cluster.kube.create(POD_TEMPLATES, body, workload.namespace)
        self.templates.learn(raw)

    async def is_left_over(self, workload: Workload, template: KubeObject) -> bool:
        """Whether a template belongs to the Workload, or to a request that no longer exists."""
        owner = controller_of(template.metadata)
        if owner is None or owner.kind != "ProvisioningRequest":
            return owner is not None and owner.uid == workload.metadata.uid
        try:
            found = self.requests.learn(
                await self.cluster.kube.get(PROVISIONING_REQUESTS, owner.name, workload.namespace)
            )
        except NotFoundError:
            return True
        return found.metadata.uid != owner.uid or owner_uid(found) == workload.metadata.uid

    async def is_ours_already(self, workload: Workload, name: str) -> bool:
        """Whether the request of this name belongs to the Workload and is not being deleted."""
        found = self.requests.learn(await self.cluster.kube.get(PROVISIONING_REQUESTS, name, workload.namespace))
        return owner_uid(found) == workload.metadata.uid and found.metadata.deletion_timestamp is None

    async def hand_over(self, name: str, request: ProvisioningRequest) -> None:
        """Make a request the owner of a template, so that the template is deleted with it."""
        owner = owner_reference(api_version=API_VERSION, kind="ProvisioningRequest", metadata=request.metadata)
        known = self.templates.get(f"{request.namespace}/{name}")
        changes: Tree = {"ownerReferences": [owner]}
        preconditions: Tree = {} if known is None else {"uid": known.metadata.uid}
        try:
            raw = await set_metadata(self.cluster.kube, POD_TEMPLATES, name, request.namespace, changes, preconditions)
        except (NotFoundError, ConflictError):
            LOG.debug("provisioning: template already deleted or replaced", extra={"object": name})
            return
        self.templates.learn(raw)

    async def report_problem(self, workload: Workload, check: str, why: str) -> None:
        """Report once why no attempt can be made, in the check and as an Event."""
        known = next((one for one in workload.status.admission_checks if one.name == check), None)
        message = shortened(why)
        if known is None or known.message == message:
            return
        state = msgspec.structs.replace(
            known, message=message, last_transition_time=format_instant(self.cluster.clock.now())
        )
        await self.write(workload, (state,))
        self.cluster.events.warning(ref(WORKLOADS, workload.metadata), "FailedCreate", why, REPORTER)


def is_ours(check: AdmissionCheck) -> bool:
    """Whether this controller handles a check."""
    return check.spec.controller_name == CheckController.PROVISIONING


def is_edited(template: KubeObject) -> bool:
    """Whether the pods of a template were edited after we created it, so that they no longer match the quota."""
    return (template.metadata.generation or 1) > 1


def is_unused(template: KubeObject, workload: Workload, tree: Tree) -> bool:
    """Whether a template is what we would create now, and no request owns it yet."""
    metadata = template.metadata
    return (
        metadata.deletion_timestamp is None
        and owner_uid(template) == workload.metadata.uid
        and metadata.annotations.get(Annotation.ASKED_FOR, "")
        == text(tree, "metadata", "annotations", Annotation.ASKED_FOR)
        and not is_edited(template)
    )


def owner_uid(seen: KubeObject) -> str:
    """The UID of an object's controller."""
    owner = controller_of(seen.metadata)
    return "" if owner is None else owner.uid


def workload_keys(request: ProvisioningRequest) -> Iterable[str]:
    """The Workload that a request belongs to."""
    owner = controller_of(request.metadata)
    if owner is None or group_kind(owner) != (WORKLOADS.group, WORKLOADS.kind):
        return ()
    return (f"{request.namespace}/{owner.name}",)
