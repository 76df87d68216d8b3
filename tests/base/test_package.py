"""Does the package say of itself what is so?"""

import tomllib
from importlib.resources import files
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]


def test_whoever_imports_it_gets_its_types() -> None:
    assert files("pykueue").joinpath("py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_oldest_python_is_the_one_it_requires() -> None:
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if "Python :: 3" in one]
    assert named == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == f">={named[0]}"
