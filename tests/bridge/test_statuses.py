"""Does the status of a queue say what is true, in Kueue's words, and is nothing sent that is right already?"""

from typing import Any

import pytest

from pykueue.api.checks import AdmissionCheck
from pykueue.api.codec import decode_as
from pykueue.api.core import Tree
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue
from pykueue.base.units import Instant
from pykueue.bridge import inbound, statuses
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced
from pykueue.engine.model import (
    AdmissionFairSharing,
    Check,
    Flavor,
    Namespace,
    Options,
    PodSet,
    ShareStrategy,
    Thing,
    Workload,
)
from pykueue.kube.port import COHORTS, LOCAL_QUEUES
from tests import builders
from tests.builders import made

NOW = Instant(1_800_000_000_000_000)
THEN = "2026-01-01T00:00:00Z"


def cluster_queue(status: dict[str, Any] | None = None, *, deleted: bool = False, **spec: Any) -> ClusterQueue:
    groups: list[Any] = [
        {
            "coveredResources": ["memory", "cpu"],
            "flavors": [
                {
                    "name": name,
                    "resources": [
                        {"name": "memory", "nominalQuota": "1Gi"},
                        {"name": "cpu", "nominalQuota": "2"},
                    ],
                }
                for name in ("spot", "dear")
            ],
        }
    ]
    metadata = {"generation": 3, **({"deletionTimestamp": THEN} if deleted else {})}
    tree = builders.cluster_queue(metadata=metadata, **{"resourceGroups": groups, **spec})
    return decode_as(ClusterQueue, {**tree, "status": status or {}})


def local_queue(status: dict[str, Any] | None = None, **spec: Any) -> LocalQueue:
    asked = {"clusterQueue": "main", **spec}
    return decode_as(LocalQueue, made(LOCAL_QUEUES, "door", "team", {"generation": 1}, spec=asked, status=status or {}))


FAIR = Options(fair_sharing=(ShareStrategy.FINAL,))


def engine_with(*things: Thing, flavors: tuple[str, ...] = ("spot", "dear"), options: Options | None = None) -> Engine:
    engine = Engine(options)
    for thing in (Namespace("team"), *map(Flavor, flavors), *things):
        engine.observe(Seen(thing))
    engine.observe(Synced())
    while (wake := engine.next_wake()) is not None and wake <= NOW:
        engine.decide(NOW)
    return engine


def workload(name: str, cpu: int, memory: int) -> Workload:
    requests = (("cpu", cpu), ("memory", memory))
    return Workload(f"team/{name}", name, "team/door", Instant(1), (PodSet("main", 1, requests),))


def active(patch: Tree) -> tuple[Any, ...]:
    conditions: Any = patch["conditions"]
    return tuple(conditions[-1][field] for field in ("status", "reason", "message"))


def test_a_queue_in_a_cohort_says_what_it_borrows() -> None:
    seen = cluster_queue(cohortName="all")
    lender = decode_as(
        ClusterQueue,
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "lender"},
            "spec": {
                "cohortName": "all",
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [{"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "9"}]}],
                    }
                ],
            },
        },
    )
    engine = engine_with(
        inbound.cluster_queue(seen),
        inbound.cluster_queue(lender),
        inbound.local_queue(local_queue()),
        workload("large", 3500, 512 * 1024**2),
        workload("waits", 99_000, 1),
    )
    patch = statuses.cluster_queue(seen, engine, NOW)
    spot = {
        "name": "spot",
        "resources": [
            {"name": "cpu", "total": "3500m", "borrowed": "1500m"},
            {"name": "memory", "total": "512Mi", "borrowed": "0"},
        ],
    }
    dear = {
        "name": "dear",
        "resources": [
            {"name": "cpu", "total": "0", "borrowed": "0"},
            {"name": "memory", "total": "0", "borrowed": "0"},
        ],
    }
    ready = {
        "type": "Active",
        "status": "True",
        "reason": "Ready",
        "message": "Can admit new workloads",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
        "observedGeneration": 3,
    }
    assert patch == {
        "pendingWorkloads": 1,
        "reservingWorkloads": 1,
        "admittedWorkloads": 1,
        "flavorsReservation": [spot, dear],
        "flavorsUsage": [spot, dear],
        "conditions": [ready],
    }
    again = cluster_queue(patch, cohortName="all")
    assert statuses.cluster_queue(again, engine, Instant(NOW + 10**9)) == {}
    share = cluster_queue({**patch, "fairSharing": {"weightedShare": 1}, "pendingWorkloads": 2}, cohortName="all")
    assert statuses.cluster_queue(share, engine, NOW) == {"pendingWorkloads": 1, "fairSharing": None}


