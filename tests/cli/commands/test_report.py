"""Does `pykueue report` tell what a machine did? Real processes, one server for all; and what does it refuse?"""

import csv
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.cli.jobs.source import NO_RECORDS
from pykueue.cli.main import cli
from tests.cli.clusters import asked
from tests.cli.machine import Machine, machine_in
from tests.fakes.tinyapi import in_background, status
from tests.patience import soon
from tests.reports.samples import Reader, foreign

NOBODY = "nobody"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which one job has finished, one runs, and one waits."""
    with machine_in(tmp_path_factory.mktemp("report")) as made:
        made.up("--journal", str(made.data.parent / "journal.jsonl"))
        assert made.run("run", "-q", "team-a", "--cpu", "2", "--name", "done", "--", "sleep", "2").returncode == 0
        for name, cpu in (("runs", "1"), ("waits", "64")):
            done = made.run("run", "--detach", "-q", "team-b", "--cpu", cpu, "--name", name, "--", "sleep", "600")
            assert done.returncode == 0, done.stderr
        assert soon(lambda: "done" in made.run("jobs", "--finished", "-o", "csv").stdout)
        assert soon(lambda: "RUNNING" in made.run("jobs", "-o", "csv").stdout)
        yield made


def figures(text: str) -> dict[tuple[str, str, str], str]:
    """The values of a report in CSV that have no time, by table, queue and measure."""
    rows = csv.DictReader(text.splitlines())
    return {(row["table"], row["queue"], row["measure"]): row["value"] for row in rows if not row["time"]}


def test_the_page_is_private_and_has_the_jobs(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = machine.run("report", "-o", str(file))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    page = file.read_text()
    assert foreign(page) == []
    text = Reader(page).text
    for words in ("1 ended, 1 running, 1 waiting", "default/waits", "asks for 64 cpu", "Use of cpu · machine"):
        assert words in text
    assert "No job has started yet for which a start time had been estimated" in text


def test_figures_as_csv_and_as_text(machine: Machine) -> None:
    done = machine.run("report", "-o", "csv", "--since", "1h")
    assert done.returncode == 0, done.stderr
    found = figures(done.stdout)
    assert (found["waits", "team-a", "jobs"], found["waits", "team-b", "still waiting"]) == ("1", "1")
    used = [
        float(row["value"])
        for row in csv.DictReader(done.stdout.splitlines())
        if (row["queue"], row["resource"], row["measure"]) == ("team-a", "cpu", "mean use")
    ]
    assert 0 < max(used) <= 2
    text = machine.run("report").stdout
    assert "You asked for 7 d; the data begin later." in " ".join(text.split())
    assert "default/waits (team-b, waiting)" in text


def test_the_same_from_the_journal_without_a_server(machine: Machine) -> None:
    done = machine.run("report", "--journal", str(machine.data.parent), "-o", "csv")
    assert done.returncode == 0, done.stderr
    found = figures(done.stdout)
    assert (found["waits", "team-a", "jobs"], found["waits", "team-b", "jobs"]) == ("1", "2")
    assert "default/waits" in done.stdout


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every account may write in."""
    with tempfile.TemporaryDirectory(prefix="pykueue-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to write as another account")
def test_a_user_sees_own_jobs_and_numbers_of_the_rest(machine: Machine, open_folder: Path) -> None:
    own = open_folder / "kubeconfig"
    added = machine.run("user", "add", NOBODY, "--namespace", "lab", "--queue", "team-b", "--out", str(own))
    assert added.returncode == 0, added.stderr
    command = [sys.executable, "-m", "pykueue", "report", "--kubeconfig", str(own), "-o", "csv"]
    done = subprocess.run(command, env=machine.environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = figures(done.stdout)
    assert (found["others", "team-b", "running"], found["others", "team-b", "pending"]) == ("1", "1")
    assert found["waits", "", "jobs"] == "0"
    assert "default" not in done.stdout, "no name of another namespace"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-o", "report.pdf"], "-o: 'report.pdf' has no known format"),
        (["--since", "soon"], "--since: 'soon' is not a duration"),
        (["--journal", "missing"], "--journal: missing: No such file or directory"),
    ],
)
def test_what_cannot_be_asked(words: list[str], says: str) -> None:
    done = CliRunner().invoke(cli, ["report", *words])
    assert done.exit_code == 2
    assert says in done.output


