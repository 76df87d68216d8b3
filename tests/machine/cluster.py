"""What may a small cluster hold? The Hypothesis strategies of its objects, most of them in working order."""

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from pykueue.base.units import MICROS, Instant, Seconds
from pykueue.engine.model import (
    Check,
    CheckRule,
    ClusterQueue,
    Cohort,
    Flavor,
    Fungibility,
    Fungible,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    PodsReadyOptions,
    Policy,
    Preemption,
    Preference,
    Quota,
    ResourceGroup,
    Selector,
    ShareStrategy,
    StopPolicy,
    Strategy,
    Taint,
    Thing,
    Toleration,
    Workload,
)

FLAVORS = ("spot", "fast")
COHORTS = ("land", "sea")
QUEUES = ("north", "south", "east")
NAMESPACES = ("red", "blue")
LOCALS = tuple(f"{namespace}/{queue}" for namespace in NAMESPACES for queue in QUEUES)
KEYS = tuple(f"{namespace}/w{number}" for namespace in NAMESPACES for number in range(6))

START = Instant(1_700_000_000 * MICROS)
AMOUNT = st.sampled_from((4, 3, 5, 2, 6, 0))
LIMIT = st.one_of(st.none(), st.none(), AMOUNT)
SOMETIMES = st.sampled_from((False, False, False, True))
RARELY = st.sampled_from((False,) * 9 + (True,))
STOP = st.sampled_from((StopPolicy.NONE,) * 9 + (StopPolicy.HOLD, StopPolicy.DRAIN))

WEIGHT = st.sampled_from((1.0, 1.0, 1.0, 2.0, 0.5, 0.0, 1e6))
STRATEGIES = st.sampled_from(
    (
        (ShareStrategy.FINAL, ShareStrategy.INITIAL),
        (ShareStrategy.FINAL,),
        (ShareStrategy.INITIAL,),
    )
)


@st.composite
def options(draw: st.DrawFn) -> Options:
    """Every gate that has a say in the engine's books, with our own differences on."""
    readiness = PodsReadyOptions(
        timeout=Seconds(60),
        recovery_timeout=draw(st.sampled_from((None, Seconds(30)))),
        block_admission=draw(SOMETIMES),
        backoff_base=Seconds(10),
        backoff_limit=draw(st.sampled_from((None, 1))),
    )
    return Options(
        pods_ready=draw(st.sampled_from((None, readiness, readiness))),
        partial_admission=draw(st.booleans()),
        flavor_fungibility=not draw(SOMETIMES),
        preserve_scan=not draw(SOMETIMES),
        priority_sorting=not draw(SOMETIMES),
        prioritize_preemptors=draw(SOMETIMES),
        recompute_overlap=not draw(SOMETIMES),
        equivalence=not draw(SOMETIMES),
        observability=not draw(SOMETIMES),
        explicit_status=draw(SOMETIMES),
        priority_boost=draw(SOMETIMES),
        fair_sharing=draw(STRATEGIES) if draw(SOMETIMES) else (),
        fair_prefers_nonborrowing=draw(st.booleans()),
        fair_within_nominal=not draw(SOMETIMES),
        fair_refill=draw(SOMETIMES),
        fair_reevaluates=draw(SOMETIMES),
    )


@st.composite
def flavors(draw: st.DrawFn, name: str) -> Flavor:
    return Flavor(
        name,
        (("kind", name),) if draw(st.booleans()) else (),
        (Taint("rare", "yes", "NoSchedule"),) if draw(RARELY) else (),
    )


@st.composite
def quotas(draw: st.DrawFn, resources: Sequence[str], names: Sequence[str], *, limits: bool) -> tuple[Quota, ...]:
    return tuple(
        Quota(name, resource, draw(AMOUNT), draw(LIMIT) if limits else None, draw(LIMIT) if limits else None)
        for name in names
        for resource in resources
    )


