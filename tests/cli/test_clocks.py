"""Does `pykueue up` keep time when the wall clock is set or the machine is suspended? Real processes, moved clocks."""

import contextlib
import json
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.machine import Machine, machine_in
from tests.clockshim import FakeTime, Shim, WallClock
from tests.patience import soon
from tests.prometheus import Page

pytestmark = pytest.mark.slow("each starts a server and waits for deadlines")
QUEUE = "kueue.x-k8s.io/queue-name"
HOUR = 3600
STEPS = [
    pytest.param(-HOUR, id="an hour back"),
    pytest.param(-1, id="a second back"),
    pytest.param(1, id="a second forward"),
    pytest.param(HOUR, id="an hour forward"),
]


class Timed(Machine):
    """A machine whose server has clocks of its own."""

    def up_with(self, clock: WallClock) -> None:
        """Start the server with clocks that a test moves; every other command has the usual ones."""
        usual = self.environment
        self.environment = {**usual, **clock.environment}
        try:
            self.up()
        finally:
            self.environment = usual

    def submit(self, name: str, command: str, cpu: int = 1, pod: dict[str, Any] | None = None, **spec: Any) -> None:
        """A Job in a queue."""
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", command],
            "resources": {"requests": {"cpu": str(cpu)}},
        }
        tree = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": {QUEUE: "team-a"}},
            "spec": {
                "backoffLimit": 0,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}},
                **spec,
            },
        }
        file = self.data.parent / f"{name}.json"
        file.write_text(json.dumps(tree))
        self.kubectl("create", "-f", str(file))

    def objects(self, kind: str, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, "-o", "json", *words))["items"]
        return found

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """A condition of a Job; empty where it is not true."""
        for job in self.objects("jobs"):
            for one in job.get("status", {}).get("conditions") or ():
                if (job["metadata"]["name"], one["type"], one["status"]) == (name, kind, "True"):
                    return dict(one)
        return {}

    def metric(self, name: str) -> float:
        return Page(self.kubectl("get", "--raw", "/metrics"))[name]

    def log(self) -> str:
        return (self.data / "up.log").read_text()


@contextlib.contextmanager
def timed_in(folder: Path, clock: WallClock) -> Iterator[Timed]:
    with machine_in(folder) as made:
        made.__class__ = Timed
        assert isinstance(made, Timed)
        made.up_with(clock)
        yield made


@pytest.fixture
def faked(tmp_path: Path) -> Iterator[tuple[Timed, FakeTime]]:
    clock = FakeTime(tmp_path)
    with timed_in(tmp_path, clock) as machine:
        yield machine, clock


@pytest.fixture
def shimmed(tmp_path: Path) -> Iterator[tuple[Timed, Shim]]:
    clock = Shim(tmp_path)
    with timed_in(tmp_path, clock) as machine:
        yield machine, clock


@pytest.mark.parametrize("seconds", STEPS)
def test_jobs_are_admitted_and_end_although_the_wall_clock_is_set(faked: tuple[Timed, FakeTime], seconds: int) -> None:
    machine, clock = faked
    folder = machine.data.parent
    machine.submit("first", f"touch {folder}/runs; until [ -e {folder}/go ]; do sleep 0.1; done", cpu=4)
    assert soon((folder / "runs").exists)
    machine.submit("second", "true", cpu=4)
    machine.submit("third", "true", cpu=4)
    clock.step(seconds)
    (folder / "go").touch()
    for name in ("first", "second", "third"):
        assert soon(partial(lambda one: bool(machine.condition(one, "Complete")), name)), f"{name} does not end"
    assert machine.metric("pykueue_clock_steps_total") == 1
    assert machine.metric("pykueue_clock_suspends_total") == 0
    # Dates follow by a tenth of the time that passes: of an hour little, of a second all in ten.
    offset = machine.metric("pykueue_clock_offset_seconds")
    assert 0 <= offset / seconds <= 1
    if abs(seconds) == HOUR:
        assert abs(offset) > HOUR - 30
    else:
        assert soon(lambda: machine.metric("pykueue_clock_offset_seconds") == 0)
    assert f"direction={'forward' if seconds > 0 else 'back'} seconds={abs(seconds):.1f}" in machine.log()


