"""Does docs/reasons.md have every reason, and are its answers those of the present version?"""

import re
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

import pytest

from pykueue.engine.decisions import (
    DeactivationCause,
    EvictionReason,
    Obstacle,
    PreemptionReason,
    RequeueReason,
    SparedReason,
    WaitReason,
    Why,
)
from tests.explanations import page

TEXT = (Path(__file__).resolve().parent.parent / "docs/reasons.md").read_text()
CHAPTERS: dict[str, Any] = {
    "Pending reasons": WaitReason,
    "Details": Why,
    "Obstacles": Obstacle,
    "Eviction reasons": EvictionReason,
    "Preemption reasons": PreemptionReason,
    "Spared candidates": SparedReason,
    "Requeue reasons": RequeueReason,
    "Deactivation causes": DeactivationCause,
}
ELSEWHERE = {
    ("Eviction reasons", "Deactivated"): "Deactivated by an owner or a limit",
    ("Deactivation causes", "AdmissionCheck"): "Rejected by an AdmissionCheck",
}
"""Headings of reasons that another chapter has by the same name."""


def sections(chapter: str) -> dict[str, str]:
    found = re.search(rf"\n## {chapter}\n(.*?)(?=\n## )", TEXT, re.DOTALL)
    assert found is not None, f"docs/reasons.md has no chapter {chapter!r}"
    _, *parts = re.split(r"\n### ", found[1])
    return {part.partition("\n")[0]: part for part in parts}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_reason_has_its_section_with_what_to_do(chapter: str) -> None:
    kind = CHAPTERS[chapter]
    is_enum = isinstance(kind, type) and issubclass(kind, StrEnum)
    names = [one.value for one in kind] if is_enum else [one.__name__ for one in get_args(kind)]
    found = sections(chapter)
    assert sorted(found) == sorted(ELSEWHERE.get((chapter, name), name) for name in names)
    for heading, part in found.items():
        assert "\nWhat to do: " in part, f"{heading}: say what to do"


def test_the_answers_are_what_explain_prints() -> None:
    told = TEXT[TEXT.index("\n## Examples") :]
    assert told[told.index("### ") :] == page(), "python -m tests.explanations prints them"
    assert told.count("$ pykueue explain") == 10
