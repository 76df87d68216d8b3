"""Does the auditor find nothing where nothing is wrong? `python -m tests.mutants.chance` plays random loads.

Random cohorts, quotas, policies and Jobs, and users who edit quotas, stop queues, delete and deactivate, on the manager
as it is. Whatever the auditor finds there is a mistake, of the auditor or of the manager.
"""

import random
import sys
import time
from contextlib import closing

import click

from pykueue.audit.world import Finding
from pykueue.kube.port import JOBS, WORKLOADS
from pykueue.testing.kueue import NAMESPACE, ApiError
from tests.audit.told import Tree
from tests.mutants.fairload import CONFIGURATION, SETTINGS
from tests.mutants.load import PRIORITIES, Arrival, Stage, common, job, queues, quotas, thing

SECONDS = 90
NEVER, LOWER = "Never", "LowerPriority"


def limits(rng: random.Random, cpu: int) -> dict[str, int]:
    """Limits of borrowing, and of lending so much quota, or none."""
    found = {}
    if rng.random() < 0.3:
        found["borrowingLimit"] = rng.randint(0, 4)
    if rng.random() < 0.3:
        found["lendingLimit"] = min(cpu, rng.randint(0, 2))
    return found


def weighted(spec: Tree, rng: random.Random) -> Tree:
    """The specification of a queue or cohort with a random weight."""
    return {**spec, "fairSharing": {"weight": rng.choice(("0", "500m", "1", "1", "1", "2"))}}


def queue_spec(rng: random.Random, cohort: str) -> Tree:
    """The specification of a random ClusterQueue."""
    flavors = ("default",) if rng.random() < 0.7 else ("default", "spot")
    preemption: Tree = {
        "withinClusterQueue": rng.choice((NEVER, LOWER, "LowerOrNewerEqualPriority")),
        "reclaimWithinCohort": rng.choice((NEVER, LOWER, "Any", "Any")),
    }
    if preemption["reclaimWithinCohort"] != NEVER and rng.random() < 0.4:
        threshold = {} if rng.random() < 0.5 else {"maxPriorityThreshold": rng.choice((0, 100))}
        preemption["borrowWithinCohort"] = {"policy": LOWER, **threshold}
    fungibility = {
        "whenCanBorrow": rng.choice(("MayStopSearch", "TryNextFlavor")),
        "whenCanPreempt": rng.choice(("MayStopSearch", "TryNextFlavor")),
    }
    cpu = rng.randint(1, 5)
    return {
        "resourceGroups": quotas(cpu, *flavors, **(limits(rng, cpu) if cohort else {})),
        "preemption": preemption,
        "flavorFungibility": fungibility,
        "queueingStrategy": rng.choice(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
        **({"cohortName": cohort} if cohort else {}),
    }


class Chance:
    """A random load."""

    def __init__(self, seed: int, *, fair: bool = False) -> None:
        self.rng = rng = random.Random(seed)
        cohorts = ["", "one", "one", "two", "two-below"]
        self.specs = {f"q{number}": queue_spec(rng, rng.choice(cohorts)) for number in range(rng.randint(2, 6))}
        below: Tree = {"parentName": "two"}
        if fair:
            self.specs = {name: weighted(spec, rng) for name, spec in self.specs.items()}
            below = weighted(below, rng)
        parent = thing("Cohort", "two-below", spec=below)
        own = thing("Cohort", "two", spec={"resourceGroups": quotas(rng.randint(0, 3))})
        spot = thing("ResourceFlavor", "spot")
        trees = [*common(), spot, parent, own, *queues(self.specs)]
        self.stage = Stage(trees, CONFIGURATION, SETTINGS) if fair else Stage(trees)
        self.made = 0

    def play(self, seconds: int = SECONDS) -> list[Finding]:
        """Play it, and let it come to rest."""
        with closing(self.stage):
            for _ in range(seconds):
                for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
                    self.arrive()
                if self.rng.random() < 0.15:
                    self.meddle()
                self.stage.pass_time(1)
            self.stage.pass_time(30)
            return list(self.stage.auditor.findings)

    def arrive(self) -> None:
        rng = self.rng
        self.made += 1
        arrival = Arrival(
            0,
            f"job-{self.made}",
            rng.choice(list(self.specs)),
            rng.choice((1, 1, 1, 2, 3)),
            rng.choice(list(PRIORITIES)),
            rng.choice((2, 4, 8, 20)),
            rng.choice((1, 1, 2)),
        )
        self.stage.client.create(JOBS, job(arrival), NAMESPACE)

    def meddle(self) -> None:
        """Do what a user may do."""
        rng, client = self.rng, self.stage.client
        resource = client.resource_of(thing("ClusterQueue", ""))
        name = rng.choice(list(self.specs))
        workloads = [tree["metadata"]["name"] for tree in client.list(WORKLOADS, NAMESPACE)]
        jobs = [tree["metadata"]["name"] for tree in client.list(JOBS, NAMESPACE)]
        try:
            match rng.choice(("edit", "edit", "stop", "start", "delete", "deactivate", "priority", "policy")):
                case "edit":
                    groups = queue_spec(rng, str(self.specs[name].get("cohortName", "")))["resourceGroups"]
                    client.patch(resource, name, {"spec": {"resourceGroups": groups}})
                case "stop":
                    client.patch(resource, name, {"spec": {"stopPolicy": rng.choice(("Hold", "HoldAndDrain"))}})
                case "start":
                    for each in self.specs:
                        client.patch(resource, each, {"spec": {"stopPolicy": "None"}})
                case "policy":
                    preemption = queue_spec(rng, "x")["preemption"]
                    client.patch(resource, name, {"spec": {"preemption": preemption}})
                case "delete" if jobs:
                    client.delete(JOBS, rng.choice(jobs), NAMESPACE)
                case "deactivate" if workloads:
                    client.patch(WORKLOADS, rng.choice(workloads), {"spec": {"active": False}}, NAMESPACE)
                case "priority" if jobs:
                    labels = {"kueue.x-k8s.io/priority-class": rng.choice(list(PRIORITIES))}
                    client.patch(JOBS, rng.choice(jobs), {"metadata": {"labels": labels}}, NAMESPACE)
        except ApiError:
            # What the API rejects has not happened.
            return


@click.command()
@click.option("--runs", default=20, show_default=True, help="How many loads to play.")
@click.option("--seed", default=1, show_default=True, help="The seed of the first.")
@click.option("--fair", is_flag=True, help="Play them under fair sharing, with random weights.")
def main(runs: int, seed: int, fair: bool) -> None:
    """Play random loads; the exit code is 1 if the auditor found something."""
    start, found, events = time.monotonic(), 0, 0
    for number in range(seed, seed + runs):
        chance = Chance(number, fair=fair)
        for finding in chance.play():
            found += 1
            print(f"seed {number}: {finding}", flush=True)
        events += chance.stage.auditor.events
    print(f"{runs} loads, {events} events, {found} findings, {time.monotonic() - start:.0f} s")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