@pytest.mark.parametrize(
    ("spec", "flavors", "expected"),
    [
        pytest.param({}, ("spot", "dear"), ("True", "Ready", "Can admit new workloads"), id="nothing is in the way"),
        pytest.param(
            {"stopPolicy": "HoldAndDrain"},
            ("dear",),
            (
                "False",
                "Stopped",
                "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): spot.",
            ),
            id="two reasons, the first of which is named",
        ),
        pytest.param(
            {},
            (),
            ("False", "FlavorNotFound", "Can't admit new workloads: references missing ResourceFlavor(s): spot,dear."),
            id="no flavors",
        ),
        pytest.param(
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "b"}, {"name": "a"}, {"name": "idle"}]}},
            ("spot", "dear"),
            (
                "False",
                "AdmissionCheckNotFound",
                "Can't admit new workloads: references missing AdmissionCheck(s): a,b, "
                "references inactive AdmissionCheck(s): idle.",
            ),
            id="checks that are missing or idle",
        ),
        pytest.param(
            {"deleted": True},
            (),
            ("False", "Terminating", "Can't admit new workloads; clusterQueue is terminating"),
            id="being deleted",
        ),
    ],
)
def test_whether_a_queue_is_active(
    spec: dict[str, Any], flavors: tuple[str, ...], expected: tuple[str, str, str]
) -> None:
    seen = cluster_queue(**spec)
    engine = engine_with(inbound.cluster_queue(seen), Check("idle", False), flavors=flavors)
    assert active(statuses.cluster_queue(seen, engine, NOW)) == expected


@pytest.mark.parametrize(
    ("spec", "queue", "expected"),
    [
        pytest.param({}, cluster_queue(), ("True", "Ready", "Can submit new workloads to localQueue"), id="open"),
        pytest.param(
            {"stopPolicy": "Hold"}, None, ("False", "Stopped", "LocalQueue is stopped"), id="stopped comes first"
        ),
        pytest.param(
            {},
            None,
            ("False", "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"),
            id="leads nowhere",
        ),
        pytest.param(
            {},
            cluster_queue(stopPolicy="Hold"),
            ("False", "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"),
            id="leads to a queue that cannot admit",
        ),
    ],
)
def test_whether_a_local_queue_is_active(
    spec: dict[str, Any], queue: ClusterQueue | None, expected: tuple[str, str, str]
) -> None:
    seen = local_queue(**spec)
    engine = engine_with(inbound.local_queue(seen), *(() if queue is None else (inbound.cluster_queue(queue),)))
    patch = statuses.local_queue(seen, engine, NOW)
    assert active(patch) == expected
    assert ("flavorsUsage" in patch) is (queue is not None)
    assert statuses.local_queue(local_queue(patch, **spec), engine, NOW) == {}


def test_a_local_queue_that_lost_its_queue_lists_no_flavors() -> None:
    usage = [{"name": "spot", "resources": [{"name": "cpu", "total": "1"}]}]
    seen = local_queue({"flavorsUsage": usage, "flavorsReservation": usage, "admittedWorkloads": 1})
    engine = engine_with(inbound.local_queue(seen))
    patch = statuses.local_queue(seen, engine, NOW)
    assert (patch["flavorsUsage"], patch["flavorsReservation"], patch["admittedWorkloads"]) == (None, None, 0)


def test_of_what_the_engine_has_not_heard_nothing_is_said() -> None:
    engine = engine_with()
    assert statuses.cluster_queue(cluster_queue(), engine, NOW) == {}
    assert statuses.local_queue(local_queue(), engine, NOW) == {}


def test_a_status_has_room_for_so_many_flavors() -> None:
    names = [f"f{number:03}" for number in range(100)]
    groups = [
        {
            "coveredResources": ["cpu"],
            "flavors": [{"name": n, "resources": [{"name": "cpu", "nominalQuota": 1}]} for n in names[at : at + 50]],
        }
        for at in (0, 50)
    ]
    seen = cluster_queue(resourceGroups=groups)
    engine = engine_with(inbound.cluster_queue(seen), flavors=tuple(names))
    found = statuses.cluster_queue(seen, engine, NOW)["flavorsUsage"]
    assert isinstance(found, list)
    assert len(found) == 64


def cohort(share: int | None = None, **spec: Any) -> Cohort:
    status: Tree = {} if share is None else {"fairSharing": {"weightedShare": share}}
    return decode_as(Cohort, made(COHORTS, "mine", spec=spec, status=status))


def test_without_fair_sharing_a_share_is_removed() -> None:
    assert statuses.cohort(cohort(), engine_with()) == {}
    assert statuses.cohort(cohort(7), engine_with()) == {"fairSharing": None}


def cpu_of_spot(quota: str) -> list[Any]:
    flavors = [{"name": "spot", "resources": [{"name": "cpu", "nominalQuota": quota}]}]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


