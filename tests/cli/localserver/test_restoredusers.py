"""Who gets in after a backup was restored? Those of today, unless somebody says and confirms otherwise."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykueue.apiserver.auth.users import ADMIN, Users
from pykueue.apiserver.storage.datafile import opened
from pykueue.base.clock import SystemClock
from pykueue.base.datafolder import CERTIFICATE_FILES, DATABASE
from pykueue.base.units import MICROS, Instant
from pykueue.cli.commands.backup import backup, restore


class Folder:
    """A data folder with users and certificates, without a server."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(mode=0o700, parents=True)
        database, lock = opened(path / DATABASE)
        database.close()
        lock.close()
        self.users = Users(path)
        self.write("first")

    def write(self, word: str) -> None:
        """Write the files that belong to the users."""
        (self.path / "kubeconfig").write_text(word)
        (self.path / "tls").mkdir(exist_ok=True)
        for name in CERTIFICATE_FILES:
            (self.path / "tls" / name).write_text(word)

    def beside(self) -> set[str]:
        """What is in these files now."""
        return {(self.path / name).read_text() for name in ("kubeconfig", "tls/ca.crt", "tls/server.key")}

    def back_up(self, file: Path) -> None:
        done = CliRunner().invoke(backup, ["--data", str(self.path), str(file)])
        assert done.exit_code == 0, done.output

    def restore(self, file: Path, *flags: str) -> Result:
        return CliRunner().invoke(restore, ["--data", str(self.path), str(file), *flags])

    def knows(self, *tokens: str) -> list[str]:
        """Who gets in with these tokens."""
        return [found.name if (found := Users(self.path).by_token(token)) else "" for token in tokens]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "data")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "backup.tar"


def test_who_was_removed_stays_out_and_who_got_a_new_token_needs_it(folder: Folder, file: Path) -> None:
    admin = folder.users.add(ADMIN, role="admin")
    ann, bob, carl = (folder.users.add(name) for name in ("ann", "bob", "carl"))
    folder.back_up(file)
    folder.users.revoke("ann")
    again = folder.users.rotate("bob")
    dora = folder.users.add("dora")
    folder.write("second")
    done = folder.restore(file)
    assert done.exit_code == 0, done.output
    assert "the current users are kept" in done.output
    assert folder.knows(admin, ann, bob, again, carl, dora) == [ADMIN, "", "", "bob", "carl", "dora"]
    assert folder.beside() == {"second"}
    assert not (folder.path / "users.json.old").exists()


def test_users_of_the_backup_are_named_and_confirmed(folder: Folder, file: Path) -> None:
    now = SystemClock().now()
    tokens = [folder.users.add(name) for name in ("ann", "bob", "carl", "finn")]
    folder.users.add("guest", expires=Instant(now + MICROS // 1000))
    folder.back_up(file)
    folder.users.revoke("ann")
    folder.users.rotate("bob")
    folder.users.add("dora", role="admin", namespace="d")
    folder.write("second")
    before = (folder.path / "users.json").read_bytes()
    refused = folder.restore(file, "--users-from-backup")
    assert refused.exit_code == 2
    assert "nothing was changed; confirm with --yes" in refused.output
    assert (folder.path / "users.json").read_bytes() == before
    assert not (folder.path / "pykueue.db.old").exists()
    done = folder.restore(file, "--users-from-backup", "--yes")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[:4] == [
        f"The users of {file} replace the current users:",
        "  ann: currently has no access, and regains access as user",
        "  bob: regains access with the credentials of the backup; the current ones are revoked",
        "  dora: loses access",
    ]
    assert len(done.output.splitlines()) == 5, "nothing changes for carl and finn, nor for a guest whose time is over"
    assert folder.knows(*tokens) == ["ann", "bob", "carl", "finn"]
    assert folder.beside() == {"first"}
    assert (folder.path / "users.json.old").read_bytes() == before
    again = folder.restore(file, "--users-from-backup")
    assert again.exit_code == 0, "nothing changes, so nothing is asked"


@pytest.mark.parametrize(("answer", "code", "knows"), [("y", 0, "ann"), ("n", 2, ""), ("", 2, "")])
def test_at_a_terminal_it_asks(folder: Folder, file: Path, answer: str, code: int, knows: str) -> None:
    token = folder.users.add("ann")
    folder.back_up(file)
    folder.users.revoke("ann")
    ours, theirs = pty.openpty()
    words = ["restore", "--data", str(folder.path), str(file), "--users-from-backup"]
    with subprocess.Popen(
        [sys.executable, "-m", "pykueue", *words], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as asked:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        output, _ = asked.communicate(timeout=60)
    os.close(ours)
    assert b"Continue? [y/N]" in output
    assert asked.returncode == code, output
    assert folder.knows(token) == [knows]


def test_a_new_folder_takes_the_users_of_the_backup(folder: Folder, file: Path, tmp_path: Path) -> None:
    tokens = [folder.users.add(ADMIN, role="admin"), folder.users.add("ann")]
    folder.back_up(file)
    path = tmp_path / "other"
    done = CliRunner().invoke(restore, ["--data", str(path), str(file)])
    assert done.exit_code == 0, done.output
    assert [Users(path).by_token(token) is not None for token in tokens] == [True, True]
    assert (path / "tls/ca.key").read_text() == "first"


def test_a_server_that_never_had_users_takes_them_and_keeps_its_own_administrator(
    folder: Folder, file: Path, tmp_path: Path
) -> None:
    old, ann = folder.users.add(ADMIN, role="admin"), folder.users.add("ann")
    folder.back_up(file)
    other = Folder(tmp_path / "other")
    admin = other.users.add(ADMIN, role="admin")
    other.write("second")
    done = other.restore(file)
    assert done.exit_code == 0, done.output
    assert other.knows(old, admin, ann) == ["", ADMIN, "ann"]
    assert other.beside() == {"first", "second"}
    assert (other.path / "kubeconfig").read_text() == "second"


def test_users_that_cannot_be_read_are_replaced_only_on_request(folder: Folder, file: Path) -> None:
    token = folder.users.add("ann")
    folder.back_up(file)
    (folder.path / "users.json").write_text("{")
    refused = folder.restore(file)
    assert refused.exit_code == 2
    assert "users.json: " in refused.output
    done = folder.restore(file, "--users-from-backup", "--yes")
    assert done.exit_code == 0, done.output
    assert folder.knows(token) == ["ann"]
