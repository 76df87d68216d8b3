"""Time previews of a quota: from the engine's checkpoint, through a process of its own, to the answer."""

import asyncio
import subprocess
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time

import msgspec

from bench.depth import settle
from bench.shapes import BASELINE, CPU, START, Load, cluster_of, workload
from pykueue.api.config.file import default_configuration
from pykueue.api.previews import Effect, PreviewSpec, PreviewStatus
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.bridge.previews import Question
from pykueue.controllers.queries.questions import COMMAND
from pykueue.controllers.queries.snapshots import question
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen

WORKLOADS = 10_000
TARGET = "q-0-0"
KINDS = (0, 0, 0, 0, 0, 0, 0, 1, 1, 2)
"""Which of the kinds of the load ten workloads of a queue are, in turn."""
RECLAIMING = Load(1, 1_000, (), nominal=5)
PRIORITIES = 3


class Previewed(Frozen):
    """The CPU seconds of a preview, and how many workloads it found."""

    seconds: float
    starts: int
    others: int


def full_cohorts() -> Engine:
    """The queues of Kueue's baseline load, full, with all other workloads pending."""
    engine = cluster_of(BASELINE)
    names = [one.name for one in engine.queues()]
    for number in range(WORKLOADS):
        kind = BASELINE.kinds[KINDS[number // len(names) % len(KINDS)]]
        arrive(engine, number, names[number % len(names)], cpu=kind.cpu * CPU, priority=kind.priority)
    settle(engine, Instant(START + WORKLOADS))
    return engine


def one_cohort() -> Engine:
    """A cohort in which every second queue has borrowed what the others own, and wants as much again."""
    engine = cluster_of(RECLAIMING)
    names = [one.name for one in engine.queues()][::2]
    for number in range(WORKLOADS):
        arrive(engine, number, names[number % len(names)], cpu=CPU, priority=number // len(names) % PRIORITIES)
    settle(engine, Instant(START + WORKLOADS))
    return engine


def arrive(engine: Engine, number: int, queue: str, *, cpu: int, priority: int) -> None:
    """Observe a workload, created after those before it."""
    seen = workload(f"w-{number}", queue, cpu=cpu, priority=priority, created=Instant(START + number))
    engine.observe(Seen(seen))


def preview(engine: Engine, nominal: int) -> Previewed:
    """Preview a quota that is raised to this many cores."""
    before = engine.queue(TARGET)
    assert before is not None, f"{TARGET} is one of the queues"
    quota = before.quotas[0]
    resource = {"name": "cpu", "nominalQuota": f"{quota.nominal}m", "borrowingLimit": f"{quota.borrowing_limit}m"}
    tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": TARGET},
        "spec": {
            "cohortName": before.cohort,
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
            "resourceGroups": [
                {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [resource]}]},
            ],
        },
    }
    spec = PreviewSpec(set=(f"clusterqueue/{TARGET}.cpu={nominal}",))
    asked = Question(spec, default_configuration(), Instant(START + 2 * WORKLOADS), (tree,))

    async def sent() -> bytes:
        return b"".join([piece async for piece in question("preview", msgspec.msgpack.encode(asked), engine)])

    began = cpu_seconds()
    answer = subprocess.run(COMMAND, input=asyncio.run(sent()), capture_output=True, check=False)
    seconds = cpu_seconds() - began
    assert answer.returncode == 0, answer.stdout.decode() + answer.stderr.decode()
    found = msgspec.json.decode(answer.stdout, type=PreviewStatus)
    starts = found.count(Effect.STARTS)
    return Previewed(seconds, starts, found.count(*Effect) - starts)


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children that it has waited for."""
    children = getrusage(RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime
