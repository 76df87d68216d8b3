"""Are containers held to their limits by the means there are, and is it said which?"""

import asyncio
import os
import pwd
import resource
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from pykueue.base.units import MICROS, Moment
from pykueue.kube.port import PODS
from pykueue.node.setup.accounts import Account
from pykueue.node.setup.limits import Limits, end_cgroup, own_cgroup, pids_default, tasks_of, weight
from pykueue.node.spawn import Start
from tests.node.podhost import host, shell
from tests.node.watchedspawner import ENV, spawner

CONTAINER: dict[str, Any] = {"resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "500m"}}}
NOBODY = 65534


def tree_of(folder: Path, *, controllers: str = "cpu memory pids", procs: str = "") -> Path:
    """A folder like a cgroup that is ours."""
    for place in (folder, folder / "x"):
        place.mkdir(exist_ok=True)
        (place / "cgroup.controllers").write_text(controllers)
        (place / "cgroup.subtree_control").write_text(controllers)
        (place / "cgroup.procs").write_text(procs)
    return folder


def limits(own: Path | None = None, **more: Any) -> Limits:
    made = Limits(lambda: Moment(0), name="x", own=own, root=False, **more)
    made.open()
    return made


def test_with_a_cgroup_everything_is_limited_there(tmp_path: Path) -> None:
    made = limits(tree_of(tmp_path), pids_max=300)
    fence = made.fence(CONTAINER, key="u/main/0", uid=1000)
    assert fence.rlimits == ()
    assert fence.cgroup == str(tmp_path / "x" / "u_main_0")
    assert fence.cgroup_limits == {
        "memory.max": str(64 << 20),
        "pids.max": "300",
        "cpu.max": "150000 100000",
        "cpu.weight": "50",
    }
    assert made.describe() == "cgroup v2 (cpu, memory, pids)"


def test_without_one_processes_are_limited_each() -> None:
    made = limits(pids_max=300)
    fence = made.fence(CONTAINER, key="u/main/0", uid=NOBODY)
    assert fence.rlimits == (
        (resource.RLIMIT_DATA, 64 << 20),
        (resource.RLIMIT_NPROC, tasks_of(NOBODY) + 300),
    )
    assert fence.cgroup == ""
    assert made.describe() == (
        "rlimits (memory of each process (RLIMIT_DATA); processes of each user (RLIMIT_NPROC)); cpu is not limited"
    )


def test_a_memory_limit_of_zero_is_none(tmp_path: Path) -> None:
    container = {"resources": {"limits": {"memory": "0"}}}
    assert "memory.max" not in limits(tree_of(tmp_path)).fence(container, key="u/main/0", uid=0).cgroup_limits
    assert limits().fence(container, key="u/main/0", uid=0).rlimits == ()


def test_a_cgroup_that_can_limit_nothing_still_ends_processes(tmp_path: Path) -> None:
    own = tree_of(tmp_path, controllers="hugetlb")
    (own / "x" / "cgroup.kill").touch()
    made = limits(own)
    fence = made.fence(CONTAINER, key="u/main/0", uid=1000)
    assert fence.cgroup == str(tmp_path / "x" / "u_main_0")
    assert fence.cgroup_limits == {}
    assert [which for which, _ in fence.rlimits] == [resource.RLIMIT_DATA, resource.RLIMIT_NPROC]


def test_a_cgroup_that_can_do_nothing_is_not_used(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "cgroup.controllers").write_text("hugetlb")
    made = limits(own)
    assert made.fence(CONTAINER, key="u/main/0", uid=1000).cgroup == ""
    assert not (own / "x").exists()


def test_a_cgroup_that_can_limit_some_is_used_for_these(tmp_path: Path) -> None:
    made = limits(tree_of(tmp_path, controllers="memory pids"))
    fence = made.fence(CONTAINER, key="u/main/0", uid=1000)
    assert set(fence.cgroup_limits) == {"memory.max", "pids.max"}
    assert fence.rlimits == ()
    assert made.describe() == "cgroup v2 (memory, pids); cpu is not limited"


def test_our_own_user_has_more_room_unless_a_limit_is_given() -> None:
    own = os.geteuid() or NOBODY
    default = Limits(lambda: Moment(0), root=False)
    assert default.pids_own == max(2048, default.pids_max)
    given = Limits(lambda: Moment(0), root=False, pids_max=50)
    assert given.fence({}, key="u/a/0", uid=own).rlimits == ((resource.RLIMIT_NPROC, given.count(own) + 50),)


def test_a_folder_in_which_nothing_can_be_made_is_left_alone(tmp_path: Path) -> None:
    assert limits(tmp_path / "none").base is None


def test_root_cannot_be_held_by_a_count_of_processes() -> None:
    made = Limits(lambda: Moment(0), root=True)
    assert made.fence({}, key="u/a/0", uid=0).rlimits == ()
    assert "but not of root" in made.describe()


def test_a_count_of_processes_is_good_for_a_second() -> None:
    now = [Moment(0)]
    made = Limits(lambda: now[0])
    made.counts[NOBODY] = (Moment(0), 1234)
    assert made.count(NOBODY) == 1234
    now[0] = Moment(2 * MICROS)
    assert made.count(NOBODY) == tasks_of(NOBODY)


def test_tasks_are_threads_too() -> None:
    assert tasks_of(os.geteuid()) >= 1
    assert tasks_of(4_000_000) == 0


@pytest.mark.parametrize(("milli", "wanted"), [(0, 1), (100, 10), (1000, 100), (2500, 250), (10**9, 10_000)])
def test_a_core_weighs_a_hundred(milli: int, wanted: int) -> None:
    assert weight(milli) == wanted


def test_the_default_number_of_processes() -> None:
    assert pids_default() == max(200, 100 * (os.cpu_count() or 1))


@pytest.mark.parametrize(
    ("mount", "group", "wanted"),
    [
        pytest.param("/ /sys/fs/cgroup", "0::/user.slice/x", "/sys/fs/cgroup/user.slice/x", id="of a machine"),
        pytest.param("/docker/ab /sys/fs/cgroup", "0::/docker/ab/c", "/sys/fs/cgroup/c", id="within a container"),
        pytest.param("/ /sys/fs/cgroup", "4:memory:/x", None, id="of the first version alone"),
        pytest.param(None, "0::/", None, id="nowhere mounted"),
    ],
)
def test_our_own_cgroup(tmp_path: Path, mount: str | None, group: str, wanted: str | None) -> None:
    line = f"30 23 0:26 {mount} rw - cgroup2 cgroup2 rw\n" if mount else ""
    (tmp_path / "mountinfo").write_text("20 1 0:1 / / rw - ext4 /dev/sda rw\n" + line)
    (tmp_path / "cgroup").write_text(group + "\n")
    assert own_cgroup(tmp_path) == (Path(wanted) if wanted else None)
    assert own_cgroup(tmp_path / "none") is None


async def test_memory_beyond_the_limit_is_refused_to_a_process(tmp_path: Path) -> None:
    program = "x = bytearray(1 << 28)"
    start = Start("u/main/0", (sys.executable, "-c", program), ENV, "/", rlimits=((resource.RLIMIT_DATA, 1 << 27),))
    async with spawner(tmp_path) as watched:
        watched.spawner.start(start)
        assert (await watched.over()).code == 1
        assert "MemoryError" in watched.printed()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a pod as another user, whom the limit binds")
@pytest.mark.skipif(not shutil.which("perl"), reason="the bomb is written in Perl, which never gives up")
async def test_a_fork_bomb_is_held(tmp_path: Path) -> None:
    account = Account.of(pwd.getpwuid(NOBODY))
    tmp_path.chmod(0o711)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    before = tasks_of(NOBODY)
    settings: dict[str, Any] = {"scratch": tmp_path / "scratch", "pids_max": 50, "account": lambda pod: account}
    async with host(tmp_path / "data", **settings) as on:
        await on.pod("bomb", {"name": "main", "command": ["perl", "-e", "fork while 1"], "workingDir": "/"})
        await on.phase("bomb", "Running")
        most = 0
        for _ in range(50):
            most = max(most, tasks_of(NOBODY) - before)
            await asyncio.sleep(0.01)
        assert 10 < most <= 60
        await on.pod("after", shell("echo fine", workingDir="/"))
        await on.api.delete(PODS, "bomb", "default", grace=1)
        await on.until(lambda: on.stored("bomb") is None)
        assert tasks_of(NOBODY) - before <= 1


def test_what_is_left_in_a_cgroup_is_ended_and_the_folder_removed(tmp_path: Path) -> None:
    made = limits(tree_of(tmp_path))
    left = tmp_path / "x" / "u_main_0"
    left.mkdir()
    assert made.leftovers() == [left]
    end_cgroup(left)
    # A folder that is no cgroup takes the word as a file, and so stays.
    assert (left / "cgroup.kill").read_text() == "1"
    assert limits().leftovers() == []


def test_what_an_earlier_server_left_in_another_scope_is_found(tmp_path: Path) -> None:
    before, now = (tree_of(tmp_path / f"jobs-{number}.scope") for number in (1, 2))
    for place in (before, now):
        (place / "x" / "u_main_0").mkdir()
    assert sorted(limits(now).leftovers()) == [before / "x" / "u_main_0", now / "x" / "u_main_0"]


@pytest.mark.parametrize("beside", [False, True])
def test_only_our_own_processes_are_moved_so_that_a_cgroup_can_delegate(tmp_path: Path, beside: bool) -> None:
    ours = [str(os.getpid()), "4242"]
    own = tree_of(tmp_path, procs="\n".join([*ours, "77"] if beside else ours))
    (own / "cgroup.subtree_control").write_text("")
    made = Limits(lambda: Moment(0), name="x", own=own, root=False)
    made.movable = set(ours)
    made.enable(own)
    moved = own / "x-server" / "cgroup.procs"
    assert moved.exists() is not beside


def test_containers_start_in_the_cgroup_of_the_fork_server() -> None:
    made = Limits(lambda: Moment(0), name=f"pykueue-test-{os.getpid()}")
    made.open(os.getppid())
    assert made.own == own_cgroup(Path(f"/proc/{os.getppid()}"))
    made.close()
