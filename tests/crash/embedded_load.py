"""What keeps `pykueue up` busy, and what did it promise? Jobs that are real processes, and a book of all it has taken.

Every write that was acknowledged goes into the book with its version. A process writes two lines into a file that all
share, at its start and at its end, each with the attempt that it is.
"""

import random
import threading
from collections import Counter
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from tests import builders
from tests.builders import PRIORITY_CLASS, QUEUE_NAME, pod_spec
from tests.crash.load import CHECK, CHECKED, LOWER, PRIORITIES, Load, checking, counts, spec_of, thing
from tests.plane.client import ApiError, Client, Tree

NAMESPACE = "crash"
QUEUES: dict[str, dict[str, Any]] = {
    "left": {
        "cpu": {"default": {"nominalQuota": 3}},
        "cohortName": "both",
        "preemption": {"withinClusterQueue": LOWER, "reclaimWithinCohort": "Any"},
    },
    "right": {
        "cpu": {"default": {"nominalQuota": 3}},
        "cohortName": "both",
        "preemption": {
            "withinClusterQueue": LOWER,
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": LOWER},
        },
    },
    "apart": {
        "cpu": {"default": {"nominalQuota": 3}},
        "preemption": {"withinClusterQueue": LOWER},
        "admissionChecksStrategy": CHECKED,
    },
}
UNFINISHED = 16
"""How many Jobs are unfinished at any time: nearly twice what the quotas let run."""
DELETED_OF_JOBS = 0.05
BUSY = (ApiError, OSError, HTTPException)
"""What a call ends with while the server is killed."""
MARK = "CRASH_RUN"
"""The variable by which the processes of a run are known, with the folder of the run."""

SCRIPT = (
    'echo "start $2 $PYKUEUE_ATTEMPT" >>"$0"; %s sleep "$1"; n=$$$$; sleep "0.${n#${n%%?}}"; '
    'echo "end $2 $PYKUEUE_ATTEMPT" >>"$0"'
)
"""What a process does. It sleeps a little longer by the last digit of its number (in a command `$$` stands for one
dollar sign), so that some of a Job run while others are done."""
HABITS = {
    "plain": "",
    "deaf": "trap '' TERM;",
    "careless": "setsid sleep 500 >/dev/null & sleep 500 &",
}
"""What processes do besides: ignore the signal to end, or leave others behind that would run for long."""


def furniture() -> list[Tree]:
    """All objects but the Jobs."""
    return [
        thing("ResourceFlavor", "default"),
        *checking(CHECK),
        *(
            thing("ClusterQueue", name, spec={"namespaceSelector": {}, **spec_of(told)})
            for name, told in QUEUES.items()
        ),
        *({**thing("WorkloadPriorityClass", name), "value": value} for name, value in PRIORITIES.items()),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *(thing("LocalQueue", queue, NAMESPACE, spec={"clusterQueue": queue}) for queue in QUEUES),
    ]


def job(name: str, rng: random.Random, diary: Path, seconds: float | None = None) -> Tree:
    """A Job of one to three processes that its queue could run by itself; of so many seconds, if that is given."""
    pods = rng.choice((1, 1, 1, 2, 3))
    cpu = rng.choice((1, 1, 2, 3)) if pods == 1 else 1
    habit = rng.choices(list(HABITS), weights=(8, 1, 1))[0]
    time = rng.choice((0.1, 0.2, 0.5, 1, 2)) if seconds is None else seconds
    queue = rng.choice(list(QUEUES))
    labels = {QUEUE_NAME: queue, PRIORITY_CLASS: rng.choices(list(PRIORITIES), weights=(5, 3, 2))[0]}
    sizes = {**counts(pods, rng), "completionMode": rng.choice(("NonIndexed", "Indexed"))}
    pod = pod_spec(
        spec={"restartPolicy": rng.choice(("Never", "OnFailure")), "terminationGracePeriodSeconds": 1},
        command=["/bin/sh", "-c", SCRIPT % HABITS[habit], str(diary), str(time), name],
        env=[{"name": MARK, "value": str(diary.parent)}],
        resources={"requests": {"cpu": str(cpu), "memory": "64Mi"}},
    )
    return builders.job(name, queue, NAMESPACE, {"labels": labels}, **sizes, template={"spec": pod})


