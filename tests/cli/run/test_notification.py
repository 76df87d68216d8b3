"""Is the owner of a job notified of its start, its preemption and its end?"""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.api.core import Tree
from pykueue.cli.commands.run import run
from pykueue.cli.run.notification import check_notifiable, notification
from pykueue.node.prepare import notify_of
from tests.cli.machine import machine_in
from tests.patience import soon


def test_a_command_is_split_once_and_a_url_is_posted_to() -> None:
    assert notification("mail -s 'a job $X' ann") == ["mail", "-s", "a job $X", "ann"]
    url = "https://example.org/hook?a=1"
    assert notification(url) == [sys.executable, "-P", "-m", "pykueue.node.notifypost", url]


@pytest.mark.parametrize("given", ["", "  ", "echo 'x", "ftp://example.org/x", "http://example.org/a b"])
def test_what_is_neither_is_refused(given: str) -> None:
    assert CliRunner().invoke(run, ["-q", "q", "--notify", given, "--", "true"]).exit_code == 2


def test_a_cluster_has_nobody_to_run_it(capsys: pytest.CaptureFixture[str]) -> None:
    check_notifiable(local=True)
    with pytest.raises(SystemExit):
        check_notifiable(local=False)
    assert "--notify: not supported on a cluster" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        pytest.param('["echo", "x"]', ("echo", "x"), id="a command"),
        pytest.param("", (), id="none"),
        pytest.param("[]", (), id="an empty one"),
        pytest.param("echo x", (), id="no list"),
        pytest.param('["echo", 7]', (), id="not of words"),
        pytest.param(json.dumps(["a\0b"]), (), id="with a NUL"),
    ],
)
def test_the_annotation_of_a_pod(value: str, wanted: tuple[str, ...]) -> None:
    main: Tree = {"name": "main"}
    other: Tree = {"name": "other"}
    pod: Tree = {"metadata": {"annotations": {"pykueue.io/notify": value}}, "spec": {"containers": [main, other]}}
    assert notify_of(pod, main) == wanted
    assert notify_of(pod, other) == ()


def test_start_preemption_and_end_are_told(tmp_path: Path) -> None:
    said, go = tmp_path / "said", tmp_path / "go"
    script = tmp_path / "note.sh"
    script.write_text(f'echo "$PYKUEUE_EVENT $PYKUEUE_NAMESPACE/$PYKUEUE_JOB $PYKUEUE_EXIT_CODE" >> {said}\n')

    def told(count: int) -> list[str]:
        soon(lambda: said.exists() and len(said.read_text().splitlines()) >= count, 60)
        return said.read_text().splitlines()

    with machine_in(tmp_path) as machine:
        machine.up()
        words = ("sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done; exit 3")
        options = ("-q", "team-a", "--name", "j", "--notify", f"sh '{script}'", "--detach")
        assert machine.run("run", *options, "--", *words).returncode == 0
        assert told(1) == ["started default/j "]
        assert machine.run("hold", "j").returncode == 0
        assert told(2)[1:] == ["preempted default/j 143"]
        go.touch()
        assert machine.run("release", "j").returncode == 0
        assert machine.run("wait", "j").returncode == 3
        assert told(4)[2:] == ["started default/j ", "ended default/j 3"]
