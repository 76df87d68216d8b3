"""How a change moves starts: both sides of a preview are run forward, with the same run times on both.

The run time of a workload depends on the run, its key and what is known of it, and not on the side (common random
numbers). What differs between the sides is therefore an effect of the change.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final, TypeAlias

from msgspec.structs import replace

from pykueue.api.durations import Micros
from pykueue.api.estimates import HORIZON_DAYS, honesty
from pykueue.api.previews import Effect
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant
from pykueue.engine.items import Place
from pykueue.engine.model import ClusterQueue, Cohort, LocalQueue, Thing, Workload
from pykueue.engine.record.checkpoint import Checkpoint
from pykueue.sim.forward import HORIZON, MINUTE, Forward, QueueMap, RunTimeFacts, RunTimeKnowledge, middle
from pykueue.sim.runtimes import Draws, named_streams
from pykueue.sim.trace import Arrival
from pykueue.sim.world import End, MomentKind, Past

RUNS_MAX: Final = 20
EVENTS_MAX: Final = 240_000
"""Events in all runs together: about 30 s of CPU time, one or two runs of 10,000 workloads that share quota."""
SHIFT_SECONDS_MIN: Final = 60
SHIFT_SHARE_MIN: Final = 0.01
"""By how much, and by which share, a wait has to change to be reported; less is within rounding."""
EXACT_MAX: Final = 200
"""How many workloads there may be for their run times not to be rounded."""
STEPS: Final = 200
"""Into how many steps the time of a run is divided, about, if run times are rounded."""
SHARE_MAX: Final = 0.5
"""The largest share of a run time by which it may be rounded."""
SEED: Final = 0

Starts: TypeAlias = Mapping[str, Instant | None]
"""When workloads start, by key; None for one that does not within the horizon. Those that run are left out."""


class Waits(Frozen):
    """When workloads are expected to start without and with a change."""

    now: Instant
    runs: int = 0
    before: Starts = {}
    after: Starts = {}
    queues_before: Mapping[str, int] = {}
    """The median wait in each ClusterQueue, in seconds, without the change."""
    queues: Mapping[str, int] = {}
    notes: tuple[str, ...] = ()

    def shift(self, key: str) -> Effect | None:
        """Whether a workload that waits on both sides starts earlier or later with the change."""
        if key not in self.before or key not in self.after:
            return None
        was, now = (inf if one is None else (one - self.now) / MICROS for one in (self.before[key], self.after[key]))
        if not differ(was, now):
            return None
        return Effect.STARTS_LATER if now > was else Effect.STARTS_EARLIER

    def shift_of_queue(self, name: str) -> bool:
        """Whether the median wait in a ClusterQueue differs."""
        return differ(self.queues_before.get(name, inf), self.queues.get(name, inf))


def differ(was: float, now: float) -> bool:
    """Whether two waits, in seconds, differ by enough to be reported."""
    return was != now and abs(now - was) >= max(SHIFT_SECONDS_MIN, SHIFT_SHARE_MIN * min(was, now))


class Asked:
    """The state that a question is about, before it settles, and what is known of run times."""

    def __init__(self, saved: Checkpoint, now: Instant, knowledge: RunTimeKnowledge) -> None:
        self.now = now
        self.knowledge = knowledge
        self.levels = {item.workload.key: item.workload for item in saved.items}

    def facts(self, level: Workload) -> RunTimeFacts:
        """What the run time of a workload of a side is drawn from: its state before the side settled, if it has one.

        One that runs, and is evicted on one side only, has to be as long on both.
        """
        first = self.levels.get(level.key)
        return self.knowledge.facts(level if first is None or first.uid != level.uid else first, self.now)

    def ran_before(self, level: Workload) -> bool:
        """Whether a workload that runs has done so since before the side settled."""
        first = self.levels.get(level.key)
        return first is not None and is_running(first) and first.admitted_at == level.admitted_at


class SettledSide:
    """One side of a preview, after it has settled."""

    def __init__(self, settled: Checkpoint, asked: Asked, queues: frozenset[str]) -> None:
        self.forward = Forward(settled, asked.now, queues)
        where = QueueMap(settled)
        levels = self.forward.workloads
        self.queues = {key: where.queue_of(level) for key, level in levels.items()}
        self.known = {key: asked.facts(level) for key, level in levels.items()}
        running = [key for key, level in levels.items() if is_running(level)]
        self.started = [key for key in running if not asked.ran_before(levels[key])]
        """Those that started when the side settled."""
        self.waiting = [key for key, level in levels.items() if not is_running(level)]
        # As many as run now are taken to run all the time, so this is how many run one after the other.
        after_each_other = len(levels) / max(1, len(running))
        self.grain_share = min(SHARE_MAX, after_each_other / STEPS) if len(levels) > EXACT_MAX else 0.0

    def run(self, draws: Draws, grain_share: float, events_max: int) -> Past:
        """Run it forward."""
        lengths = {key: rounded(known, draws.seconds(*known), grain_share, draws) for key, known in self.known.items()}
        arrivals = (self.forward.present(key, seconds) for key, seconds in lengths.items())
        world = self.forward.world(map(in_whole_seconds, arrivals))
        world.moments_max = events_max
        return world.run(Instant(self.forward.now + HORIZON))

    def starts(self, runs: Sequence[Mapping[str, Instant]]) -> Starts:
        """When workloads start, from the starts in each run."""
        at_once: dict[str, Instant | None] = dict.fromkeys(self.started, self.forward.now)
        return {**at_once, **{key: middle([run.get(key) for run in runs]) for key in self.waiting}}

    def wait(self, key: str, starts: Starts) -> float:
        """How many seconds a workload waits; 0 if it runs, infinite if it does not start or does not exist."""
        start = starts.get(key, self.forward.now if key in self.queues else None)
        return inf if start is None else wait_seconds(start, self.forward.now)


def waits(saved: Checkpoint, before: Checkpoint, after: Checkpoint, now: Instant, knowledge: RunTimeKnowledge) -> Waits:
    """When workloads start on both settled sides of a state, as far as that can differ."""
    queues = concerned(before, after)
    if not queues:
        return Waits(now)
    asked = Asked(saved, now, knowledge)
    sides = SettledSide(before, asked, queues), SettledSide(after, asked, queues)
    if not any(side.known for side in sides):
        return Waits(now)
    runs: list[tuple[dict[str, Instant], ...]] = []
    events, cut = 0, False
    while len(runs) < RUNS_MAX and (not runs or events + events // len(runs) <= EVENTS_MAX):
        pasts = run_both(sides, Draws(knowledge.table, named_streams(f"{SEED}/{len(runs)}")))
        cut = cut or any(past.ended is End.BOUND for past in pasts)
        events += sum(len(past.moments) for past in pasts)
        runs.append(tuple(starts_in(pasts)))
    without, with_it = (side.starts([run[index] for run in runs]) for index, side in enumerate(sides))
    medians_before, medians = queue_medians(sides, (without, with_it))
    notes = tuple(notes_on(len(runs), {**sides[0].known, **sides[1].known}, knowledge, cut=cut))
    return Waits(now, len(runs), without, with_it, medians_before, medians, notes)


def run_both(sides: Sequence[SettledSide], draws: Draws) -> list[Past]:
    """Run both sides forward with the same run times."""
    share = max(side.grain_share for side in sides)
    return [side.run(draws, share, EVENTS_MAX // len(sides)) for side in sides]


def rounded(known: RunTimeFacts, seconds: int, share: float, draws: Draws) -> int:
    """A run time whose rest is a multiple of a power of two that is at most this share of it.

    Many workloads then end at the same instant, and cost one evaluation of the queues. It is rounded up or down at
    random, so that the mean stays what it is. `World.grain` would round the ends instead: that depends on their order,
    which a change may change.
    """
    rest = seconds - known.elapsed
    grain = 1 << max(0, int(rest * share).bit_length() - 1)
    if grain == 1:
        return seconds
    return known.elapsed + int(rest / grain + draws.streams(f"end {known.name}").random()) * grain


def in_whole_seconds(arrival: Arrival) -> Arrival:
    """A workload whose time so far is in whole seconds, as its run time is, so that it ends at a step."""
    return replace(arrival, done=Micros(arrival.done // MICROS * MICROS)) if arrival.done % MICROS else arrival


def starts_in(pasts: Sequence[Past]) -> Iterator[dict[str, Instant]]:
    """The first start of each workload on each side, up to the time that both sides have reached."""
    reached = min((past.end for past in pasts if past.ended is End.BOUND), default=inf)
    for past in pasts:
        found: dict[str, Instant] = {}
        for moment in past.moments:
            if moment.what is MomentKind.STARTS and moment.at < reached:
                found.setdefault(moment.workload, moment.at)
        yield found


def queue_medians(sides: Sequence[SettledSide], starts: Sequence[Starts]) -> list[dict[str, int]]:
    """The median wait in each ClusterQueue on each side, of workloads that wait on one of them, and start on one."""
    found: list[dict[str, list[float]]] = [{} for _ in sides]
    for key in dict.fromkeys(key for side in starts for key in side):
        each = [side.wait(key, of_side) for side, of_side in zip(sides, starts, strict=True)]
        for side, wait, queues in zip(sides, each, found, strict=True):
            if min(each) < inf and key in side.queues:
                queues.setdefault(side.queues[key], []).append(wait)
    medians = [{queue: sorted(one)[(len(one) - 1) // 2] for queue, one in queues.items()} for queues in found]
    return [{queue: int(median) for queue, median in one.items() if median < inf} for one in medians]


def wait_seconds(start: Instant, now: Instant) -> int:
    """The time until a start, in whole minutes."""
    return (start - now) // MINUTE * 60


def is_running(level: Workload) -> bool:
    """Whether a workload is admitted and not on its way out."""
    return level.admitted_at is not None and level.evicted is None and not level.finished


def notes_on(runs: int, known: Mapping[str, RunTimeFacts], knowledge: RunTimeKnowledge, *, cut: bool) -> Iterator[str]:
    """What the starts rest on."""
    count = "of a single run" if runs == 1 else f"medians of {runs} runs"
    parts = [f"starts are {count} with the same run times on both sides"]
    yield "; ".join((*parts, *honesty(knowledge.sources(tuple(known.values())), "workloads")))
    if cut:
        yield f"there are too many workloads to run them forward for {HORIZON_DAYS} days; the last starts are not known"


# Which queues can differ.


def concerned(before: Checkpoint, after: Checkpoint) -> frozenset[str]:
    """The ClusterQueues in which the sides differ, and those that may share quota with them on either side."""
    maps = QueueMap(before), QueueMap(after)
    found: set[str] = set()
    for thing in {fact.thing for fact in before.facts} ^ {fact.thing for fact in after.facts}:
        for where in maps:
            found |= depending(thing, where)
    sides = [
        {item.workload.key: (where.queue_of(item.workload), item.workload, item.place) for item in side.items}
        for side, where in zip((before, after), maps, strict=True)
    ]
    found |= {one[0] for one in differing(*sides)}
    return frozenset(name for queue in found - {""} for where in maps for name in where.sharing(queue))


def differing(
    before: Mapping[str, tuple[str, Workload, Place]], after: Mapping[str, tuple[str, Workload, Place]]
) -> Iterator[tuple[str, Workload, Place]]:
    """The workloads that differ, as they are on each side."""
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        if was != now:
            yield from (one for one in (was, now) if one is not None)


def depending(thing: Thing, where: QueueMap) -> frozenset[str]:
    """The ClusterQueues of which an object is a part; all of them for what any queue may use."""
    match thing:
        case ClusterQueue():
            return frozenset({thing.name})
        case LocalQueue():
            return frozenset({thing.queue})
        case Cohort():
            return where.within(thing.name)
        case _:
            return frozenset(where.cohorts)
