"""What does an incoming object find in the cluster? The informers' picture, and what is fetched where it has gaps."""

import asyncio
from typing import Any

import pytest

from pykueue.api.codec import decode_as
from pykueue.api.config.file import read_configuration
from pykueue.api.config.types import Configuration, Integrations, RequeuingStrategy, WaitForPodsReady
from pykueue.api.core import Namespace
from pykueue.api.kueue import LocalQueue, WorkloadPriorityClass
from pykueue.base.clock import ManualClock
from pykueue.controllers.endpoints import admission
from pykueue.controllers.endpoints.admission import Admission, NotYetError
from pykueue.jobs.admit_world import AdmitWorld
from pykueue.jobs.batch import JobView, read_job
from pykueue.kube.informer import Informer
from pykueue.kube.port import JOBS, LOCAL_QUEUES, NAMESPACES, WORKLOAD_PRIORITY_CLASSES, Resource
from tests.fakes.faulty import Faulty, settle

CONFIGURATION = read_configuration("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration").configuration
QUEUE = "kueue.x-k8s.io/queue-name"


class Picture:
    """The informers that admission reads."""

    def __init__(self, store: Faulty) -> None:
        self.namespaces: Informer[Namespace] = Informer(
            store, NAMESPACES, lambda raw: decode_as(Namespace, raw), store.clock
        )
        self.local_queues: Informer[LocalQueue] = Informer(
            store, LOCAL_QUEUES, lambda raw: decode_as(LocalQueue, raw), store.clock
        )
        self.priority_classes: Informer[WorkloadPriorityClass] = Informer(
            store, WORKLOAD_PRIORITY_CLASSES, lambda raw: decode_as(WorkloadPriorityClass, raw), store.clock
        )
        self.jobs: Informer[JobView] = Informer(store, JOBS, read_job, store.clock)


async def world(
    *there: tuple[Resource, str, dict[str, Any]],
    namespace: str = "team",
    owner: dict[str, object] | None = None,
    configuration: Configuration = CONFIGURATION,
    followed: bool = True,
) -> AdmitWorld:
    """What an object finds where these objects are; followed by informers, or unseen by them."""
    store = Faulty(ManualClock())
    picture = Picture(store)
    informers = (picture.namespaces, picture.local_queues, picture.priority_classes, picture.jobs)
    if followed:
        put(store, there)
    tasks = [asyncio.create_task(one.run()) for one in informers]
    await settle()
    for task in tasks:
        task.cancel()
    await settle()
    if not followed:
        put(store, there)
        await settle()
    return await Admission(store, picture, configuration, {}).world(namespace, owner)


def put(store: Faulty, there: tuple[tuple[Resource, str, dict[str, Any]], ...]) -> None:
    for resource, key, fields in there:
        space, _, name = key.rpartition("/")
        store.put(resource, name, space, **fields)


def named(name: str, **labels: str) -> tuple[Resource, str, dict[str, Any]]:
    return NAMESPACES, name, {"metadata": {"labels": {"kubernetes.io/metadata.name": name, **labels}}}


def local_queue(key: str, policy: str = "None") -> tuple[Resource, str, dict[str, Any]]:
    return LOCAL_QUEUES, key, {"spec": {"clusterQueue": "main", "stopPolicy": policy}}


@pytest.mark.parametrize(
    ("queue", "counts"),
    [
        pytest.param(local_queue("team/default"), True, id="open"),
        pytest.param(local_queue("team/default", "Hold"), False, id="stopped"),
        pytest.param(local_queue("team/default", "HoldAndDrain"), False, id="drained"),
        pytest.param(local_queue("team/other"), False, id="of another name"),
        pytest.param(local_queue("other/default"), False, id="in another namespace"),
    ],
)
async def test_a_default_queue_counts_while_it_is_open(
    queue: tuple[Resource, str, dict[str, Any]], counts: bool
) -> None:
    assert (await world(named("team"), queue)).default_queue is counts


async def test_a_default_class_counts_when_it_exists() -> None:
    assert (await world(named("team"), (WORKLOAD_PRIORITY_CLASSES, "default", {"value": 1}))).default_class
    assert not (await world(named("team"), (WORKLOAD_PRIORITY_CLASSES, "other", {"value": 1}))).default_class


