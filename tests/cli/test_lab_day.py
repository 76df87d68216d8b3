"""One day of a lab of three people on one machine: real accounts, real processes, and nothing but `pykueue`."""

import csv
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pykueue.cli.serverstate import OWN_KUBECONFIG
from tests.cli.follow.test_terminal import Screen
from tests.cli.machine import SOON, Machine, machine_in
from tests.patience import soon

ACCOUNTS = ("daemon", "mail", "nobody")
"""Accounts that every Linux has; the first two work on vision, the third on speech."""
PUBLIC = {"namespace", "name", "state", "owner", "queue", "requests", "since"}
"""What everyone may see of a job."""
SURVEY = "echo begins >> survey.log; test $(wc -l < survey.log) = 2 || sleep 600; echo surveyed"
"""Runs until it is preempted, and ends by itself the second time."""
TRAIN = "echo secret-of-ann; until test -e go; do sleep 0.05; done; echo trained"
TASK = "echo + >> tasks.log; sleep 0.3; echo - >> tasks.log; echo seed $PYKUEUE_ARRAY_TASK_ID; "
FAILS = "test $PYKUEUE_ARRAY_TASK_ID != 4 || exit 9"


class Person(Machine):
    """A user of the machine, with a home directory and an account of their own."""

    def __init__(self, home: Path, name: str) -> None:
        super().__init__(home.parent)
        self.name = name
        self.home = home
        self.environment |= {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        account = pwd.getpwnam(name)
        home.mkdir(mode=0o700)
        os.chown(home, account.pw_uid, account.pw_gid)
        self.becomes = ("setpriv", "--reuid", name, "--regid", str(account.pw_gid), "--clear-groups")

        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command that this person follows."""
        self.started.append(super().start(*words))
        return self.started[-1]

    def command(self, *words: str) -> list[str]:
        """A command that this person types at home."""
        return ["env", "-C", str(self.home), *self.becomes, sys.executable, "-m", "pykueue", *words]

    def types(self, *words: str) -> str:
        """What a command prints that succeeds."""
        done = self.run(*words)
        assert done.returncode == 0, (self.name, words, done.stderr)
        return done.stdout

    def told(self, *words: str) -> tuple[int, str]:
        """The exit code of a command, and what it says to this person."""
        done = self.run(*words)
        return done.returncode, done.stderr

    def table(self, *words: str) -> dict[str, dict[str, str]]:
        """The rows that `pykueue jobs` shows, by name."""
        return {row["NAME"]: row for row in csv.DictReader(self.types("jobs", "-o", "csv", *words).splitlines())}

    def state(self, name: str) -> str:
        """The state of one of the jobs that run or wait."""
        return self.table().get(name, {}).get("STATE", "")


class Lab:
    """A machine, and the people who share it."""

    def __init__(self, folder: Path, server: Machine) -> None:
        self.server = server
        self.ann, self.bob, self.cleo = (Person(folder / name, name) for name in ACCOUNTS)


@pytest.fixture
def lab() -> Iterator[Lab]:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can serve several users, and setpriv is needed to be one of them")
    # Not in pytest's directory, which other users may not enter.
    folder = Path(tempfile.mkdtemp(prefix="pykueue-lab-"))
    folder.chmod(0o755)
    try:
        with machine_in(folder) as server:
            made = Lab(folder, server)
            if made.ann.run("--version").returncode:
                pytest.skip("other users may not read this checkout")
            try:
                yield made
            finally:
                for one in (*made.ann.started, *made.bob.started, *made.cleo.started):
                    one.kill()
                    one.communicate()
    finally:
        shutil.rmtree(folder)


def over(following: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """The exit code, output and messages of a command that was followed to its end."""
    out, err = following.communicate(timeout=SOON)
    return following.returncode, out, err


def test_a_day_of_a_lab(lab: Lab) -> None:
    the_administrator_divides_the_machine(lab)
    an_owner_takes_her_quota_back(lab)
    an_array_a_shell_and_second_thoughts(lab)
    the_report_at_the_end(lab)
    the_lab_could_move_to_a_cluster(lab)


def the_administrator_divides_the_machine(lab: Lab) -> None:
    offers = ("--cpus", "4", "--memory", "8Gi", "--gpus", "0")
    server = ("--detach", "--port", "0", "--on-stop", "terminate", "--show-jobs", "everyone")
    done = lab.server.run("up", *offers, *server)
    assert done.returncode == 0, done.stderr
    for person, team in ((lab.ann, "vision"), (lab.bob, "vision"), (lab.cleo, "speech")):
        own = str(person.home / OWN_KUBECONFIG)
        done = lab.server.run("user", "add", person.name, "--namespace", team, "--out", own)
        assert done.stdout.startswith(f"{person.name} added: user of namespace {team}, "), done.stderr
    for team in ("vision", "speech"):
        done = lab.server.run("queue", "add", team, "--share", "50%", "--namespace", team)
        told = f"queue {team} created: it owns 2 cpu, 4Gi memory; submit from namespace {team}\n"
        assert done.stdout == told, done.stderr
    # Nobody else may.
    code, says = lab.ann.told("queue", "set", "vision", "--cpu", "4")
    assert code == 1
    assert f'User "{lab.ann.name}" cannot update resource "clusterqueues"' in says
    assert "only an administrator can list or change the users" in lab.ann.told("user", "list")[1]
    theirs = str(lab.ann.home / OWN_KUBECONFIG)
    code, says = lab.cleo.told("jobs", "--kubeconfig", theirs)
    assert code == 2
    assert "Permission denied" in says


def an_owner_takes_her_quota_back(lab: Lab) -> None:
    ann, bob, cleo = lab.ann, lab.bob, lab.cleo
    survey = cleo.start("run", "--name", "survey", "--cpu", "3", "--", "sh", "-c", SURVEY)
    log = cleo.home / "survey.log"
    assert soon(log.exists)
    # So that the work which is lost takes a second at least.
    time.sleep(1.5)
    train = ann.start("run", "--name", "train", "--cpu", "2", "--", "sh", "-c", TRAIN)
    assert soon(lambda: ann.state("train") == "RUNNING")
    ann.types("run", "--detach", "--name", "evaluate", "--after-ok", "train", "--", "echo", "score", "7")
    hers = ann.table()
    assert (hers["train"]["OWNER"], hers["train"]["STATE"], hers["train"]["USES"]) == (ann.name, "RUNNING", "cpu=2")
    assert (hers["evaluate"]["STATE"], hers["evaluate"]["PLACE"]) == ("PENDING", "")
    assert hers["evaluate"]["REASON"] == "waits for job train to succeed"

    # A colleague of the same team may read and not change it.
    assert soon(lambda: bob.types("logs", "train") == "secret-of-ann\n")
    code, says = bob.told("cancel", "train")
    assert code == 1
    assert f'it was created by "{ann.name}", and User "{bob.name}" may only change or delete objects of their' in says
    # The other team sees that there is a job, and nothing more.
    shown = cleo.types("jobs", "-A", "-o", "json")
    items = {one["name"]: one for one in json.loads(shown)["items"]}
    assert set(items) == {"survey", "train", "evaluate"}
    assert set(items["train"]) <= PUBLIC
    assert items["survey"]["reason"] == "needs 1 more cpu"
    assert "secret-of-ann" not in shown
    for verb in ("logs", "cancel"):
        code, says = cleo.told(verb, "-n", "vision", "train")
        assert code == 1
        assert f'User "{cleo.name}" cannot get resource "jobs" in API group "batch" in the namespace "vision"' in says
    bars = {line.split()[0]: line for line in cleo.types("top").splitlines() if " cpu " in line}
    assert [bars[name].split()[4:8] for name in ("speech", "vision")] == [["0", "2", "0", "-"], ["2", "2", "0", "-"]]

    (ann.home / "go").touch()
    code, out, _ = over(train)
    assert (code, out) == (0, "secret-of-ann\ntrained\n")
    assert ann.told("wait", "evaluate") == (0, "pykueue: job vision/evaluate succeeded\n")
    assert ann.types("logs", "evaluate") == "score 7\n"
    code, out, says = over(survey)
    assert (code, out) == (0, "surveyed\n"), says
    assert log.read_text() == "begins\n" * 2
    assert "ClusterQueue speech borrows 1 cpu: the job may be preempted when the owner of this quota needs it" in says
    assert "evicted: preempted for Job vision/train (Workload job-train-" in says
    assert "which took back what vision owns\n" in says


def an_array_a_shell_and_second_thoughts(lab: Lab) -> None:
    ann, bob, cleo = lab.ann, lab.bob, lab.cleo
    sweep = bob.start("run", "--name", "sweep", "--array", "0-5%2", "--", "sh", "-c", TASK + FAILS)
    shell = Screen(cleo, "run", "--name", "shell", "--interactive", "--", "sh", "-i")
    try:
        cleo.types("run", "--detach", "--name", "idea", "--", "sleep", "600")
        shell.shows(b"submitted to queue speech")
        shell.type(b"PS1=; stty size; echo I am $(id -un); exit 7\n")
        shell.shows(b"43 132\r\n")
        shell.shows(f"I am {cleo.name}\r\n".encode())
        assert shell.ends() == 7
    finally:
        shell.close()
        shell.process.kill()
        shell.process.wait()
    code, says = cleo.told("hold", "idea")
    assert (code, says.startswith("pykueue: job speech/idea held")) == (0, True), says
    assert cleo.table()["idea"]["STATE"] == "HELD"
    assert cleo.told("release", "idea")[0] == 0
    assert soon(lambda: cleo.state("idea") == "RUNNING")
    assert cleo.told("cancel", "idea") == (0, "pykueue: job speech/idea cancelled\n")

    code, _, says = over(sweep)
    assert code == 1
    assert "pykueue: 1 of 6 tasks failed: 4\n" in says
    at_once = [0]
    for line in (bob.home / "tasks.log").read_text().split():
        at_once.append(at_once[-1] + (1 if line == "+" else -1))
    assert (max(at_once), len(at_once)) == (2, 13), at_once
    assert bob.types("logs", "sweep:3") == "seed 3\n"
    assert bob.told("wait", "sweep:4")[0] == 9
    # What waits for a job that failed never starts, and says so.
    ann.types("run", "--detach", "--name", "plot", "--after-ok", "sweep", "--", "true")
    assert ann.table()["plot"]["REASON"] == "can never start: job sweep failed"


def the_report_at_the_end(lab: Lab) -> None:
    ann, bob, cleo = lab.ann, lab.bob, lab.cleo
    fields = ("STATE", "EXIT_CODE", "TASKS", "PREEMPTED")
    # The record of a cancelled job follows its processes.
    assert soon(lambda: "idea" in cleo.table("--finished"))
    speech = cleo.table("--finished")
    assert {name: tuple(row[field] for field in fields) for name, row in speech.items()} == {
        "survey": ("COMPLETED", "0", "", "1"),
        "shell": ("FAILED", "7", "", "0"),
        "idea": ("CANCELLED", "", "", "0"),
    }
    assert int(speech["survey"]["LOST_SECONDS"]) >= 1
    assert int(speech["survey"]["WAITED_SECONDS"]) >= 1
    vision = ann.table("--finished")
    assert {name: tuple(row[field] for field in fields) for name, row in vision.items()} == {
        "train": ("COMPLETED", "0", "", "0"),
        "evaluate": ("COMPLETED", "0", "", "0"),
        "sweep": ("FAILED", "9", "5/6", "0"),
    }
    assert int(vision["train"]["RAN_SECONDS"]) >= 1
    assert int(vision["evaluate"]["WAITED_SECONDS"]) >= 1
    assert {row["LOST_SECONDS"] for row in vision.values()} == {"0"}
    assert set(bob.table("--finished", "--mine")) == {"sweep"}
    # Records of another team are its own, even where everyone sees what runs.
    done = cleo.run("jobs", "--finished", "-A")
    assert "only namespace speech is shown" in done.stderr
    assert "vision/" not in done.stdout
    code, says = cleo.told("jobs", "--finished", "-n", "vision")
    assert code == 1
    assert f'User "{cleo.name}" cannot list resource "jobs"' in says
    done = lab.server.run("jobs", "--finished", "-A", "-o", "csv")
    assert {(row["NAME"], row["OWNER"]) for row in csv.DictReader(done.stdout.splitlines())} == {
        ("survey", cleo.name),
        ("shell", cleo.name),
        ("idea", cleo.name),
        ("train", ann.name),
        ("evaluate", ann.name),
        ("sweep", bob.name),
    }


def the_lab_could_move_to_a_cluster(lab: Lab) -> None:
    code, says = lab.ann.told("export")
    assert code == 1
    assert f'User "{lab.ann.name}" cannot list' in says
    done = lab.server.run("export")
    assert done.returncode == 0, done.stderr
    kinds = {(tree["kind"], tree["metadata"]["name"]) for tree in yaml.safe_load_all(done.stdout)}
    assert {("ClusterQueue", "vision"), ("LocalQueue", "speech"), ("Namespace", "speech"), ("Job", "plot")} <= kinds
    assert {("RoleBinding", f"pykueue-{name}") for name in ACCOUNTS} <= kinds
    assert {name for kind, name in kinds if kind == "Job"} == {"plot"}
    assert "Job vision/plot: spec.template.spec.containers[0].image: 'local' is not an image" in done.stderr
