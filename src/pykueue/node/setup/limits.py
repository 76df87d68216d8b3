"""Enforce the limits of containers: by cgroups where this user may create them, otherwise by rlimits.

With cgroup v2: memory.max, cpu.max, cpu.weight and pids.max, for all processes of the container together. Without its
controllers: RLIMIT_DATA for its memory, per process (not RLIMIT_AS, which programs that merely reserve addresses, such
as CUDA, would exceed at once), and RLIMIT_NPROC, which counts all processes of a user and does not bind root. Since it
counts what else the user runs, the limit is relative to the count at the start of the container; for the user of this
server, whose desktop may grow meanwhile, the default leaves more room.
"""

import contextlib
import logging
import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pykueue.api.trees import amount, member
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Moment

LOG: Final = logging.getLogger(__name__)

WANTED: Final = ("cpu", "memory", "pids")
PIDS_PER_CORE: Final = 100
PIDS_LEAST: Final = 200
PIDS_OWN: Final = 2048
CPU_PERIOD: Final = 100_000
WEIGHT_MIN: Final = 1
WEIGHT_MAX: Final = 10_000
KILL: Final = "cgroup.kill"
"""Ends all processes of a cgroup; since Linux 5.14."""
COUNT_MICROS: Final = 1 * MICROS
"""How long a count of a user's processes is reused."""


class Fence(Frozen):
    """The limits of a container, and how they are enforced."""

    rlimits: tuple[tuple[int, int], ...] = ()
    cgroup: str = ""
    cgroup_limits: Mapping[str, str] = {}


def pids_default() -> int:
    """The default limit of processes and threads of a container: 100 per core, and at least 200."""
    return max(PIDS_LEAST, PIDS_PER_CORE * (os.cpu_count() or 1))


def own_cgroup(proc: Path = Path("/proc/self")) -> Path | None:
    """The cgroup v2 folder of this process; None if there is none."""
    try:
        mounts = (proc / "mountinfo").read_text().splitlines()
        groups = (proc / "cgroup").read_text().splitlines()
    except OSError:
        return None
    mount = next((line.split() for line in mounts if " - cgroup2 " in line), None)
    within = next((line[3:] for line in groups if line.startswith("0::")), None)
    if mount is None or within is None:
        return None
    # A container sees its own cgroup as the root of the mount.
    root, point = mount[3], mount[4]
    inside = within.removeprefix(root) if root != "/" and within.startswith(root) else within
    return Path(point) / inside.lstrip("/")


