"""Time a preview of a quota: from the engine's checkpoint, through a process of its own, to the answer."""

import asyncio
import subprocess
from time import perf_counter

import msgspec

from bench.depth import settle
from bench.shapes import BASELINE, CPU, START, cluster_of, workload
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


class Previewed(Frozen):
    """How long a preview took, and how many workloads it found."""

    seconds: float
    starts: int
    others: int


def state() -> Engine:
    """The queues of Kueue's baseline load, full, with all other workloads pending."""
    engine = cluster_of(BASELINE)
    names = [one.name for one in engine.queues()]
    for number in range(WORKLOADS):
        kind = BASELINE.kinds[KINDS[number // len(names) % len(KINDS)]]
        created = Instant(START + number)
        seen = workload(
            f"w-{number}", names[number % len(names)], cpu=kind.cpu * CPU, priority=kind.priority, created=created
        )
        engine.observe(Seen(seen))
    settle(engine, Instant(START + WORKLOADS))
    return engine


def preview() -> Previewed:
    """Preview a quota that is raised."""
    engine = state()
    group = {
        "coveredResources": ["cpu"],
        "flavors": [
            {
                "name": "default",
                "resources": [
                    {
                        "name": "cpu",
                        "nominalQuota": str(BASELINE.nominal),
                        "borrowingLimit": str(BASELINE.borrowing_limit),
                    }
                ],
            }
        ],
    }
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    queue_spec = {
        "cohortName": "cohort-0",
        "namespaceSelector": {},
        "preemption": preemption,
        "resourceGroups": [group],
    }
    tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": TARGET},
        "spec": queue_spec,
    }
    spec = PreviewSpec(set=(f"clusterqueue/{TARGET}.cpu=64",))
    asked = Question(spec, default_configuration(), Instant(START + 2 * WORKLOADS), (tree,))

    async def sent() -> bytes:
        return b"".join([piece async for piece in question("preview", msgspec.msgpack.encode(asked), engine)])

    began = perf_counter()
    answer = subprocess.run(COMMAND, input=asyncio.run(sent()), capture_output=True, check=False)
    seconds = perf_counter() - began
    assert answer.returncode == 0, answer.stdout.decode() + answer.stderr.decode()
    found = msgspec.json.decode(answer.stdout, type=PreviewStatus)
    starts = found.count(Effect.STARTS)
    return Previewed(seconds, starts, found.count(*Effect) - starts)
