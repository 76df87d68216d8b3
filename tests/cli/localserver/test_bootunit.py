"""Is the unit that starts the server at boot right, and is nothing else replaced or removed?"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.base.units import Instant
from pykueue.cli.commands.up import up
from pykueue.cli.localserver import bootunit
from pykueue.cli.localserver.bootunit import MARK, Place, in_unit, install, place, quoted, uninstall, unit
from pykueue.cli.serverstate import ServerRecord
from pykueue.node.supervision.processes import process_start

COMMAND = ["/usr/bin/python3", "-P", "-m", "pykueue", "up", "--data", '/srv/a b$c%d"e\\f']
OURS = "0::/system.slice/pykueue.service\n"


class Systemctl:
    """Records the commands, and fails those with a given word."""

    def __init__(self, fails: str = "") -> None:
        self.asked: list[tuple[str, ...]] = []
        self.fails = fails

    def __call__(self, words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        self.asked.append(tuple(words))
        return subprocess.CompletedProcess(words, int(self.fails in words), "", "Failed to connect to bus\n")


@pytest.fixture(autouse=True)
def booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that systemd runs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("systemctl", "systemd-run"):
        (programs / name).touch(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(bootunit, "BOOTED", tmp_path)


def text(*, root: bool = True, data: str = "/srv/queues", terminates: bool = False) -> str:
    return unit(COMMAND, data=Path(data), root=root, terminates=terminates)


def test_a_unit_has_the_command_quoted_as_systemd_reads_it() -> None:
    lines = text().splitlines()
    wanted = r'ExecStart=/usr/bin/python3 -P -m pykueue up --data "/srv/a b$$c%%d\"e\\f"'
    assert wanted in lines
    assert "Type=notify" in lines
    assert "Environment=PYKUEUE_JOBS_SLICE=pykueue-jobs.slice" in lines
    assert "TimeoutStopSec=infinity" in text(terminates=True).splitlines()


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        pytest.param("/srv/queues", "/srv/queues", id="a plain one"),
        pytest.param("", '""', id="an empty one"),
        pytest.param(";", '";"', id="a separator of commands"),
        pytest.param("a'b", '"a\'b"', id="an apostrophe"),
        pytest.param("a\nb\x1b", r'"a\nb\x1b"', id="control characters"),
        pytest.param("größe", '"größe"', id="other letters"),
    ],
)
def test_a_word_is_quoted(word: str, wanted: str) -> None:
    assert quoted(word) == wanted


@pytest.mark.parametrize("root", [True, False])
def test_systemd_accepts_the_unit(tmp_path: Path, root: bool) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "pykueue.service"
    command = ["/bin/sh", *COMMAND[1:]]
    file.write_text(unit(command, data=Path('/srv/a b$c%d"e'), root=root, terminates=root))
    manager = [] if root else ["--user"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [analyze, *manager, "--man=no", "verify", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    about = [line for line in done.stderr.splitlines() if "pykueue" in line]
    assert (done.returncode, about) == (0, [])


def test_a_command_that_is_not_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        unit(["/bin/sh", "\udcff"], data=Path("/srv"), root=True, terminates=False)
    assert "UTF-8" in capsys.readouterr().err


def test_where_a_unit_belongs() -> None:
    home = Path("/home/ann")
    assert place(root=True, home=home).file == Path("/etc/systemd/system/pykueue.service")
    assert place(root=False, home=home).file == home / ".config/systemd/user/pykueue.service"
    assert place(root=False, home=home, config_home="/cfg").file == Path("/cfg/systemd/user/pykueue.service")
    assert place(root=False, home=home, config_home="cfg").file == home / ".config/systemd/user/pykueue.service"


def test_a_unit_is_installed_twice_and_removed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    systemctl = Systemctl("none")
    where = Place(tmp_path / "user" / "pykueue.service", root=False)
    for _ in range(2):
        said = install(where, text(root=False), None, systemctl)
        assert "systemctl --user start pykueue" in said
        assert "loginctl enable-linger" in said
    assert where.file.read_text() == text(root=False)
    assert systemctl.asked[:2] == [
        ("systemctl", "--user", "daemon-reload"),
        ("systemctl", "--user", "enable", "pykueue.service"),
    ]
    assert str(where.file) in uninstall(where, systemctl)
    assert not where.file.exists()
    assert systemctl.asked[-2:] == [
        ("systemctl", "--user", "disable", "pykueue.service"),
        ("systemctl", "--user", "daemon-reload"),
    ]
    with pytest.raises(SystemExit) as stopped:
        uninstall(where, systemctl)
    assert stopped.value.code == 1
    assert "does not exist" in capsys.readouterr().err


def test_another_unit_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = Place(tmp_path / "pykueue.service", root=True)
    install(where, text(), None, Systemctl("none"))
    with pytest.raises(SystemExit) as stopped:
        install(where, text(data="/srv/other"), None, Systemctl("none"))
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert "exists and differs; remove it with `pykueue up --uninstall`" in said
    assert "-RequiresMountsFor=/srv/queues" in said
    assert "+RequiresMountsFor=/srv/other" in said
    assert where.file.read_text() == text()


def test_a_unit_of_somebody_else_is_not_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = Place(tmp_path / "pykueue.service", root=True)
    where.file.write_text("[Service]\nExecStart=/opt/pykueue/bin/pykueue up\n")
    with pytest.raises(SystemExit):
        uninstall(where, Systemctl("none"))
    assert "was not written by" in capsys.readouterr().err
    assert where.file.exists()
    assert MARK not in where.file.read_text()


def test_a_unit_that_systemd_does_not_take_is_not_left_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = Place(tmp_path / "pykueue.service", root=True)
    with pytest.raises(SystemExit) as stopped:
        install(where, text(), None, Systemctl("enable"))
    assert stopped.value.code == 1
    assert "`systemctl enable pykueue.service` failed" in capsys.readouterr().err
    assert not where.file.exists()


def test_beside_a_server_without_systemd_nothing_is_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = Place(tmp_path / "pykueue.service", root=True)
    own = os.getpid()
    standing = ServerRecord(own, process_start(own), "https://127.0.0.1:7443", 7443, Instant(0))
    with pytest.raises(SystemExit):
        install(where, text(), standing, Systemctl("none"), cgroups="0::/user.slice/session-2.scope\n")
    assert "`pykueue down`" in capsys.readouterr().err
    assert not where.file.exists()
    install(where, text(), standing, Systemctl("none"), cgroups=OURS)
    assert where.file.exists()


def test_without_systemd_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = Place(tmp_path / "pykueue.service", root=True)
    monkeypatch.setattr(bootunit, "BOOTED", tmp_path / "none")
    with pytest.raises(SystemExit):
        install(where, text(), None, Systemctl("none"))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(SystemExit):
        install(where, text(), None, Systemctl("none"))
    first, second = capsys.readouterr().err.splitlines()
    assert "not booted with systemd" in first
    assert "not found in PATH" in second


def test_the_cgroup_of_our_unit() -> None:
    assert in_unit("4:memory:/x\n" + OURS)
    assert in_unit("1:name=systemd:/user.slice/user@1000.service/app.slice/pykueue.service\n")
    assert not in_unit("0::/user.slice/user-1000.slice/session-2.scope\n")


def test_the_options_of_the_server_are_in_its_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, queues = tmp_path / "data", tmp_path / "queues.yaml"
    queues.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: lab}\n")
    monkeypatch.chdir(tmp_path)
    words = ["--install", "--dry-run", "--data", "data", "--apply", "queues.yaml", "--cpus", "4", "--example"]
    done = CliRunner().invoke(up, words)
    assert done.exit_code == 0, done.output
    command = f"{quoted(sys.executable)} -P -m pykueue up --data {data} --example --apply {queues} --cpus 4.0"
    assert f"ExecStart={command}" in done.output.splitlines()
    assert not data.exists()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--install", "--uninstall"), id="both"),
        pytest.param(("--dry-run",), id="a dry run of the server"),
        pytest.param(("--install", "--detach"), id="in the background"),
        pytest.param(("--install", "--apply", "-"), id="with a manifest that is gone at boot"),
    ],
)
def test_options_that_contradict_each_other_are_refused(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(up, words).exit_code == 2
