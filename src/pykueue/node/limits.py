"""What holds a container to its limits? A cgroup where this user has one to give, else what a process can be held to.

With cgroup v2: memory.max, cpu.max, cpu.weight and pids.max, for all processes of the container together. Without:
RLIMIT_DATA for its memory, process by process (not RLIMIT_AS, which programs that merely reserve addresses, CUDA among
them, would run into at once), and RLIMIT_NPROC, which counts all processes of a user and does not bind root. As it
counts what else the user runs, a container may have as many more as there are when it starts; for the user of this very
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
COUNT_MICROS: Final = 1 * MICROS
"""How long a count of a user's processes is good for."""


class Fence(Frozen):
    """What a container is held to, and by what."""

    rlimits: tuple[tuple[int, int], ...] = ()
    cgroup: str = ""
    cgroup_limits: Mapping[str, str] = {}


def pids_default() -> int:
    """How many processes and threads a container may have: a hundred for each core, and at least 200."""
    return max(PIDS_LEAST, PIDS_PER_CORE * (os.cpu_count() or 1))


def own_cgroup(proc: Path = Path("/proc/self")) -> Path | None:
    """The cgroup v2 folder that this process is in; None where there is none."""
    try:
        mounts = (proc / "mountinfo").read_text().splitlines()
        groups = (proc / "cgroup").read_text().splitlines()
    except OSError:
        return None
    mount = next((line.split() for line in mounts if " - cgroup2 " in line), None)
    within = next((line[3:] for line in groups if line.startswith("0::")), None)
    if mount is None or within is None:
        return None
    # A container sees its own cgroup as the root of what is mounted.
    root, point = mount[3], mount[4]
    inside = within.removeprefix(root) if root != "/" and within.startswith(root) else within
    return Path(point) / inside.lstrip("/")


class Limits:
    """Holds containers to their limits, by the best means there are."""

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
        """What tells our cgroups from those of another server on this machine."""
        self.pids_max = pids_max or pids_default()
        self.pids_own = pids_max or max(PIDS_OWN, self.pids_max)
        """The same for the user that we are, where only a count by user can be had."""
        self.root = os.geteuid() == 0 if root is None else root
        self.own = own
        self.base: Path | None = None
        """Where the cgroups of containers are made; None: nowhere."""
        self.controllers: frozenset[str] = frozenset()
        self.counts: dict[int, tuple[Moment, int]] = {}

    def open(self) -> None:
        """Find out what there is, and prepare it."""
        if self.own is not None:
            self.prepare(self.own)
        LOG.info("limits of containers: %s", self.describe())

    def prepare(self, own: Path) -> None:
        """Make a cgroup for all containers below our own, with as many controllers as can be had."""
        base = own / self.name
        try:
            if not set((own / "cgroup.controllers").read_text().split()) & set(WANTED):
                # It could hold processes together, but not to anything: supervisors do the former.
                return
            self.enable(own)
            base.mkdir(exist_ok=True)
            self.enable(base)
            self.controllers = frozenset((base / "cgroup.subtree_control").read_text().split()) & frozenset(WANTED)
            self.base = base
        except OSError as error:
            LOG.debug("no cgroup can be made in %s: %s", own, error)

    def enable(self, folder: Path) -> None:
        """Have a cgroup give its children what it has, moving ourselves out of the way if we alone are in it."""
        there = (folder / "cgroup.controllers").read_text().split()
        given = (folder / "cgroup.subtree_control").read_text().split()
        missing = [name for name in WANTED if name in there and name not in given]
        if not missing:
            return
        inside = (folder / "cgroup.procs").read_text().split()
        if inside == [str(os.getpid())]:
            # A cgroup with processes of its own cannot share out; where we are its only one, we step aside.
            aside = folder / f"{self.name}-server"
            aside.mkdir(exist_ok=True)
            (aside / "cgroup.procs").write_text(str(os.getpid()))
        for name in missing:
            with contextlib.suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{name}")

    def describe(self) -> str:
        """Which means there are, for the log and for the node."""
        by_cgroup = [name for name in WANTED if name in self.controllers]
        said = [f"cgroup v2 ({', '.join(by_cgroup)})"] if by_cgroup else []
        left = []
        if "memory" not in self.controllers:
            left.append("memory of each process (RLIMIT_DATA)")
        if "pids" not in self.controllers:
            left.append("processes of each user (RLIMIT_NPROC)" + (", but not of root" if self.root else ""))
        if left:
            said.append(f"rlimits ({'; '.join(left)})")
        if "cpu" not in self.controllers:
            said.append("cpu is not limited")
        return "; ".join(said)

    def fence(self, container: Mapping[str, object], *, key: str, uid: int) -> Fence:
        """What a container is held to, that runs as this user."""
        limits, requests = member(container, "resources", "limits"), member(container, "resources", "requests")
        memory, cpu = amount(member(limits, "memory")), amount(member(limits, "cpu"))
        share = amount(member(requests, "cpu")) or cpu
        files = {}
        if "memory" in self.controllers and memory is not None:
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
        """How many processes and threads a user has, as of a moment ago."""
        known = self.counts.get(uid)
        now = self.now()
        if known is None or not 0 <= now - known[0] < COUNT_MICROS:
            known = self.counts[uid] = (now, tasks_of(uid))
        return known[1]

    def leftovers(self) -> list[Path]:
        """The cgroups of containers that are there."""
        try:
            return [] if self.base is None else [entry for entry in self.base.iterdir() if entry.is_dir()]
        except OSError:
            return []

    def close(self) -> None:
        """Remove our cgroup, if nothing is in it any more."""
        if self.base is not None:
            with contextlib.suppress(OSError):
                self.base.rmdir()


def weight(milli: int) -> int:
    """The cpu.weight that so many thousandths of a core stand for; a core is the kernel's default of 100."""
    return max(WEIGHT_MIN, min(WEIGHT_MAX, milli // 10))


def tasks_of(uid: int) -> int:
    """How many processes and threads a user has."""
    count = 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if entry.stat().st_uid == uid:
                        # The links of this folder are itself, its parent, and one for each thread.
                        count += os.stat(f"/proc/{entry.name}/task").st_nlink - 2
    return count


def end_cgroup(folder: Path) -> None:
    """End whatever is left in a cgroup, and remove it."""
    with contextlib.suppress(OSError):
        (folder / "cgroup.kill").write_text("1")
    with contextlib.suppress(OSError):
        folder.rmdir()
