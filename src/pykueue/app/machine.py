"""Build the server of `pykueue up`: the embedded system, its HTTPS API, and pods as processes of this machine."""

import asyncio
import contextlib
import logging
import os
import pwd
import socket
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal

import msgspec

from pykueue.api.config.file import Loaded
from pykueue.api.core import Tree
from pykueue.api.names import Annotation
from pykueue.api.trees import mappings, text
from pykueue.apiserver.auth.access import Access
from pykueue.apiserver.auth.authority import LOCALHOST, LOOPBACK, Authority
from pykueue.apiserver.auth.kubeconfigs import kubeconfig, write
from pykueue.apiserver.auth.users import ADMIN, Users
from pykueue.apiserver.http.front import Front
from pykueue.apiserver.http.server import Server
from pykueue.apiserver.inprocess import LocalKube
from pykueue.apiserver.wire.identity import AUTHENTICATED, MASTERS, Identity
from pykueue.app.embedded import Local, LocalPlan
from pykueue.app.podadmission import PodAdmission
from pykueue.base.clock import Clock
from pykueue.base.datafolder import KUBECONFIG
from pykueue.base.struct import Frozen
from pykueue.base.timers import timeout
from pykueue.base.units import MICROS
from pykueue.controllers.metrics.exposition import CONTENT_TYPE
from pykueue.kube.client.connection import DEFAULT_NAMESPACE
from pykueue.kube.client.kubeconfig import KubeconfigError, read_kubeconfig
from pykueue.kube.port import ExistsError, KubeError, Patch, Resource
from pykueue.kube.tls import TlsError
from pykueue.kubecontrollers.finishedretention import JOBS_KEPT
from pykueue.node.machine import Machine
from pykueue.node.runner import Runner
from pykueue.node.runner import Settings as RunnerSettings
from pykueue.node.setup.accounts import Account
from pykueue.node.setup.containerruntime import Runtime

LOG: Final = logging.getLogger(__name__)

ADMINISTRATOR: Final = Identity(ADMIN, frozenset({MASTERS, AUTHENTICATED}), admin=True)
APPLIER: Final = "pykueue-up"
RENEW_MICROS: Final = 60 * 60 * MICROS
"""How often the certificates are checked; they are renewed months before they expire."""
READ_SECONDS: Final = 2.0
"""How long the start waits for the controllers to read the stored objects; few data directories need longer."""


class UpPlan(Frozen):
    """The settings of a server."""

    loaded: Loaded
    data: Path
    machine: Machine
    host: str = LOCALHOST
    port: int = 0
    names: tuple[str, ...] = ()
    """Additional host names for the server certificate."""
    on_stop: Literal["keep", "terminate"] = "keep"
    runtime: Runtime | None = None
    journal: Path | None = None
    scratch: Path | None = None
    """An existing directory for the pods' directories, such as on another disk; None for the default."""
    jobs_kept: int | None = JOBS_KEPT
    show_jobs: Literal["own", "everyone"] = "own"
    """Whose jobs users see in lists; of others' jobs never more than name, owner, queue, requests, state and since."""
    seed: int = 0


class ApplyError(Exception):
    """An object cannot be applied at startup; the message has its position and the reason."""


