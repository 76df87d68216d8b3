"""Is everything in the image what we have tested? Versions and hashes of its packages, backend and base."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)[^\\\n]*((?: \\\n +--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)


def pins(name: str) -> dict[str, tuple[str, str]]:
    """The packages of a requirements file, each with its version and hashes."""
    text = (ROOT / "requirements" / name).read_text()
    found = {package: (version, hashes) for package, version, hashes in PIN.findall(text)}
    assert len(found) == len(re.findall(r"^[a-z].*==", text, re.MULTILINE)), "every package has a version and a hash"
    return found


def normalized(requirement: str) -> str:
    return re.split(r"[<>=]", requirement)[0].lower().replace("_", "-")


@pytest.mark.parametrize("name", ["run.txt", "build.txt"])
def test_what_is_installed_is_what_is_tested(name: str) -> None:
    tested = pins("dev.txt")
    assert {package: tested[package] for package in pins(name)} == pins(name)


def test_nothing_that_the_product_needs_is_left_out() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert {normalized(one) for one in project["project"]["dependencies"]} <= pins("run.txt").keys()
    (backend,) = project["build-system"]["requires"]
    assert backend == f"hatchling=={pins('build.txt')['hatchling'][0]}"


def test_the_image_takes_nothing_without_a_hash() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    for command in re.findall(r"bin/pip (?:install|wheel) [^&\n]*", text):
        assert "--require-hashes -r" in command or ("--no-deps" in command and "--no-index" in command), command
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert set(bases) == {"${BASE}"}
    assert re.search(r"^ARG BASE=python(:3\.\d+\.\d+-slim-\w+|@sha256:[0-9a-f]{64})$", text, re.MULTILINE)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {"!requirements/run.txt", "!requirements/build.txt", "!src", "!pyproject.toml"} <= set(ignored)
