"""Is what is large done beside the event loop, and is it still done right?"""

import asyncio
import contextlib
import gc
import random
import threading
import weakref
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykueue.api.core import Json, Tree
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.storage.store import Store
from pykueue.apiserver.verbs.admission import AdmissionCall
from pykueue.apiserver.verbs.bootstrap import begin
from pykueue.apiserver.verbs.offload import NODES, Offload, is_large, is_large_body
from pykueue.apiserver.verbs.registry import Registry
from pykueue.apiserver.wire.identity import SYSTEM, Identity
from pykueue.apiserver.wire.protobuf import MEDIA as PROTOBUF
from pykueue.apiserver.wire.statuserrors import StatusError, bad_request
from pykueue.apiserver.wire.writeterms import Terms
from pykueue.base.clock import SystemClock

ANN = Identity("ann", frozenset(), admin=True)
BOB = Identity("bob", frozenset(), admin=True)


@pytest.mark.parametrize(
    ("value", "large"),
    [
        pytest.param({"a": [1] * (NODES // 2)}, False, id="some values"),
        pytest.param({"a": [1] * (NODES + 1)}, True, id="many values"),
        pytest.param([{"a": []}] * (NODES // 4), False, id="some objects"),
        pytest.param([{"a": []}] * NODES, True, id="many objects"),
        pytest.param({"a": "x" * 1000}, False, id="a text"),
        pytest.param({"a": "x" * 100_000}, True, id="a long text"),
        pytest.param("x", False, id="a scalar"),
    ],
)
def test_an_object_is_large_by_its_values(value: Json, large: bool) -> None:
    assert is_large(value) is large
    assert is_large_body(msgspec.json.encode(value)) is large


def test_protobuf_is_large_sooner() -> None:
    assert is_large_body(b"\x12\x00" * 2500, PROTOBUF)
    assert not is_large_body(b"\x12\x00" * 1000, PROTOBUF)


async def test_large_work_runs_in_a_thread_and_its_refusal_comes_back() -> None:
    offload = Offload()
    names = [
        await offload.run(lambda: threading.current_thread().name, large=large, who=who)
        for large, who in ((False, ANN), (True, ANN), (True, SYSTEM))
    ]
    assert names == [threading.current_thread().name, "pykueue-large-users", "pykueue-large-system"]

    def refuse() -> None:
        raise bad_request("no")

    with pytest.raises(StatusError, match="no"):
        await offload.run(refuse, large=True, who=ANN)


async def test_a_refused_body_does_not_stay_in_memory() -> None:
    class Body:
        """Something large."""

    seen: list[weakref.ref[Body]] = []

    def refuse() -> None:
        body = Body()
        seen.append(weakref.ref(body))
        raise bad_request("no")

    async def story() -> None:
        offload = Offload()
        with contextlib.suppress(StatusError):
            await offload.run(refuse, large=True, who=ANN)
        offload.lane(ANN).close()

    gc.disable()
    try:
        await story()
        assert seen[0]() is None
    finally:
        gc.enable()


async def test_the_collector_leaves_old_objects_alone_meanwhile() -> None:
    before = gc.get_threshold()
    during = await Offload().run(gc.get_threshold, large=True, who=ANN)
    assert during[0] == before[0]
    assert min(during[1:]) >= 1_000_000
    assert gc.get_threshold() == before


async def test_of_each_user_one_large_request_is_handled_at_a_time() -> None:
    offload = Offload()
    inside: list[str] = []
    most: dict[str, int] = {}

    async def request(who: Identity) -> None:
        async with offload.turn(who, large=True):
            inside.append(who.name)
            most[who.name] = max(most.get(who.name, 0), inside.count(who.name))
            most["all"] = max(most.get("all", 0), len(inside))
            await asyncio.sleep(0.01)
            inside.remove(who.name)

    await asyncio.gather(*(request(who) for who in (ANN, ANN, BOB, ANN, BOB)))
    assert most == {"ann": 1, "bob": 1, "all": 2}
    assert not offload.turns


async def test_changes_of_a_large_object_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    clock = SystemClock()
    store = Store.open(tmp_path / "data.db", clock)
    registry = Registry(store, Catalog(), clock, rng=random.Random(7))
    await begin(registry)
    assert not registry.offload.inline
    served = registry.catalog.find("", "v1", "configmaps")
    assert served is not None
    data: Tree = {f"k{number}": "v" for number in range(3_000)}
    terms = Terms(who=ANN, manager="ann")
    await registry.create(served, {"metadata": {"name": "large"}, "data": data}, "default", terms)
    assert registry.offload.lanes, "it was not taken for a large one"

    def patch(number: int) -> Coroutine[Any, Any, tuple[bytes, bool]]:
        body = msgspec.json.encode({"data": {f"new{number}": "v", f"k{number}": None}})
        how = "application/merge-patch+json"
        return registry.patch(served, "large", body, "default", Terms(who=ANN, manager=f"m{number}"), how=how)

    await asyncio.gather(*map(patch, range(5)))
    found = msgspec.json.decode(await registry.get(served, "large", "default"))["data"]
    assert {f"new{number}" for number in range(5)} <= set(found)
    assert not {f"k{number}" for number in range(5)} & set(found)
    assert len(found) == 3_000
    await store.close()


@pytest.mark.parametrize("count", [1, 3_000])
async def test_admission_is_told_whether_an_object_is_large(count: int) -> None:
    calls: list[tuple[str, str, bool]] = []

    async def admit(call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        calls.append((call.stage, call.operation, call.large))
        return call.new, ()

    clock = SystemClock()
    registry = Registry(Store.open(None, clock), Catalog(), clock, admit, rng=random.Random(7))
    await begin(registry)
    served = registry.catalog.find("", "v1", "configmaps")
    assert served is not None
    calls.clear()
    terms = Terms(who=ANN, manager="ann")
    made: Tree = {"metadata": {"name": "one"}, "data": {f"k{number}": "v" for number in range(count)}}
    await registry.create(served, made, "default", terms)
    await registry.update(served, "one", {**made, "immutable": True}, "default", terms)
    await registry.store.close()
    stages = [(stage, operation) for operation in ("CREATE", "UPDATE") for stage in ("mutate", "validate")]
    assert calls == [(*stage, count > 1) for stage in stages]
