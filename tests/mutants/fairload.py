"""What does a broken manager share out? A fixed load under fair sharing: a tree for each comparison of shares.

It needs a manager with fair sharing. One without fault preempts nobody in it, and lets each head have its turn.
"""

from typing import Final

from pykueue.audit.world import FINAL, INITIAL, Settings
from pykueue.kube.port import JOBS
from pykueue.testing.kueue import NAMESPACE
from tests.audit.told import Tree
from tests.mutants.load import Arrival, Stage, common, job, queues, quotas, thing

SECONDS = 40
CONFIGURATION: Final[Tree] = {"fairSharing": {"preemptionStrategies": [FINAL, INITIAL]}}
SETTINGS: Final = Settings(plain_resources=True, fair_sharing=(FINAL, INITIAL))
TAKES = {"reclaimWithinCohort": "Any"}


def queue(cpu: int, cohort: str, weight: str = "", **more: object) -> Tree:
    sharing = {"fairSharing": {"weight": weight}} if weight else {}
    return {"resourceGroups": quotas(cpu), "cohortName": cohort, **sharing, **more}


QUEUES: dict[str, Tree] = {
    # "light" has 3 and asks for 1 more, which its weight makes 4; "heavy" borrows 3.
    "light": queue(3, "weights", "250m", preemption=TAKES),
    "heavy": queue(6, "weights"),
    "lends": queue(3, "weights"),
    # "asks" has 3 and asks for 3 more, as much as "has" borrows: the two would change places.
    "asks": queue(3, "places", preemption=TAKES),
    "has": queue(3, "places"),
    "idle": queue(3, "places"),
    # "outer" borrows 2 of 12 and asks for 1 more. "inner" borrows 4, but its cohort only 1.
    "outer": queue(3, "levels", preemption=TAKES),
    "inner": queue(3, "below"),
    "inside": queue(3, "below"),
    # "within" asks for what is its own; the one that borrows it has a higher priority, and "full" borrows nothing.
    "within": queue(3, "kept", preemption={"reclaimWithinCohort": "LowerPriority"}),
    "full": queue(3, "kept"),
    "high": queue(3, "kept"),
    # Both want what "rich" has twice as much of.
    "rich": queue(0, "cup"),
    "poor": queue(0, "cup"),
    # "first" has nothing, but beside it in its cohort "rest" has more than "alone".
    "first": queue(0, "team"),
    "rest": queue(0, "team"),
    "alone": queue(0, "league"),
}
COHORTS = {
    "levels": {"resourceGroups": quotas(3)},
    "below": {"parentName": "levels"},
    "cup": {"resourceGroups": quotas(5)},
    "league": {"resourceGroups": quotas(9)},
    "team": {"parentName": "league"},
}
ARRIVALS = (
    *(Arrival(0, f"light-{number}", "light") for number in range(3)),
    *(Arrival(0, f"heavy-{number}", "heavy") for number in range(9)),
    Arrival(10, "light-more", "light"),
    *(Arrival(0, f"asks-{number}", "asks") for number in range(3)),
    *(Arrival(0, f"has-{number}", "has", priority="mid") for number in range(3)),
    Arrival(0, "has-more", "has", 3),
    Arrival(10, "asks-more", "asks", 3),
    *(Arrival(0, f"outer-{number}", "outer") for number in range(5)),
    *(Arrival(0, f"inner-{number}", "inner") for number in range(7)),
    Arrival(10, "outer-more", "outer"),
    *(Arrival(0, f"within-{number}", "within") for number in range(2)),
    *(Arrival(0, f"full-{number}", "full") for number in range(3)),
    *(Arrival(0, f"high-{number}", "high", priority="high") for number in range(4)),
    Arrival(10, "within-more", "within", priority="mid"),
    *(Arrival(0, f"rich-{number}", "rich") for number in range(4)),
    *(Arrival(3 + number, f"rich-turn-{number}", "rich", run_for=2) for number in range(20)),
    *(Arrival(6 + 2 * number, f"poor-turn-{number}", "poor", run_for=2) for number in range(6)),
    *(Arrival(0, f"rest-{number}", "rest") for number in range(5)),
    *(Arrival(0, f"alone-{number}", "alone") for number in range(3)),
    *(Arrival(3 + number, f"first-turn-{number}", "first", run_for=2) for number in range(20)),
    *(Arrival(6 + 2 * number, f"alone-turn-{number}", "alone", run_for=2) for number in range(6)),
)


def furniture() -> list[Tree]:
    """All objects but the Jobs."""
    cohorts = [thing("Cohort", name, spec=spec) for name, spec in COHORTS.items()]
    return [*common(), *cohorts, *queues(QUEUES)]


class FairLoad:
    """The Jobs above."""

    def __init__(self) -> None:
        self.stage = Stage(furniture(), CONFIGURATION, SETTINGS)

    def play(self, rule: str) -> int:
        """Play it, or as much of it as it takes until this rule is found broken; returns the seconds of it."""
        for second in range(SECONDS):
            for arrival in ARRIVALS:
                if arrival.at == second:
                    self.stage.client.create(JOBS, job(arrival), NAMESPACE)
            self.stage.pass_time(1)
            if any(finding.rule == rule for finding in self.stage.auditor.findings):
                return second + 1
        return SECONDS
