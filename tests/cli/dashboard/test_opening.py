"""Who can read the file that opens the browser, and how long is it there?"""

import os
import re
import webbrowser
from pathlib import Path

import pytest

from pykueue.cli.dashboard.opening import OpeningFile, is_private, open_browser

ADDRESS = "http://127.0.0.1:8080/ui/enter"


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_the_file_is_private_and_sends_the_code_by_post(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    opening = OpeningFile.in_runtime_folder(str(tmp_path))
    path = opening.write(ADDRESS, "SECRET")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    # A runtime folder that others can enter is not used.
    assert (tmp_path in path.parents) == (mode == 0o700)
    text = path.read_text()
    assert re.search(rf'<form method="post" action="{ADDRESS}">', text)
    assert 'name="code" value="SECRET"' in text
    assert "SECRET" not in str(path), "its random name has small letters only"
    second = opening.write(ADDRESS, "def")
    assert not path.exists()
    opening.close()
    assert not second.exists()
    assert second.parent.exists() == (mode == 0o700)


def test_a_folder_that_another_could_have_made_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    elsewhere.chmod(0o777)
    (tmp_path / "pykueue-dashboard").symlink_to(elsewhere)
    opening = OpeningFile.in_runtime_folder(str(tmp_path))
    path = opening.write(ADDRESS, "SECRET")
    assert tmp_path not in path.parents
    assert os.listdir(elsewhere) == []
    opening.close()
    assert not is_private(tmp_path / "missing")


def test_markup_in_a_code_stays_text(tmp_path: Path) -> None:
    opening = OpeningFile.in_runtime_folder(str(tmp_path))
    assert "<b>" not in opening.write(ADDRESS, '"><b>').read_text()
    opening.close()


def test_the_browser_gets_the_path_and_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def remember(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", remember)
    path = tmp_path / "a b.html"
    assert open_browser(path)
    assert opened == [f"file://{tmp_path}/a%20b.html"]

    def fail(url: str) -> bool:
        raise webbrowser.Error("no browser")

    monkeypatch.setattr(webbrowser, "open", fail)
    assert not open_browser(path)
