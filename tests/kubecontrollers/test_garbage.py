"""Does what lost its owners go, do owners wait for or leave what is theirs, and is nothing else touched?"""

from collections.abc import Iterable

import pytest

from pykueue.kube.port import CRDS, JOBS, PODS, ConflictError, GoneError, Resource
from pykueue.kubecontrollers.garbage import GarbageCollector
from tests.fakes.faulty import Object
from tests.kubecontrollers.town import CONFIG_MAPS, NODES, Town, finalizers, new_town

EVENTS = Resource("", "v1", "events", "Event", True)
KINDS = [JOBS, PODS, CONFIG_MAPS, NODES, EVENTS, CRDS]


def garbage(town: Town, kinds: Iterable[Resource] = KINDS) -> GarbageCollector:
    return GarbageCollector(town.counted, town.clock, lambda: kinds)


def owned_by(*owners: Object, blocks: bool = True) -> list[Object]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        }
        for owner in owners
    ]


async def note(town: Town, name: str, *owners: Object, blocks: bool = True, held: bool = False) -> Object:
    metadata: Object = {"name": name, "namespace": "team-a", "ownerReferences": owned_by(*owners, blocks=blocks)}
    if held:
        metadata["finalizers"] = ["example.com/held"]
    return await town.create(CONFIG_MAPS, {"metadata": metadata}, "team-a")


async def notes(town: Town) -> list[str]:
    return sorted(one["metadata"]["name"] for one in await town.all(CONFIG_MAPS, "team-a"))


async def test_what_belongs_goes_with_its_owner_and_with_the_owner_of_that() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        top = await note(town, "top")
        middle = await note(town, "middle", top)
        await note(town, "bottom", middle)
        await note(town, "other")
        assert town.counted.took() == {}
        await town.delete(CONFIG_MAPS, "top")
        assert await notes(town) == ["other"]
        assert town.counted.took() == {"delete configmaps": 2}


async def test_what_lost_its_owner_while_nobody_looked() -> None:
    async with new_town() as town:
        top = await note(town, "top")
        await note(town, "lost", top)
        kept = await note(town, "kept")
        await note(town, "child", kept)
        await town.delete(CONFIG_MAPS, "top")
        assert "lost" in await notes(town)
        async with town.running(garbage(town).run):
            assert await notes(town) == ["child", "kept"]
            assert town.counted.took() == {"delete configmaps": 1}


async def test_an_owner_of_the_same_name_is_another() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        top = await note(town, "top")
        await town.delete(CONFIG_MAPS, "top")
        await note(town, "top")
        await note(town, "late", top)
        assert await notes(town) == ["top"]


async def test_of_two_owners_one_is_enough() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        one, two = await note(town, "one"), await note(town, "two")
        await note(town, "child", one, two)
        await town.delete(CONFIG_MAPS, "one")
        child = await town.get(CONFIG_MAPS, "child")
        assert child is not None
        assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["two"]
        await town.delete(CONFIG_MAPS, "two")
        assert await notes(town) == []


async def test_foreground_the_owner_goes_last() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        top = await note(town, "top")
        await note(town, "free", top)
        await note(town, "held", top, held=True)
        await town.delete(CONFIG_MAPS, "top", propagation="Foreground")
        assert await notes(town) == ["held", "top"]
        found = await town.get(CONFIG_MAPS, "top")
        assert found is not None
        assert finalizers(found) == ["foregroundDeletion"]
        await town.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}})
        assert await notes(town) == []


async def test_foreground_waits_only_for_what_blocks() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        top = await note(town, "top")
        await note(town, "loose", top, blocks=False, held=True)
        await town.delete(CONFIG_MAPS, "top", propagation="Foreground")
        assert await notes(town) == ["loose"]
        loose = await town.get(CONFIG_MAPS, "loose")
        assert loose is not None
        assert "deletionTimestamp" in loose["metadata"]


