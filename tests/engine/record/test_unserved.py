"""Is every eviction counted whose preemptor did not start, under the cause that ended its claim?"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pykueue.engine.decisions import Decision
from pykueue.engine.facts import Gone
from pykueue.engine.model import Cohort, Options, PodSet, Strategy
from pykueue.engine.record.unserved import Cause, Preemptors, Unserved
from tests.engine.record.explained import System, queue


class Followed(System):
    """Two queues of 4 cpu that reclaim from each other, and a record of their preemptors."""

    def __init__(self, options: Options | None = None) -> None:
        self.preemptors = Preemptors()
        self.unserved: list[Unserved] = []
        super().__init__(
            Cohort("all"),
            queue("main", 4, cohort="all", strategy=Strategy.STRICT),
            queue("other", 4, cohort="all", strategy=Strategy.STRICT),
            options=options,
        )

    def decide(self) -> list[Decision]:
        """One round of decisions, and what became of the preemptors."""
        some = super().decide()
        self.unserved += self.preemptors.note(self.engine, some)
        return some


def preempting(options: Options | None = None) -> Followed:
    """A system in which two borrowers are being stopped for the owner of the quota."""
    system = Followed(options)
    for name in ("one", "two"):
        system.submit(name, "main", 4)
    system.submit("owner", "other", 4)
    return system


def test_a_preemptor_that_starts_is_served() -> None:
    system = preempting()
    assert list(system.preemptors.waiting) == ["lab/owner"]
    for name in ("one", "two"):
        system.stop(name)
    level = system.engine.workload("lab/owner")
    assert level is not None
    assert level.admission is not None
    assert (system.unserved, system.preemptors.waiting) == ([], {})


def edit(system: Followed, **fields: object) -> None:
    """The preemptor as a user changes it."""
    level = system.engine.workload("lab/owner")
    assert level is not None
    system.see(replace(level, **fields))


TOO_LARGE = PodSet("main", 1, (("cpu", 9000),))
CASES: dict[str, tuple[Cause, Callable[[Followed], object]]] = {
    "deleted": (Cause.DELETED, lambda system: system.engine.observe(Gone("Workload", "lab/owner"))),
    "finished": (Cause.DELETED, lambda system: edit(system, finished=True)),
    "replaced by another of its name": (Cause.DELETED, lambda system: edit(system, uid="uid-other")),
    "edited": (Cause.EDITED, lambda system: edit(system, generation=2, pod_sets=(TOO_LARGE,))),
    "moved to another queue": (Cause.EDITED, lambda system: edit(system, generation=2, local_queue="lab/main")),
    "deactivated": (Cause.DEACTIVATED, lambda system: edit(system, active=False)),
    "without room after an edit": (Cause.NO_ROOM, lambda system: system.see(queue("other", 1))),
    "behind a more important one": (
        Cause.OVERTAKEN,
        lambda system: system.submit("urgent", "other", 4, priority=100),
    ),
}


@pytest.mark.parametrize(("cause", "change"), [pytest.param(*case, id=name) for name, case in CASES.items()])
def test_a_claim_that_ends_early_is_counted_under_its_cause(cause: Cause, change: Callable[[Followed], object]) -> None:
    system = preempting()
    evictions = system.preemptors.waiting["lab/owner"].evictions
    change(system)
    system.advance(1)
    assert (Unserved("other", cause, evictions) in system.unserved, "lab/owner" in system.preemptors.waiting) == (
        True,
        False,
    ), system.unserved


def test_without_the_reservation_nothing_is_counted() -> None:
    system = preempting(Options(reserve_for_preemptor=False))
    system.engine.observe(Gone("Workload", "lab/owner"))
    system.advance(1)
    assert (system.unserved, system.preemptors.waiting) == ([], {})
