"""Flavor assignment: the scan of each resource group, and the search for a smaller number of pods."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from pykueue.base.struct import Frozen
from pykueue.engine.decisions import (
    Considered,
    NotNominated,
    Obstacle,
    OverCapacity,
    PodSetObstacles,
    Short,
    Uncovered,
    WaitReason,
)
from pykueue.engine.eligibility import eligibility
from pykueue.engine.items import Bookmark, Item, Shape, Totals, totals_of
from pykueue.engine.model import NEVER, Admission, Assignment, Flavor, Fungible, Options, Preference, resource_rank
from pykueue.engine.preempt import NOTHING, Search, Selection
from pykueue.engine.quota import CoveredGroup, QuotaNode, borrows_with, free, lowest_fit, potential

PODS = "pods"


class Mode(IntEnum):
    """How well a request fits a flavor, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = Mode
MODE_NAMES = ("NoFit", "NoCandidates", "Preempt", "Reclaim", "Fit")
"""The modes as events name them."""


Grade = tuple[Mode, int]
"""A mode and how far up the tree it borrows."""
PLAIN: Grade = (FIT, 0)
SEVERITY = (WaitReason.WAITING_FOR_QUOTA, WaitReason.EXCEEDS_MAX_QUOTA, WaitReason.NO_MATCHING_FLAVOR)
"""Why a flavor is ruled out, the least severe reason first."""
SHORT, EXCEEDED, UNMATCHED = range(3)
NOBODY_FAILED = len(SEVERITY)


class Choice(Frozen):
    """The flavor of one resource."""

    flavor: str
    fr: int
    mode: Mode
    level: int
    tried: int


class Judged:
    """The evaluation of one flavor for one pod set and one resource group."""

    __slots__ = ("flavor", "grade", "obstacles", "resources", "severity")

    def __init__(
        self,
        flavor: str,
        grade: Grade,
        severity: int,
        resources: list[tuple[str, int, Mode, int]],
        obstacles: list[Obstacle],
    ) -> None:
        self.flavor = flavor
        self.grade = grade
        self.severity = severity
        """The most severe reason why the flavor is ruled out, if it is."""
        self.resources = resources
        """Each resource with its pair, mode and level."""
        self.obstacles = obstacles


class PodSetPlan:
    """The flavors planned for one pod set."""

    __slots__ = ("choices", "considered", "count", "name", "obstacles", "totals")

    def __init__(self, name: str, count: int, totals: Totals) -> None:
        self.name = name
        self.count = count
        self.totals = totals
        self.choices: dict[str, Choice] = {}
        self.considered: list[tuple[str, Mode, int, tuple[Obstacle, ...]]] = []
        """Flavors that did not simply fit, each with its mode, how far it borrows, and what stood in the way."""
        self.obstacles: list[Obstacle] = []


