"""The loads of Kueue's own harness, read from its tree, and a tenth of one."""

from pathlib import Path
from typing import Any, Final

import yaml

from pykueue.base.struct import Frozen

CONFIGS: Final = Path("test/performance/scheduler/configs")


class Shape(Frozen):
    """A load: its description in Kueue's tree, the fraction that is used, and the time limit of a run."""

    name: str
    folder: str
    part: int = 1
    """One workload in this many is created in each queue; the queues are the same."""
    minutes: int = 20


QUICK: Final = Shape("quick", "baseline", part=10, minutes=10)
BASELINE: Final = Shape("baseline", "baseline")
LARGE: Final = Shape("large", "large-scale", minutes=45)
SHAPES: Final = {shape.name: shape for shape in (QUICK, BASELINE, LARGE)}


def generator(shape: Shape, tree: Path) -> dict[str, Any]:
    """The harness's description of a load, reduced to size."""
    text = (tree / CONFIGS / shape.folder / "generator.yaml").read_text()
    return cut(yaml.safe_load(text), shape.part)


def cut(document: dict[str, Any], part: int) -> dict[str, Any]:
    """A load with one workload in `part`, in the same number of queues; no set becomes empty."""

    def fewer(count: int) -> int:
        return max(1, count // part)

    cohorts = [
        cohort
        | {
            "queuesSets": [
                queues | {"workloadsSets": [each | {"count": fewer(each["count"])} for each in queues["workloadsSets"]]}
                for queues in cohort["queuesSets"]
            ]
        }
        for cohort in document["cohorts"]
    ]
    return document | {"cohorts": cohorts}


class Size(Frozen):
    """How many objects a load creates."""

    cohorts: int
    queues: int
    workloads: int


def size(document: dict[str, Any]) -> Size:
    """The objects a load creates: a namespace and a LocalQueue go with each ClusterQueue."""
    cohorts = queues = workloads = 0
    for cohort in document["cohorts"]:
        cohorts += cohort["count"]
        for queue in cohort["queuesSets"]:
            number = cohort["count"] * queue["count"]
            queues += number
            workloads += number * sum(each["count"] * len(each["workloads"]) for each in queue["workloadsSets"])
    return Size(cohorts, queues, workloads)
