"""Which server does a command talk to? The local one before KUBECONFIG, and never a cluster that nobody named."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykueue.apiserver.auth.kubeconfigs import kubeconfig, write
from pykueue.base.units import Instant
from pykueue.cli import serverstate
from pykueue.cli.serverstate import ServerRecord, write_record
from pykueue.cli.target import Target, chosen
from pykueue.node.supervision.processes import process_start
from tests.cli.machine import Machine, machine_in

PROGRAM = "import os; os.geteuid = lambda: 1000; from pykueue.cli.main import main; main()"
"""The command line as it is for a user who is not root: root's usual data folder is no test's to use."""


class Person:
    """Somebody with a home folder, some kubeconfigs, and KUBECONFIG."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "pykueue"
        self.own = folder / serverstate.OWN_KUBECONFIG
        self.environment = {"HOME": str(folder), "XDG_DATA_HOME": str(folder)}

    def put(self, file: Path, server: str) -> str:
        write(file, kubeconfig(server, b"", user="me", token="t"))
        return str(file)

    def start_on(self, folder: Path, *, runs: bool = True) -> None:
        """Leave what a server leaves in its data folder."""
        self.put(folder / "kubeconfig", "https://mine:1")
        born = process_start(os.getpid()) + (not runs)
        write_record(folder, ServerRecord(os.getpid(), born, "https://mine:1", 1, Instant(5)))

    def let_in(self) -> None:
        self.put(self.own, "https://shared:1")

    def export(self) -> None:
        self.environment["KUBECONFIG"] = self.put(self.folder / "production", "https://production:1")

    def target(self, **flags: str) -> Target:
        return chosen(flags.get("kubeconfig"), flags.get("context"), flags.get("data"), environment=self.environment)

    def refusal(self, capsys: pytest.CaptureFixture[str], **flags: str) -> str:
        with pytest.raises(SystemExit):
            self.target(**flags)
        return capsys.readouterr().err


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return Person(tmp_path)


@pytest.mark.parametrize(
    ("started", "let_in", "server"),
    [
        pytest.param("runs", False, "https://mine:1", id="a server of one's own"),
        pytest.param("runs", True, "https://mine:1", id="before the one that others started"),
        pytest.param("stopped", True, "https://shared:1", id="unless it is stopped"),
        pytest.param("stopped", False, "https://mine:1", id="a stopped one alone"),
        pytest.param("", True, "https://shared:1", id="the one that others started"),
        pytest.param("", False, "https://production:1", id="KUBECONFIG where none was set up"),
    ],
)
def test_a_local_server_goes_before_an_exported_kubeconfig(
    person: Person, started: str, let_in: bool, server: str
) -> None:
    if started:
        person.start_on(person.data, runs=started == "runs")
    if let_in:
        person.let_in()
    person.export()
    assert person.target().connection.server == server
    assert person.target().local == ("production" not in server)


def test_flags_choose_otherwise(person: Person, tmp_path: Path) -> None:
    person.start_on(person.data)
    person.start_on(tmp_path / "other")
    person.put(tmp_path / "other" / "kubeconfig", "https://other:1")
    person.export()
    given = person.put(tmp_path / "given", "https://given:1")
    assert person.target(kubeconfig=given).connection.server == "https://given:1"
    assert person.target(kubeconfig=given, context="pykueue").connection.server == "https://given:1"
    assert person.target(context="pykueue").connection.server == "https://production:1"
    assert person.target(data=str(tmp_path / "other")).connection.server == "https://other:1"
    del person.environment["KUBECONFIG"]
    person.put(tmp_path / ".kube" / "config", "https://usual:1")
    assert person.target(context="pykueue").connection.server == "https://usual:1"
    assert person.target().connection.server == "https://mine:1"


def test_a_kubeconfig_of_a_data_directory_is_that_of_the_local_server(person: Person, tmp_path: Path) -> None:
    person.start_on(tmp_path / "lab", runs=False)
    person.environment["KUBECONFIG"] = str(tmp_path / "lab" / "kubeconfig")
    target = person.target()
    assert (target.local, target.folder) == (True, tmp_path / "lab")
    assert target.unanswered("lost") == (
        f"no server is running on {tmp_path}/lab (https://mine:1 does not respond); start it with "
        f"`pykueue up --data {tmp_path}/lab`"
    )
    person.start_on(tmp_path / "lab")
    assert person.target().unanswered("lost").startswith("https://mine:1: lost; if the server is not running, start it")
    person.let_in()
    assert person.target(kubeconfig=str(person.own)).local, "written by `pykueue user add`"


def test_a_context_that_is_not_there_is_refused(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--context: no kubeconfig to look up 'lab' in: KUBECONFIG is not set" in person.refusal(
        capsys, context="lab"
    )
    person.export()
    assert "'lab' is not among the contexts" in person.refusal(capsys, context="lab")