class Up:
    """The server of one machine."""

    def __init__(self, plan: UpPlan, clock: Clock, listening: socket.socket) -> None:
        self.plan = plan
        self.clock = clock
        self.listening = listening
        self.port: int = listening.getsockname()[1]
        # First, because it locks the store: after that, no other process writes to the data directory.
        self.local = Local(
            LocalPlan(
                plan.loaded,
                plan.data,
                journal=plan.journal,
                identity=socket.gethostname(),
                seed=plan.seed,
                jobs_kept=plan.jobs_kept,
            ),
            clock,
        )
        names = (*LOOPBACK, *plan.names)
        self.authority = Authority.open(plan.data, clock.now(), tuple(dict.fromkeys(names)))
        self.users = Users(plan.data, clock)
        self.admin = LocalKube(self.local.registry, who=ADMINISTRATOR)
        self.runner = Runner(
            self.local.kube,
            clock,
            self.local.tell,
            RunnerSettings(plan.data, scratch_for(plan.data, plan.scratch), on_stop=plan.on_stop, runtime=plan.runtime),
            plan.machine,
            account=self.account,
            may_mount=self.may_mount,
            may_choose=self.may_mount,
        )
        self.local.admission_adapter.pods = PodAdmission(
            self.account, self.may_mount, self.enforced, plan.runtime is not None
        )
        self.front = Front(
            self.local.registry,
            Access(self.users, everyones_jobs=plan.show_jobs == "everyone"),
            clock,
            self.runner.logs,
            execs=self.runner.execs,
            page=self.local.controllers.metrics.steps,
            page_type=CONTENT_TYPE,
            missing=self.missing,
            reasons=self.local.reason,
            own=self.local.own_api,
            aggregated=self.local.aggregated,
        )
        self.local.board.gpus = self.gpus
        self.server = Server(self.front, self.authority.context(), sock=listening)

    @property
    def address(self) -> str:
        """The URL of the API."""
        host = self.plan.host
        if host in ("", "0.0.0.0", "::"):
            host = LOCALHOST
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"

    def missing(self) -> Iterable[str]:
        """Why the server is not ready yet."""
        return self.local.missing()

    def account(self, pod: Tree) -> Account | None:
        """The account of a pod's processes: its creator's if we are root, else ours; None if it must not run.

        Jobs of a removed user continue as that user.
        """
        if os.geteuid() != 0:
            return Account.of_this_process()
        user = self.users.all().get(text(pod, "metadata", "annotations", Annotation.CREATOR))
        if user is None:
            return None
        try:
            return Account.of(pwd.getpwnam(user.os_user))
        except KeyError:
            return None

    def may_mount(self, pod: Tree) -> bool:
        """Whether a pod may mount any directory and use any user id; if we are root, only an admin's may."""
        if os.geteuid() != 0:
            return True
        user = self.users.named(text(pod, "metadata", "annotations", Annotation.CREATOR))
        return user is not None and user.role == "admin"

    def gpus(self, uid: str) -> tuple[int, ...]:
        """The numbers of the GPUs that a pod has."""
        return tuple(number for numbers in self.runner.shares.held.get(uid, {}).values() for number in numbers)

    def enforced(self) -> frozenset[str]:
        """The resources whose limits are enforced."""
        return self.runner.limits.controllers

    def admit_admin(self) -> Path:
        """Write the kubeconfig of the administrator; its token survives restarts."""
        path = self.plan.data / KUBECONFIG
        token = token_in(path)
        found = self.users.by_token(token) if token else None
        if found is None or found.role != "admin":
            token = self.users.add(ADMIN, role="admin", os_user=Account.of_this_process().name)
        write(path, kubeconfig(self.address, self.authority.certificate, user=ADMIN, token=token))
        return path

    async def start(self) -> None:
        """Start the controllers, the pod runner and the API.

        If there is much to read, the controllers read on afterwards: requests are answered and Jobs are accepted, and
        nothing is decided before everything is read.
        """
        await self.local.prepare()
        await self.runner.open()
        self.local.start()
        self.local.begin("watchdog", self.local.controllers.metrics.watchdog.run)
        self.local.begin("runner", self.runner.run)
        self.local.begin("certificates", self.renew_certificates)
        await self.server.start()
        with contextlib.suppress(TimeoutError):
            async with timeout(READ_SECONDS):
                await self.local.controllers.cluster.until_synced()

    async def renew_certificates(self) -> None:
        """Renew the certificates when they are due, until cancelled; open connections are not affected."""
        while True:
            await self.clock.sleep(RENEW_MICROS)
            trusted = self.authority.certificate
            try:
                if not self.authority.renew(self.clock.now()):
                    continue
                LOG.info("certificates: renewed data=%s", self.plan.data)
                if self.authority.certificate != trusted:
                    LOG.warning("certificates: the authority is new; give users new kubeconfigs with `user rotate`")
                    self.admit_admin()
            except (OSError, TlsError) as error:
                LOG.error("certificates: cannot be renewed, will retry data=%s error=%s", self.plan.data, error)

    async def attend(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; raises the error of any task that fails."""
        self.local.controllers.begin("freeze", self.local.controllers.freeze)
        await self.local.attend(stop)

    async def stop(self) -> None:
        """Stop the API, then our controllers, the pods and the store."""
        await self.server.stop()
        await self.local.controllers.shut_down()
        await self.runner.stop()
        await self.local.shut_down()
        await self.runner.close()
        await self.local.close()

    async def listed(self, resource: Resource) -> list[Tree]:
        """All objects of a kind."""
        return [
            dict(one)  # type: ignore[arg-type]  # decoded JSON is Json
            async for page in self.admin.pages(resource)
            for _, one in mappings(msgspec.json.decode(page), "items")
        ]

    async def apply(self, objects: Sequence[tuple[str, Tree]]) -> None:
        """Apply objects, each given with its position; raises ApplyError for the first that fails."""
        for where, tree in objects:
            resource, within = self.place_of(where, tree)
            name = text(tree, "metadata", "name")
            try:
                await self.admin.patch(
                    resource, name, msgspec.json.encode(tree), within, how=Patch.APPLY, manager=APPLIER
                )
            except KubeError as error:
                raise ApplyError(f"{where}: {error}") from error

    async def create_missing(self, where: str, objects: Sequence[Tree]) -> list[str]:
        """Create the objects that do not exist yet; return the names of those that do."""
        kept: list[str] = []
        for tree in objects:
            resource, within = self.place_of(where, tree)
            try:
                await self.admin.create(resource, msgspec.json.encode(tree), within)
            except ExistsError:
                kept.append(f"{resource.kind} {text(tree, 'metadata', 'name')}")
            except KubeError as error:
                raise ApplyError(f"{where}: {error}") from error
        return kept

    def place_of(self, where: str, tree: Tree) -> tuple[Resource, str]:
        """The resource and namespace of an object; raises ApplyError if its kind is not served."""
        version, kind = text(tree, "apiVersion"), text(tree, "kind")
        for one in self.local.catalog.all():
            if (one.resource.api_version, one.resource.kind) == (version, kind):
                namespace = text(tree, "metadata", "namespace") or DEFAULT_NAMESPACE
                return one.resource, namespace if one.resource.namespaced else ""
        name = text(tree, "metadata", "name")
        raise ApplyError(
            f"{where}: {kind} {name}: apiVersion {version!r} has no kind {kind!r}; correct the object, or remove it"
        )


def scratch_for(data: Path, chosen: Path | None) -> Path | None:
    """The parent of the pods' directories; None for the data directory.

    It is outside the data directory if pods run as several users. In a chosen directory it has a name of its own,
    because unknown pods are removed from it.
    """
    if chosen is not None:
        return chosen / f"pykueue-{blake2b(os.fsencode(data.absolute()), digest_size=4).hexdigest()}"
    return data.with_name(f"{data.name}-scratch") if os.geteuid() == 0 else None


def token_in(path: Path) -> str:
    """The token of the first user in a kubeconfig; empty if there is none."""
    try:
        users = read_kubeconfig(path).users or ()
    except KubeconfigError:
        return ""
    return next((one.user.token for one in users if one.user is not None), "")