@pytest.mark.parametrize("seconds", [-30, HOUR])
def test_a_deadline_lasts_as_long_as_it_says_although_the_wall_clock_is_set(
    faked: tuple[Timed, FakeTime], seconds: int
) -> None:
    machine, clock = faked
    began, lives = machine.data.parent / "began", machine.data.parent / "lives"
    beats = f"touch {began}; while :; do touch {lives}; sleep 0.1; done"
    machine.submit("late", beats, activeDeadlineSeconds=6, pod={"terminationGracePeriodSeconds": 1})
    assert soon(lives.exists)
    clock.step(seconds)
    assert soon(lambda: machine.condition("late", "Failed").get("reason") == "DeadlineExceeded")
    # By the usual clock: 6 s, less what a Job takes to become a process, and a little more where its end is late.
    assert 2 < lives.stat().st_mtime - began.stat().st_mtime < 14


def test_what_is_written_of_a_container_agrees_with_its_pod_after_the_wall_clock_is_set(
    faked: tuple[Timed, FakeTime],
) -> None:
    machine, clock = faked
    clock.step(-HOUR)
    machine.submit("later", "true")
    assert soon(lambda: bool(machine.condition("later", "Complete")))
    (pod,) = machine.objects("pods")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    times = [pod["metadata"]["creationTimestamp"], pod["status"]["startTime"], ended["startedAt"], ended["finishedAt"]]
    seconds = [datetime.fromisoformat(one).timestamp() for one in times]
    assert max(seconds) - min(seconds) < 60
    assert seconds[2] <= seconds[3]


def test_the_lines_of_a_log_are_in_order_although_the_wall_clock_is_set(faked: tuple[Timed, FakeTime]) -> None:
    machine, clock = faked
    go = machine.data.parent / "go"
    machine.submit(
        "talks", f"for i in 1 2 3; do echo $i; done; touch {go}.on; until [ -e {go} ]; do sleep 0.1; done; echo"
    )
    assert soon(go.with_name("go.on").exists)
    clock.step(-HOUR)
    go.touch()
    assert soon(lambda: bool(machine.condition("talks", "Complete")))
    stamps = [line.split()[0] for line in machine.kubectl("logs", "job/talks", "--timestamps").splitlines()]
    assert len(stamps) == 4
    assert stamps == sorted(stamps)


def test_a_deadline_that_passes_in_a_suspend_is_noticed_at_the_resume(shimmed: tuple[Timed, Shim]) -> None:
    machine, clock = shimmed
    runs = machine.data.parent / "runs"
    machine.submit(
        "long", f"touch {runs}; sleep 1000", activeDeadlineSeconds=600, pod={"terminationGracePeriodSeconds": 1}
    )
    machine.submit("over", "true", ttlSecondsAfterFinished=600)
    assert soon(runs.exists)
    assert soon(lambda: bool(machine.condition("over", "Complete")))
    clock.suspend(HOUR)
    assert soon(lambda: machine.condition("long", "Failed").get("reason") == "DeadlineExceeded")
    assert soon(lambda: "over" not in {job["metadata"]["name"] for job in machine.objects("jobs")})
    assert machine.metric("pykueue_clock_suspends_total") == 1
    assert machine.metric("pykueue_clock_steps_total") == 0
    assert machine.metric("pykueue_clock_offset_seconds") == 0
    assert "machine was suspended, timers are set again seconds=3600.0" in machine.log()
    machine.submit("after", "true")
    assert soon(lambda: bool(machine.condition("after", "Complete")))


def test_a_probe_that_hangs_over_a_suspend_is_ended_at_the_resume(shimmed: tuple[Timed, Shim]) -> None:
    machine, clock = shimmed
    folder = machine.data.parent
    probe = {"exec": {"command": ["sh", "-c", f"touch {folder}/asked; sleep 1000"]}, "timeoutSeconds": 600}
    container = {
        "name": "main",
        "image": "none",
        "command": ["sleep", "1000"],
        "resources": {"requests": {"cpu": "1"}},
        "livenessProbe": {**probe, "periodSeconds": 1, "failureThreshold": 1},
    }
    machine.submit("probed", "", pod={"containers": [container], "terminationGracePeriodSeconds": 1})
    assert soon((folder / "asked").exists)
    clock.suspend(HOUR)
    assert soon(lambda: bool(machine.condition("probed", "Failed")))