class Book:
    """What the server has acknowledged, and what was wrong with it at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.jobs: dict[str, tuple[str, int]] = {}
        """Name and version of each Job that it took, by UID."""
        self.deleted: set[str] = set()
        """UIDs of those whose deletion it acknowledged."""
        self.perhaps: set[str] = set()
        """UIDs of those whose deletion was asked for, and nobody knows whether it was heard."""
        self.versions: dict[int, str] = {}
        self.wrong: list[str] = []

    def wrote(self, what: str, version: int) -> None:
        """Enter the version of a write; none is given twice."""
        with self.lock:
            if version in self.versions:
                self.wrong.append(f"version {version} was given to {self.versions[version]} and to {what}")
            self.versions[version] = what

    def missing(self, there: dict[str, int]) -> list[str]:
        """What was acknowledged and is not so, in view of the versions of all Jobs that are there, by UID."""
        lost = [
            f"Job {name} ({uid}), taken at version {version}, is not there"
            for uid, (name, version) in self.jobs.items()
            if uid not in there and uid not in self.deleted | self.perhaps
        ]
        back = [f"Job {self.jobs[uid][0]} ({uid}) was deleted and is there" for uid in self.deleted & there.keys()]
        old = [
            f"Job {name} ({uid}) was taken at version {version} and is at {there[uid]}"
            for uid, (name, version) in self.jobs.items()
            if there.get(uid, version) < version
        ]
        return [*lost, *back, *old]


class Work(Load):
    """Jobs without end, some of which are deleted again, and a counter that must not go back."""

    most = UNFINISHED

    def __init__(self, client: Client, rng: random.Random, diary: Path) -> None:
        super().__init__(client, rng, "job")
        self.diary = diary
        self.book = Book()
        self.counted = 0
        """As far as the server has acknowledged."""
        self.counting = threading.Thread(target=self.count, name="counter", daemon=True)

    def prepare(self) -> None:
        for tree in furniture():
            self.client.apply(tree)
        self.client.create(counter(0))

    def start(self) -> None:
        super().start()
        self.counting.start()

    def stop(self) -> None:
        super().stop()
        self.counting.join()

    def check(self) -> None:
        super().check()
        if not self.counting.is_alive() and not self.enough.is_set():
            raise RuntimeError("the counter ended by itself; its thread has printed why")

    def next(self) -> Tree:
        return job(f"{self.prefix}-{self.made + self.refused}", self.rng, self.diary)

    def took(self, metadata: Tree) -> None:
        version = int(metadata["resourceVersion"])
        self.book.jobs[metadata["uid"]] = metadata["name"], version
        self.book.wrote(f"Job {metadata['name']}", version)
        if self.rng.random() < DELETED_OF_JOBS:
            self.delete_one()

    def delete_one(self) -> None:
        """Have some unfinished Job deleted, whatever it is doing."""
        with self.lock:
            chosen = self.rng.choice(sorted(self.unfinished.items())) if self.unfinished else None
        if chosen is None:
            return
        uid, key = chosen
        self.book.perhaps.add(uid)
        try:
            self.client.delete("Job", key.partition("/")[2], NAMESPACE)
        except BUSY:
            return
        self.book.deleted.add(uid)
        with self.lock:
            self.unfinished.pop(uid, None)

    def count(self) -> None:
        """Count in a ConfigMap as long as the run goes, and see that it never goes back."""
        tried = 0
        while not self.enough.wait(0.05):
            try:
                found = self.client.get("ConfigMap", "counter", NAMESPACE)
                held = int(found["data"]["count"])
                if not self.counted <= held <= tried:
                    self.book.wrong.append(f"the counter was acknowledged at {self.counted} and is at {held}")
                tried = max(self.counted, held) + 1
                found["data"]["count"] = str(tried)
                made = self.client.replace(found)
            except BUSY:
                continue
            self.counted = tried
            self.book.wrote(f"count {tried}", int(made["metadata"]["resourceVersion"]))


def counter(value: int) -> Tree:
    """A ConfigMap with a number."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "counter", "namespace": NAMESPACE},
        "data": {"count": str(value)},
    }


class Diary(NamedTuple):
    """What the processes of all Jobs have written."""

    started: Counter[str]
    """How often each attempt was started."""
    ended: Counter[str]
    """How many processes of each Job ran to their end."""

    @classmethod
    def read(cls, file: Path) -> "Diary":
        started, ended = Counter[str](), Counter[str]()
        for line in file.read_text().splitlines() if file.exists() else []:
            word, name, attempt = line.split(" ")
            if word == "start":
                started[attempt] += 1
            else:
                ended[name] += 1
        return cls(started, ended)

    def twice(self) -> list[str]:
        """Attempts that were started more than once."""
        return [f"{attempt} was started {times} times" for attempt, times in self.started.items() if times > 1]

    def unearned(self, jobs: list[Tree]) -> list[str]:
        """Jobs that are said to be complete though fewer of their processes ran to their end than they ask for."""
        return [
            f"Job {name} is complete, with {self.ended[name]} of {wanted} processes at their end"
            for tree in jobs
            if (name := tree["metadata"]["name"])
            and self.ended[name] < (wanted := tree["spec"]["completions"])
            and any(one["type"] == "Complete" for one in tree.get("status", {}).get("conditions", []))
        ]
