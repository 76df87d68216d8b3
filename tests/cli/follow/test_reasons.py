"""Do `pykueue run` and `pykueue status` say why a job waits, at once and in words that its owner understands?"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cli.machine import SOON, Machine, machine_in
from tests.patience import soon

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_in(tmp_path) as made:
        made.up("--on-stop", "terminate")
        yield made


def submit(machine: Machine, name: str, cpu: str, queue: str = "team-a") -> None:
    done = machine.run("run", "-q", queue, "--cpu", cpu, "--name", name, "--detach", "--", "sleep", "600")
    assert done.returncode == 0, done.stderr


def lines_of(machine: Machine, name: str) -> str:
    """What `pykueue status` says of a job, on one line."""
    shown = machine.run("status").stdout
    found = re.search(rf"  default/{name} in \S+: (.*?)(?=\n  default/|\Z)", shown, re.DOTALL)
    return "" if found is None else " ".join(found[1].split())


def test_four_equal_jobs_and_room_for_one_all_three_that_wait_say_why(machine: Machine) -> None:
    for name in ("first", "second", "third"):
        submit(machine, name, "4")
    fourth = machine.start("run", "-q", "team-a", "--cpu", "4", "--name", "fourth", "--", "true")
    assert fourth.stderr is not None
    assert "submitting to https://" in fourth.stderr.readline()
    assert "submitted to queue team-a" in fourth.stderr.readline()
    needs = "insufficient unused quota for cpu in flavor machine, 4 more needed"
    told = fourth.stderr.readline()
    assert told.startswith("pykueue: pending: ")
    assert needs in told
    for name in ("second", "third", "fourth"):
        assert soon(partial(lambda one: lines_of(machine, one) != "", name))
        assert lines_of(machine, name) == "needs 4 more cpu"
    fourth.terminate()
    fourth.communicate(timeout=SOON)


def test_what_can_never_start_says_so(machine: Machine) -> None:
    huge = machine.start("run", "-q", "team-a", "--cpu", "9", "--name", "huge", "--", "true")
    assert huge.stderr is not None
    words = "can never start: asks for 9 cpu, this queue can have 4 at most"
    assert [huge.stderr.readline() for _ in range(3)][2] == f"pykueue: {words}\n"
    assert soon(lambda: lines_of(machine, "huge") == words)
    assert words in machine.kubectl("get", "events", "--field-selector", "reason=CanNeverStart")
    huge.terminate()
    huge.communicate(timeout=SOON)
    done = machine.run("run", "-q", "team-a", "--cpu", "9", "--name", "vast", "--detach", "--", "true")
    assert (done.returncode, f"pykueue: job default/vast {words}; to remove it: pykueue cancel" in done.stderr) == (
        0,
        True,
    )
    assert f"job default/vast {words}\n" in machine.run("wait", "vast", "--timeout", "2s").stderr


def test_a_preemption_names_for_whom_it_was(machine: Machine) -> None:
    victim = machine.start("run", "-q", "team-a", "--cpu", "4", "--name", "victim", "--", "sleep", "600")
    assert soon(lambda: "victim" in machine.kubectl("get", "pods", "--field-selector", "status.phase=Running"))
    submit(machine, "owner", "2", "team-b")
    assert victim.stderr is not None
    lines: list[str] = []
    while not any("pending: " in line for line in lines):
        lines.append(victim.stderr.readline())
    evicted = next(line for line in lines if "evicted" in line)
    assert re.fullmatch(
        r"pykueue: evicted: preempted for Job owner \(Workload job-owner-\w+\), "
        r"which took back what team-b owns\n",
        evicted,
    )
    assert not UID.search("".join(lines))
    note = machine.kubectl("get", "events", "--field-selector", "reason=PreemptedFor", "-o", "jsonpath={..message}")
    assert note.startswith("preempted for Job owner (Workload job-owner-")
    victim.terminate()
    victim.communicate(timeout=SOON)