def test_a_folder_without_journals(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["report", "--journal", str(tmp_path)])
    assert (done.exit_code, "there is no journal with a decision" in done.output) == (2, True)


async def without_our_api(request: web.Request) -> web.Response | None:
    """A cluster with Kueue has none of our own APIs, and this user may not read Cohorts."""
    if "pykueue.io" in request.path.replace("kueue.x-k8s.io", ""):
        return status(404, "NotFound", "the server could not find the requested resource")
    return status(403, "Forbidden", "no cohorts") if request.path.endswith("/cohorts") else None


def test_a_cluster_tells_what_is_still_there_with_the_flavors_of_its_workloads(tmp_path: Path) -> None:
    now = SystemClock().now()

    def ago(hours: int) -> str:
        return format_instant(Instant(now - hours * 3600 * MICROS))

    def job(name: str, created: int, over: int | None) -> dict[str, Any]:
        ended = {
            "type": "Complete",
            "status": "True",
            "lastTransitionTime": ago(over or 0),
            "reason": "",
            "message": "",
        }
        template = {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]}}
        return {
            "metadata": {
                "name": name,
                "namespace": "lab",
                "uid": name,
                "creationTimestamp": ago(created),
                "labels": {"kueue.x-k8s.io/queue-name": "team"},
            },
            "spec": {"template": template, "suspend": False},
            "status": {"startTime": ago(created - 1), "active": 1, "conditions": [ended] if over is not None else []},
        }

    def workload(name: str, flavor: str) -> dict[str, Any]:
        assignment = {"name": "main", "count": 1, "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": "2"}}
        admitted = {"type": "Admitted", "status": "True", "lastTransitionTime": ago(4), "reason": "", "message": ""}
        template = job(name, 2, None)["spec"]["template"]
        return {
            "metadata": {
                "name": f"job-{name}",
                "namespace": "lab",
                "uid": f"w-{name}",
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": True}
                ],
            },
            "spec": {
                "queueName": "team",
                "active": True,
                "podSets": [{"name": "main", "count": 1, "template": template}],
            },
            "status": {
                "admission": {"clusterQueue": "red", "podSetAssignments": [assignment]},
                "conditions": [admitted, {**admitted, "type": "QuotaReserved"}],
            },
        }

    quota = [{"name": "cpu", "nominalQuota": "4"}]
    flavors = [{"name": name, "resources": quota} for name in ("spot", "reserved")]
    red = {"metadata": {"name": "red"}, "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}}
    team = {"metadata": {"name": "team", "namespace": "lab"}, "spec": {"clusterQueue": "red"}}
    with in_background() as api:
        api.accident = without_our_api
        # Of the time before the end of the first one, others may have been deleted.
        jobs = {"lab/first": job("first", 30, 20), "lab/done": job("done", 10, 5), "lab/runs": job("runs", 5, None)}
        api.objects["jobs"] = jobs
        api.objects["workloads"] = {"lab/done": workload("done", "spot"), "lab/runs": workload("runs", "reserved")}
        api.objects["clusterqueues"] = {"/red": red}
        api.objects["localqueues"] = {"lab/team": team}
        done = asked(api, tmp_path, "report -o csv")
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(done.stdout.splitlines()))
    used = {
        row["flavor"]: max(
            float(one["value"]) for one in rows if one["flavor"] == row["flavor"] and one["measure"] == "mean use"
        )
        for row in rows
        if row["table"] == "use" and row["queue"] == "red"
    }
    assert used == {"spot": 2, "reserved": 2}
    assert [row["time"] for row in rows if row["measure"] == "begin"] == [ago(20)]
    notes = [row["text"] for row in rows if row["table"] == "notes"]
    assert NO_RECORDS in notes
    assert [note for note in notes if note.startswith("quotas of cohorts are left out")]
    assert not [row for row in rows if row["table"] == "calibration"]
