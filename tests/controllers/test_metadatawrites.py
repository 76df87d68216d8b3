"""Metadata is set by a patch, and by an update where the role allows no patch."""

from typing import Any

import msgspec
import pytest

from pykueue.api.core import Tree
from pykueue.apiserver.inprocess import LocalKube
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.storage.store import Store
from pykueue.apiserver.verbs.registry import Registry
from pykueue.base.clock import ManualClock
from pykueue.controllers.metadatawrites import set_metadata
from pykueue.kube.port import RESOURCE_FLAVORS, ConflictError, DeniedError

FLAVOR = (
    b'{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ResourceFlavor","metadata":{"name":"f","finalizers":["a.b/c"]}}'
)


class WithoutPatch(LocalKube):
    """An API whose role allows no patch."""

    async def patch(self, *_: Any, **__: Any) -> bytes:
        raise DeniedError("patch resourceflavors f", 403, "Forbidden", "cannot patch")


@pytest.mark.parametrize("kind", [LocalKube, WithoutPatch])
async def test_fields_are_set_and_removed_on_the_object_that_was_seen_alone(kind: type[LocalKube]) -> None:
    clock = ManualClock()
    kube = kind(Registry(Store.open(None, clock), Catalog(), clock))
    seen = msgspec.json.decode(await kube.create(RESOURCE_FLAVORS, FLAVOR))["metadata"]
    known: Tree = {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}
    changes: Tree = {"finalizers": None, "labels": {"x": "y"}}
    made = msgspec.json.decode(await set_metadata(kube, RESOURCE_FLAVORS, "f", "", changes, known))["metadata"]
    assert "finalizers" not in made
    assert (made["labels"], made["uid"]) == ({"x": "y"}, seen["uid"])
    other: Tree = {"uid": "another"}
    for stale in (known, other):
        with pytest.raises(ConflictError):
            await set_metadata(kube, RESOURCE_FLAVORS, "f", "", {"labels": None}, stale)
    assert b'"x":"y"' in await kube.get(RESOURCE_FLAVORS, "f")
