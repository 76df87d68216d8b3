"""The API without HTTP: every verb on every kind, without paths, authorization and content types."""

import random
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.kinds import crds
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.kinds.metadata import finalizers, meta, with_meta
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.storage.store import FullError, Key, Store, StoreError
from pykueue.apiserver.verbs.admission import Admitter, admit_all
from pykueue.apiserver.verbs.deleting import Deleting
from pykueue.apiserver.verbs.offload import Offload
from pykueue.apiserver.verbs.reading import Listed, Reading, WatchEvent, key_of
from pykueue.apiserver.verbs.subresources import Subresources
from pykueue.apiserver.verbs.writing import Writing
from pykueue.apiserver.wire.statuserrors import bad_request, unavailable
from pykueue.apiserver.wire.writeterms import DeleteOptions, Terms
from pykueue.base.clock import Clock
from pykueue.base.turns import Turns

SYSTEM_TERMS: Final = Terms(manager="pykueue")
SERVER_TERMS: Final = Terms(manager="kube-apiserver")
CASCADE: Final = DeleteOptions(propagation="Background")


class Registry:
    """Every verb on every kind. Refusals are `StatusError`s; results are JSON in the version of the request."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        clock: Clock,
        admit: Admitter = admit_all,
        *,
        rng: random.Random | None = None,
    ) -> None:
        self.store = store
        self.catalog = catalog
        self.clock = clock
        self.reading = Reading(store, clock)
        # Stores in memory are for tests, which must be deterministic.
        self.offload = Offload(inline=store.lock is None)
        self.writing = Writing(store, catalog, clock, admit, rng or random.SystemRandom(), self.offload)
        self.deleting = Deleting(self.reading, self.writing)
        self.parts = Subresources(self.reading, self.writing, self.deleting)
        self.writing.after[crds.STORAGE] = self.learn
        self.heard: list[Callable[[], None]] = []
        """Called when kinds are added or removed."""
        for held in store.page(crds.STORAGE):
            tree: Tree = msgspec.json.decode(held.body)
            if crds.established(tree):
                self.adopt(tree)

    async def get(self, served: Served, name: str, namespace: str = "", *, subresource: str = "") -> bytes:
        """Get an object or a subresource."""
        with storing:
            if subresource == "scale":
                return self.parts.scale(served, name, namespace)
            return self.reading.get(served, name, namespace)

    async def list(
        self,
        served: Served,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
        version: str = "",
        match: str = "",
        most: int = 0,
        turns: Turns | None = None,
    ) -> Listed:
        """A list or a page of it; all pages have one version, as long as it is not compacted."""
        with storing:
            return await self.reading.list(
                served,
                namespace,
                labels=labels,
                fields=fields,
                limit=limit,
                continue_=continue_,
                version=version,
                match=match,
                most=most,
                turns=turns,
            )

    def watch(
        self,
        served: Served,
        namespace: str = "",
        *,
        version: str = "",
        labels: str = "",
        fields: str = "",
        bookmarks: bool = False,
        initial: bool | None = None,
        timeout: float | None = None,
        turns: Turns | None = None,
    ) -> AsyncGenerator[Sequence[WatchEvent], None]:
        """Events after a version; see `reading.Reading.watch`. Raises a 410 `StatusError` if it was compacted."""
        return self.reading.watch(
            served,
            namespace,
            version=version,
            labels=labels,
            fields=fields,
            bookmarks=bookmarks,
            initial=initial,
            timeout=timeout,
            turns=turns,
        )

    async def create(
        self,
        served: Served,
        tree: Tree,
        namespace: str,
        terms: Terms,
        *,
        name: str = "",
        subresource: str = "",
        large: bool | None = None,
    ) -> bytes:
        """Create an object, a binding or an eviction; `large` says whether the request is large, if that is known."""
        with storing:
            if subresource:
                return await self.parts.create(served, name, tree, namespace, terms, subresource)
            return await self.writing.create(served, tree, namespace, terms, large=large)

    def creates(self, served: Served, name: str, namespace: str = "") -> bool:
        """Whether an update would create the object, as for some kinds if it does not exist."""
        return served.strategy.allow_create_on_update and self.store.latest(key_of(served, namespace, name)) is None

    async def update(
        self,
        served: Served,
        name: str,
        tree: Tree,
        namespace: str,
        terms: Terms,
        *,
        subresource: str = "",
        large: bool | None = None,
    ) -> bytes:
        """Replace an object or a subresource; `large` as for a create."""
        with storing:
            if subresource == "scale":
                return await self.parts.set_scale(served, name, tree, namespace, terms)
            return await self.writing.update(served, name, tree, namespace, terms, subresource, large=large)

    async def patch(
        self,
        served: Served,
        name: str,
        body: bytes,
        namespace: str,
        terms: Terms,
        *,
        how: str,
        subresource: str = "",
    ) -> tuple[bytes, bool]:
        """Patch an object; returns it, and whether it was created. `how` is the media type."""
        with storing:
            if subresource == "scale":
                return await self.parts.patch_scale(served, name, body, namespace, terms, how), False
            return await self.writing.patch(served, name, body, namespace, terms, how, subresource)

    async def delete(
        self, served: Served, name: str, namespace: str, options: DeleteOptions, terms: Terms
    ) -> tuple[bytes, bool]:
        """Delete an object; returns its last state and whether it is gone."""
        with storing:
            body, gone = await self.deleting.delete(served, name, namespace, options, terms)
        if served.strategy.defines_kind and not gone and not terms.dry_run:
            await self.clean(name)
        return body, gone

    async def delete_collection(
        self,
        served: Served,
        namespace: str,
        options: DeleteOptions,
        terms: Terms,
        *,
        labels: str = "",
        fields: str = "",
    ) -> Listed:
        """Delete the selected objects and return them as they were."""
        with storing:
            return await self.deleting.delete_collection(served, namespace, options, terms, labels, fields)

    async def learn(self, served: Served, tree: Tree) -> None:
        """Update the conditions of a stored definition, and serve its kind if it is established."""
        if not tree:
            self.forget_missing()
            return
        name = str(meta(tree)["name"])
        key = Key(crds.STORAGE, "", name)
        there = self.store.latest(key)
        if there is None:
            return
        old: Tree = msgspec.json.decode(there.body)
        if not meta(old).get("deletionTimestamp"):
            new = crds.with_conditions(old, self.writing.now(), self.conflict(old))
            if new.get("status") != old.get("status"):
                schema = served.schema
                if schema is not None:
                    new = self.writing.noted(served, schema, old, new, SERVER_TERMS, "status")
                await self.store.put(key, new, uid=there.uid)
            old = new
        self.adopt(old)

    def adopt(self, tree: Tree) -> None:
        """Serve the kind of a definition, if it is established."""
        if crds.established(tree):
            self.catalog.install(tree)
            self.writing.after[str(meta(tree).get("name"))] = self.left
        else:
            self.catalog.forget(str(meta(tree).get("name")))
        self.tell()

    async def left(self, served: Served, tree: Tree) -> None:
        """Handle the write or removal of an object of an installed kind."""
        if not tree:
            await self.finish(served.storage)

    def conflict(self, tree: Tree) -> str:
        """Why the names of a definition cannot be accepted; empty if they can."""
        spec = tree.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        names = spec.get("names")
        names = names if isinstance(names, dict) else {}
        name = str(meta(tree).get("name"))
        for other in self.catalog.all():
            if other.resource.group != spec.get("group") or other.storage == name:
                continue
            if other.resource.kind == names.get("kind"):
                return f'"{other.resource.kind}" is already in use'
            if names.get("plural") in (other.resource.plural, other.singular, *other.short_names):
                return f'"{names.get("plural")}" is already in use'
        return ""

    def forget_missing(self) -> None:
        """Stop serving kinds whose definition is gone."""
        for storage in {
            one.storage for one in self.catalog.all() if one.custom and one.storage not in self.catalog.ours
        }:
            if self.store.latest(Key(crds.STORAGE, "", storage)) is None:
                self.catalog.forget(storage)
        self.tell()

    def tell(self) -> None:
        """Notify observers that the served kinds have changed."""
        for listener in self.heard:
            listener()

    async def clean(self, storage: str) -> None:
        """Delete all objects of a kind whose definition is being deleted."""
        known = self.catalog.of_storage(storage)
        if known and storage not in self.catalog.ours:
            await self.deleting.delete_collection(known[0], "", CASCADE, SYSTEM_TERMS, "", "")
        await self.finish(storage)

    async def finish(self, storage: str) -> None:
        """Remove a definition that is being deleted, when the last of its objects is gone."""
        key = Key(crds.STORAGE, "", storage)
        there = self.store.latest(key)
        if there is None:
            return
        tree: Tree = msgspec.json.decode(there.body)
        if not meta(tree).get("deletionTimestamp") or crds.CLEANUP not in finalizers(tree):
            return
        if self.store.count(storage):
            return
        left = [name for name in finalizers(tree) if name != crds.CLEANUP]
        new = with_meta(tree, finalizers=[*left] or None)
        await (self.store.put(key, new, uid=there.uid) if left else self.store.drop(key, new))
        self.forget_missing()


class Storing:
    """Reports errors of the store, and bodies that are nested too deeply, as `StatusError`s."""

    # Every call enters it, and a generator would take several times as long.
    def __enter__(self) -> None:
        """Begin a call."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FullError | StoreError):
            raise unavailable(str(error)) from error
        if isinstance(error, RecursionError):
            raise bad_request("json: exceeded max depth") from None


storing: Final = Storing()