@pytest.mark.parametrize("followed", [True, False], ids=["seen", "too new to be seen"])
@pytest.mark.parametrize(("namespace", "selected"), [("team", True), ("kube-system", False), ("kueue-system", False)])
async def test_the_selector_decides_on_the_namespace(namespace: str, selected: bool, followed: bool) -> None:
    assert (await world(named(namespace), namespace=namespace, followed=followed)).selected is selected


async def test_labels_of_a_namespace_count() -> None:
    text = "\n".join(
        (
            "apiVersion: config.kueue.x-k8s.io/v1beta2",
            "kind: Configuration",
            "managedJobsNamespaceSelector: {matchLabels: {queued: 'yes'}}",
        )
    )
    configuration = read_configuration(text).configuration
    assert (await world(named("team", queued="yes"), configuration=configuration)).selected
    assert not (await world(named("team"), configuration=configuration)).selected


async def test_an_object_without_a_namespace_needs_none() -> None:
    assert await world(namespace="") == AdmitWorld(gates=(await world(namespace="")).gates)


def job(
    key: str, labels: dict[str, str], owner: dict[str, object] | None = None
) -> tuple[Resource, str, dict[str, Any]]:
    references = [] if owner is None else [owner]
    return JOBS, key, {"metadata": {"uid": f"uid of {key}", "labels": labels, "ownerReferences": references}}


def owned_by(name: str, uid: str | None = None, kind: str = "Job") -> dict[str, object]:
    return {
        "apiVersion": "batch/v1",
        "kind": kind,
        "name": name,
        "uid": uid or f"uid of team/{name}",
        "controller": True,
    }


@pytest.mark.parametrize("followed", [True, False], ids=["seen", "too new to be seen"])
@pytest.mark.parametrize(
    ("there", "owner", "managed"),
    [
        pytest.param([job("team/a", {QUEUE: "q"})], owned_by("a"), True, id="a queued Job"),
        pytest.param([job("team/a", {})], owned_by("a"), False, id="a Job that is not queued"),
        pytest.param([], owned_by("a"), False, id="a Job that is gone"),
        pytest.param([job("team/a", {QUEUE: "q"})], owned_by("a", "other"), False, id="a Job of another identity"),
        pytest.param([job("team/a", {QUEUE: "q"})], owned_by("a", kind="CronJob"), False, id="another kind"),
        pytest.param([job("other/a", {QUEUE: "q"})], owned_by("a"), False, id="in another namespace"),
        pytest.param(
            [job("team/a", {}, owned_by("b")), job("team/b", {QUEUE: "q"})], owned_by("a"), True, id="at a remove"
        ),
        pytest.param(
            [job("team/a", {}, owned_by("b")), job("team/b", {}, owned_by("a"))], owned_by("a"), False, id="in a circle"
        ),
    ],
)
async def test_what_a_queued_job_owns_is_not_queued_itself(
    there: list[tuple[Resource, str, dict[str, Any]]], owner: dict[str, object], managed: bool, followed: bool
) -> None:
    assert (await world(named("team"), *there, owner=owner, followed=followed)).managed_ancestor is managed


async def test_the_configuration_is_the_same_for_all() -> None:
    configuration = Configuration(
        manage_jobs_without_queue_name=True,
        integrations=Integrations(frameworks=("batch/job", "pod")),
        wait_for_pods_ready=WaitForPodsReady(requeuing_strategy=RequeuingStrategy(timestamp="Creation")),
    )
    found = await world(namespace="", configuration=configuration)
    assert found.queueless
    assert found.creation_order
    assert found.managed_kinds == {"batch/Job", "Pod"}
    assert not (await world(namespace="")).creation_order


async def test_a_question_before_the_first_picture_waits_and_is_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "WAIT_SECONDS", 0.01)
    store = Faulty(ManualClock())
    picture = Picture(store)
    known = Admission(store, picture, CONFIGURATION, {})
    with pytest.raises(NotYetError, match="try again"):
        await known.world("team", None)
    picture.priority_classes.trouble = "may not be listed"
    picture.namespaces.synced.set()
    picture.local_queues.synced.set()
    assert not (await known.world("team", None)).default_class, "what cannot be listed is not waited for"
