"""Does a namespace that is deleted go once it is empty, and does it say what is in the way?"""

from pykueue.kube.port import JOBS, NAMESPACES, PODS, UnansweredError
from pykueue.kubecontrollers.namespaces import Namespaces
from tests import builders
from tests.kubecontrollers.town import CONFIG_MAPS, NODES, Town, new_town

KINDS = [JOBS, PODS, CONFIG_MAPS, NODES, NAMESPACES]


def namespaces(town: Town) -> Namespaces:
    return Namespaces(town.counted, town.clock, lambda: KINDS)


async def note(town: Town, name: str, namespace: str = "team-a", **metadata: object) -> None:
    await town.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": namespace} | metadata}, namespace)


async def pod(town: Town, name: str) -> None:
    await town.create(PODS, builders.pod(name, "team-a"), "team-a")


async def test_everything_in_it_goes_and_then_it_does() -> None:
    async with new_town() as town:
        await town.namespace("team-b")
        await note(town, "x")
        await note(town, "y")
        await note(town, "kept", "team-b")
        await town.node()
        async with town.running(namespaces(town).run):
            assert town.counted.took() == {}
            await town.delete(NAMESPACES, "team-a")
            assert await town.get(NAMESPACES, "team-a") is None
            assert [one["metadata"]["name"] for one in await town.all(CONFIG_MAPS)] == ["kept"]
            assert await town.get(NAMESPACES, "team-b") is not None
            assert await town.get(NODES, "here") is not None


async def test_one_that_was_deleted_while_nobody_looked() -> None:
    async with new_town() as town:
        await note(town, "x")
        await town.delete(NAMESPACES, "team-a")
        assert await town.get(NAMESPACES, "team-a") is not None
        async with town.running(namespaces(town).run):
            assert await town.get(NAMESPACES, "team-a") is None


async def test_it_waits_for_pods_first_and_says_so() -> None:
    async with new_town() as town:
        await note(town, "x")
        await pod(town, "busy")
        await town.kube.bind("team-a", "busy", "here")
        async with town.running(namespaces(town).run):
            await town.delete(NAMESPACES, "team-a")
            assert len(await town.all(CONFIG_MAPS)) == 1
            found = await town.get(NAMESPACES, "team-a")
            assert found is not None
            told = {one["type"]: (one["status"], one["message"]) for one in found["status"]["conditions"]}
            assert told["NamespaceContentRemaining"] == (
                "True",
                "Some resources are remaining: pods. has 1 resource instances",
            )
            assert told["NamespaceFinalizersRemaining"][0] == "False"
            await town.bury()
            await town.advance(1)
            assert await town.get(NAMESPACES, "team-a") is None
            assert await town.all(CONFIG_MAPS) == []


async def test_finalizers_are_named() -> None:
    async with new_town() as town:
        await note(town, "x", finalizers=["example.com/held"])
        async with town.running(namespaces(town).run):
            await town.delete(NAMESPACES, "team-a")
            found = await town.get(NAMESPACES, "team-a")
            assert found is not None
            told = {one["type"]: (one["reason"], one["message"]) for one in found["status"]["conditions"]}
            assert told["NamespaceFinalizersRemaining"] == (
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances",
            )
            assert told["NamespaceContentRemaining"][1].endswith("configmaps. has 1 resource instances")
            town.counted.took()
            await town.advance(3)
            assert town.counted.took() == {}
            await town.patch(CONFIG_MAPS, "x", {"metadata": {"finalizers": None}})
            await town.advance(1)
            assert await town.get(NAMESPACES, "team-a") is None


async def test_who_else_holds_it_is_waited_for() -> None:
    async with new_town() as town:
        held = {"metadata": {"name": "held"}, "spec": {"finalizers": ["example.com/mine", "kubernetes"]}}
        await town.create(NAMESPACES, held)
        await town.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "held"}}, "held")
        async with town.running(namespaces(town).run):
            await town.delete(NAMESPACES, "held")
            await town.advance(60)
            assert await town.all(CONFIG_MAPS, "held") == []
            left = await town.get(NAMESPACES, "held")
            assert left is not None
            assert left["spec"]["finalizers"] == ["example.com/mine"]
            assert left["status"]["phase"] == "Terminating"
            await town.patch(NAMESPACES, "held", {"spec": {"finalizers": []}}, subresource="finalize")
            assert await town.get(NAMESPACES, "held") is None


async def test_what_cannot_be_deleted_is_said() -> None:
    async with new_town() as town:
        await note(town, "x")
        town.counted.failures_of["delete configmaps"] = [UnansweredError("delete", 503, "", "no answer")]
        async with town.running(namespaces(town).run):
            await town.delete(NAMESPACES, "team-a")
            found = await town.get(NAMESPACES, "team-a")
            assert found is not None
            told = {one["type"]: one["message"] for one in found["status"]["conditions"]}
            assert told["NamespaceDeletionContentFailure"] == (
                "Failed to delete all resource types, 1 remaining: no answer"
            )
            await town.advance(1)
            assert await town.get(NAMESPACES, "team-a") is None
