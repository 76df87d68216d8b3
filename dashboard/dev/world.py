"""What the development server serves: a small lab, a large cluster, and names that try to break the page.

Everything is computed from a seed, so that tests and screenshots show the same in each run.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

Row = dict[str, Any]

GI: Final = 2**30
REASONS: Final = (
    "needs 2 more cpu in flavor default",
    "needs 4 more nvidia.com/gpu in flavor a100",
    "first in line; quota is being freed by 1 preempted workload",
    "behind 3 workloads of its queue",
    "waits until 2 workloads of its cohort finish",
)
OWNERS: Final = ("ann", "bo", "chandra", "dmitri", "eve", "farah")
CHANGES: Final = ("started", "finished", "submitted", "preempted", "started", "submitted", "failed", "cancelled")
HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "abc\u202egnp.exe",
    "quote\"'`${alert(1)}&amp;",
    "x" * 10_000,
)
"""Names and messages that would become markup, change the direction of text, or fill the screen."""


class World:
    """The state that is served; tests change it through the server."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[str, Row] = {}
        self.finished: list[Row] = []
        self.queues: list[Row] = []
        self.policies: dict[str, Row] = {}
        self.changes: list[Row] = []
        self.machine: Row | None = None
        self.meta: Row = {
            "setting": "machine",
            "server": "https://127.0.0.1:6443",
            "user": "ann",
            "version": "0.2.0",
            "viewOnly": False,
            "asOf": stamp(now),
            "stale": "",
            "notes": [],
            "can": {"cancel": True, "hold": True, "apply": True, "logs": True},
        }

    def ago(self, seconds: float) -> str:
        """A time before the start."""
        return stamp(self.now - timedelta(seconds=seconds))

    def add(self, namespace: str, name: str, state: str, **fields: Any) -> None:
        """Add a job."""
        self.jobs[f"{namespace}/{name}"] = {"namespace": namespace, "name": name, "state": state, **fields}

    def overview(self) -> Row:
        """The overview of the present state."""
        rows = [*self.jobs.values()]
        pending = [row for row in rows if row["state"] == "PENDING"]
        states = {state: sum(row["state"] == state for row in rows) for state in ("RUNNING", "HELD", "FAILING")}
        hour = self.ago(3600)
        return {
            "meta": self.meta,
            "counts": {
                "running": states["RUNNING"],
                "pending": len(pending),
                "held": states["HELD"],
                "failing": states["FAILING"],
                "finishedLastHour": sum(row["ended"] > hour for row in self.finished),
            },
            "queues": self.queues,
            "policies": self.policies,
            "longest": sorted(pending, key=lambda row: str(row["since"]))[:10],
            "next": sorted((row for row in pending if row.get("place") == 1), key=lambda row: str(row["since"]))[:10],
            "changes": self.changes[:200],
            "machine": self.machine,
        }


