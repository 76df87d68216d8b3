"""The simulated jobs are those that the benchmark describes, in both formats."""

import json
from pathlib import Path

from bench.simulation import JOBS, QUEUES, SHAPES, trace, write
from pykueue.engine.model import ClusterQueue
from pykueue.sim.trace import read_trace
from pykueue.sim.world import MomentKind, World


def test_both_formats_are_the_same_simulation(tmp_path: Path) -> None:
    written = write(tmp_path, 300).values()
    in_json, in_yaml = (read_trace([(file, Path(file).read_bytes()) for file in files]) for files in written)
    assert in_json == in_yaml
    assert len(in_json.arrivals) == 300
    assert sum(isinstance(thing, ClusterQueue) for thing in in_json.things) == QUEUES
    finished = [moment for moment in World(in_json).run().moments if moment.what is MomentKind.FINISHES]
    assert len(finished) == 300


def test_the_jobs_repeat_some_hundred_pod_templates() -> None:
    jobs = trace()
    assert len(jobs) == JOBS
    assert SHAPES * 0.9 < len({json.dumps(job["spec"]) for job in jobs}) <= SHAPES
