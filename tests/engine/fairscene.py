"""Small trees for the tests of fair sharing."""

from hypothesis import strategies as st

from pykueue.engine.model import ClusterQueue, Cohort, Policy, Preemption, Quota
from tests.engine.reference import Holder

CPU = ("spot", "cpu")
COHORTS = ("root", "left", "right", "deep")
WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0])
LIMITS = st.sampled_from([None, None, None, None, 0, 2, 5])


@st.composite
def fair_trees(draw: st.DrawFn) -> tuple[list[ClusterQueue], list[Cohort], list[Holder]]:
    """A tree of up to three levels with its holders; every queue is below the cohort `root`."""
    cohorts = [Cohort("root", quotas=(Quota(*CPU, draw(st.integers(2, 8))),))]
    for name, parent in (("left", "root"), ("right", "root"), ("deep", "left")):
        limits = draw(LIMITS), draw(LIMITS)
        cohorts.append(Cohort(name, parent, (Quota(*CPU, draw(st.integers(0, 3)), *limits),), draw(WEIGHTS)))
    queues = []
    for number in range(draw(st.integers(2, 4))):
        nominal = draw(st.integers(0, 3))
        lend = draw(st.sampled_from([None, None, None, nominal // 2]))
        policies = Preemption(
            draw(st.sampled_from([Policy.NEVER, Policy.LOWER, Policy.LOWER_OR_NEWER])),
            draw(st.sampled_from([Policy.NEVER, Policy.LOWER, Policy.ANY, Policy.ANY, Policy.ANY])),
        )
        quota = Quota(*CPU, nominal, draw(LIMITS), lend)
        queues.append(
            ClusterQueue(
                f"q{number}", draw(st.sampled_from(COHORTS)), quotas=(quota,), preemption=policies, weight=draw(WEIGHTS)
            )
        )
    holders = [
        Holder(
            f"h{number}",
            draw(st.sampled_from(queues)).name,
            ((CPU, draw(st.integers(1, 3))),),
            draw(st.integers(-1, 1)),
            draw(st.integers(0, 5)),
        )
        for number in range(draw(st.integers(3, 9)))
    ]
    return queues, cohorts, holders
