"""What do the commands of `pykueue` show on a cluster, to a user with few rights and to an administrator?"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from pykueue.cli.main import cli
from tests.e2e.backend import only_on_plane
from tests.e2e.job import Job
from tests.e2e.team import Team
from tests.plane.plane import executables

only_on_plane("the commands ask a real API server, which grants Kueue's own roles")

ROLES = "rbac.authorization.k8s.io"


class Person:
    """A user of the cluster, and what the commands tell him."""

    def __init__(self, team: Team, kubeconfig: Path, home: Path) -> None:
        self.team = team
        tree = yaml.safe_load(kubeconfig.read_text())
        tree["contexts"][0]["context"]["namespace"] = team.namespace
        home.mkdir()
        file = home / "kubeconfig"
        file.write_text(yaml.safe_dump(tree))
        self.program = executables("kueuectl") / "kueuectl"
        self.environment = {"HOME": str(home), "KUBECONFIG": str(file), "XDG_DATA_HOME": str(home / "data")}

    def asks(self, line: str, code: int = 0) -> tuple[str, str]:
        """What a command prints to standard output and to standard error."""
        done = CliRunner().invoke(cli, line.split(), env=self.environment)
        assert done.exit_code == code, f"pykueue {line}: code {done.exit_code}, {done.output}"
        return done.stdout, done.stderr

    def cells(self, line: str) -> list[list[str]]:
        """The rows that a command prints as csv, without the last column."""
        return [row.split(",")[:-1] for row in self.asks(f"{line} -o csv --no-headers")[0].splitlines()]

    def submits(self, name: str) -> Job:
        """A Job that he submits with `pykueue run`."""
        # `run` hands descriptors on, which the streams of a CliRunner do not have.
        line = f"run --detach --queue main --name {name} --image example.com/none -- true"
        done = subprocess.run(
            [sys.executable, "-m", "pykueue", *line.split()],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, **self.environment},
        )
        assert f"job {self.team.namespace}/{name} submitted to queue main" in done.stderr
        made = self.team.get("Job", name, self.team.namespace)
        return Job(self.team, name, self.team.namespace, made["metadata"]["uid"])

    def kueuectl(self, line: str) -> tuple[int, str]:
        """The exit code and the standard output of the real kueuectl."""
        done = subprocess.run(
            [self.program, *line.split()],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **self.environment},
        )
        return done.returncode, done.stdout


@pytest.fixture
def administrator(team: Team, tmp_path: Path) -> Person:
    return Person(team, team.cluster.plane.kubeconfig, tmp_path / "administrator")


@pytest.fixture
def user(team: Team, tmp_path: Path) -> Person:
    """A user who has Kueue's batch-user role in the namespace of the story, and no other."""
    plane, where = team.cluster.plane, {"name": "user", "namespace": team.namespace}
    subject = {"kind": "ServiceAccount", **where}
    role = {"apiGroup": ROLES, "kind": "ClusterRole", "name": "kueue-batch-user-role"}
    team.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": where})
    team.create(
        {
            "apiVersion": f"{ROLES}/v1",
            "kind": "RoleBinding",
            "metadata": where,
            "roleRef": role,
            "subjects": [subject],
        }
    )
    return Person(team, plane.kubeconfig_for(plane.token(team.namespace, "user"), team.own("user")), tmp_path / "user")


