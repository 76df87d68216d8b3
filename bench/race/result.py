"""The result of a run, medians of several runs, and the floors as ratios."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final

from bench.race.contenders import FAIR_OURS, OURS, OURS_ON_THEIRS
from bench.race.managermetrics import Said
from bench.race.shapes import BASELINE, LARGE, QUICK, SHAPES
from pykueue.base.struct import Frozen

MILLI: Final = 1000
DRIFT_MAX: Final = 0.10
"""How much the machine's speed may differ from that during the median run."""
STOLEN_DRIFT_MAX: Final = 0.02
"""How much the part of its CPU time that other machines take may differ from that during the median run."""


class Class(Frozen):
    """The results of one class of workloads."""

    count: int
    admission: float
    """Mean seconds from creation to admission."""
    evictions: float


class Result(Frozen):
    """The result of one run of one contender; of several runs, the median of each figure."""

    contender: str
    shape: str
    date: str
    wall: float
    """Seconds from the manager's start to its end, as the harness counts them."""
    manager: float
    """CPU seconds of the manager; the other three are CPU seconds of the others in the same time."""
    apiserver: float
    etcd: float
    runner: float
    others: float
    """CPU seconds of all other processes of the machine in the same time."""
    memory: float
    """The manager's peak resident memory in bytes."""
    workloads: int
    unfinished: int
    dropped: int
    """Events that the harness's recorder dropped; many make its means unreliable."""
    classes: Mapping[str, Class]
    requests: Mapping[str, float]
    said: Said | None = None
    """What our manager says of itself; None for Kueue."""
    walls: tuple[float, ...] = ()
    """Of several runs, the wall time of each."""
    slowness: tuple[float, ...] = ()
    """How many times slower than the reference the machine was during each run, by the bench kernel."""
    stolen: tuple[float, ...] = ()
    """The part of the machine's CPU time that the hypervisor gave to other machines during each run."""

    @property
    def complete(self) -> bool:
        """Whether every workload finished."""
        return self.workloads > 0 and self.unfinished == 0

    @property
    def evictions(self) -> float:
        """Evictions of all classes."""
        return sum(each.evictions for each in self.classes.values())


def read_classes(summary: Mapping[str, Any]) -> dict[str, Class]:
    """The classes in the harness's summary, the longest-waiting last."""
    found = {
        name: Class(each["count"], each["averageTimeToAdmissionMs"] / MILLI, each["totalEvictions"])
        for name, each in summary["workloadClasses"].items()
    }
    return dict(sorted(found.items(), key=lambda entry: entry[1].count))


def middle(results: Sequence[Result]) -> Result:
    """The median of each figure over the runs of one contender."""
    first = results[0]
    assert all((each.contender, each.shape) == (first.contender, first.shape) for each in results)

    def of(figure: Callable[[Result], float]) -> float:
        return median(map(figure, results))

    def of_class(name: str) -> Class:
        each = [result.classes[name] for result in results if name in result.classes]
        return Class(each[0].count, median(one.admission for one in each), median(one.evictions for one in each))

    asked = sorted({name for result in results for name in result.requests})
    return Result(
        contender=first.contender,
        shape=first.shape,
        date=max(each.date for each in results),
        wall=of(lambda each: each.wall),
        manager=of(lambda each: each.manager),
        apiserver=of(lambda each: each.apiserver),
        etcd=of(lambda each: each.etcd),
        runner=of(lambda each: each.runner),
        others=of(lambda each: each.others),
        memory=of(lambda each: each.memory),
        workloads=first.workloads,
        unfinished=max(each.unfinished for each in results),
        dropped=max(each.dropped for each in results),
        classes={name: of_class(name) for name in first.classes},
        requests={name: median(each.requests.get(name, 0) for each in results) for name in asked},
        said=middle_said([each.said for each in results if each.said is not None]),
        walls=tuple(each.wall for each in results),
        slowness=tuple(slowness for each in results for slowness in each.slowness),
        stolen=tuple(part for each in results for part in each.stolen),
    )


def middle_of(contender: str, runs: Iterable[Result]) -> Result:
    """The median of each figure over those of the runs that are this contender's."""
    return middle([run for run in runs if run.contender == contender])


