"""Who manages during a crash run? Managers that come and go, each with a way of its own to the API server."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from pykueue.audit.world import FINAL, INITIAL
from tests.plane.client import ApiError, Client, Late, Tree
from tests.plane.plane import executables
from tests.plane.programs import ACCOUNT, LEASE, NAMESPACE, ManagerProcess, Site
from tests.plane.proxy import Proxy


class Member:
    """One manager and its way to the API server, which can be cut."""

    def __init__(self, process: ManagerProcess, proxy: Proxy, name: str, token: str | Path) -> None:
        self.process, self.proxy, self.name, self.token = process, proxy, name, token
        self.started = time.monotonic()

    def end(self) -> None:
        """Kill it outright, and close its way."""
        self.process.kill()
        self.proxy.__exit__()


class Crew:
    """The managers that run now, and how to start another."""

    def __init__(self, site: Site, program: str, lease_seconds: int, *, fair: bool = False) -> None:
        self.site, self.plane, self.program, self.fair = site, site.plane, program, fair
        self.lease_seconds = lease_seconds
        self.token = site.plane.token(NAMESPACE, ACCOUNT)
        self.members: list[Member] = []
        self.route: Callable[[], list[int]] = lambda: [self.plane.ports["api"]]
        """The port on which managers reach the API server."""
        self.number = 0
        self.gave_up = 0
        """How many managers ended by themselves."""
        self.ready_seconds: list[float] = []

    def start(
        self,
        *,
        ready: bool = True,
        token: Path | None = None,
        lease_seconds: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> Member:
        """Start one more manager; if told so with the file of a token, a lease and an environment of its own."""
        self.number += 1
        name = f"manager-{self.number}"
        proxy = Proxy(self.ports).__enter__()
        used = token or self.own_token()
        kubeconfig = self.plane.kubeconfig_for(used, name, f"https://127.0.0.1:{proxy.port}")
        election = self.election(lease_seconds or self.lease_seconds)
        file, ports = self.site.settings(self.plane.folder / "managers", self.config(), election)
        command = self.command(file, kubeconfig, name)
        process = ManagerProcess(self.site, name, command, ports, ready=ready, timeout=60, environment=environment)
        if ready:
            self.ready_seconds.append(process.ready_seconds)
        member = Member(process, proxy, name, used)
        self.members.append(member)
        return member

    def own_token(self) -> str:
        """A new token, by which the audit log tells its owner from others; the common one while there is none."""
        with contextlib.suppress(ApiError, OSError, HTTPException):
            return self.plane.token(NAMESPACE, ACCOUNT)
        return self.token

    @staticmethod
    def election(lease_seconds: int) -> dict[str, str]:
        """How long a lease lasts, and how often it is renewed."""
        millis = lease_seconds * 1000
        return {
            "leaseDuration": f"{millis}ms",
            "renewDeadline": f"{millis * 2 // 3}ms",
            "retryPeriod": f"{millis // 6}ms",
        }

    def config(self) -> dict[str, Any]:
        """What the Configuration says beyond what every site's does."""
        sharing = {"fairSharing": {"preemptionStrategies": [FINAL, INITIAL]}} if self.fair else {}
        if self.program != "kueue":
            return sharing
        return sharing | {"webhook": {"certDir": str(self.site.certificates)}, "metrics": {"bindAddress": "0"}}

    def command(self, config: Path, kubeconfig: Path, name: str) -> list[str]:
        """The command of our manager, of one that is broken on purpose, or of the real Kueue."""
        told = [f"--config={config}", f"--kubeconfig={kubeconfig}"]
        if self.program == "kueue":
            gates = "--feature-gates=VisibilityOnDemand=false"
            return [str(executables("kueue") / "kueue" / "bin" / "kueue"), *told, gates]
        launcher = ["pykueue"] if self.program == "pykueue" else ["tests.crash.mutant", self.program]
        return [sys.executable, "-m", *launcher, "manager", *told, f"--identity={name}"]

    def end(self, member: Member) -> None:
        """Kill a manager."""
        member.end()
        self.members.remove(member)

    def end_all(self) -> None:
        for member in list(self.members):
            self.end(member)

    def mend(self) -> None:
        """Start anew whoever ended by itself, as a Deployment would, and have at least one."""
        for member in list(self.members):
            if not member.process.alive():
                self.gave_up += 1
                self.end(member)
        if not self.members:
            self.start(ready=False)

    def reconnect(self, member: Member) -> None:
        """Let a manager that was cut off talk to the API server again, if it is still there."""
        if member in self.members:
            member.proxy.mend()

    def ports(self) -> list[int]:
        """Where the API server is reached now."""
        return self.route()

    def lead_through(self, route: Callable[[], list[int]]) -> None:
        """Let all managers, also those that are still to come, reach the API server at another port."""
        self.route = route
        for member in self.members:
            member.proxy.mend()

    def keep_one(self) -> None:
        """End all but the one that leads."""
        leader = self.leading()
        for member in [other for other in self.members if other is not leader]:
            self.end(member)

    def have_two(self, *, environment: Mapping[str, str] | None = None) -> None:
        """Return when one of us leads and another stands by; on a busy machine a leader may give up meanwhile."""
        for _ in range(5):
            self.await_own_lead()
            if len(self.members) > 1:
                return
            self.start(environment=environment)
        raise Late("no leader kept its lease until another stood by, although five were started")

    def lead_alone(self, member: Member) -> None:
        """Stop all others, and return when this one leads."""
        for other in [one for one in self.members if one is not member]:
            self.members.remove(other)
            other.process.stop()
            other.end()
        if not Client.soon(lambda: self.leader() == member.name, 60):
            raise Late(f"{member.name} did not take the Lease within 60 s; it says {self.lease()}")

    def lease(self) -> Tree:
        """What the Lease says; nothing while nobody can be asked."""
        with contextlib.suppress(OSError):
            found = self.plane.client.find("Lease", LEASE, NAMESPACE)
            return found["spec"] if found is not None else {}
        return {}

    def leader(self) -> str:
        return str(self.lease().get("holderIdentity") or "")

    def await_leader(self, unlike: str = "", timeout: float = 60.0) -> float:
        """Seconds until the Lease is held by another than the one named."""
        start = time.monotonic()

        def led() -> bool:
            self.mend()
            return self.leader() not in ("", unlike)

        if not Client.soon(led, timeout):
            raise Late(f"nobody took the Lease from {unlike!r} within {timeout} s; it says {self.lease()}")
        return time.monotonic() - start

    def await_own_lead(self, timeout: float = 60.0) -> None:
        """Return as soon as one of us leads."""

        def led() -> bool:
            self.mend()
            leader = self.leader()
            return any(leader == member.name for member in self.members)

        if self.program == "kueue":  # It names itself, so we cannot know whether it is one of us.
            self.await_alive(timeout)
        elif not Client.soon(led, timeout):
            raise Late(f"none of us took the Lease within {timeout} s; it says {self.lease()}")

    def await_alive(self, timeout: float = 60.0) -> float:
        """Seconds until one of us holds the Lease and renews it."""
        start, seen = time.monotonic(), set[str]()

        def renewed() -> bool:
            self.mend()
            now = self.lease()
            if now.get("holderIdentity"):
                seen.add(str(now["renewTime"]))
            return len(seen) > 1

        if not Client.soon(renewed, timeout):
            logs = "\n".join(member.process.tail(20) for member in self.members)
            raise Late(f"nobody renewed the Lease within {timeout} s; it says {self.lease()}\n{logs}")
        return time.monotonic() - start

    def leading(self) -> Member:
        """The member that leads; for Kueue, which names itself, the only one there is."""
        leader = self.leader()
        return next((member for member in self.members if leader == member.name), self.members[0])


@contextlib.contextmanager
def crew_on(site: Site, program: str, lease_seconds: int, *, fair: bool = False) -> Iterator[Crew]:
    """A crew without members yet; all are ended with the block."""
    crew = Crew(site, program, lease_seconds, fair=fair)
    try:
        yield crew
    finally:
        crew.end_all()
