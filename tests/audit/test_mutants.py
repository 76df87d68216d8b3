"""Would the auditor notice? The history of a real Kueue at work, in which it finds nothing, and what it finds when one
thing in that history is otherwise.

`kueue.jsonl.gz` was recorded by `python -m tests.crash --program kueue --only none --calm 60`: Kueue v0.19.2 on a real
control plane, 80 Jobs in five queues of three cohorts, 98 admissions, 26 preemptions. What the auditor does not read
was left out.
"""

import copy
import gzip
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykueue.audit.auditor import Auditor
from pykueue.audit.history import Line as HistoryLine
from pykueue.audit.history import encode, event_of, events
from pykueue.audit.world import Settings
from pykueue.base.units import MICROS, Instant

Line = dict[str, Any]
HISTORY = Path(__file__).with_name("kueue.jsonl.gz")
LEASE = "kueue-system/c1f6bfd2.kueue.x-k8s.io"
AFTER_SECONDS = 15
"""How long the auditor goes on looking when the history is over."""


@cache
def recorded() -> tuple[bytes, ...]:
    with gzip.open(HISTORY) as file:
        return tuple(file)


def lines() -> list[Line]:
    return [json.loads(text) for text in recorded()]


def judged(history: list[Line]) -> list[str]:
    """What the auditor finds in a history, as rule and object."""
    auditor = Auditor(Settings(lease=LEASE, plain_resources=True))
    for event in events(json.dumps(line).encode() for line in history):
        auditor.observe(event)
    auditor.uptime.lasts_micros = 60 * MICROS
    for second in range(AFTER_SECONDS):
        auditor.tick(Instant(history[-1]["at"] + second * MICROS))
    return [f"{finding.rule} {finding.about}" for finding in auditor.findings]


def of(history: list[Line], kind: str, name: str) -> Iterator[Line]:
    return (line for line in history if line["kind"] == kind and line["object"]["metadata"]["name"] == name)


def condition(line: Line, type_: str) -> dict[str, Any]:
    found = line["object"].get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == type_), {})


def evicted_workload(history: list[Line]) -> str:
    """A workload that was evicted in this history."""
    return next(
        str(line["object"]["metadata"]["name"])
        for line in history
        if line["kind"] == "Workload" and condition(line, "Evicted").get("status") == "True"
    )


def job_of(history: list[Line], workload: str) -> str:
    line = next(of(history, "Workload", workload))
    return str(line["object"]["metadata"]["ownerReferences"][0]["name"])