class FlavorPlan:
    """The flavors planned for a workload, and the obstacles."""

    __slots__ = ("borrowing", "failed", "pod_sets", "reservation", "resumed", "severity", "usage")

    def __init__(self) -> None:
        self.pod_sets: list[PodSetPlan] = []
        self.usage: dict[int, int] = {}
        self.borrowing = 0
        self.failed = False
        """Whether some pod set got no flavors."""
        self.severity = -1
        """For the last pod set: the maximum over resource groups of the least severity with which a flavor failed."""
        self.resumed = False
        """Whether some scan started after the first flavor."""
        self.reservation: Admission | None = None
        """What `admission` returned; equal workloads share it."""

    @property
    def fits(self) -> bool:
        """Whether it fits without preemption."""
        if self.failed:
            return False
        for pod_set in self.pod_sets:  # noqa: SIM110
            if pod_set.obstacles:
                return False
        return True

    @property
    def failure(self) -> WaitReason | None:
        """Why the plan failed; None if every resource got a flavor."""
        # spec: FLV-9
        return SEVERITY[self.severity] if self.failed else None

    def contended(self) -> frozenset[int]:
        """The pairs that only preemption could free."""
        return frozenset(
            choice.fr for pod_set in self.pod_sets for choice in pod_set.choices.values() if choice.mode is not FIT
        )

    def obstacles(self) -> tuple[PodSetObstacles, ...]:
        """The obstacles of each pod set that has any."""
        return tuple(PodSetObstacles(p.name, tuple(p.obstacles)) for p in self.pod_sets if p.obstacles)

    def considered(self) -> tuple[Considered, ...]:
        """The flavors that did not simply fit, pod set by pod set, by name."""
        return tuple(
            [
                Considered(p.name, flavor, MODE_NAMES[mode], level, obstacles)
                for p in self.pod_sets
                if p.considered
                for flavor, mode, level, obstacles in sorted(p.considered, key=lambda tried: tried[0])
            ]
        )

    def flavors(self) -> set[str]:
        """The flavors that it uses."""
        return {choice.flavor for part in self.pod_sets for choice in part.choices.values()}

    def left_flavors(self) -> bool:
        """Whether some scan ended before the last flavor."""
        for pod_set in self.pod_sets:
            for choice in pod_set.choices.values():
                if choice.tried != -1:
                    return True
        return False

    def tried(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """The position that each scan reached."""
        return tuple(tuple((r, c.tried) for r, c in p.choices.items()) for p in self.pod_sets)

    def admission(self, queue: str) -> Admission:
        """The admission that this plan results in."""
        if self.reservation is None:
            assignments = [
                Assignment(
                    p.name,
                    tuple([(r, c.flavor) for r, c in p.choices.items()]),
                    tuple([total for total in p.totals if total[0] in p.choices]),
                    p.count,
                )
                for p in self.pod_sets
            ]
            self.reservation = Admission(queue, tuple(assignments))
        return self.reservation


Pinned = Mapping[tuple[int, str], str]
"""The flavor that each resource of a pod set must keep."""


class Planner:
    """Plans one head of one queue."""

    __slots__ = ("flavors", "item", "options", "queue", "search")

    def __init__(
        self, queue: QuotaNode, item: Item, flavors: Mapping[str, Flavor], epoch: int, search: Search, options: Options
    ) -> None:
        self.queue = queue
        self.item = item
        self.flavors = flavors
        self.search = search
        self.options = options
        shape = item.shape
        if shape.epoch != epoch:
            shape.epoch, shape.obstacles, shape.plans = epoch, {}, {}

    def best(self) -> tuple[FlavorPlan, Selection]:
        """The plan for all pods if it fits or preemption makes it fit, else for as many pods as possible."""
        claim = self.item.claim
        counts = self.item.shape.counts if claim is None else claim.counts
        shared = self.shared_plan(counts)
        if shared is not None:
            return shared, NOTHING
        full = self.plan(counts)
        if full.fits:
            self.share(full, counts)
            return full, NOTHING
        selection = self.selection(full)
        if selection.victims:
            return full, selection
        if self.options.partial_admission and self.item.shape.shrinks:
            smaller = self.smaller()
            if smaller is not None:
                return smaller
        return full, NOTHING

    def shared_plan(self, counts: tuple[int, ...]) -> FlavorPlan | None:
        """The plan of an equal workload on the first flavors, if it fits now without borrowing; else None."""
        item, queue = self.item, self.queue
        known = item.shape.plans.get(queue.name)
        if known is None or known[0] is not queue.spec or item.bookmark is not None:
            return None
        if counts != item.shape.counts or item.workload.pod_sets is not item.shape.named:
            return None
        for fr, amount in known[1].usage.items():
            if borrows_with(queue, fr, amount) or amount > free(queue, fr):
                return None
        return known[1]

    def share(self, plan: FlavorPlan, counts: tuple[int, ...]) -> None:
        """Keep a plan that fits for equal workloads, if it got the first flavors and borrows nothing."""
        shape = self.item.shape
        whole = counts == shape.counts and self.item.workload.pod_sets is shape.named
        if whole and self.item.bookmark is None and not any(part.considered for part in plan.pod_sets):
            shape.plans[self.queue.name] = self.queue.spec, plan

    def selection(self, plan: FlavorPlan) -> Selection:
        """The victims of a plan; none if it fits, or if preemption does not help."""
        if plan.failed:
            return NOTHING
        asked: dict[int, int] = {}
        for pod_set in plan.pod_sets:
            for resource, amount in pod_set.totals:
                choice = pod_set.choices.get(resource)
                if choice is not None and amount and (resource != PODS or self.options.search_counts_pods):
                    asked[choice.fr] = asked.get(choice.fr, 0) + amount
        contended = plan.contended()
        return self.search.selection(asked, contended) if contended else NOTHING

    def smaller(self) -> tuple[FlavorPlan, Selection] | None:
        """The plan for the largest counts, not below the minimum, that fit or can be made to fit."""
        # spec: FLV-8
        shape = self.item.shape
        whole = tuple(p.count for p in self.item.workload.pod_sets)
        start = shape.counts if self.options.partial_skips_reclaimed else whole
        spare = [
            max(0, count - p.min_count) if p.min_count is not None else 0
            for p, count in zip(shape.pod_sets, start, strict=True)
        ]
        total = sum(spare)
        if total == 0:
            return None
        found: dict[int, tuple[FlavorPlan, Selection]] = {}

        def possible(step: int) -> bool:
            counts = tuple(count - extra * step // total for count, extra in zip(start, spare, strict=True))
            plan = self.plan(counts)
            selection = NOTHING if plan.fits else self.selection(plan)
            if plan.fits or selection.victims:
                found[step] = plan, selection
            return step in found

        return found.get(first_true(total + 1, possible))

    def plan(self, counts: Sequence[int], pinned: Pinned | None = None) -> FlavorPlan:
        """The plan for these pod counts; it ends at the first pod set that gets no flavors."""
        plan = FlavorPlan()
        shape = self.item.shape
        for index, (pod_set, wanted) in enumerate(zip(shape.pod_sets, counts, strict=True)):
            count, totals = shape.counts[index], shape.totals[index]
            if count not in (0, wanted):
                count, totals = wanted, totals_of(pod_set, wanted)
            if PODS in self.queue.groups:
                totals = tuple(sorted((*totals, (PODS, count)), key=lambda total: resource_rank(total[0])))
            part = PodSetPlan(self.item.workload.pod_sets[index].name, count, totals)
            plan.pod_sets.append(part)
            self.fill(plan, part, index, pinned)
            if plan.failed:
                part.choices = {}
                break
            for resource, amount in totals:
                choice = part.choices.get(resource)
                if choice is not None:
                    plan.usage[choice.fr] = plan.usage.get(choice.fr, 0) + amount
                    plan.borrowing = max(plan.borrowing, choice.level)
        return plan

    def fill(self, plan: FlavorPlan, part: PodSetPlan, index: int, pinned: Pinned | None) -> None:
        """Find a flavor for every resource of a pod set; stop at the first that has none."""
        plan.severity = -1
        groups = self.queue.groups
        for resource, amount in part.totals:
            if resource in part.choices:
                continue
            group = groups.get(resource)
            if group is None:
                if amount == 0 or self.options.ignore_undeclared:
                    continue
                part.obstacles = [Uncovered(resource)]
                plan.failed, plan.severity = True, UNMATCHED
                return
            requests = [total for total in part.totals if groups.get(total[0]) is group]
            found, obstacles = self.scan(plan, index, group, requests, pinned)
            if found is None:
                part.obstacles = obstacles
                plan.failed = True
                return
            part.choices.update(found)
            part.obstacles.extend(obstacles)

    def scan(
        self, plan: FlavorPlan, index: int, group: CoveredGroup, requests: list[tuple[str, int]], pinned: Pinned | None
    ) -> tuple[dict[str, Choice] | None, list[Obstacle]]:
        """The best flavor of a resource group, or None, and the obstacles."""
        resource, start = requests[0][0], 0
        if self.options.flavor_fungibility and self.item.bookmark is not None:
            start = self.item.bookmark.start(index, resource)
            plan.resumed = plan.resumed or start > 0
        obstacles: list[Obstacle] = []
        considered = plan.pod_sets[-1].considered
        mildest = NOBODY_FAILED
        best: Judged | None = None
        last = -1
        for position in range(start, len(group.flavors)):
            last = position
            excluded = self.excluded(index, resource, group.flavors[position], pinned)
            if excluded is not None:
                obstacles.append(excluded)
                considered.append((group.flavors[position], NO_FIT, 0, (excluded,)))
                mildest = min(mildest, UNMATCHED)
                continue
            judged = self.judge(plan, group, position, requests)
            if judged.grade != PLAIN:
                considered.append((judged.flavor, *judged.grade, tuple(judged.obstacles)))
            obstacles.extend(judged.obstacles)
            mildest = min(mildest, judged.severity)
            if self.stops_at(judged.grade):
                best = judged
                break
            possible = judged.grade[0] is not NO_FIT
            if possible and (best is None or self.better(judged.grade, best.grade)):
                best = judged
        if mildest != NOBODY_FAILED or best is None:
            plan.severity = max(plan.severity, min(mildest, UNMATCHED))
        if best is None:
            return None, obstacles
        # spec: FLV-7
        tried = -1 if last == len(group.flavors) - 1 else last
        found = {asked: Choice(best.flavor, fr, mode, level, tried) for asked, fr, mode, level in best.resources}
        return found, [] if self.serves(best) else obstacles

    def judge(self, plan: FlavorPlan, group: CoveredGroup, position: int, requests: list[tuple[str, int]]) -> Judged:
        """Evaluate one flavor for all requests of a pod set in a resource group."""
        flavor, frs = group.flavors[position], group.frs[position]
        grade = PLAIN
        worst = NOBODY_FAILED
        obstacles: list[Obstacle] = []
        resources = []
        for asked, amount in requests:
            fr = frs[asked]
            mode, level, why = self.test(flavor, asked, fr, plan.usage.get(fr, 0), amount)
            if why is not None:
                obstacles.append(why)
                if mode is NO_FIT:
                    severity = EXCEEDED if isinstance(why, OverCapacity) else SHORT
                    worst = severity if worst == NOBODY_FAILED else max(worst, severity)
            this = (mode, level)
            if this != PLAIN and self.prefers(grade, this):
                grade = this
            resources.append((asked, fr, mode, level))
        return Judged(flavor, grade, worst, resources, obstacles)

    def serves(self, judged: Judged) -> bool:
        """Whether a flavor has room for everything without preemption."""
        if judged.grade is PLAIN or not self.options.judge_every_resource:
            return judged.grade[0] is FIT
        return all(mode is FIT for _, _, mode, _ in judged.resources)

    def excluded(self, index: int, resource: str, name: str, pinned: Pinned | None) -> Obstacle | None:
        """Why a flavor is ruled out regardless of its quota; None if it is not."""
        if pinned is not None and pinned.get((index, resource)) != name:
            return NotNominated(name, resource)
        shape: Shape = self.item.shape
        key = (index, name)
        try:
            return shape.obstacles[key]
        except KeyError:
            found = shape.obstacles[key] = eligibility(shape.pod_sets[index], name, self.flavors.get(name))
            return found

    def test(
        self, flavor: str, resource: str, fr: int, earlier: int, request: int
    ) -> tuple[Mode, int, Obstacle | None]:
        """Evaluate one resource of one flavor for a request, in addition to the requests of earlier pod sets."""
        # spec: FLV-4
        queue, amount = self.queue, earlier + request
        capacity = potential(queue, fr)
        if amount > capacity:
            return NO_FIT, 0, OverCapacity(flavor, resource, earlier, request, capacity)
        level, may_reclaim = lowest_fit(queue, fr, amount)
        room = free(queue, fr)
        if amount <= room:
            return FIT, level, None
        short = Short(flavor, resource, amount - room)
        policies = queue.spec.preemption
        preempts_while_borrowing = policies.borrow_within_cohort is not NEVER or (
            policies.reclaim is not NEVER and bool(self.options.fair_sharing)
        )
        if not (queue.nominal.get(fr, 0) >= amount or may_reclaim or preempts_while_borrowing):
            return NO_FIT, level, short
        may_reclaim = policies.reclaim is not NEVER and queue.parent is not None
        if policies.within_queue is NEVER and not may_reclaim:
            return NO_CANDIDATES, level, short
        possible, from_others, level = self.search.possibility(fr, amount)
        if not possible:
            return NO_CANDIDATES, level, short
        return (RECLAIM if from_others else PREEMPT), level, short

    def prefers(self, this: Grade, that: Grade) -> bool:
        """Whether one grade is strictly preferred to another."""
        # spec: FLV-5
        if this[0] is NO_FIT or that[0] is NO_FIT:
            return this[0] is not NO_FIT
        if (this[0] is NO_CANDIDATES) is not (that[0] is NO_CANDIDATES):
            return that[0] is NO_CANDIDATES
        if self.queue.spec.fungibility.preference is Preference.PREEMPTION:
            return this[1] < that[1] if this[1] != that[1] else this[0] > that[0]
        return this[0] > that[0] if this[0] != that[0] else this[1] < that[1]

    def better(self, this: Grade, best: Grade) -> bool:
        """Whether a flavor replaces the best so far."""
        return self.prefers(this, best) if self.options.flavor_fungibility else this[0] > best[0]

    def stops_at(self, grade: Grade) -> bool:
        """Whether the scan ends with this flavor."""
        # spec: FLV-6
        mode, level = grade
        if not self.options.flavor_fungibility:
            return mode is FIT
        if mode is NO_FIT or mode is NO_CANDIDATES:
            return False
        fungibility = self.queue.spec.fungibility
        if mode is not FIT and fungibility.when_can_preempt is Fungible.NEXT:
            return False
        return level == 0 or fungibility.when_can_borrow is Fungible.STOP


def first_true(size: int, test: Callable[[int], bool]) -> int:
    """The least index at which a monotone test holds; `size` when it never does."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if test(middle):
            high = middle
        else:
            low = middle + 1
    return low


def start_of(item: Item, queue: QuotaNode, cycle: int, options: Options) -> Bookmark | None:
    """Where a workload's next scan of flavors starts; None for the first flavors."""
    if item.claim is not None:
        return item.claim.start
    return None if outdated(item, queue, cycle, options) else item.bookmark


def outdated(item: Item, queue: QuotaNode, cycle: int, options: Options) -> bool:
    """Whether a workload's bookmark no longer applies, so that its scan starts over."""
    bookmark: Bookmark | None = item.bookmark
    if bookmark is None:
        return False
    if options.preserve_scan:
        if bookmark.shape != item.shape.digest:
            return True
        if bookmark.cycle >= cycle - 1:
            return False
    return queue.generation > bookmark.generation
