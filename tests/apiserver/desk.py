"""How does a test ask the Registry? A `Desk`: one in memory, under a manual clock, with trees in and trees out."""

import asyncio
import random
from collections.abc import AsyncGenerator, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.storage.store import Store
from pykueue.apiserver.verbs.admission import Admitter, admit_all
from pykueue.apiserver.verbs.bootstrap import begin
from pykueue.apiserver.verbs.reading import WatchEvent
from pykueue.apiserver.verbs.registry import Registry
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.apiserver.wire.writeterms import DeleteOptions, Terms
from pykueue.base.clock import ManualClock

T = TypeVar("T")
ADMIN = Identity("ada", frozenset({"system:authenticated"}), admin=True)
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Desk:
    """A registry to ask; each call is the whole of one client's request."""

    def __init__(self, admit: Admitter = admit_all) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.store = Store.open(None, self.clock)
        self.registry = Registry(self.store, Catalog(), self.clock, admit, rng=random.Random(7))
        self.warnings: list[str] = []
        self.run(begin(self.registry))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        self.run(self.store.close())
        self.loop.close()

    def compact(self) -> None:
        """Forget all changes."""

        async def work() -> None:
            self.store.compact()

        self.run(work())

    def served(self, kind: str) -> Served:
        """`jobs`, `workloads`, or `workloads/v1beta1`."""
        plural, _, version = kind.partition("/")
        found = [one for one in self.registry.catalog.all() if one.resource.plural == plural]
        return next(one for one in found if one.resource.version == version or (not version and one.is_stored))

    def terms(self, **more: Any) -> Terms:
        self.warnings = []
        return Terms(**{"who": ADMIN, "manager": "tester", "warnings": self.warnings, **more})

    def create(self, kind: str, tree: Tree, namespace: str = "default", **more: Any) -> Any:
        served = self.served(kind)
        tree = {"apiVersion": served.resource.api_version, "kind": served.resource.kind, **tree}
        return decoded(self.run(self.registry.create(served, tree, namespace, self.terms(**more))))

    def get(self, kind: str, name: str, namespace: str = "default", part: str = "") -> Any:
        return decoded(self.run(self.registry.get(self.served(kind), name, namespace, subresource=part)))

    def update(self, kind: str, tree: Tree, namespace: str = "default", part: str = "", **more: Any) -> Any:
        name = str(msgspec.json.decode(msgspec.json.encode(tree))["metadata"]["name"])
        work = self.registry.update(self.served(kind), name, tree, namespace, self.terms(**more), subresource=part)
        return decoded(self.run(work))

    def patch(
        self,
        kind: str,
        name: str,
        patch: Any,
        namespace: str = "default",
        how: str = MERGE,
        part: str = "",
        **more: Any,
    ) -> Any:
        body = patch if isinstance(patch, bytes) else msgspec.json.encode(patch)
        terms = self.terms(**more)
        work = self.registry.patch(self.served(kind), name, body, namespace, terms, how=how, subresource=part)
        return decoded(self.run(work)[0])

    def apply(self, kind: str, name: str, tree: Tree, namespace: str = "default", **more: Any) -> Any:
        served = self.served(kind)
        whole = {"apiVersion": served.resource.api_version, "kind": served.resource.kind, **tree}
        whole["metadata"] = {"name": name, **tree.get("metadata", {})}  # type: ignore[dict-item]  # decoded JSON is Json
        return self.patch(kind, name, whole, namespace, APPLY, **more)

    def delete(self, kind: str, name: str, namespace: str = "default", dry_run: bool = False, **options: Any) -> Any:
        work = self.registry.delete(
            self.served(kind), name, namespace, DeleteOptions(**options), self.terms(dry_run=dry_run)
        )
        body, gone = self.run(work)
        return decoded(body), gone

    def names(self, kind: str, namespace: str = "", **how: Any) -> list[str]:
        found = self.run(self.registry.list(self.served(kind), namespace, **how))
        return [decoded(item)["metadata"]["name"] for item in found.items]

    def watch(self, kind: str, namespace: str = "", **how: Any) -> "Stream":
        return Stream(self, self.registry.watch(self.served(kind), namespace, **how))


class Stream:
    """A watch that a test reads from."""

    def __init__(self, desk: Desk, events: AsyncGenerator[Sequence[WatchEvent], None]) -> None:
        self.desk = desk
        self.events = events
        self.batch: list[WatchEvent] = []

    def next(self) -> tuple[str, Any]:
        seen = self.desk.run(self.first())
        return seen.how, decoded(seen.body)

    async def first(self) -> WatchEvent:
        if not self.batch:
            self.batch = [*await asyncio.wait_for(anext(self.events), 5)]
        return self.batch.pop(0)

    def close(self) -> None:
        self.desk.run(self.events.aclose())


def decoded(body: bytes) -> Any:
    return msgspec.json.decode(body)


def refusal(call: Any) -> StatusError:
    """What a call is refused with."""
    try:
        call()
    except StatusError as error:
        return error
    raise AssertionError("it was not refused")


def pod(name: str = "p", **spec: Any) -> Tree:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}], **spec}}


def job(name: str = "j", **spec: Any) -> Tree:
    template: Tree = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}
