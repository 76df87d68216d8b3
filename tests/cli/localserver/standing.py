"""A server of one machine within the test process, with its page, users and jobs that run as processes."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from pykueue.api.config.file import MINIMAL
from pykueue.api.config.unbuilt import read_built
from pykueue.apiserver.auth.access import identity_of
from pykueue.apiserver.auth.users import ADMIN
from pykueue.apiserver.http.server import bind
from pykueue.apiserver.inprocess import LocalKube
from pykueue.app.machine import Up, UpPlan
from pykueue.base.clock import SystemClock
from pykueue.cli.localserver.pagemount import PageMount
from pykueue.cli.queues.examples import example
from pykueue.kube.port import JOBS, LOCAL_QUEUES, NAMESPACES
from pykueue.node.machine import Machine
from pykueue.node.setup.accounts import Account
from tests import builders
from tests.web.visitor import Visitor, visitor

SPACES = {"ann": "ann", "bob": "lab", "carl": "lab"}


class Standing:
    """The server, its users and their tokens."""

    def __init__(self, folder: Path) -> None:
        loaded, mistakes = read_built(MINIMAL.encode())
        assert loaded is not None, mistakes
        plan = UpPlan(loaded, folder, Machine(4000, 1 << 30), on_stop="terminate")
        self.up = Up(plan, SystemClock(), bind("127.0.0.1", 0))
        self.mount = PageMount(self.up)
        self.up.server.pages = self.mount
        self.up.admit_admin()
        account = Account.of_this_process().name
        self.tokens = {ADMIN: self.up.users.rotate(ADMIN)}
        for name, space in SPACES.items():
            self.tokens[name] = self.up.users.add(name, namespace=space, os_user=account)

    @property
    def base(self) -> str:
        return self.up.address

    @property
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.up.authority.certificate.decode())

    def headers(self, user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[user]}"}

    async def furnish(self) -> None:
        """Make the example's queues, and those of the users."""
        await self.up.create_missing("the example", example({"cpu": 4000, "memory": 1 << 30}))
        for space in sorted({*SPACES.values()}):
            await self.up.admin.create(NAMESPACES, msgspec.json.encode({"metadata": {"name": space}}))
            queue = builders.local_queue("team-a", space, "team-a")
            await self.up.admin.create(LOCAL_QUEUES, msgspec.json.encode(queue), space)

    async def submit(
        self, name: str, user: str = ADMIN, cpu: str = "1", command: tuple[str, ...] = ("sleep", "600")
    ) -> None:
        """Create a job of a user."""
        found = self.up.users.named(user)
        assert found is not None
        space = SPACES.get(user, "default")
        pod = builders.pod_spec(command=[*command], resources={"requests": {"cpu": cpu}})
        made = builders.job(name, "team-a", space, template={"spec": pod}, backoffLimit=0)
        await LocalKube(self.up.local.registry, who=identity_of(found)).create(JOBS, msgspec.json.encode(made), space)

    @asynccontextmanager
    async def stranger(self) -> AsyncIterator[Visitor]:
        """A browser without a session."""
        async with visitor(self.base, self.tls) as made:
            yield made

    async def code(self, user: str = ADMIN, **more: Any) -> str:
        """A code, as `pykueue dashboard --code` gets it."""
        async with self.stranger() as made:
            body = {"seconds": 3600, **more}
            status, text, _ = await made.ask("POST", "/ui/code", json=body, headers=self.headers(user))
            assert status == 201, text
            return str(msgspec.json.decode(text)["code"])

    @asynccontextmanager
    async def browser(self, user: str = ADMIN, **more: Any) -> AsyncIterator[Visitor]:
        """A browser with a session of a user."""
        async with self.stranger() as made:
            assert await made.enter(await self.code(user, **more)) == 200
            yield made


@asynccontextmanager
async def standing(folder: Path) -> AsyncIterator[Standing]:
    """A server until the block ends."""
    made = Standing(folder)
    await made.up.start()
    try:
        await made.furnish()
        yield made
    finally:
        made.mount.close()
        await made.up.stop()
        await asyncio.sleep(0)