def test_a_user_with_few_rights_sees_what_he_may_and_what_is_left_out(team: Team, user: Person) -> None:
    team.queue(cpu=2)
    who = f'User "system:serviceaccount:{team.namespace}:user" cannot list resource'
    no_pods = f'pods is forbidden: {who} "pods" in API group "" in the namespace "{team.namespace}"\n'
    first, second, third = (user.submits(name) for name in ("first", "second", "third"))
    first.runs()
    second.runs()
    third.waits("WaitingForQuota")

    table, told = user.asks("jobs")
    assert [line.split()[:4] for line in table.splitlines()[1:]] == [
        ["first", "main", "-", "RUNNING"],
        ["second", "main", "-", "RUNNING"],
        ["third", "main", "-", "PENDING"],
    ]
    assert "needs 1 more cpu" in table
    assert told == f"pykueue: containers that cannot start are omitted: {no_pods}"
    table, told = user.asks("jobs -A")
    assert f"{team.namespace}/third" in table
    assert told.startswith(f"pykueue: only namespace {team.namespace} is shown: jobs.batch is forbidden: {who}")
    assert told.count("\n") == 2

    # The status of a queue counts a moment later.
    counted = [["main", team.own("main"), "1", "2"]]
    team.eventually(lambda: user.cells("list lq") == counted, "the queue counts its workloads")
    states = [["first", "ADMITTED"], ["second", "ADMITTED"], ["third", "PENDING"]]
    assert [[row[2], row[5]] for row in user.cells("list wl")] == states
    assert [[row[3], row[6]] for row in user.cells("list workload -A")] == states
    told = user.asks("list workload -A")[1]
    assert told.startswith(f"workloads.kueue.x-k8s.io is forbidden: {who}")
    assert told.endswith(f"; only namespace {team.namespace} is listed\n")
    table, told = user.asks("list cq", code=1)
    assert (table, told.count("\n")) == ("", 1)
    assert f'{who} "clusterqueues" in API group "kueue.x-k8s.io" at the cluster scope' in told

    table, told = user.asks("top")
    assert table.splitlines()[1].split()[-6:] == ["2", "-", "-", "-", "2", "1"]
    assert told == f"you may not read ClusterQueues: showing the usage of namespace {team.namespace}, without quotas\n"
    table, told = user.asks("status")
    assert f"  {team.namespace}/third in main: needs 1 more cpu" in table.splitlines()
    left_out = [line.partition(": ")[2].partition(":")[0] for line in told.splitlines()]
    assert left_out[:2] == ["the cluster is omitted", "quotas are omitted"]
    table, told = user.asks("logs first", code=1)
    assert (table, told.endswith(f": list pods {team.namespace}: {no_pods}")) == ("", True)

    assert (
        user.asks("hold first")[1] == f"pykueue: job {team.namespace}/first held; it was running and is being stopped\n"
    )
    third.runs()

    def state() -> str:
        found: str = {one["name"]: one["state"] for one in json.loads(user.asks("jobs -o json")[0])["items"]}["first"]
        return found

    team.eventually(lambda: state() == "HELD", "the job has stopped")
    user.asks("release first")
    first.waits("WaitingForQuota")
    user.asks("cancel second")
    first.runs()
    third.ends()
    assert user.asks("wait third")[1] == f"pykueue: job {team.namespace}/third succeeded\n"
    table, told = user.asks("jobs --finished")
    assert [line.split()[0] for line in table.splitlines()[1:]] == ["third"]
    assert told.splitlines() == [
        "pykueue: deleted jobs are omitted: this server does not keep records of them",
        f"pykueue: exit codes are omitted: {no_pods.rstrip()}",
    ]


def test_an_administrator_has_the_verbs_of_kueuectl(team: Team, administrator: Person) -> None:
    queue = team.queue(cpu=1)
    name = queue.cluster_queue
    job = queue.job("first")
    job.runs()
    queue.has_status(admittedWorkloads=1)
    queue.local_has_status(admittedWorkloads=1)

    assert [name, "", "BestEffortFIFO", "0", "1", "true"] in administrator.cells("list cq")
    assert administrator.cells("list lq") == [["main", name, "0", "1"]]
    assert [row[1:6] for row in administrator.cells("list workload")] == [["job", "first", "main", name, "ADMITTED"]]
    assert team.own("default") in administrator.asks("list rf -o name")[0]
    assert administrator.asks("list pods --for job/first")[0].splitlines()[1].startswith("first-")

    for line, resource in (
        (f"create cq other --nominal-quota {team.own('default')}:cpu=1 --dry-run server", "clusterqueue"),
        (f"create lq other -c {name} --dry-run server", "localqueue"),
        ("create rf other --node-labels a=b --dry-run server", "resourceflavor"),
    ):
        assert administrator.asks(line)[0] == f"{resource}.kueue.x-k8s.io/other created (server dry run)\n"
    assert administrator.asks("list lq -o name")[0] == "localqueue.kueue.x-k8s.io/main\n"

    administrator.asks(f"stop cq {name}")
    job.is_suspended()
    administrator.asks(f"resume cq {name}")
    job.runs()
    administrator.asks("stop lq main --keep-already-running")
    waiting = queue.job("second")
    administrator.asks(f"stop workload {job.workload_name}")
    job.is_suspended()
    waiting.never_runs()
    administrator.asks("resume lq main")
    waiting.runs()
    waiting.ends()
    administrator.asks(f"resume workload {job.workload_name}")
    job.runs()
    administrator.asks(f"delete workload {job.workload_name} --yes")
    team.eventually(lambda: not team.client.find("Job", "first", team.namespace), "the Job of the Workload is deleted")


def found_by_doctor(person: Person) -> tuple[dict[str, set[str]], str]:
    """What `pykueue doctor` finds of this story, by object, and what it prints to standard error."""
    table, told = person.asks("doctor -o json", code=1)
    found: dict[str, set[str]] = {}
    for one in json.loads(table)["items"]:
        found.setdefault(one["object"], set()).add(one["id"])
    return {name: ids for name, ids in found.items() if person.team.name in name}, told