async def test_foreground_does_not_wait_for_what_names_the_owner_wrongly() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        owner = await town.create(CONFIG_MAPS, {"metadata": {"name": "owner", "namespace": "team-a"}}, "team-a")
        (reference,) = owned_by(owner)
        for name, wrong in (("a", {"kind": "Unknown"}), ("b", {"apiVersion": "x/v1", "name": "other"})):
            metadata = {"name": name, "namespace": "team-a", "ownerReferences": [{**reference, **wrong}]}
            await town.create(CONFIG_MAPS, {"metadata": {**metadata, "finalizers": ["a.b/c"]}}, "team-a")
        await town.delete(CONFIG_MAPS, "owner", propagation="Foreground")
        assert await town.get(CONFIG_MAPS, "owner") is None


async def test_foreground_does_not_wait_for_objects_of_other_namespaces() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        owner = await town.create(CONFIG_MAPS, {"metadata": {"name": "owner", "namespace": "team-a"}}, "team-a")
        await town.namespace("team-b")
        metadata = {"name": "a", "namespace": "team-b", "ownerReferences": owned_by(owner), "finalizers": ["a.b/c"]}
        await town.create(CONFIG_MAPS, {"metadata": metadata}, "team-b")
        await town.delete(CONFIG_MAPS, "owner", propagation="Foreground")
        assert await town.get(CONFIG_MAPS, "owner") is None


async def test_foreground_goes_on_below() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        top = await note(town, "top")
        middle = await note(town, "middle", top)
        await note(town, "bottom", middle, held=True)
        await town.delete(CONFIG_MAPS, "top", propagation="Foreground")
        assert await notes(town) == ["bottom", "middle", "top"]
        await town.patch(CONFIG_MAPS, "bottom", {"metadata": {"finalizers": None}})
        assert await notes(town) == []


async def test_foreground_goes_on_after_a_restart() -> None:
    async with new_town() as town:
        top = await note(town, "top")
        await note(town, "child", top)
        await town.delete(CONFIG_MAPS, "top", propagation="Foreground")
        async with town.running(garbage(town).run):
            assert await notes(town) == []


async def test_orphans_stay() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        top = await note(town, "top")
        await note(town, "child", top)
        await town.delete(CONFIG_MAPS, "top", propagation="Orphan")
        assert await notes(town) == ["child"]
        child = await town.get(CONFIG_MAPS, "child")
        assert child is not None
        assert not child["metadata"].get("ownerReferences")


async def test_an_owner_of_a_kind_that_is_not_served_is_taken_to_be_there() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        strange = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "x", "uid": "x"}}
        await note(town, "child", strange)
        assert await notes(town) == ["child"]


async def test_an_owner_without_namespace() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        node = await town.node()
        await note(town, "child", node)
        assert await notes(town) == ["child"]
        await town.delete(NODES, "here")
        assert await notes(town) == []


async def test_somebody_changes_it_at_the_last_moment() -> None:
    async with new_town() as town, town.running(garbage(town).run):
        top = await note(town, "top")
        await note(town, "child", top)
        town.counted.failures_of["delete configmaps"] = [ConflictError("delete", 409, "Conflict", "changed")] * 2
        await town.delete(CONFIG_MAPS, "top")
        assert await notes(town) == []


async def test_a_kind_that_is_served_later() -> None:
    async with new_town() as town:
        kinds = [CONFIG_MAPS, CRDS]
        async with town.running(garbage(town, kinds).run):
            kinds.append(JOBS)
            await town.create(CRDS, {"metadata": {"name": "jobs.batch"}})
            job = await town.job()
            await note(town, "child", job)
            await town.delete(JOBS, "train")
            assert await notes(town) == []
            kinds.remove(JOBS)
            await town.patch(CRDS, "jobs.batch", {"metadata": {"labels": {"a": "b"}}})
            await note(town, "later", job)
            assert await notes(town) == ["later"]


@pytest.mark.parametrize("loss", [GoneError("watch", 410, "Expired", "too old"), ValueError("no JSON")])
async def test_what_went_while_the_watch_was_too_far_behind_or_broke(loss: Exception) -> None:
    async with new_town() as town, town.running(garbage(town).run):
        top = await note(town, "top")
        await note(town, "child", top)
        town.counted.watch_faults = [loss]
        await town.delete(CONFIG_MAPS, "top")
        assert town.counted.watch_faults == []
        await town.advance(1)
        assert await notes(town) == []
