"""`pykueue dashboard`: the page of one user, on a loopback address, with the user's own kubeconfig."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import click

from pykueue.base.clock import Clock, SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.text import printable
from pykueue.base.timers import Timer
from pykueue.base.units import MICROS
from pykueue.cli.dashboard.codes import CodeAnswer, print_code, served_code
from pykueue.cli.dashboard.opening import OpeningFile, open_browser
from pykueue.cli.dashboard.overview import Disk, Meta
from pykueue.cli.dashboard.site import DashboardSite
from pykueue.cli.dashboard.source import Source
from pykueue.cli.jobs.source import who_am_i
from pykueue.cli.messages import tell
from pykueue.cli.serverstate import UNAUTHORIZED, rejected_credentials
from pykueue.cli.target import Target
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.kubeconfig import user_of
from pykueue.kube.port import KubeError, UnansweredError
from pykueue.web.guard import Address
from pykueue.web.loopback import LOCALHOST, NAMES, Loopback
from pykueue.web.pages import ENTER, Page
from pykueue.web.sessions import CODE_MICROS, Grant, Session, Sessions

REJECTED: Final = 1


class Wanted(Frozen):
    """The options of the command."""

    seconds: int
    """How long a session lasts."""
    view_only: bool = False
    browser: bool = True
    namespace: str = ""
    """The namespace to show where all may not be listed; empty for that of the kubeconfig."""
    code: bool = False
    """Whether to print a code to be typed, instead of opening the browser with one."""


def own_version() -> str:
    """The version of this program."""
    try:
        return version("pykueue")
    except PackageNotFoundError:
        return ""


def disk_of(folder: Path | None) -> Callable[[], Disk | None]:
    """The size and the free space of the disk of a data directory."""

    def read() -> Disk | None:
        if folder is None:
            return None
        try:
            found = os.statvfs(folder)
        except OSError:
            return None
        return Disk(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    return read


class UserWorld:
    """A server as one user sees it."""

    def __init__(self, target: Target, kube: HttpKube, clock: Clock, grant: Grant) -> None:
        self.target = target
        self.client = kube
        self.clock = clock
        self.grant = grant
        self.why = ""
        """Why the server rejects the credentials; empty while it does not."""
        self.over = asyncio.Event()

    def kube(self, session: Session) -> HttpKube:
        """The server with the rights of the user."""
        return self.client

    def group(self, session: Session) -> str:
        """There is one user."""
        return ""

    def source(self, group: str, session: Session) -> Source:
        """A source of what the user may see."""
        meta = Meta(server=self.target.connection.server, user=self.grant.user, version=own_version())
        disk = disk_of(self.target.folder)
        return Source(self.client, self.clock, home=self.grant.namespace, meta=meta, disk=disk, rejected=self.rejected)

    def rejected(self, message: str) -> None:
        """End the command: the user was removed, or has other credentials."""
        self.why = rejected_credentials(self.target.file, self.target.context, message)
        self.over.set()


class Dashboard:
    """The command while it runs."""

    def __init__(self, target: Target, kube: HttpKube, wanted: Wanted, sock: socket.socket, user: str) -> None:
        clock = SystemClock()
        self.wanted = wanted
        home = wanted.namespace or target.connection.namespace
        self.world = UserWorld(target, kube, clock, Grant(user, home, wanted.view_only, "", wanted.seconds))
        self.site = DashboardSite(self.world, clock)
        self.sessions = Sessions(clock, valid=lambda grant: not self.world.over.is_set())
        self.port: int = sock.getsockname()[1]
        self.page = Page(Address("http", NAMES, self.port), self.sessions, self.site)
        self.server = Loopback(self.page, sock)
        self.file = OpeningFile.in_runtime_folder()
        self.removal: Timer | None = None
        self.page.entered = self.file.remove

    @property
    def address(self) -> str:
        """Where codes are exchanged."""
        return f"http://{LOCALHOST}:{self.port}{ENTER}"

    def open(self) -> None:
        """Make a code, and open the browser with it, or print where it is."""
        code = self.sessions.issue(self.world.grant)
        if self.wanted.code:
            print_code(CodeAnswer(code, self.address))
            return
        path = self.file.write(self.address, code)
        if self.removal is not None:
            self.removal.cancel()
        self.removal = Timer(CODE_MICROS / MICROS, self.file.remove)
        if self.wanted.browser and open_browser(path):
            tell(f"the dashboard is open in your browser, at http://{LOCALHOST}:{self.port}/ui/")
        else:
            tell("open this file in a browser within a minute; it works once:")
            click.echo(printable(str(path)))

    async def run(self) -> int:
        """Serve until a signal, or until the server rejects the credentials; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.world.over.set)
        await self.server.start()
        try:
            self.open()
            tell(f"Ctrl-C ends it{self.offer_again(loop)}")
            await self.world.over.wait()
        finally:
            self.sessions.end_all()
            self.site.close()
            await self.server.stop()
            self.file.close()
        if self.world.why:
            tell(self.world.why)
            return REJECTED
        return 0

    def offer_again(self, loop: asyncio.AbstractEventLoop) -> str:
        """Make another code when Enter is pressed on a terminal; returns a part of a sentence about it."""
        if not sys.stdin.isatty():
            return ""

        def pressed() -> None:
            if sys.stdin.readline():
                self.open()
            else:
                loop.remove_reader(sys.stdin)

        loop.add_reader(sys.stdin, pressed)
        return "; Enter prints another code" if self.wanted.code else "; Enter opens it once more"


async def known_user(kube: HttpKube, target: Target) -> str:
    """The name of the user; raises `KubeError` if the server does not respond, or rejects the credentials."""
    try:
        return await who_am_i(kube)
    except KubeError as error:
        if isinstance(error, UnansweredError) or error.code == UNAUTHORIZED:
            raise
        return user_of(tuple(map(Path, target.files)), target.context)


async def serve(kube: HttpKube, target: Target, wanted: Wanted, sock: socket.socket) -> int:
    """Serve the page, unless a code is wanted and the server has the page itself; returns the exit code."""
    if wanted.code and (found := await served_code(kube, wanted.seconds, view_only=wanted.view_only)):
        print_code(found)
        return 0
    return await Dashboard(target, kube, wanted, sock, await known_user(kube, target)).run()
