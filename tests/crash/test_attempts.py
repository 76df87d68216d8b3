"""Does the run that kills at each write kill where it should, and say what it should?"""

import itertools
import os
import random
from typing import Any

import pytest

from pykueue.kube.port import POD_TEMPLATES, PODS, WORKLOADS
from tests.crash.attempts import STORIES, Ledger, script
from tests.crash.mortal import deadly
from tests.crash.provider import SCRIPTS, by_luck


class Died(Exception):
    pass


@pytest.mark.parametrize(
    ("after", "written"),
    [
        pytest.param(False, ["workloads", "pods"], id="before the write"),
        pytest.param(True, ["workloads", "pods", "podtemplates"], id="after the write"),
    ],
)
async def test_it_dies_at_the_write_of_its_number(
    monkeypatch: pytest.MonkeyPatch, after: bool, written: list[str]
) -> None:
    def kill(pid: int, number: int) -> None:
        raise Died(f"{pid} {number}")

    monkeypatch.setattr(os, "kill", kill)
    done: list[str] = []

    async def write(_kube: object, resource: Any) -> str:
        done.append(resource.plural)
        return "answered"

    deadly_write = deadly(write, after=after, number=2, count=itertools.count(1))
    assert await deadly_write(None, WORKLOADS) == "answered"
    await deadly_write(None, PODS)
    with pytest.raises(Died, match=f"{os.getpid()} 9"):
        await deadly_write(None, POD_TEMPLATES)
    assert done == written


@pytest.mark.parametrize("name", STORIES)
def test_the_autoscaler_fails_as_many_attempts_as_the_story_says(name: str) -> None:
    story = STORIES[name]
    answers = [
        script({"spec": {"provisioningClassName": f"{name}.example.com"}, "metadata": {"name": f"job-x-{attempt}"}})
        for attempt in story.attempts
    ]
    assert [said for ((_, said),) in answers].count("Provisioned") == int(story.admitted)
    assert answers[-1][0][1] == ("Provisioned" if story.admitted else "Failed")


def test_the_ledger_tells_the_requests_of_one_job_from_those_of_another() -> None:
    ledger = Ledger()
    for name, uid in (("job-found-before-1-ab-found-1", "a"), ("job-found-before-11-cd-found-1", "b")):
        ledger.asked(name, uid)
        ledger.asked(name, uid)
    ledger.asked("job-found-before-1-ab-found-1", "c")
    assert ledger.attempts("found-before-1") == [1, 1]


def test_under_load_every_answer_is_given_and_most_find_capacity() -> None:
    answers = by_luck(random.Random(1))
    given = [answers({}) for _ in range(1000)]
    assert all(steps in given for _, steps in SCRIPTS.values())
    assert sum(steps[-1][1] == "Provisioned" for steps in given) > 600