def less_quota(history: list[Line]) -> str:
    """A queue that was filled to the brim has one cpu less than the manager thought."""
    for line in of(history, "ClusterQueue", "alone"):
        line["object"]["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "3"
    return "overuse ClusterQueue alone"


def less_to_borrow(history: list[Line]) -> str:
    """A cohort that was filled to the brim has one cpu less."""
    for line in of(history, "Cohort", "all"):
        line["object"]["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "1"
    return "overuse Cohort all"


def undercharged(history: list[Line]) -> str:
    """A workload is charged less than its pods ask for."""
    name = evicted_workload(history)
    for line in of(history, "Workload", name):
        for given in line["object"].get("status", {}).get("admission", {}).get("podSetAssignments", []):
            given["resourceUsage"]["cpu"] = "100m"
    return f"reservation Workload {namespace(history, name)}/{name}"


def given_back_too_much(history: list[Line]) -> str:
    """A workload gives back the quota of one pod when all of them are ready."""
    name = next(
        str(line["object"]["metadata"]["name"])
        for line in history
        if condition(line, "PodsReady").get("status") == "True" and line["object"]["spec"]["podSets"][0]["count"] > 1
    )
    for line in of(history, "Workload", name):
        if condition(line, "PodsReady").get("status") == "True":
            line["object"]["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    return f"uncovered Workload {namespace(history, name)}/{name}"


def never_admitted(history: list[Line]) -> str:
    """A Job runs though its Workload was never admitted."""
    name = evicted_workload(history)
    for line in of(history, "Workload", name):
        condition(line, "Admitted")["status"] = "False"
    return f"start Job {namespace(history, name)}/{job_of(history, name)}"


def pods_too_early(history: list[Line]) -> str:
    """The pods of a Job are there before its Workload is admitted."""
    name = evicted_workload(history)
    for line in of(history, "Workload", name):
        condition(line, "Admitted")["status"] = "False"
    pod = next(
        line["object"]["metadata"]
        for line in history
        if line["kind"] == "Pod" and line["object"]["metadata"]["ownerReferences"][0]["name"] == job_of(history, name)
    )
    return f"unadmitted Pod {pod['namespace']}/{pod['name']}"


def forgotten(history: list[Line]) -> str:
    """A Job's Workload was never made."""
    name = evicted_workload(history)
    found = f"lost Job {namespace(history, name)}/{job_of(history, name)}"
    history[:] = [line for line in history if line["object"]["metadata"]["name"] != name]
    for line in of(history, "Job", found.partition("/")[2]):
        # Without a Workload it would not have been started, nor ended.
        line["object"]["spec"]["suspend"] = True
        line["object"]["status"] = {}
    return found


def overlooked(history: list[Line]) -> str:
    """A Workload is made, and nobody looks at it again, though in the end there is room."""
    name = next(
        line["object"]["metadata"]["name"]
        for line in history
        if line["kind"] == "Workload" and line["object"]["spec"]["queueName"] == "alone"
    )
    found = f"stuck Workload {namespace(history, name)}/{name}"
    job = job_of(history, name)
    mine = [line for line in history if line["object"]["metadata"]["name"] in (name, job)]
    first = {line["kind"]: line for line in reversed(mine)}
    history[:] = [line for line in history if line not in mine or line in first.values()]
    return found


def quota_kept(history: list[Line]) -> str:
    """A Workload is not told that its Job has ended."""
    name = evicted_workload(history)
    found = f"lost Workload {namespace(history, name)}/{name}"
    history[:] = [
        line
        for line in history
        if line["object"]["metadata"]["name"] != name or (line["type"] != "DELETED" and not condition(line, "Finished"))
    ]
    return found


def no_reason(history: list[Line]) -> str:
    """An eviction gives no reason that there is."""
    name = evicted_workload(history)
    for line in of(history, "Workload", name):
        if condition(line, "Evicted"):
            condition(line, "Evicted")["reason"] = "Because"
    return f"eviction Workload {namespace(history, name)}/{name}"


def not_counted(history: list[Line]) -> str:
    """An eviction is not counted."""
    name = evicted_workload(history)
    for line in of(history, "Workload", name):
        line["object"].get("status", {}).pop("schedulingStats", None)
    return f"eviction Workload {namespace(history, name)}/{name}"


def not_evicted(history: list[Line]) -> str:
    """A Workload loses its admission just so."""
    name = evicted_workload(history)
    for line in of(history, "Workload", name):
        if condition(line, "Evicted"):
            condition(line, "Evicted")["status"] = "False"
    return f"eviction Workload {namespace(history, name)}/{name}"


def given_back_early(history: list[Line]) -> str:
    """The Job of an evicted Workload is not stopped before the quota is given back."""
    name = evicted_workload(history)
    for line in of(history, "Job", job_of(history, name)):
        line["object"]["spec"]["suspend"] = False
    return f"unadmitted Workload {namespace(history, name)}/{name}"


def run_again(history: list[Line]) -> str:
    """A Job that has ended gets another pod."""
    ended = next(index for index, line in enumerate(history) if line["kind"] == "Job" and condition(line, "Complete"))
    job = history[ended]["object"]["metadata"]
    pod = copy.deepcopy(
        next(
            line
            for line in history
            if line["kind"] == "Pod" and line["object"]["metadata"]["ownerReferences"][0]["uid"] == job["uid"]
        )
    )
    pod["object"]["metadata"] |= {"name": "again", "uid": "again", "resourceVersion": job["resourceVersion"]}
    pod["at"] = history[ended]["at"]
    history.insert(ended + 1, pod)
    return f"rerun Job {job['namespace']}/{job['name']}"


def namespace(history: list[Line], workload: str) -> str:
    return str(next(of(history, "Workload", workload))["object"]["metadata"]["namespace"])


def test_nothing_is_found_in_what_really_happened() -> None:
    assert judged(lines()) == []


@pytest.mark.parametrize(
    "otherwise",
    [
        less_quota,
        less_to_borrow,
        undercharged,
        given_back_too_much,
        never_admitted,
        pods_too_early,
        forgotten,
        overlooked,
        quota_kept,
        no_reason,
        not_counted,
        not_evicted,
        given_back_early,
        run_again,
    ],
    ids=lambda otherwise: str(otherwise.__name__).replace("_", " "),
)
def test_it_is_found_when_one_thing_is_otherwise(otherwise: Callable[[list[Line]], str]) -> None:
    history = lines()
    expected = otherwise(history)
    assert expected in judged(history)


def test_a_history_is_kept_as_it_was_heard() -> None:
    line = msgspec.json.decode(recorded()[0], type=HistoryLine)
    assert event_of(msgspec.json.decode(encode(line), type=HistoryLine)) == event_of(line)
