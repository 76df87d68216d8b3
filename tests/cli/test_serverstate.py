"""Where is everything, and what is said when it cannot be there?"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.base.units import Instant
from pykueue.cli import serverstate
from pykueue.cli.main import cli
from pykueue.cli.serverstate import ServerRecord, data_folder, made, read_record, write_record
from pykueue.node.supervision.processes import process_start

NOBODY = 65534


@contextmanager
def as_stranger(folder: Path) -> Iterator[None]:
    """Be somebody who may not look into this folder."""
    # Nor, perhaps, into those of the interpreter: what the commands read late is read before.
    for module in (
        "apiserver.auth.kubeconfigs",
        "apiserver.auth.users",
        "apiserver.storage.store",
        "cli.commands.backup",
        "cli.target",
        "cli.localserver.usersetup",
        "kube.client.kubeconfig",
    ):
        import_module(f"pykueue.{module}")
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)
        return
    folder.chmod(0)
    try:
        yield
    finally:
        folder.chmod(0o700)


def mine() -> ServerRecord:
    """What a server would say of itself that is this process."""
    return ServerRecord(os.getpid(), process_start(os.getpid()), "https://127.0.0.1:1", 1, Instant(5))


@pytest.mark.parametrize(
    ("root", "environment", "folder"),
    [
        pytest.param(True, {"HOME": "/h"}, "/var/lib/pykueue", id="root's"),
        pytest.param(False, {"HOME": "/h"}, "/h/.local/share/pykueue", id="a user's"),
        pytest.param(False, {"HOME": "/h", "XDG_DATA_HOME": "/d"}, "/d/pykueue", id="where the user keeps data"),
        pytest.param(
            False, {"HOME": "/h", "XDG_DATA_HOME": "d"}, "/h/.local/share/pykueue", id="a relative one is none"
        ),
    ],
)
def test_the_usual_folder_is(
    monkeypatch: pytest.MonkeyPatch, root: bool, environment: dict[str, str], folder: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    assert data_folder(None, environment) == Path(folder)


def test_the_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert made(folder).stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    assert made(folder).stat().st_mode & 0o777 == 0o700


def test_what_is_no_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit):
        made(tmp_path / "file" / "below")
    assert "choose another directory with --data" in capsys.readouterr().err


def test_another_users_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(SystemExit):
        made(tmp_path)
    assert "belongs to another user" in capsys.readouterr().err


def test_what_runs_is_told_from_what_has_its_number(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    write_record(tmp_path, mine())
    assert read_record(tmp_path) == mine()
    assert mine().runs
    assert not ServerRecord(os.getpid(), mine().born + 1, "", 1, Instant(5)).runs
    assert (tmp_path / serverstate.STANDING).stat().st_mode & 0o777 == 0o600
    (tmp_path / serverstate.STANDING).write_text("{")
    assert read_record(tmp_path) is None


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["down"], id="down"),
        pytest.param(["status"], id="status"),
        pytest.param(["user", "add", "nobody"], id="user add"),
        pytest.param(["user", "list"], id="user list"),
        pytest.param(["user", "remove", "nobody"], id="user remove"),
        pytest.param(["backup", "copy.tar"], id="backup"),
    ],
)
def test_of_another_users_folder_it_is_said_whose_it_is(tmp_path: Path, words: list[str]) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    write_record(data, mine())
    with as_stranger(data):
        done = CliRunner().invoke(cli, [*words, "--data", str(data)])
    assert done.exit_code == 2
    assert f"{data}: belongs to another user" in done.output


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["run", "-q", "q", "--", "true"], id="a command that would run there"),
        pytest.param(["status", "--data", "data"], id="a folder that would be within"),
        pytest.param(["backup", "copy.tar"], id="a file that would be within"),
    ],
)
def test_in_a_folder_that_is_gone_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        done = CliRunner().invoke(cli, words)
    finally:
        os.chdir(tmp_path)
    assert (done.exit_code, done.output) == (2, "the current directory no longer exists; change to another one\n")


@pytest.mark.parametrize("elsewhere", ["", "/nowhere/kubeconfig"], ids=["", "whatever KUBECONFIG says"])
def test_of_a_folder_where_nothing_runs_status_says_so(tmp_path: Path, elsewhere: str) -> None:
    done = CliRunner(env={"KUBECONFIG": elsewhere}).invoke(cli, ["status", "--data", str(tmp_path / "never")])
    assert done.exit_code == 1
    assert f"no server is running on {tmp_path}/never" in done.output
    assert "ask the administrator of a shared server to run `pykueue user add`" in done.output
