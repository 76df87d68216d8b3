"""Do jobs follow their Workloads through a whole life, whenever the manager dies, and without a write too many?"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from functools import partial
from typing import Any

import pytest

from pykueue.api.config.file import Loaded, read_configuration
from pykueue.base.clock import ManualClock
from pykueue.controllers.cluster import Cluster, settings
from pykueue.controllers.jobs import Jobs
from pykueue.controllers.metrics.metrics import Metrics
from pykueue.controllers.scheduling import Pump
from pykueue.controllers.workloads import Workloads
from pykueue.jobs.batch import BATCH
from pykueue.kube.port import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    NotLeadingError,
    RejectedError,
)
from tests.builders import cluster_queue, local_queue
from tests.controllers.running import FINALIZERS, TEAM
from tests.fakes.faulty import READS, Faulty, Object, settle

NAME = "job-train-"
QUEUE = "kueue.x-k8s.io/queue-name"
TEMPLATE: Object = {
    "metadata": {"labels": {"app": "train"}},
    "spec": {
        "containers": [{"name": "main", "image": "a:1", "resources": {"requests": {"cpu": "1"}}}],
        "restartPolicy": "Never",
    },
}
HEADER = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def configured(text: str = "", gates: str = "") -> Loaded:
    return read_configuration(f"{HEADER}{text}", feature_gates=gates)


class Place:
    """An API server with a queue, and what kube-controller-manager would do on it."""

    def __init__(self, loaded: Loaded | None = None) -> None:
        self.clock = ManualClock()
        self.store = Faulty(self.clock)
        self.store.before = self.live
        self.left: int | None = None
        """Writes, other than of Events, that the manager does before it dies."""
        self.loaded = loaded or configured()
        self.store.namespaces(TEAM)
        spot = {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
        self.store.put(RESOURCE_FLAVORS, "default", spec=spot)
        self.queue("main")
        self.starts = 0

    def live(self, what: str) -> None:
        if self.left is None or what.startswith(READS) or " events" in what:
            return
        if self.left == 0:
            raise NotLeadingError("write", 0, "Dead", "this manager is dead")
        self.left -= 1

    def queue(self, name: str, cpu: str = "4") -> None:
        self.store.store(CLUSTER_QUEUES, cluster_queue(name, cpu, {"finalizers": FINALIZERS}))
        self.store.store(LOCAL_QUEUES, local_queue(name, TEAM, name))

    def job(self, name: str = "train", **fields: Any) -> Object:
        spec = {"parallelism": 2, "completions": 2, "suspend": True, "template": deepcopy(TEMPLATE)}
        spec.update(fields.pop("spec", {}))
        metadata = {"labels": {QUEUE: "main", **fields.pop("labels", {})}, **fields.pop("metadata", {})}
        return self.store.put(JOBS, name, TEAM, metadata=metadata, spec=spec, **fields)

    def seen(self, name: str = "train") -> Object:
        return self.store.at(JOBS, name, TEAM)

    def workloads(self) -> list[Object]:
        return list(self.store.all(WORKLOADS).values())

    @property
    def workload(self) -> Object:
        (found,) = self.workloads()
        return found

    def condition(self, kind: str) -> tuple[str, str] | None:
        found = self.workload.get("status", {}).get("conditions", [])
        return next(((one["status"], one["reason"]) for one in found if one["type"] == kind), None)

    def events(self) -> Counter[tuple[str, str]]:
        found = self.store.all(EVENTS).values()
        told: Counter[tuple[str, str]] = Counter()
        for one in found:
            if one["reportingController"] == "batch/job-kueue-controller":
                told[one["reason"], one["note"]] += one.get("series", {}).get("count", 1)
        return told

    def control(self) -> None:
        """Do what the Job controller of Kubernetes 1.36 does, one step at a time."""
        for key, tree in list(self.store.all(JOBS).items()):
            status = tree.get("status", {})
            if any(one["status"] == "True" and one["type"] == "Complete" for one in status.get("conditions", [])):
                continue
            name = key.partition("/")[2]
            if tree["spec"].get("suspend") and status.get("active"):
                self.store.put(JOBS, name, TEAM, status={"active": None, "ready": None, "startTime": None})
            elif not tree["spec"].get("suspend") and not status.get("active"):
                self.starts += 1
                count = tree["spec"]["parallelism"]
                begun = {"active": count, "ready": count, "startTime": "2027-01-15T08:00:00Z"}
                self.store.put(JOBS, name, TEAM, status=begun)

    def complete(self, name: str = "train") -> None:
        done = {"type": "Complete", "status": "True", "message": "Reached expected number of succeeded pods"}
        self.store.put(JOBS, name, TEAM, status={"active": None, "ready": None, "succeeded": 2, "conditions": [done]})

    @asynccontextmanager
    async def manager(self) -> AsyncIterator[Jobs]:
        """A manager, until the end of the block."""
        cluster = Cluster(self.store, self.store, self.clock, settings(self.loaded), instance="host")
        pump = Pump(cluster, Metrics(self.loaded))
        jobs = Jobs(cluster, (BATCH,), pump.stopped)
        parts = (cluster.follow(), pump.run(), jobs.run(), Workloads(cluster, pump).run(), cluster.events.run())
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            pump.lead(True)
            await settle()
            yield jobs
            for task in tasks:
                assert not task.done(), task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until(self, so: Callable[[], object], rounds: int = 40) -> bool:
        """Let everybody go on until something is so; whether it came to that."""
        for _ in range(rounds):
            if so():
                return True
            self.control()
            await self.clock.advance(0.3)
        return bool(so())


STORY: tuple[tuple[str, Callable[[Place], object], Callable[[Place], None]], ...] = (
    ("runs", lambda place: place.condition("PodsReady") == ("True", "Started"), lambda place: deactivate(place, False)),
    (
        "stops",
        lambda place: place.condition("QuotaReserved") == ("False", "Deactivated") and restored(place),
        lambda place: deactivate(place, True),
    ),
    (
        "runs again",
        lambda place: place.starts == 2 and place.condition("PodsReady") == ("True", "Started"),
        lambda place: place.complete(),
    ),
    (
        "is over",
        lambda place: (
            place.condition("Finished") == ("True", "Succeeded") and not place.workload["metadata"].get("finalizers")
        ),
        lambda place: None,
    ),
)
"""What comes to be, and what is done then."""


def deactivate(place: Place, active: bool) -> None:
    place.store.put(WORKLOADS, place.workload["metadata"]["name"], TEAM, spec={"active": active})


def restored(place: Place) -> bool:
    job = place.seen()
    template = job["spec"]["template"]
    return (
        job["spec"]["suspend"]
        and not job["metadata"].get("annotations")
        and template["metadata"]["labels"] == TEMPLATE["metadata"]["labels"]
        and not template["spec"].get("nodeSelector")
        and not template["spec"].get("tolerations")
    )


async def tell(place: Place, live: int | None) -> int:
    """The story of a job, with a manager that dies after so many writes; how many managers it took."""
    place.job()
    managers, stage = 0, 0
    place.left = live
    while stage < len(STORY):
        managers += 1
        assert managers <= 3, "no manager gets any further"
        async with place.manager():
            while stage < len(STORY):
                name, so, then = STORY[stage]
                if not await place.until(partial(lambda so: place.workloads() and so(place), so)):
                    assert place.left == 0, f"it never {name}: {place.seen()} {place.workloads()}"
                    break
                then(place)
                stage += 1
        place.left = None
    return managers


async def story(live: int | None) -> tuple[Place, int]:
    place = Place()
    return place, await tell(place, live)


async def test_a_job_lives_through_admission_eviction_and_its_end() -> None:
    place, managers = await story(None)
    assert managers == 1
    assert place.starts == 2
    name = place.workload["metadata"]["name"]
    assert place.events() == {
        ("CreatedWorkload", f"Created Workload: {TEAM}/{name}"): 1,
        ("Started", "Admitted by clusterQueue main"): 2,
        ("Stopped", "The workload is deactivated"): 1,
        ("FinishedWorkload", f"Workload '{TEAM}/{name}' is declared finished"): 1,
    }
    ours = [one for one in place.store.writes if one.kind == "Job"]
    assert [sorted(one.body.get("spec", {})) for one in ours] == [
        ["suspend", "template"],
        ["suspend"],
        ["template"],
        ["suspend", "template"],
    ]


async def writes_in_all() -> int:
    place, _ = await story(None)
    return sum(one.kind in ("Job", "Workload") for one in place.store.writes)


@pytest.mark.parametrize("live", range(24))
async def test_a_job_lives_on_when_the_manager_dies_after_a_write(live: int) -> None:
    place, managers = await story(live)
    assert managers == 2 or (managers == 1 and live >= await writes_in_all())
    assert place.starts == 2
    assert restored(place) is False
    assert all(times <= 2 for times in place.events().values())


async def test_among_many_new_jobs_one_has_longer_until_its_pods_are_called_not_ready() -> None:
    place = Place()
    for number in range(60):
        place.job(f"waits-{number}", spec={"parallelism": 9, "completions": 9})

    def told() -> int:
        seen = [one.get("status", {}).get("conditions", []) for one in place.workloads()]
        return sum(any(one["type"] == "PodsReady" for one in conditions) for conditions in seen)

    async with place.manager():
        await place.clock.advance(2)
        assert len(place.workloads()) == 60
        assert told() == 51
        await place.clock.advance(14)
        assert told() == 60


async def test_an_untouched_job_costs_no_write() -> None:
    place = Place()
    place.job()
    async with place.manager():
        assert await place.until(lambda: place.workloads() and place.condition("PodsReady") == ("True", "Started"))
        place.store.writes.clear()
        place.store.put(JOBS, "train", TEAM, metadata={"annotations": {"mine": "x"}})
        await place.clock.advance(120)
        assert [one for one in place.store.writes if one.kind in ("Job", "Workload")] == []


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        pytest.param("", {QUEUE: ""}, id="without a queue"),
        pytest.param("managedJobsNamespaceSelector: {matchLabels: {a: b}}\n", {}, id="outside the selected namespaces"),
    ],
)
async def test_a_job_that_is_not_ours_is_left_alone(text: str, labels: dict[str, str]) -> None:
    place = Place(configured(text))
    place.job(labels=labels, spec={"suspend": False})
    async with place.manager():
        await place.until(lambda: False, 5)
        assert place.workloads() == []
        assert place.store.writes == []


async def test_a_namespace_that_is_selected_later_brings_its_jobs() -> None:
    place = Place(configured("managedJobsNamespaceSelector: {matchLabels: {a: b}}\n"))
    place.job()
    async with place.manager():
        await place.until(lambda: False, 5)
        place.store.put(NAMESPACES, TEAM, metadata={"labels": {"a": "b"}})
        assert await place.until(lambda: place.starts)


async def test_a_missing_class_is_told_once_and_waited_for() -> None:
    place = Place()
    place.job(labels={"kueue.x-k8s.io/priority-class": "high"})
    async with place.manager():
        await place.until(lambda: False, 5)
        place.store.put(JOBS, "train", TEAM, metadata={"annotations": {"mine": "x"}})
        await place.until(lambda: False, 5)
        assert place.events() == {("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "high" not found'): 1}
        place.store.put(WORKLOAD_PRIORITY_CLASSES, "high", value=7)
        assert await place.until(lambda: place.starts)
        assert place.workload["spec"]["priority"] == 7


async def test_a_missing_flavor_is_waited_for() -> None:
    place = Place()
    place.job()
    place.left = None
    async with place.manager():
        assert await place.until(lambda: place.workloads() and place.condition("Admitted"))
    # The job is put back as if it had never started, and the flavor is gone for a while.
    suspended = {**place.seen()["spec"], "suspend": True, "template": TEMPLATE}
    place.store.store(JOBS, {**place.seen(), "spec": suspended, "status": {}})
    held = place.store.at(RESOURCE_FLAVORS, "default")
    place.store.drop(RESOURCE_FLAVORS, "default")
    place.starts = 0
    async with place.manager():
        assert not await place.until(lambda: place.starts, 5)
        place.store.put(RESOURCE_FLAVORS, "default", spec=held["spec"])
        assert await place.until(lambda: place.starts)


async def test_a_job_of_a_job_runs_only_while_its_owner_may() -> None:
    place = Place()
    parent = place.job("parent", spec={"parallelism": 8, "completions": 8})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": parent["metadata"]["uid"]}
    refs = {"ownerReferences": [{**owner, "controller": True}]}
    async with place.manager():
        assert await place.until(lambda: place.workloads() and place.condition("QuotaReserved"))
        place.job("child", labels={QUEUE: ""}, metadata=refs, spec={"suspend": False})
        assert await place.until(lambda: place.seen("child")["spec"]["suspend"])
        assert place.events()["Suspended", "Kueue managed child job suspended"] == 1
        assert len(place.workloads()) == 1


async def test_quota_is_kept_for_pods_that_may_still_appear() -> None:
    place = Place()
    place.job()
    async with place.manager():
        while not place.workloads() or place.seen()["spec"]["suspend"]:
            await place.clock.advance(0.1)
        # The Job controller has not noticed the start, and may be about to make the pods.
        deactivate(place, False)
        await place.clock.advance(0.5)
        assert place.seen()["spec"]["suspend"]
        assert place.condition("QuotaReserved") == ("True", "QuotaReserved")
        await place.clock.advance(1)
        assert place.condition("QuotaReserved") == ("False", "Deactivated")
        assert restored(place)


async def test_a_deleted_job_leaves_nothing_behind() -> None:
    place = Place()
    place.job()
    async with place.manager():
        assert await place.until(lambda: place.starts)
        place.store.remove(JOBS, "train", TEAM)
        assert await place.until(lambda: place.condition("Finished") == ("True", "OwnerNotFound"))
        assert await place.until(lambda: not place.workload["metadata"].get("finalizers"))


async def test_a_job_that_the_informer_has_not_seen_yet_is_looked_for() -> None:
    place = Place()
    place.job()

    async def script() -> None:
        assert await place.until(lambda: place.starts)

    async with place.manager():
        await script()
    async with place.manager() as jobs:
        # The watch of jobs lags behind: the job seems not to be there.
        (reconciler,) = jobs.reconcilers
        reconciler.jobs.objects.pop(f"{TEAM}/train")
        assert await reconciler.reconcile(f"{TEAM}/train") is not None
        assert place.condition("Finished") is None


async def test_a_workload_that_the_informer_has_not_seen_yet_is_no_reason_to_stop_a_job() -> None:
    place = Place()
    place.job()
    async with place.manager():
        assert await place.until(lambda: place.starts)
    async with place.manager() as jobs:
        (reconciler,) = jobs.reconcilers
        key = f"{TEAM}/{place.workload['metadata']['name']}"
        known = reconciler.cluster.workloads
        held = known.objects.pop(key)
        for index in known.indexes:
            index.update(key, held, None)
        assert await reconciler.reconcile(f"{TEAM}/train") is not None
        assert place.seen()["spec"]["suspend"] is False


async def test_after_a_conflict_a_job_waits_for_the_news_but_not_forever() -> None:
    place, news = Place(), asyncio.Event()
    place.job()

    def edit(what: str) -> None:
        if what.startswith("patch jobs") and place.store.lag is None:
            place.store.lag = news
            place.store.put(JOBS, "train", TEAM, metadata={"annotations": {"edited": "just now"}})

    place.store.before = edit
    async with place.manager():
        for tries in (1, 2):
            await place.clock.advance(0.9)
            assert place.store.calls.count("patch jobs train") == tries
        news.set()
        await settle()
        assert not place.seen()["spec"]["suspend"]


async def test_a_prebuilt_workload_is_waited_for_and_taken() -> None:
    place = Place()
    place.job(labels={"kueue.x-k8s.io/prebuilt-workload-name": "made"})
    pods = {"name": "main", "count": 2, "template": deepcopy(TEMPLATE)}
    async with place.manager():
        await place.until(lambda: False, 5)
        assert place.workloads() == []
        place.store.put(WORKLOADS, "made", TEAM, spec={"queueName": "main", "podSets": [pods]})
        assert await place.until(lambda: place.starts)
        (owner,) = place.workload["metadata"]["ownerReferences"]
        assert (owner["name"], owner["uid"]) == ("train", place.seen()["metadata"]["uid"])


async def test_a_write_that_the_server_judges_wrong_is_tried_again_later() -> None:
    place = Place()
    async with place.manager():
        await place.clock.advance(5)
        place.job()
        place.store.failures += [RejectedError("create", 422, "Invalid", "spec: not like that")]
        await place.clock.advance(5)
        assert place.workloads() == []
        await place.clock.advance(10)
        assert len(place.workloads()) == 1


async def test_a_workload_of_the_right_name_that_is_anothers_is_left_alone() -> None:
    place = Place()
    place.job()
    async with place.manager():
        assert await place.until(lambda: place.starts)
    name = place.workload["metadata"]["name"]
    place.store.put(WORKLOADS, name, TEAM, metadata={"ownerReferences": None, "labels": None})
    held = deepcopy(place.workload)
    place.store.put(JOBS, "train", TEAM, spec={"suspend": True}, status={"active": None, "startTime": None})
    async with place.manager():
        await place.until(lambda: False, 5)
        assert place.workload["metadata"]["uid"] == held["metadata"]["uid"]
        assert "ownerReferences" not in place.workload["metadata"]


async def test_a_job_that_asks_for_elastic_pods_is_told_that_they_are_not_supported() -> None:
    place = Place()
    place.job(metadata={"annotations": {"kueue.x-k8s.io/elastic-job": "true"}})
    async with place.manager():
        await place.until(lambda: False, 5)
        ((reason, note),) = place.events()
        assert reason == "Unsupported"
        assert note.startswith("metadata.annotations[kueue.x-k8s.io/elastic-job]: elastic jobs are not supported yet")
        assert place.workloads() == []


@pytest.mark.parametrize("strict", [True, False])
async def test_a_finalizer_goes_by_a_patch_under_a_precondition(strict: bool) -> None:
    place = Place(configured(gates=f"RemoveFinalizersWithStrictPatch={str(strict).lower()}"))
    place.job()
    async with place.manager():
        assert await place.until(lambda: place.starts)
        place.complete()
        assert await place.until(lambda: not place.workload["metadata"].get("finalizers"))
        patch = next(one for one in place.store.writes if one.body.get("metadata", {}).get("finalizers") == [])
        assert patch.body["metadata"]["resourceVersion"]


async def test_patches_touch_what_they_change_and_nothing_else() -> None:
    place = Place()
    place.job()
    async with place.manager():
        assert await place.until(lambda: place.starts)
        (patch,) = [one for one in place.store.writes if one.kind == "Job"]
        assert set(patch.body) == {"metadata", "spec"}
        assert set(patch.body["metadata"]) == {"uid", "resourceVersion"}