def test_kubectls_usual_file_is_used_only_when_asked_for(
    person: Person, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    person.put(tmp_path / ".kube" / "config", "https://usual:1")
    assert "choose a server with --kubeconfig FILE or --context NAME" in person.refusal(capsys)


def test_a_line_for_kubectl_says_all_that_it_needs(person: Person, tmp_path: Path) -> None:
    spaced = person.put(tmp_path / "a b" / "k'", "https://given:1")
    line = person.target(kubeconfig=spaced, context="pykueue").kubectl("get", "jobs")
    assert line == f"""kubectl --kubeconfig '{tmp_path}/a b/k'"'"'' --context pykueue get jobs"""
    person.export()
    person.environment["KUBECONFIG"] += f":{spaced}"
    line = person.target().kubectl("get", "jobs")
    assert line == f"""KUBECONFIG='{tmp_path}/production:{tmp_path}/a b/k'"'"'' kubectl get jobs"""
    line = person.target().pykueue("attach", "train")
    assert line == f"""KUBECONFIG='{tmp_path}/production:{tmp_path}/a b/k'"'"'' pykueue attach train"""
    line = person.target(kubeconfig=spaced, context="pykueue").pykueue("attach", "train")
    assert line == f"""pykueue attach --kubeconfig '{tmp_path}/a b/k'"'"'' --context pykueue train"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A server whose data folder is the usual one, and has a space in its name."""
    with machine_in(tmp_path_factory.mktemp("a place")) as made:
        made.data = made.data.with_name("pykueue")
        made.environment |= {"XDG_DATA_HOME": str(made.data.parent)}
        made.up()
        yield made


def told(machine: Machine, *words: str) -> subprocess.CompletedProcess[str]:
    """A command without any flag that says which server, and a production cluster in KUBECONFIG."""
    production = machine.data.with_name("production")
    write(production, kubeconfig("https://127.0.0.1:1", b"", user="me", token="t"))
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env={**machine.environment, "KUBECONFIG": str(production)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_first_line_of_run_says_where_the_job_goes(running: Machine) -> None:
    done = told(running, "run", "-q", "team-a", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    first = done.stderr.splitlines()[0]
    assert first == (
        f"pykueue: submitting to https://127.0.0.1:{running.port} (the local server of {running.data}), "
        "namespace default"
    )
    done = told(running, "status")
    assert done.returncode == 0, done.stderr
    assert f"https://127.0.0.1:{running.port}" in done.stdout


def test_the_hint_after_detach_works_when_pasted(running: Machine) -> None:
    blocker = told(running, "run", "-q", "team-a", "--cpu", "4", "--detach", "--", "sleep", "1")
    assert blocker.returncode == 0, blocker.stderr
    done = told(running, "run", "-q", "team-a", "--cpu", "4", "--detach", "--", "echo", "it waited")
    hint = re.search("to follow it: (.*)", done.stderr)
    assert hint is not None, done.stderr
    # In a terminal of its own, in which nothing is set and the present folder is another.
    pasted = subprocess.run(
        ["sh", "-c", hint[1]],
        cwd="/",
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (pasted.returncode, pasted.stdout) == (0, "it waited\n"), pasted.stderr


@pytest.mark.slow("waits until a server that does not answer is given up")
def test_a_local_server_that_does_not_answer_is_named_with_the_one_that_was_not_asked(tmp_path: Path) -> None:
    with machine_in(tmp_path) as machine:
        machine.data = machine.data.with_name("pykueue")
        machine.environment |= {"XDG_DATA_HOME": str(tmp_path)}
        machine.up()
        port = machine.port
        machine.run("down")
        other = f"KUBECONFIG={tmp_path}/production names https://127.0.0.1:1, which is ignored"
        done = told(machine, "run", "-q", "team-a", "--", "true")
        assert done.returncode == 2
        assert f"https://127.0.0.1:{port} (the local server of {machine.data})" in done.stderr
        assert "`pykueue up" in done.stderr
        assert other in done.stderr
        done = told(machine, "status")
        assert done.returncode == 1
        assert f"no server is running on {machine.data}" in done.stderr
        assert other in done.stderr
        # The same for one that somebody else started.
        own = Path(machine.environment["HOME"]) / serverstate.OWN_KUBECONFIG
        own.parent.mkdir(parents=True)
        (machine.data / "kubeconfig").rename(own)
        for words in (("run", "-q", "team-a", "--", "true"), ("status",)):
            done = told(machine, *words)
            assert done.returncode == 2
            assert other in done.stderr
            assert f"https://127.0.0.1:{port}" in done.stderr
