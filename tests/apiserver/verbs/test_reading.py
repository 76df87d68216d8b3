"""Tests of gets, lists and watches."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pykueue.apiserver.verbs.reading import token_in
from tests.apiserver.desk import Desk, decoded, job, pod, refusal


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        yield made


def config(desk: Desk, name: str, namespace: str = "default", **labels: str) -> Any:
    return desk.create("configmaps", {"metadata": {"name": name, "labels": {**labels}}}, namespace)


def page(desk: Desk, kind: str = "configmaps", **how: Any) -> Any:
    return desk.run(desk.registry.list(desk.served(kind), "default", **how))


def test_lists_are_ordered_and_of_one_version(desk: Desk) -> None:
    config(desk, "b")
    config(desk, "a")
    config(desk, "c", "kube-system")
    assert desk.names("configmaps", "default") == ["a", "b"]
    assert desk.names("configmaps") == ["a", "b", "c"]
    assert page(desk).version == str(desk.store.version)


def test_items_of_built_in_kinds_are_not_told_their_kind(desk: Desk) -> None:
    config(desk, "a")
    assert set(decoded(page(desk).items[0])) == {"metadata"}
    desk.create("resourceflavors", {"metadata": {"name": "f"}}, "")
    found = desk.run(desk.registry.list(desk.served("resourceflavors"), ""))
    assert decoded(found.items[0])["kind"] == "ResourceFlavor"
    body = decoded(found.body(desk.served("resourceflavors")))
    assert (body["kind"], body["apiVersion"]) == ("ResourceFlavorList", "kueue.x-k8s.io/v1beta2")


@pytest.mark.parametrize("when", ["nothing changes", "everything changes"])
def test_pages_show_one_version(desk: Desk, when: str) -> None:
    for name in "abcde":
        config(desk, name)
    first = page(desk, limit=2)
    assert (first.remaining, len(first.items)) == (3, 2)
    if when == "everything changes":
        desk.delete("configmaps", "c")
        desk.patch("configmaps", "d", {"data": {"new": "x"}})
        config(desk, "cc")
    second = page(desk, limit=2, continue_=first.continue_)
    third = page(desk, limit=2, continue_=second.continue_)
    names = [decoded(item)["metadata"]["name"] for item in first.items + second.items + third.items]
    assert names == [*"abcde"]
    assert (second.remaining, third.remaining, third.continue_) == (1, None, "")
    assert first.version == second.version == third.version
    assert "data" not in decoded(second.items[1])


def test_a_page_of_a_forgotten_version_can_be_gone_on_with_inconsistently(desk: Desk) -> None:
    for name in "abc":
        config(desk, name)
    first = page(desk, limit=1)
    config(desk, "d")
    desk.compact()
    refused = refusal(lambda: page(desk, limit=1, continue_=first.continue_))
    assert (refused.code, refused.reason) == (410, "Expired")
    assert refused.message.startswith("The provided continue parameter is too old to display a consistent list result.")
    token = refused.continue_
    assert refused.status()["metadata"] == {"continue": token}
    assert token_in(token).rv == -1
    rest = page(desk, continue_=token)
    assert [decoded(item)["metadata"]["name"] for item in rest.items] == ["b", "c", "d"]


@pytest.mark.parametrize("token", ["!", "e30", "eyJ2IjoieCIsInJ2IjoxLCJzdGFydCI6ImEifQ"])
def test_a_token_that_makes_no_sense_is_a_bad_request(desk: Desk, token: str) -> None:
    refused = refusal(lambda: page(desk, continue_=token))
    assert refused.code == 400
    assert refused.message.startswith("invalid continue token: continue key is not valid: ")


def test_a_version_that_nobody_has_seen_is_too_new(desk: Desk) -> None:
    refused = refusal(lambda: page(desk, version="999999"))
    assert (refused.code, refused.reason) == (504, "Timeout")
    assert refused.message == f"Timeout: Too large resource version: 999999, current: {desk.store.version}"


@pytest.mark.parametrize(
    ("kind", "how", "names"),
    [
        ("configmaps", {"labels": "color=red"}, ["a"]),
        ("configmaps", {"labels": "color!=red"}, ["b", "c"]),
        ("configmaps", {"labels": "color in (red, blue)"}, ["a", "b"]),
        ("configmaps", {"labels": "!color"}, ["c"]),
        ("configmaps", {"labels": "color"}, ["a", "b"]),
        ("configmaps", {"fields": "metadata.name=b"}, ["b"]),
        ("configmaps", {"fields": "metadata.name!=b,metadata.namespace=default"}, ["a", "c"]),
        ("pods", {"fields": "spec.nodeName=here"}, ["q"]),
        ("pods", {"fields": "spec.nodeName=,status.phase=Pending"}, ["p"]),
        ("pods", {"fields": "spec.hostNetwork=false"}, ["p", "q"]),
        ("jobs", {"fields": "status.successful=0"}, ["j"]),
    ],
)
def test_selectors_select(desk: Desk, kind: str, how: dict[str, str], names: list[str]) -> None:
    config(desk, "a", color="red")
    config(desk, "b", color="blue")
    config(desk, "c")
    desk.create("pods", pod("p"))
    desk.create("pods", pod("q", nodeName="here"))
    desk.create("jobs", job("j"))
    assert desk.names(kind, "default", **how) == names


def test_a_watch_begins_with_what_there_is(desk: Desk) -> None:
    config(desk, "a")
    watch = desk.watch("configmaps", "default")
    assert watch.next()[0] == "ADDED"
    config(desk, "b")
    how, seen = watch.next()
    assert (how, seen["metadata"]["name"], seen["kind"]) == ("ADDED", "b", "ConfigMap")
    desk.patch("configmaps", "a", {"data": {"x": "y"}})
    assert watch.next()[0] == "MODIFIED"
    watch.close()


def test_a_watch_from_a_version_tells_what_came_after_it(desk: Desk) -> None:
    first = config(desk, "a")
    config(desk, "b")
    watch = desk.watch("configmaps", version=first["metadata"]["resourceVersion"])
    assert watch.next()[1]["metadata"]["name"] == "b"
    watch.close()


def test_a_list_as_a_watch_ends_with_a_bookmark(desk: Desk) -> None:
    config(desk, "a")
    watch = desk.watch("configmaps", initial=True, bookmarks=True)
    assert watch.next()[0] == "ADDED"
    how, seen = watch.next()
    assert how == "BOOKMARK"
    assert seen["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert seen["metadata"]["resourceVersion"] == str(desk.store.version)
    watch.close()


def test_objects_come_into_a_selection_and_leave_it(desk: Desk) -> None:
    desk.create("pods", pod("p"))
    watch = desk.watch("pods", version=str(desk.store.version), labels="on=yes")
    desk.patch("pods", "p", {"metadata": {"annotations": {"seen": "no"}}})
    desk.patch("pods", "p", {"metadata": {"labels": {"on": "yes"}}})
    how, seen = watch.next()
    assert (how, seen["metadata"]["labels"]) == ("ADDED", {"on": "yes"})
    left = desk.patch("pods", "p", {"metadata": {"labels": {"on": "no"}}})
    how, seen = watch.next()
    assert how == "DELETED"
    assert seen["metadata"]["labels"] == {"on": "yes"}
    assert seen["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
    watch.close()


def test_a_version_that_is_forgotten_is_gone(desk: Desk) -> None:
    first = config(desk, "a")
    config(desk, "b")
    desk.compact()
    watch = desk.watch("configmaps", version=first["metadata"]["resourceVersion"])
    refused = refusal(watch.next)
    assert (refused.code, refused.reason) == (410, "Expired")
    assert refused.message.startswith("too old resource version: ")


def test_a_quiet_watch_tells_how_far_it_is_and_ends_in_time(desk: Desk) -> None:
    config(desk, "a")

    async def listen() -> list[tuple[str, Any]]:
        events = desk.registry.watch(
            desk.served("configmaps"), version=str(desk.store.version), bookmarks=True, timeout=150
        )
        return [(one.how, decoded(one.body)) async for batch in events for one in batch]

    async def both() -> list[tuple[str, Any]]:
        listening = asyncio.ensure_future(listen())
        await desk.clock.settle()
        await desk.registry.create(
            desk.served("secrets"),
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
            "default",
            desk.terms(),
        )
        await desk.clock.advance(200)
        return await listening

    seen = desk.run(both())
    assert [how for how, _ in seen] == ["BOOKMARK", "BOOKMARK", "BOOKMARK"]
    assert {one["metadata"]["resourceVersion"] for _, one in seen} == {str(desk.store.version)}


def test_watches_of_an_older_version_are_converted(desk: Desk) -> None:
    desk.create("clusterqueues", {"metadata": {"name": "cq"}, "spec": {"cohortName": "all"}}, "")
    watch = desk.watch("clusterqueues/v1beta1")
    _, seen = watch.next()
    assert (seen["apiVersion"], seen["spec"]["cohort"]) == ("kueue.x-k8s.io/v1beta1", "all")
    watch.close()