@st.composite
def queues(draw: st.DrawFn, name: str) -> ClusterQueue:
    covered = draw(st.sampled_from((("cpu",), ("cpu",), ("cpu",), ("cpu", "memory"), ("cpu", "pods"))))
    names = draw(st.sampled_from((FLAVORS, FLAVORS[:1], FLAVORS[::-1])))
    cohort = draw(st.sampled_from(("land", "land", "sea", "")))
    return ClusterQueue(
        name,
        cohort,
        (ResourceGroup(covered, names),),
        draw(quotas(covered, names, limits=bool(cohort))),
        draw(st.sampled_from(Strategy)),
        draw(st.sampled_from((Selector(),) * 6 + (Selector((("team", "In", ("a",)),)), None))),
        Preemption(
            draw(st.sampled_from((Policy.LOWER, Policy.LOWER_OR_NEWER, Policy.NEVER))),
            draw(st.sampled_from((Policy.ANY, Policy.LOWER, Policy.NEVER))),
            draw(st.sampled_from((Policy.NEVER, Policy.NEVER, Policy.LOWER))),
            draw(st.sampled_from((None, 0))),
        ),
        Fungibility(
            draw(st.sampled_from(Fungible)), draw(st.sampled_from(Fungible)), draw(st.sampled_from((None, *Preference)))
        ),
        draw(STOP),
        (CheckRule("budget", draw(st.sampled_from(((), ("fast",))))),) if draw(RARELY) else (),
        weight=draw(WEIGHT),
    )


@st.composite
def cohorts(draw: st.DrawFn, name: str) -> Cohort:
    """A cohort; now and then one that closes a cycle."""
    parent = draw(st.sampled_from(("", "", "", *COHORTS)))
    owned = draw(quotas(("cpu",), draw(st.sampled_from(((), FLAVORS))), limits=bool(parent)))
    return Cohort(name, parent, owned, draw(WEIGHT))


@st.composite
def pod_sets(draw: st.DrawFn, name: str) -> PodSet:
    count = draw(st.sampled_from((1, 1, 2, 2, 3, 0)))
    requests = [("cpu", draw(st.sampled_from((2, 1, 3, 2, 1, 0))))]
    if draw(RARELY):
        requests.append(("memory", draw(st.integers(0, 4))))
    return PodSet(
        name,
        count,
        tuple(requests),
        draw(st.sampled_from((None, None, 1))),
        (("kind", draw(st.sampled_from(FLAVORS))),) if draw(RARELY) else (),
        tolerations=(Toleration("rare", "Exists"),) if draw(st.booleans()) else (),
    )


@st.composite
def workloads(draw: st.DrawFn, key: str, number: int) -> Workload:
    names = draw(st.sampled_from((("main",), ("main",), ("main",), ("main", "side"))))
    return Workload(
        key,
        f"uid-{number}",
        f"{key.partition('/')[0]}/{draw(st.sampled_from(QUEUES))}",
        Instant(START + draw(st.integers(0, 5)) * MICROS),
        tuple(draw(pod_sets(name)) for name in names),
        draw(st.integers(-1, 2)),
        gated_by="gate" if draw(RARELY) else "",
        max_run=Seconds(45) if draw(SOMETIMES) else None,
    )


CHANGES: Mapping[str, st.SearchStrategy[Thing]] = {
    "queue": st.sampled_from(QUEUES).flatmap(queues),
    "cohort": st.sampled_from(COHORTS).flatmap(cohorts),
    "flavor": st.sampled_from(FLAVORS).flatmap(flavors),
    "local": st.builds(LocalQueue, st.sampled_from(LOCALS), st.sampled_from(QUEUES), STOP, RARELY),
    "namespace": st.builds(
        Namespace, st.sampled_from(NAMESPACES), st.sampled_from(("a", "b")).map(lambda team: (("team", team),))
    ),
    "check": st.builds(Check, st.just("budget"), st.booleans()),
}