def test_the_doctor_finds_mistakes_of_a_cluster(team: Team, administrator: Person, user: Person) -> None:
    queue = team.queue(cpu=2)
    flavor = team.flavor("gpus", {"cards": team.name})
    team.local_queue("lost", team.own("nowhere"))
    huge = queue.job("huge", cpu=3)
    huge.waits("ExceedsMaxQuota")

    place = team.namespace
    wrong = {f"Job {place}/huge": {"request-never-fits"}}
    found, _ = found_by_doctor(administrator)
    assert found == {
        **wrong,
        f"LocalQueue {place}/lost": {"clusterqueue-missing"},
        f"ResourceFlavor {flavor}": {"flavor-without-nodes", "flavor-unused"},
    }
    found, told = found_by_doctor(user)
    assert found == wrong
    assert f"you may only read LocalQueue, Workload in namespace {place}\n" in told
    assert "not checked, because you may not list clusterqueues.kueue.x-k8s.io: queue-nothing-fits, " in told
    assert [line for line in told.splitlines() if "flavor-without-nodes" in line]


LISTS = (
    "list clusterqueue",
    "list cq --active=true",
    "list cq --active=false",
    "list localqueue",
    "list lq -A",
    "list lq -c {queue}",
    "list lq -l none=such",
    "list workload",
    "list kwl -A",
    "list workload --status pending",
    "list workload --status admitted --status finished",
    "list workload -c {queue} --status admitted",
    "list workload -q main",
    "list workload --for job/first",
    "list workload --status unknown",
    "list resourceflavor",
    "list rf -l none=such",
    "list pods --for job/first",
)
CHANGES = (
    "create clusterqueue new --dry-run=client",
    "create cq new --dry-run=client -o yaml",
    "create cq new --cohort lab --queuing-strategy StrictFIFO --namespace-selector a=b --reclaim-within-cohort Any"
    " --preemption-within-cluster-queue LowerPriority --nominal-quota {flavor}:cpu=9;memory=36Gi"
    " --borrowing-limit {flavor}:cpu=1;memory=1Gi --lending-limit {flavor}:cpu=1;memory=1Gi --dry-run=client -o yaml",
    "create localqueue new -c {queue} --dry-run=client -o yaml",
    "create lq new -c none --ignore-unknown-cq --dry-run=client -o json",
    "create lq new -c none --dry-run=client -o yaml",
    "create resourceflavor new --node-labels a=b --node-taints k=v:NoSchedule --tolerations k=v:NoSchedule"
    " --dry-run=client -o yaml",
    "create rf new --dry-run=server",
    "stop clusterqueue {queue} --keep-already-running --dry-run=client",
    "stop cq {queue} --keep-already-running",
    "resume cq {queue}",
    "stop localqueue main --keep-already-running --dry-run=server",
    "stop lq main --keep-already-running -o name",
    "resume lq main",
    "stop workload {workload}",
    "resume workload {workload} --dry-run=client",
    "resume workload {workload}",
    "stop cq none",
)


LOOKS = 8


def test_kueuectl_prints_the_same(team: Team, administrator: Person) -> None:
    queue = team.queue(cpu=1, cohortName=team.own("all"))
    team.flavor("labelled", {"zone": "b", "tier": "spot"})
    first, second = queue.job("first"), queue.job("second")
    first.runs()
    second.waits("WaitingForQuota")
    queue.has_status(pendingWorkloads=1, admittedWorkloads=1)
    queue.local_has_status(pendingWorkloads=1, admittedWorkloads=1)
    words = {"queue": queue.cluster_queue, "flavor": team.own("default"), "workload": second.workload_name}
    different = []
    for line in (one.format(**words) for one in (*LISTS, *CHANGES)):
        # Other stories change what is listed of all namespaces, perhaps between the two.
        for _ in range(LOOKS if line.startswith("list") else 1):
            code, wanted = administrator.kueuectl(line)
            done = CliRunner().invoke(cli, line.split(), env=administrator.environment)
            equal = (compared(line, wanted), bool(code)) == (compared(line, done.stdout), bool(done.exit_code))
            if equal:
                break
        if not equal:
            different.append(f"{line}: {code}, {done.exit_code} {done.stderr}\n{wanted}\n{done.stdout}")
    assert not different, "\n".join(different)


def compared(line: str, text: str) -> object:
    """What is compared of the output of a command: all but times, and of objects the fields that were set."""
    if line.endswith(("yaml", "json")):
        tree = yaml.safe_load(text) or {}
        return {key: value for key, value in tree.items() if key != "status"}
    return re.sub(r"\b(\d+[smhd])+\b *", "", text)