class Limits:
    """Enforces limits of containers by the best available means."""

    def __init__(
        self,
        now: Callable[[], Moment],
        *,
        name: str = "pykueue",
        pids_max: int = 0,
        own: Path | None = None,
        root: bool | None = None,
    ) -> None:
        self.now = now
        self.name = name
        """Distinguishes our cgroups from those of another server on this machine."""
        self.pids_max = pids_max or pids_default()
        self.pids_own = pids_max or max(PIDS_OWN, self.pids_max)
        """The same for the user of this process, if processes are counted by user."""
        self.root = os.geteuid() == 0 if root is None else root
        self.own = own
        self.base: Path | None = None
        """The cgroup below which those of containers are created; None if there is none."""
        self.controllers: frozenset[str] = frozenset()
        self.counts: dict[int, tuple[Moment, int]] = {}
        self.aside = f"{name}-server"
        """The cgroup for the server and the fork server, beside those of containers."""
        self.movable: set[str] = set()
        """The ids of these processes."""

    def open(self, fork_server: int | None = None) -> None:
        """Detect and prepare the available means, in the cgroup of the fork server, where containers start.

        Called again for the next fork server, which has a cgroup of its own only if it is in another scope.
        """
        found = None if fork_server is None else own_cgroup(Path(f"/proc/{fork_server}"))
        if found is not None and found.name != self.aside:
            self.own = found
        self.movable = {str(one) for one in (os.getpid(), fork_server) if one is not None}
        if self.own is not None:
            self.prepare(self.own)
        LOG.info("limits: enforced by %s", self.describe())

    def prepare(self, own: Path) -> None:
        """Create a cgroup for all containers below our own, with all available controllers.

        Without controllers a cgroup still ends all its processes at once, even those that fork faster than they are
        found.
        """
        base = own / self.name
        try:
            if not set((own / "cgroup.controllers").read_text().split()) & set(WANTED):
                base.mkdir(exist_ok=True)
                if (base / KILL).exists():
                    self.base = base
                else:
                    base.rmdir()
                return
            self.enable(own)
            base.mkdir(exist_ok=True)
            self.enable(base)
            self.controllers = frozenset((base / "cgroup.subtree_control").read_text().split()) & frozenset(WANTED)
            self.base = base
        except OSError as error:
            LOG.debug("limits: cannot create a cgroup parent=%s error=%s", own, error)

    def enable(self, folder: Path) -> None:
        """Delegate a cgroup's controllers to its children, moving our processes out if nothing else is in it."""
        there = (folder / "cgroup.controllers").read_text().split()
        given = (folder / "cgroup.subtree_control").read_text().split()
        missing = [name for name in WANTED if name in there and name not in given]
        if not missing:
            return
        inside = (folder / "cgroup.procs").read_text().split()
        if inside and self.movable.issuperset(inside):
            # A cgroup with processes cannot delegate; if only we are in it, we move to a child.
            aside = folder / self.aside
            aside.mkdir(exist_ok=True)
            for pid in inside:
                (aside / "cgroup.procs").write_text(pid)
        for name in missing:
            with contextlib.suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{name}")

    def describe(self) -> str:
        """The available means, for the log and the node."""
        by_cgroup = [name for name in WANTED if name in self.controllers]
        parts = [f"cgroup v2 ({', '.join(by_cgroup)})"] if by_cgroup else []
        left = []
        if "memory" not in self.controllers:
            left.append("memory of each process (RLIMIT_DATA)")
        if "pids" not in self.controllers:
            left.append("processes of each user (RLIMIT_NPROC)" + (", but not of root" if self.root else ""))
        if left:
            parts.append(f"rlimits ({'; '.join(left)})")
        if "cpu" not in self.controllers:
            parts.append("cpu is not limited")
        return "; ".join(parts)

    def fence(self, container: Mapping[str, object], *, key: str, uid: int) -> Fence:
        """The limits of a container that runs as this user."""
        limits, requests = member(container, "resources", "limits"), member(container, "resources", "requests")
        memory, cpu = amount(member(limits, "memory")), amount(member(limits, "cpu"))
        share = amount(member(requests, "cpu")) or cpu
        files = {}
        if "memory" in self.controllers and memory is not None and memory.nanos > 0:
            files["memory.max"] = str(memory.whole())
        if "pids" in self.controllers:
            files["pids.max"] = str(self.pids_max)
        if "cpu" in self.controllers:
            if cpu is not None and cpu.nanos > 0:
                files["cpu.max"] = f"{max(1000, cpu.milli() * CPU_PERIOD // 1000)} {CPU_PERIOD}"
            if share is not None:
                files["cpu.weight"] = str(weight(share.milli()))
        rlimits = []
        if "memory" not in self.controllers and memory is not None and memory.nanos > 0:
            rlimits.append((resource.RLIMIT_DATA, memory.whole()))
        if "pids" not in self.controllers and uid != 0:
            room = self.pids_own if uid == os.geteuid() else self.pids_max
            rlimits.append((resource.RLIMIT_NPROC, self.count(uid) + room))
        cgroup = str(self.base / key.replace("/", "_")) if self.base is not None else ""
        return Fence(tuple(rlimits), cgroup, files)

    def count(self, uid: int) -> int:
        """A user's number of processes and threads, cached briefly."""
        known = self.counts.get(uid)
        now = self.now()
        if known is None or not 0 <= now - known[0] < COUNT_MICROS:
            known = self.counts[uid] = (now, tasks_of(uid))
        return known[1]

    def leftovers(self) -> list[Path]:
        """The existing cgroups of containers, including those of an earlier server in another scope."""
        if self.base is None:
            return []
        above = self.base.parent
        bases = above.parent.glob(f"*.scope/{self.name}") if above.suffix == ".scope" else (self.base,)
        found: list[Path] = []
        for base in bases:
            with contextlib.suppress(OSError):
                found += [entry for entry in base.iterdir() if entry.is_dir()]
        return found

    def close(self) -> None:
        """Remove our cgroup if it is empty."""
        if self.base is not None:
            with contextlib.suppress(OSError):
                self.base.rmdir()


def weight(milli: int) -> int:
    """The cpu.weight for this many thousandths of a core; one core is the kernel's default of 100."""
    return max(WEIGHT_MIN, min(WEIGHT_MAX, milli // 10))


def tasks_of(uid: int) -> int:
    """A user's number of processes and threads."""
    count = 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if entry.stat().st_uid == uid:
                        # The link count of this folder is two plus the number of threads.
                        count += os.stat(f"/proc/{entry.name}/task").st_nlink - 2
    return count


def end_cgroup(folder: Path) -> None:
    """Kill everything in a cgroup, and remove it."""
    with contextlib.suppress(OSError):
        (folder / KILL).write_text("1")
    with contextlib.suppress(OSError):
        folder.rmdir()