@pytest.mark.parametrize(
    ("weight", "share"),
    [
        pytest.param("1", 167, id="rounded up"),
        pytest.param("2", 84, id="by weight"),
        pytest.param("0", 2**63 - 1, id="infinite"),
    ],
)
def test_shares_are_written_under_fair_sharing(weight: str, share: int) -> None:
    sharing: dict[str, Any] = {"fairSharing": {"weight": weight}}
    seen, above = cluster_queue(cohortName="mine", **sharing), cohort(parentName="all", **sharing)
    lender = builders.cluster_queue("lender", cohortName="all", resourceGroups=cpu_of_spot("5"))
    engine = engine_with(
        inbound.cluster_queue(seen),
        inbound.cluster_queue(decode_as(ClusterQueue, lender)),
        inbound.cohort(above),
        inbound.local_queue(local_queue()),
        workload("w", 3500, 1),
        options=FAIR,
    )
    found = statuses.cluster_queue(seen, engine, NOW)
    assert found["fairSharing"] == {"weightedShare": share}
    assert statuses.cohort(above, engine) == {"fairSharing": {"weightedShare": share}}
    assert statuses.cohort(cohort(share, parentName="all", **sharing), engine) == {}
    again = cluster_queue({"fairSharing": {"weightedShare": share}}, cohortName="mine", **sharing)
    assert "fairSharing" not in statuses.cluster_queue(again, engine, NOW)


def test_without_a_cohort_or_a_parent_the_share_is_zero() -> None:
    seen, root = cluster_queue(), cohort()
    engine = engine_with(inbound.cluster_queue(seen), inbound.cohort(root), options=FAIR)
    assert statuses.cluster_queue(seen, engine, NOW)["fairSharing"] == {"weightedShare": 0}
    assert statuses.cohort(root, engine) == {"fairSharing": {"weightedShare": 0}}
    assert statuses.cohort(root, engine_with(options=FAIR)) == {}, "the engine does not know it yet"


def test_a_check_that_is_ours_to_make_says_that_it_is_not_made() -> None:
    check: Tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": "far", "generation": 1},
        "spec": {"controllerName": "kueue.x-k8s.io/multikueue"},
    }
    patch = statuses.admission_check(decode_as(AdmissionCheck, check), NOW)
    assert active(patch)[:2] == ("False", "Unsupported")
    check["status"] = patch
    assert statuses.admission_check(decode_as(AdmissionCheck, check), NOW) == {}
    check["spec"] = {"controllerName": "theirs"}
    assert statuses.admission_check(decode_as(AdmissionCheck, check), NOW) == {}


HALF_LIFE = 300_000_000
SHARING = Options(admission_fair_sharing=AdmissionFairSharing(HALF_LIFE))


def past_use(amounts: dict[str, str | None], at: str) -> dict[str, Any]:
    update = {"consumedResources": amounts, "lastUpdate": at}
    return {"weightedShare": 0, "admissionFairSharingStatus": update}


def test_past_use_has_the_format_of_kueue_and_is_written_in_each_interval() -> None:
    queue = cluster_queue(admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"})
    seen = local_queue({"fairSharing": past_use({"cpu": "1u", "memory": "3", "gpu": "1"}, "2027-01-15T07:55:00Z")})
    engine = engine_with(inbound.cluster_queue(queue), inbound.local_queue(seen), options=SHARING)
    later = Instant(NOW + HALF_LIFE)
    assert statuses.local_queue(seen, engine, later)["fairSharing"] == past_use(
        {"cpu": "250n", "memory": "750m", "gpu": "250m"}, "2027-01-15T08:05:00Z"
    )
    written = local_queue(
        {"fairSharing": past_use({"cpu": "250n", "memory": "750m", "gpu": "250m"}, "2027-01-15T08:05:00Z")}
    )
    assert "fairSharing" not in statuses.local_queue(written, engine, later)
    ahead = local_queue({"fairSharing": past_use({"cpu": "7", "x/y": "1"}, "2030-01-01T00:00:00Z")})
    assert statuses.local_queue(ahead, engine, later)["fairSharing"] == past_use(
        {"cpu": "250n", "memory": "750m", "gpu": "250m", "x/y": None}, "2030-01-01T00:00:00Z"
    ), "what is gone is removed, and the time never goes back"


def test_past_use_of_nothing_is_written_once() -> None:
    engine = engine_with(inbound.cluster_queue(cluster_queue()), inbound.local_queue(local_queue()), options=SHARING)
    first = statuses.local_queue(local_queue(), engine, NOW)["fairSharing"]
    assert first == past_use({"cpu": "0", "memory": "0"}, "2027-01-15T08:00:00Z")
    seen = local_queue({"fairSharing": first})
    assert "fairSharing" not in statuses.local_queue(seen, engine, Instant(NOW + 10 * HALF_LIFE))


def test_past_use_is_removed_when_admission_fair_sharing_is_off() -> None:
    seen = local_queue({"fairSharing": past_use({"cpu": "1"}, THEN)})
    engine = engine_with(inbound.cluster_queue(cluster_queue()), inbound.local_queue(seen))
    assert statuses.local_queue(seen, engine, NOW)["fairSharing"] is None