def disturbed(runs: Sequence[Result]) -> list[Result]:
    """The runs during which the machine was slower or faster than usual, or gave more or less of its time to others."""
    slowness = median(run.slowness[0] for run in runs)
    stolen = median(run.stolen[0] for run in runs)
    return [
        run
        for run in runs
        if abs(run.slowness[0] / slowness - 1) > DRIFT_MAX or abs(run.stolen[0] - stolen) > STOLEN_DRIFT_MAX
    ]


def middle_said(pages: Sequence[Said]) -> Said | None:
    """The median of the run time lost, and the most of what should not occur at all."""
    if not pages:
        return None
    return Said(
        median(each.lost_seconds for each in pages),
        max(each.unserved for each in pages),
        max(each.dropped_events for each in pages),
    )


class Floor(Frozen):
    """The most of a rival's figure that ours may be, and the value to aim for."""

    name: str
    at_most: float
    aim: float
    figure: Callable[[Result], float]


FIGURES: Final[Mapping[str, Callable[[Result], float]]] = {
    "wall": lambda result: result.wall,
    "kube-apiserver CPU": lambda result: result.apiserver,
    "manager CPU": lambda result: result.manager,
    "manager memory": lambda result: result.memory,
}
Limits = tuple[tuple[float, float] | None, ...]
NO_LONGER: Final = (1.0, 1.0)
FAIR_LIMITS: Final[Limits] = ((0.70, 0.50), None, (0.50, 0.25), None, None)
FLOORS: Final[Mapping[tuple[str, str], Limits]] = {
    (BASELINE.name, OURS): ((0.60, 0.50), (0.58, 0.50), (0.40, 0.25), (0.36, 0.25), NO_LONGER),
    (BASELINE.name, OURS_ON_THEIRS): ((0.75, 0.65), (0.78, 0.70), (0.42, 0.30), (0.36, 0.25), NO_LONGER),
    (LARGE.name, OURS): ((0.75, 0.50), (0.75, 0.60), (0.53, 0.30), (0.25, 0.15), NO_LONGER),
    (QUICK.name, OURS): ((0.75, 0.50), (0.70, 0.50), (0.60, 0.25), (0.65, 0.25), NO_LONGER),
    **{(shape, FAIR_OURS): FAIR_LIMITS for shape in SHAPES},
}
"""The floor and the aim of each figure above, and of the wait of every class, by shape and contender; or neither.

The quick load lasts half a minute, so the start of the process has a larger part in it: over half a CPU second, and
over 50 MB before the first workload.
"""
USUAL: Final[Limits] = ((0.75, 0.50), (0.70, 0.50), (0.50, 0.25), (0.50, 0.25), NO_LONGER)
"""Those of all other shapes and contenders."""


def floors(ours: Result) -> list[Floor]:
    """The floors of a result; those of all classes are the same."""
    *limits, waiting = FLOORS.get((ours.shape, ours.contender), USUAL)
    chosen = [(*entry, limit) for entry, limit in zip(FIGURES.items(), limits, strict=True)]
    chosen += [(f"admission, {name}", admission(name), waiting) for name in ours.classes]
    return [Floor(name, *limit, figure) for name, figure, limit in chosen if limit is not None]


def admission(name: str) -> Callable[[Result], float]:
    """The mean wait of a class, of any result."""
    return lambda result: result.classes[name].admission


class Ratio(Frozen):
    """Our figure and the best of the rivals'."""

    floor: Floor
    ours: float
    rival: float
    whose: str

    @property
    def value(self) -> float:
        """Our figure divided by theirs."""
        return self.ours / self.rival if self.rival else float("inf")

    @property
    def ok(self) -> bool:
        """Whether the floor is met."""
        return self.value <= self.floor.at_most

    def line(self) -> str:
        """The ratio for the terminal."""
        verdict = "ok" if self.ok else "MISSED"
        return (
            f"{self.floor.name:<19} <= {self.floor.at_most:<5.2f} {self.value:6.3f} {verdict:<6} "
            f"{number(self.floor, self.ours)} against {number(self.floor, self.rival)} ({self.whose})"
        )


def number(floor: Floor, value: float) -> str:
    """A figure with its unit."""
    return f"{value / 2**20:,.0f} MB" if floor.name == "manager memory" else f"{value:,.1f} s"


def ratios(ours: Result, rivals: Iterable[Result]) -> list[Ratio]:
    """Each floor, compared with the better rival in that figure."""
    against = list(rivals)
    found = []
    for floor in floors(ours):
        best = min(against, key=floor.figure)
        found.append(Ratio(floor, floor.figure(ours), floor.figure(best), best.contender))
    return found
