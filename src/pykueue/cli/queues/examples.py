"""The queues of `pykueue up --example`: two teams own half of the machine each and lend each other idle quota."""

from collections.abc import Mapping
from typing import Final

from pykueue.api.core import Json, Tree
from pykueue.api.names import GROUP

API_VERSION: Final = f"{GROUP}/v1beta2"
FLAVOR: Final = "machine"
COHORT: Final = "machine"
TEAMS: Final = ("team-a", "team-b")
NAMESPACE: Final = "default"
CLASSES: Final = {"urgent": 1000, "normal": 0, "spare-time": -1000}


def example(amounts: Mapping[str, int]) -> list[Tree]:
    """A flavor, priorities, and for each team a ClusterQueue and a LocalQueue of its name.

    `amounts` are in thousandths of a cpu, bytes of memory, and whole units of the rest.
    """
    return [
        named("ResourceFlavor", FLAVOR, {"spec": {}}),
        *(
            named("WorkloadPriorityClass", name, {"value": value, "description": f"Jobs that are {name}."})
            for name, value in CLASSES.items()
        ),
        *(
            cluster_queue(team, {name: shared(name, amount, place) for name, amount in amounts.items()})
            for place, team in enumerate(TEAMS)
        ),
        *(named("LocalQueue", team, {"spec": {"clusterQueue": team}}, NAMESPACE) for team in TEAMS),
    ]


def shared(resource: str, amount: int, place: int) -> str:
    """One team's share; the first team gets the remainder."""
    if resource == "memory":
        return f"{amount // len(TEAMS) // 2**20}Mi"
    part = amount // len(TEAMS) + (place < amount % len(TEAMS))
    return f"{part}m" if resource == "cpu" and part % 1000 else str(part // 1000 if resource == "cpu" else part)


def cluster_queue(name: str, quotas: Mapping[str, str], cohort: str = COHORT, flavor: str = FLAVOR) -> Tree:
    """A ClusterQueue that borrows idle quota of its cohort and reclaims its own."""
    resources: list[Json] = [{"name": resource, "nominalQuota": quota} for resource, quota in quotas.items()]
    covered: list[Json] = [*quotas]
    return named(
        "ClusterQueue",
        name,
        {
            "spec": {
                **({"cohortName": cohort} if cohort else {}),
                "namespaceSelector": {},
                "preemption": {
                    **({"reclaimWithinCohort": "Any"} if cohort else {}),
                    "withinClusterQueue": "LowerPriority",
                },
                "resourceGroups": [
                    {"coveredResources": covered, "flavors": [{"name": flavor, "resources": resources}]}
                ],
            }
        },
    )


def named(kind: str, name: str, rest: Tree, namespace: str = "") -> Tree:
    """A Kueue object."""
    metadata: Tree = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, **rest}
