"""Where is everything, and what is said when it cannot be there?"""

import os
from pathlib import Path

import pytest

from pykueue.base.units import Instant
from pykueue.cli import place
from pykueue.cli.place import Standing, data_folder, kubeconfig_file, made, read_standing, write_standing
from pykueue.local.processes import process_start


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
    assert "give another folder with --data" in capsys.readouterr().err


def test_another_users_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(SystemExit):
        made(tmp_path)
    assert "belongs to another user" in capsys.readouterr().err


def test_what_runs_is_told_from_what_has_its_number(tmp_path: Path) -> None:
    assert read_standing(tmp_path) is None
    mine = Standing(os.getpid(), process_start(os.getpid()), "https://127.0.0.1:1", 1, Instant(5))
    write_standing(tmp_path, mine)
    assert read_standing(tmp_path) == mine
    assert mine.runs
    assert not Standing(os.getpid(), mine.born + 1, "", 1, Instant(5)).runs
    assert (tmp_path / place.STANDING).stat().st_mode & 0o777 == 0o600
    (tmp_path / place.STANDING).write_text("{")
    assert read_standing(tmp_path) is None


def test_the_kubeconfig_is_looked_for_in_order(tmp_path: Path) -> None:
    home = tmp_path / "home"
    data = tmp_path / "data"
    data.mkdir()
    (data / "kubeconfig").write_text("")
    environment = {"HOME": str(home), "XDG_DATA_HOME": str(tmp_path)}
    assert kubeconfig_file("given", None, {"KUBECONFIG": "k"}) == "given"
    assert kubeconfig_file(None, None, {"KUBECONFIG": "k"}) is None
    assert kubeconfig_file(None, str(data), {"KUBECONFIG": "k"}) == str(data / "kubeconfig")
    own = home / place.OWN_KUBECONFIG
    own.parent.mkdir(parents=True)
    own.write_text("")
    assert kubeconfig_file(None, None, environment) == str(own)
