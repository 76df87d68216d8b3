"""Tests of the API as the controllers of this process see it."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pykueue.api.core import ObjectMeta
from pykueue.apiserver.inprocess import LocalKube
from pykueue.base.struct import Wire
from pykueue.kube.informer import Change, Informer
from pykueue.kube.port import (
    EVENTS,
    JOBS,
    NAMESPACES,
    PODS,
    WORKLOADS,
    ConflictError,
    ExistsError,
    GoneError,
    KubeError,
    NotFoundError,
    Patch,
    RejectedError,
    Resource,
)
from tests.apiserver.desk import ADMIN, Desk, job, pod


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        yield made


def body(tree: Any, resource: Resource = PODS) -> bytes:
    return json.dumps({"apiVersion": resource.api_version, "kind": resource.kind, **tree}).encode()


class Thing(Wire):
    metadata: ObjectMeta = ObjectMeta()


def test_errors_are_those_of_the_port(desk: Desk) -> None:
    kube = LocalKube(desk.registry)

    async def story() -> None:
        made = json.loads(await kube.create(PODS, body(pod("p")), "default"))
        with pytest.raises(ExistsError, match=r'create pods default: pods "p" already exists'):
            await kube.create(PODS, body(pod("p")), "default")
        with pytest.raises(NotFoundError, match=r'get pods default/q: pods "q" not found'):
            await kube.get(PODS, "q", "default")
        stale = json.dumps({"metadata": {"resourceVersion": "1"}}).encode()
        with pytest.raises(ConflictError):
            await kube.patch(PODS, "p", stale, "default", how=Patch.MERGE)
        with pytest.raises(ConflictError):
            await kube.delete(PODS, "p", "default", uid="other")
        with pytest.raises(NotFoundError):
            await kube.get(Resource("none.io", "v1", "nones", "None"), "x")
        with pytest.raises(RejectedError):
            await kube.patch(PODS, "p", b"{", "default", how=Patch.MERGE)
        await kube.delete(PODS, "p", "default", uid=made["metadata"]["uid"])
        with pytest.raises(NotFoundError):
            await kube.delete(PODS, "p", "default")

    desk.run(story())


def test_what_our_controllers_write_is_not_judged_but_tracked(desk: Desk) -> None:
    kube = LocalKube(desk.registry)

    async def story() -> Any:
        tree = {
            "metadata": {"name": "w"},
            "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": {}}}]},
        }
        await kube.create(WORKLOADS, body(tree, WORKLOADS), "default")
        status = {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {"name": "w", "namespace": "default"},
            "status": {"conditions": [{"type": "Admitted", "status": "True"}]},
        }
        raw = await kube.patch(
            WORKLOADS,
            "w",
            json.dumps(status).encode(),
            "default",
            how=Patch.APPLY,
            subresource="status",
            manager="kueue-admission",
        )
        return json.loads(raw)

    made = desk.run(story())
    managers = {(one["manager"], one["operation"]) for one in made["metadata"]["managedFields"]}
    assert managers == {("kueue", "Update"), ("kueue-admission", "Apply")}


def test_events_of_our_controllers_take_the_short_way(desk: Desk) -> None:
    kube = LocalKube(desk.registry)
    event = {"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "note": "n", "reason": "R"}

    async def story() -> Any:
        made = json.loads(await kube.create(EVENTS, body(event, EVENTS), "default"))
        with pytest.raises(ExistsError):
            await kube.create(EVENTS, body(event, EVENTS), "default")
        with pytest.raises(NotFoundError):
            await kube.create(EVENTS, body(event, EVENTS), "nowhere")
        return made

    made = desk.run(story())
    assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "n")
    assert "managedFields" not in made["metadata"]
    stored = desk.get("events", "e")
    assert (stored["message"], stored["metadata"]["uid"]) == ("n", made["metadata"]["uid"])
    assert desk.names("events", "default", fields="involvedObject.name=p") == ["e"]


def test_a_visitor_is_judged(desk: Desk) -> None:
    kube = LocalKube(desk.registry, ADMIN)
    with pytest.raises(RejectedError, match=r"spec.containers: Required value"):
        desk.run(kube.create(PODS, body({"metadata": {"name": "p"}, "spec": {}}), "default"))


def test_pages_hold_everything_once(desk: Desk) -> None:
    kube = LocalKube(desk.registry)

    async def story() -> list[str]:
        await asyncio.gather(*(kube.create(PODS, body(pod(f"p{number}")), "default") for number in range(1100)))
        pages = [json.loads(page) async for page in kube.pages(PODS)]
        assert len(pages) == 3
        assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
        return [item["metadata"]["name"] for page in pages for item in page["items"]]

    names = desk.run(story())
    assert len(set(names)) == len(names) == 1100


def test_an_informer_follows(desk: Desk) -> None:
    kube = LocalKube(desk.registry)
    seen: list[tuple[str, bool]] = []

    def handle(change: Change[Thing]) -> None:
        seen.append((change.key, change.new is not None))

    async def story() -> None:
        await kube.create(PODS, body(pod("early")), "default")
        informer: Informer[Thing] = Informer(kube, PODS, msgspec.json.Decoder(Thing).decode, desk.clock)
        informer.listen(handle)
        running = asyncio.ensure_future(informer.run())
        await informer.synced.wait()
        await kube.create(PODS, body(pod("late")), "default")
        await kube.delete(PODS, "early", "default")
        await desk.clock.settle()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    desk.run(story())
    assert seen == [("default/early", True), ("default/late", True), ("default/early", False)]


def test_a_watch_of_a_forgotten_version_is_gone(desk: Desk) -> None:
    kube = LocalKube(desk.registry)
    first = desk.create("pods", pod("p"))["metadata"]["resourceVersion"]
    desk.create("pods", pod("q"))
    desk.compact()

    async def story() -> None:
        async for _ in kube.watch(PODS, version=first):
            pass

    with pytest.raises(GoneError):
        desk.run(story())


def test_whoever_reads_after_a_conflict_sees_what_it_was_about(desk: Desk) -> None:
    kube = LocalKube(desk.registry)
    desk.create("jobs", job("x"))

    async def change(label: str) -> int:
        tries = 0
        while True:
            tries += 1
            assert tries < 10
            read = json.loads(await kube.get(JOBS, "x", "default"))["metadata"]
            patch = {"metadata": {"resourceVersion": read["resourceVersion"], "labels": {label: "yes"}}}
            try:
                await kube.patch(JOBS, "x", json.dumps(patch).encode(), "default", how=Patch.MERGE)
            except ConflictError:
                continue
            return tries

    async def both() -> list[int]:
        return [*await asyncio.gather(change("one"), change("two"))]

    assert sorted(desk.run(both())) == [1, 2]
    assert {"one", "two"} <= set(desk.get("jobs", "x")["metadata"]["labels"])


def test_the_last_delete_of_a_pod_is_without_grace(desk: Desk) -> None:
    kube = LocalKube(desk.registry)

    async def story() -> None:
        await kube.create(PODS, body(pod("p")), "default")
        await kube.bind("default", "p", "here")
        with pytest.raises(ConflictError):
            await kube.bind("default", "p", "there")
        await kube.delete(PODS, "p", "default")
        assert json.loads(await kube.get(PODS, "p", "default"))["metadata"]["deletionGracePeriodSeconds"] == 30
        await kube.delete(PODS, "p", "default", grace=0)
        with pytest.raises(NotFoundError):
            await kube.get(PODS, "p", "default")

    desk.run(story())


def test_a_namespace_is_finalized_by_a_patch(desk: Desk) -> None:
    kube = LocalKube(desk.registry)

    async def story() -> None:
        await kube.create(NAMESPACES, body({"metadata": {"name": "team"}}, NAMESPACES))
        await kube.delete(NAMESPACES, "team")
        await kube.patch(NAMESPACES, "team", b'{"spec":{"finalizers":[]}}', how=Patch.MERGE, subresource="finalize")
        with pytest.raises(NotFoundError):
            await kube.get(NAMESPACES, "team")

    desk.run(story())


def test_every_failure_is_an_error_of_the_port(desk: Desk) -> None:
    kube = LocalKube(desk.registry)
    desk.run(desk.store.close())
    with pytest.raises(KubeError):
        desk.run(kube.create(PODS, body(pod("p")), "default"))