def stamp(when: datetime) -> str:
    """A time as the API writes it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def usage(
    kind: str, name: str, flavor: str, resource: str, amounts: tuple[int | None, int, int, int | None], **rest: Any
) -> Row:
    """A row of the tree of quotas; the amounts are nominal, used, borrowed and lent."""
    nominal, used, borrowed, lent = amounts
    unit = {"cpu": "cpu", "memory": "bytes"}.get(resource, "count")
    row: Row = {"kind": kind, "name": name, "cohort": "", "flavor": flavor, "resource": resource, "unit": unit}
    row |= {
        "nominal": nominal,
        "used": used,
        "borrowed": borrowed,
        "lent": lent,
        "running": 0,
        "pending": 0,
        "depth": 0,
    }
    return row | rest


def policy(cohort: str, *local_queues: str, stop: str = "None") -> Row:
    """The rules of a ClusterQueue."""
    words = ["starts a smaller job where the first in line does not fit"]
    if cohort:
        words.append(f"borrows what other queues of cohort {cohort} leave unused")
        words.append("takes its own quota back from those that borrow it, the lowest priority first")
    words.append("preempts jobs of lower priority in the queue")
    return {
        "strategy": "BestEffortFIFO",
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any" if cohort else "Never"},
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
        "stopPolicy": stop,
        "cohort": cohort,
        "words": words,
        "limits": [{"flavor": "default", "resource": "cpu", "borrowingLimit": "8", "lendingLimit": None}]
        if cohort
        else [],
        "localQueues": [*local_queues],
    }


def small(now: datetime) -> World:
    """A lab with one machine: 3 queues, 2 of them in a cohort, and a dozen jobs."""
    world = World(now)
    world.queues = [
        usage("cohort", "lab", "default", "cpu", (16_000, 15_000, 0, 2_000), running=4, pending=4),
        usage("cohort", "lab", "default", "memory", (96 * GI, 52 * GI, 0, 0), running=4, pending=4),
        usage("cohort", "lab", "a100", "nvidia.com/gpu", (4, 4, 0, 1), running=4, pending=4),
        usage(
            "queue",
            "vision",
            "default",
            "cpu",
            (8_000, 10_000, 2_000, None),
            cohort="lab",
            running=3,
            pending=2,
            depth=1,
        ),
        usage(
            "queue",
            "vision",
            "default",
            "memory",
            (64 * GI, 40 * GI, 0, None),
            cohort="lab",
            running=3,
            pending=2,
            depth=1,
        ),
        usage(
            "queue", "vision", "a100", "nvidia.com/gpu", (2, 3, 1, None), cohort="lab", running=3, pending=2, depth=1
        ),
        usage(
            "queue", "speech", "default", "cpu", (8_000, 5_000, 0, None), cohort="lab", running=1, pending=2, depth=1
        ),
        usage(
            "queue",
            "speech",
            "default",
            "memory",
            (32 * GI, 12 * GI, 0, None),
            cohort="lab",
            running=1,
            pending=2,
            depth=1,
        ),
        usage(
            "queue", "speech", "a100", "nvidia.com/gpu", (2, 1, 0, None), cohort="lab", running=1, pending=2, depth=1
        ),
        usage("queue", "teaching", "default", "cpu", (4_000, 1_500, 0, None), running=1, pending=0),
        usage("queue", "teaching", "default", "memory", (16 * GI, 2 * GI, 0, None), running=1, pending=0),
    ]
    world.policies = {
        "vision": policy("lab", "vision/main"),
        "speech": policy("lab", "speech/main", "speech/night"),
        "teaching": policy("", "teaching/main"),
    }
    big = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    vision = {"queue": "main", "clusterQueue": "vision"}
    speech = {"queue": "main", "clusterQueue": "speech"}
    ago = world.ago
    world.add(
        "vision",
        "segment-7f2kq",
        "RUNNING",
        owner="ann",
        requests=big,
        gpus=[0],
        submitted=ago(9200),
        since=ago(8100),
        deadline=stamp(now + timedelta(hours=3)),
        limitSeconds=18_900,
        **vision,
    )
    world.add(
        "vision",
        "label-images",
        "RUNNING",
        owner="bo",
        requests={"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
        gpus=[1],
        submitted=ago(5000),
        since=ago(4800),
        progress="37/100",
        **vision,
    )
    world.add(
        "vision",
        "augment",
        "RUNNING",
        owner="bo",
        requests={"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1"},
        gpus=[2],
        submitted=ago(1500),
        since=ago(1460),
        **vision,
    )
    world.add(
        "speech",
        "train-a",
        "RUNNING",
        owner="chandra",
        requests={"cpu": "5", "memory": "12Gi", "nvidia.com/gpu": "1"},
        gpus=[3],
        submitted=ago(20_000),
        since=ago(7000),
        **speech,
    )
    world.add(
        "teaching",
        "exercise-3",
        "RUNNING",
        owner="dmitri",
        requests={"cpu": "1500m", "memory": "2Gi"},
        submitted=ago(400),
        since=ago(395),
        queue="main",
        clusterQueue="teaching",
    )
    world.add(
        "vision",
        "pretrain-large",
        "PENDING",
        owner="ann",
        requests={"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"},
        submitted=ago(11_600),
        since=ago(11_600),
        place=1,
        reason="needs 5 more cpu in flavor default",
        message="insufficient unused quota for cpu in flavor default, 5 more needed",
        **vision,
    )
    world.add(
        "vision",
        "eval-nightly",
        "PENDING",
        owner="bo",
        requests=big,
        submitted=ago(3000),
        since=ago(3000),
        place=2,
        reason="needs 3 more cpu in flavor default",
        message="insufficient unused quota for cpu in flavor default, 3 more needed",
        **vision,
    )
    world.add(
        "speech",
        "train-b",
        "PENDING",
        owner="chandra",
        requests={"cpu": "6", "memory": "8Gi", "nvidia.com/gpu": "1"},
        submitted=ago(640),
        since=ago(640),
        place=1,
        reason="first in line; waits for quota that vision/augment still holds",
        **speech,
    )
    world.add(
        "speech",
        "decode",
        "PENDING",
        owner="farah",
        requests={"cpu": "2", "memory": "4Gi"},
        submitted=ago(60),
        since=ago(60),
        place=2,
        reason="behind train-b, which is larger",
        **speech,
    )
    world.add(
        "speech",
        "sweep",
        "HELD",
        owner="farah",
        requests={"cpu": "1", "memory": "1Gi"},
        submitted=ago(86_000),
        since=ago(86_000),
        reason="held by its owner; `pykueue release` queues it again",
        **speech,
    )
    world.finished = [*finished_jobs(world, random.Random(2), 60, ("vision", "speech", "teaching"), 6 * 3600)]
    world.changes = [*recent_changes(world, random.Random(3), 24)]
    world.machine = {
        "name": "lab-1",
        "cpus": {"capacity": 20_000, "used": 16_500},
        "memory": {"capacity": 112 * GI, "used": 54 * GI},
        "gpus": [
            {"number": row["gpus"][0], "user": row["owner"], "job": key}
            for key, row in world.jobs.items()
            if row.get("gpus")
        ]
        + [{"number": 4, "user": "", "job": ""}, {"number": 5, "user": "", "job": ""}],
        "disk": {"capacity": 1800 * GI, "free": 611 * GI},
        "users": [
            {"name": "ann", "running": 1, "pending": 1, "cpu": 4_000, "memory": 16 * GI, "gpus": 1},
            {"name": "bo", "running": 2, "pending": 1, "cpu": 6_000, "memory": 24 * GI, "gpus": 2},
            {"name": "chandra", "running": 1, "pending": 1, "cpu": 5_000, "memory": 12 * GI, "gpus": 1},
            {"name": "dmitri", "running": 1, "pending": 0, "cpu": 1_500, "memory": 2 * GI, "gpus": 0},
            {"name": "farah", "running": 0, "pending": 1, "cpu": 0, "memory": 0, "gpus": 0},
        ],
    }
    return world


def finished_jobs(world: World, luck: random.Random, count: int, queues: tuple[str, ...], span: int) -> Iterator[Row]:
    """Records of finished jobs, the newest first."""
    for number in range(count):
        ended = span * (number + 1) / count * luck.uniform(0.8, 1)
        ran, waited = luck.randint(30, 7000), luck.randint(0, 3000)
        state = luck.choices(("COMPLETED", "FAILED", "CANCELLED"), (8, 1, 1))[0]
        queue = luck.choice(queues)
        yield {
            "namespace": queue,
            "name": f"done-{number}",
            "uid": f"uid-{number}",
            "state": state,
            "owner": luck.choice(OWNERS),
            "queue": "main",
            "clusterQueue": queue,
            "requests": {"cpu": str(luck.randint(1, 8))},
            "submitted": world.ago(ended + ran + waited),
            "started": world.ago(ended + ran),
            "ended": world.ago(ended),
            "exitCode": 0 if state == "COMPLETED" else 1,
            "waitedSeconds": waited,
            "ranSeconds": ran,
            "preempted": int(luck.random() < 0.1),
            "lostSeconds": 0,
            "progress": "",
            "reason": "exit code 1" if state == "FAILED" else "",
            "message": "",
        }


def recent_changes(world: World, luck: random.Random, count: int) -> Iterator[Row]:
    """What happened in the last hour, the newest first."""
    texts = {"preempted": "speech/train-b takes back quota that this queue had borrowed", "failed": "exit code 1"}
    rows = [*world.jobs.values()]
    for number in range(count):
        row, kind = luck.choice(rows), luck.choice(CHANGES)
        yield {
            "at": world.ago(3500 * (number + 1) / count),
            "kind": kind,
            "job": row["name"],
            "namespace": row["namespace"],
            "queue": row.get("clusterQueue", ""),
            "text": texts.get(kind, ""),
        }


def large(now: datetime, queues: int = 1000, jobs: int = 50_000) -> World:
    """A cluster: many queues in cohorts of cohorts, and many jobs."""
    luck = random.Random(1)
    world = World(now)
    world.meta |= {"setting": "cluster", "server": "https://cluster.example.com"}
    names = [f"team-{number:04}" for number in range(queues)]
    per = 25
    for division in range(-(-queues // per)):
        members = names[division * per : (division + 1) * per]
        rows = [*queue_rows(members, f"division-{division:02}", luck)]
        for resource in ("cpu", "nvidia.com/gpu"):
            mine = [row for row in rows if row["resource"] == resource]
            amounts = (
                sum(row["nominal"] for row in mine),
                sum(row["used"] for row in mine),
                0,
                sum(row["borrowed"] for row in mine),
            )
            sums = {"running": sum(row["running"] for row in mine), "pending": sum(row["pending"] for row in mine)}
            world.queues.append(
                usage("cohort", f"division-{division:02}", mine[0]["flavor"], resource, amounts, **sums)
            )
        world.queues += rows
        world.policies |= {name: policy(f"division-{division:02}", f"{name}/main") for name in members}
    places = dict.fromkeys(names, 0)
    for number in range(jobs):
        name = names[int(luck.random() ** 2 * queues)]
        running = luck.random() < 0.2
        places[name] += not running
        age = luck.randint(10, 200_000)
        fields = (
            {"place": places[name], "reason": luck.choice(REASONS), "message": luck.choice(REASONS)}
            if not running
            else {}
        )
        world.add(
            name,
            f"job-{number:05}-{luck.randrange(16**5):05x}",
            "RUNNING" if running else "HELD" if luck.random() < 0.01 else "PENDING",
            owner=f"user-{luck.randrange(300):03}",
            queue="main",
            clusterQueue=name,
            requests={"cpu": str(luck.randint(1, 64)), "memory": f"{luck.randint(1, 256)}Gi"},
            submitted=world.ago(age + 60),
            since=world.ago(age),
            **fields,
        )
    world.finished = [*finished_jobs(world, luck, 500, tuple(names), 4 * 3600)]
    world.changes = [*recent_changes(world, luck, 200)]
    return world


def queue_rows(names: list[str], cohort: str, luck: random.Random) -> Iterator[Row]:
    """The quotas of the queues of a cohort."""
    for name in names:
        counts = {"running": luck.randint(0, 20), "pending": luck.randint(0, 90), "cohort": cohort, "depth": 1}
        for flavor, resource, scale in (("default", "cpu", 1000), ("h100", "nvidia.com/gpu", 1)):
            nominal = luck.randint(2, 64) * scale
            used = int(nominal * luck.choice((0, 0.4, 0.8, 1, 1, 1.3)))
            used -= used % scale
            yield usage("queue", name, flavor, resource, (nominal, used, max(0, used - nominal), None), **counts)


def hostile(now: datetime) -> World:
    """Names, owners, reasons and messages that must stay text."""
    world = World(now)
    for number, text in enumerate(HOSTILE):
        world.queues.append(usage("queue", text, text, text, (4, 2, 0, None), running=1, pending=1))
        world.policies[text] = {**policy(""), "words": [text], "localQueues": [text]}
        fields = {
            "owner": text,
            "queue": text,
            "clusterQueue": text,
            "reason": text,
            "message": text,
            "requests": {text: text},
        }
        world.add(
            "team", f"{number}-{text}", "PENDING", place=1, submitted=world.ago(100), since=world.ago(100), **fields
        )
        world.changes.append(
            {
                "at": world.ago(10 + number),
                "kind": "submitted",
                "job": text,
                "namespace": text,
                "queue": text,
                "text": text,
            }
        )
    world.meta |= {"user": HOSTILE[0], "notes": [*HOSTILE]}
    world.machine = {
        "name": HOSTILE[0],
        "cpus": {"capacity": 4000, "used": 1000},
        "gpus": [{"number": number, "user": text, "job": f"team/{text}"} for number, text in enumerate(HOSTILE)],
        "users": [{"name": text, "running": 1} for text in HOSTILE],
    }
    return world
