"""The files of a command line are read up to a limit; those that cannot be read are described."""

import io
from pathlib import Path

import pytest

from pykueue.cli.manifestfiles import content, contents, unreadable
from pykueue.sim.manifests import Mistake


def read(name: Path | str) -> tuple[list[tuple[str, bytes]], list[Mistake]]:
    mistakes: list[Mistake] = []
    return list(contents(str(name), mistakes)), mistakes


def test_a_file_is_read_to_one_byte_beyond_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"12345")
    assert content(tmp_path / "a.yaml") == b"12345"
    assert content(tmp_path / "a.yaml", 2) == b"123"


def test_a_file_of_any_name(tmp_path: Path) -> None:
    (tmp_path / "queues.txt").write_bytes(b"a: 1\n")
    assert read(tmp_path / "queues.txt") == ([(f"{tmp_path}/queues.txt", b"a: 1\n")], [])


def test_the_manifests_of_a_directory_in_order(tmp_path: Path) -> None:
    for name in ("b.yml", "a.json", "c.yaml", "notes.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "d.yaml").mkdir()
    names = ("a.json", "b.yml", "c.yaml")
    assert read(tmp_path) == ([(f"{tmp_path}/{name}", name.encode()) for name in names], [])


def test_a_directory_without_manifests(tmp_path: Path) -> None:
    says = "the directory contains no manifests; their names must end in .yaml, .yml, .json"
    assert read(tmp_path) == ([], [Mistake(str(tmp_path), says)])


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: 1\n")))
    assert read("-") == ([("<stdin>", b"a: 1\n")], [])


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    says = "cannot be read: No such file or directory; check the path and its permissions"
    assert read(tmp_path / "gone.yaml") == ([], [Mistake(f"{tmp_path}/gone.yaml", says)])
    assert unreadable(ValueError("embedded null byte")).startswith("cannot be read: embedded null byte;")
    assert read("a\0b") == ([], [Mistake("a\0b", unreadable(ValueError("embedded null byte")))])
