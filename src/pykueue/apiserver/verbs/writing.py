"""Creates, updates and patches, step by step.

The steps are those of kube-apiserver, in its order: decode the body, apply defaults, track managed fields, run mutating
admission, restore what this kind of write cannot change, validate, run validating admission, store. If the object has
changed between reading and storing it, the write is repeated on the new object, unless the caller named a version.
"""

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.kinds import lifecycle
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.kinds.conversion import body_served, ordered, to_served, to_stored
from pykueue.apiserver.kinds.metadata import SYSTEM_FIELDS, deduplicated, finalizers, meta, with_meta
from pykueue.apiserver.kinds.names import TRIES, generated
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.schema.apply import applied, kept_times, tracked
from pykueue.apiserver.schema.schemas import Schema
from pykueue.apiserver.storage.store import Key, Store, StoredObject, TooLargeError
from pykueue.apiserver.verbs.admission import Admission, Admitter
from pykueue.apiserver.verbs.admissionplugins import Plugins
from pykueue.apiserver.verbs.bodies import check_fields, check_kind, check_name, check_namespace, check_types
from pykueue.apiserver.verbs.offload import Offload, is_large, is_large_body
from pykueue.apiserver.verbs.ownercheck import check_owners
from pykueue.apiserver.verbs.patching import Patching, check_applied, patched, raised
from pykueue.apiserver.verbs.reading import key_of, version_in
from pykueue.apiserver.verbs.recenttrees import RecentTrees
from pykueue.apiserver.verbs.writesteps import (
    Make,
    canonical,
    changed,
    judged_as,
    replacing,
    stored_bytes_max,
    stored_trouble,
    unmanaged,
)
from pykueue.apiserver.wire.statuserrors import (
    StatusError,
    conflict,
    exists,
    internal,
    invalid,
    no_name_left,
    not_found,
    unstorable,
)
from pykueue.apiserver.wire.writeterms import Terms
from pykueue.base.clock import Clock
from pykueue.base.units import format_instant
from pykueue.kube.port import Patch

DELETION_BYTES: Final = 1024
"""How much larger an object may become by a write that belongs to its deletion."""
REPEATS_MAX: Final = 100
"""How often a write is repeated because the object has changed meanwhile."""

After: TypeAlias = Callable[[Served, Tree], Awaitable[None]]


class Writing:
    """Creates, updates and patches objects in the store."""

    def __init__(
        self, store: Store, catalog: Catalog, clock: Clock, admit: Admitter, rng: random.Random, offload: Offload
    ) -> None:
        self.store = store
        self.catalog = catalog
        self.clock = clock
        self.admission = Admission(admit)
        self.rng = rng
        self.offload = offload
        self.plugins = Plugins(store)
        self.trees = RecentTrees()
        self.after: dict[str, After] = {}
        """Called after an object was stored or removed, by storage name."""

    def now(self) -> str:
        """The current time in the format of objects."""
        return format_instant(self.clock.now())

    async def create(
        self, served: Served, tree: Tree, namespace: str, terms: Terms, *, large: bool | None = None
    ) -> bytes:
        """The object that was created; `large` says whether the request is large, if that is known."""
        if terms.who.is_controller and served.strategy.is_record and meta(tree).get("name"):
            return body_served(served, (await self.record(served, tree, namespace, terms)).body)
        if large is None:
            large = is_large(tree)
        work = partial(self.prepared, served, tree, namespace, terms)
        tree = await self.offload.run(work, large=large, who=terms.who)
        held = await self.make(served, tree, namespace, terms, large=large)
        return await self.shown_to(served, held, terms)

    def prepared(self, served: Served, tree: Tree, namespace: str, terms: Terms) -> Tree:
        """A new object with defaults and managed fields; a `StatusError` if the body does not fit the kind."""
        tree = check_kind(served, tree)
        if not terms.who.is_controller:
            check_types(served, tree)
            check_fields(served, tree, terms)
        metadata = {name: value for name, value in meta(tree).items() if name not in SYSTEM_FIELDS}
        if metadata.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        tree = check_namespace(served, {**tree, "metadata": metadata}, namespace)
        tree = deduplicated(tree, terms.warn, admitted=False)
        # Templates that our controllers create objects from have been pruned by the schema already.
        pruned = terms.who.is_controller and served.strategy.is_templated
        tree = served.strategy.default(tree) if pruned else lifecycle.complete(served, tree)
        schema = served.schema
        if schema is not None and not unmanaged(served, terms, ""):
            tree = self.noted(served, schema, None, tree, terms, "")
        return tree

    async def shown_to(self, served: Served, held: StoredObject, terms: Terms) -> bytes:
        """A stored object in the version of the request."""
        if served.is_stored:
            return held.body
        work = partial(body_served, served, held.body)
        return await self.offload.run(work, large=is_large_body(held.body), who=terms.who)

    async def record(self, served: Served, tree: Tree, namespace: str, terms: Terms) -> StoredObject:
        """Store an object of our controllers that is complete as it is, such as an event; the stored object.

        Its name contains the nanosecond, so the file is not searched for another of that name.
        """
        about = meta(tree)
        name = str(about["name"])
        self.plugins.check_namespace(served, namespace, name)
        key = key_of(served, namespace, name)
        there = self.store.remembered(key)
        if there is not None:
            await self.shown(key)
            raise self.taken(served, there, generated_name=False)
        said: Tree = {**about, "name": name, "namespace": namespace, "uid": str(self.identity())}
        said["creationTimestamp"] = self.now()
        made = to_stored(served, {**tree, "metadata": said})
        return await self.put(served, key, served.strategy.canonicalize(made), terms, record=True)

    async def make(self, served: Served, tree: Tree, namespace: str, terms: Terms, *, large: bool) -> StoredObject:
        """Admit, validate and store a new object in the version of the request; returns the stored object."""
        prefix, name = str(meta(tree).get("generateName") or ""), str(meta(tree).get("name") or "")
        if served.strategy.uid_as_name and not prefix:
            name = name or str(self.identity())
        if served.resource.namespaced:
            self.plugins.check_namespace(served, namespace, name)
        new = await self.offload.run(partial(to_stored, served, tree), large=large, who=terms.who)
        new = self.plugins.complete(served, new, namespace)
        new = await self.admission.run("mutate", served, "CREATE", new, None, "", terms, large=large)
        await check_owners(self.store, self.catalog, served, new, None, namespace, terms.who)
        for tries in range(TRIES if prefix and not name else 1):
            made = with_meta(
                new,
                name=name or (generated(prefix, self.rng.choice) if prefix else ""),
                uid=str(self.identity()),
                creationTimestamp=self.now(),
            )
            work = partial(self.validated_new, served, made, tree, terms, self.now())
            made = await self.offload.run(work, large=large, who=terms.who)
            self.plugins.check(served, made, namespace)
            await self.admission.run("validate", served, "CREATE", made, None, "", terms, large=large)
            made = await self.offload.run(partial(canonical, served, made), large=large, who=terms.who)
            if served.resource.namespaced:
                # A namespace whose deletion began during admission does not wait for this object.
                self.plugins.check_namespace(served, namespace, str(meta(made)["name"]))
            key = key_of(served, namespace, str(meta(made)["name"]))
            there = self.store.latest(key)
            if there is None:
                return await self.put(served, key, made, terms, bytes_max=stored_bytes_max(terms))
            if not prefix or name or tries == TRIES - 1:
                await self.shown(key)
                raise self.taken(served, there, generated_name=bool(prefix and not name))
        raise AssertionError("unreachable: the last try either stores or refuses")

    def identity(self) -> uuid.UUID:
        """A random UID."""
        return uuid.UUID(int=self.rng.getrandbits(128), version=4)

    def taken(self, served: Served, there: StoredObject, *, generated_name: bool) -> Exception:
        """The error for a name that is in use."""
        name = there.key.name
        refused = no_name_left(served.resource, name) if generated_name else exists(served.resource, name)
        if meta(msgspec.json.decode(there.body)).get("deletionTimestamp"):
            refused.message = f"object is being deleted: {refused.message}"
        return refused

    async def update(
        self,
        served: Served,
        name: str,
        tree: Tree,
        namespace: str,
        terms: Terms,
        subresource: str,
        *,
        large: bool | None = None,
    ) -> bytes:
        """The object after an update; `large` as for a create."""
        if large is None:
            large = is_large(tree)
        work = partial(replacing, served, name, tree, namespace, terms)
        tree = await self.offload.run(work, large=large, who=terms.who)
        key = key_of(served, namespace, name)
        if served.strategy.allow_create_on_update and not subresource and self.store.latest(key) is None:
            return await self.create(served, with_meta(tree, resourceVersion=None), namespace, terms, large=large)
        work = partial(lifecycle.complete, served, deduplicated(tree, terms.warn, admitted=False))
        complete = await self.offload.run(work, large=large, who=terms.who)

        def make(live: Tree) -> Tree:
            wanted = str(meta(complete).get("uid") or "")
            if wanted and wanted != meta(live).get("uid"):
                why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {meta(live).get('uid')}"
                raise conflict(served.resource, name, stored_trouble(served, key, why))
            schema = served.schema
            return complete if schema is None else self.noted(served, schema, live, complete, terms, subresource)

        held = await self.change(served, key, terms, subresource, make, large=large)
        return await self.shown_to(served, held, terms)

    async def patch(
        self, served: Served, name: str, body: bytes, namespace: str, terms: Terms, how: str, subresource: str
    ) -> tuple[bytes, bool]:
        """The object after a patch, and whether the patch created it, as an apply of a missing object does."""
        key = key_of(served, namespace, name)
        large = is_large_body(body)
        work = partial(patched, served, body, how, terms, subresource)
        change = await self.offload.run(work, large=large, who=terms.who)
        if how == Patch.APPLY and self.store.latest(key) is None and not subresource:
            return await self.shown_to(served, await self.apply_new(served, change, key, terms, large), terms), True

        def make(live: Tree) -> Tree:
            schema = served.schema
            if how == Patch.APPLY:
                if schema is None:
                    raise internal(f"{served.resource.kind} has no schema to apply by")
                new = self.applying(served, schema, live, change.wanted(), terms, subresource)
                check_name(new, name, namespace)
                new = check_namespace(served, new, namespace)
                return self.completed(served, new, live, terms, subresource, applied=True)
            new = check_namespace(served, change.made(live), namespace)
            check_name(new, name, namespace)
            new = self.completed(served, new, live, terms, subresource)
            if schema is None or unmanaged(served, terms, subresource):
                return new
            return self.noted(served, schema, live, new, terms, subresource)

        held = await self.change(served, key, terms, subresource, make, large=large)
        return await self.shown_to(served, held, terms), False

    def completed(
        self, served: Served, new: Tree, live: Tree, terms: Terms, subresource: str, *, applied: bool = False
    ) -> Tree:
        """The object with defaults; those of parts that our controllers leave unchanged are not computed again.

        Parts that an older version stored thus get new defaults when they change, or a user writes the object.
        """
        if not terms.who.is_controller:
            return lifecycle.complete(served, new, applied=applied)
        if subresource and served.custom:
            return new
        if subresource in ("status", "binding"):
            return served.strategy.complete_status(new)
        untouched = all(new.get(name) is value for name, value in live.items() if name != "metadata")
        return new if untouched and len(new) == len(live) else lifecycle.complete(served, new, known=live)

    async def apply_new(self, served: Served, change: Patching, key: Key, terms: Terms, large: bool) -> StoredObject:
        """Create an object by an apply; the stored object."""
        work = partial(self.new_applied, served, change, key, terms)
        made = await self.offload.run(work, large=large, who=terms.who)
        return await self.make(served, made, key.namespace, terms, large=large)

    def new_applied(self, served: Served, change: Patching, key: Key, terms: Terms) -> Tree:
        """The new object that an apply creates, with defaults and managed fields."""
        wanted = change.wanted()
        schema = served.schema
        if schema is None:
            raise internal(f"{served.resource.kind} has no schema to apply by")
        uid = meta(wanted).get("uid")
        if uid:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(served.resource, key.name, why)
        named = wanted if meta(wanted).get("name") else with_meta(wanted, name=key.name)
        new = self.applying(served, schema, None, named, terms, "")
        new = check_namespace(served, new, key.namespace)
        check_name(new, key.name, key.namespace)
        new = with_meta(new, **dict.fromkeys((*SYSTEM_FIELDS, "resourceVersion")))
        return lifecycle.complete(served, new, applied=True)

    def applying(
        self, served: Served, schema: Schema, live: Tree | None, wanted: Tree, terms: Terms, subresource: str
    ) -> Tree:
        """The object after an apply, in the version of the request; a `StatusError` if it cannot be applied."""
        with raised():
            made = applied(
                live,
                wanted,
                manager=terms.manager,
                force=terms.force,
                api_version=served.api_version,
                schema=schema,
                now=self.now(),
                subresource=subresource,
                status=served.has_status,
                lift=None if served.is_stored and not self.versions(served) else self.lift(served),
            )
        if not terms.who.is_controller:
            check_applied(served, made, wanted)
        return made

    def noted(
        self, served: Served, schema: Schema, live: Tree | None, new: Tree, terms: Terms, subresource: str
    ) -> Tree:
        """The object with its managed fields after a write that is no apply."""
        return tracked(
            live,
            new,
            manager=terms.manager,
            api_version=served.api_version,
            schema=schema,
            now=self.now(),
            subresource=subresource,
            status=served.has_status,
            lift=None if served.is_stored and not self.versions(served) else self.lift(served),
        )

    def versions(self, served: Served) -> bool:
        """Whether a custom kind is served in several versions."""
        return served.custom and self.catalog.several(served.storage)

    def lift(self, served: Served) -> Callable[[Tree, str], tuple[Tree, Schema] | None]:
        """A function that converts an object of a kind to another version, with the schema of that version."""

        def lifted(tree: Tree, version: str) -> tuple[Tree, Schema] | None:
            other = self.catalog.version(served.storage, version)
            schema = other.schema if other is not None else None
            if other is None or schema is None:
                return None
            return to_served(other, to_stored(served, tree)), schema

        return lifted

    async def change(
        self, served: Served, key: Key, terms: Terms, subresource: str, make: Make, *, large: bool = False
    ) -> StoredObject:
        """Change, admit, validate and store an object; the stored object. `large` says whether the request is large."""
        for _ in range(REPEATS_MAX):
            there = self.store.latest(key)
            if there is None:
                await self.shown(key)
                raise not_found(served.resource, key.name)
            heavy = large or is_large_body(there.body)
            try:
                work = partial(changed, served, there, self.trees.of, make, terms)
                old, live, made, new = await self.offload.run(work, large=heavy, who=terms.who)
            except StatusError:
                await self.shown(key)
                raise
            if not heavy and not terms.who.is_controller:
                # A patch can copy parts of the object.
                heavy = is_large(new)
            new = await self.admission.run("mutate", served, "UPDATE", new, old, subresource, terms, large=heavy)
            await check_owners(self.store, self.catalog, served, new, old, key.namespace, terms.who)
            judging = partial(self.validated_change, served, new, old, made, live, terms, subresource)
            new = await self.offload.run(judging, large=heavy, who=terms.who)
            await self.admission.run("validate", served, "UPDATE", new, old, subresource, terms, large=heavy)
            ending = partial(canonical, served, new, old)
            new = await self.offload.run(ending, large=heavy, who=terms.who)
            now = self.store.latest(key)
            if now is None or now.version != there.version:
                # Repeat on the new object; a write that names a version is refused there.
                continue
            if new is old:
                return await self.settled(key, there)
            if self.ends(served, new, old):
                await self.drop(served, key, old, terms)
                # The response is the object without its last finalizer, at the version before it was removed.
                return StoredObject(key, there.version, there.uid, msgspec.json.encode(new))
            return await self.put(served, key, new, terms, there, bytes_max=stored_bytes_max(terms))
        raise conflict(served.resource, key.name)

    async def shown(self, key: Key) -> None:
        """Wait until reads return what a refusal was based on, so that a client that reads and retries sees it."""
        write = self.store.last_pending(key)
        if write is not None:
            await asyncio.wait((write,))

    async def settled(self, key: Key, there: StoredObject) -> StoredObject:
        """The object of a change without effect, once the write that it was based on is committed."""
        write = self.store.last_pending(key)
        return await asyncio.shield(write) if write is not None else there

    def ends(self, served: Served, new: Tree, old: Tree) -> bool:
        """Whether this change removes the last finalizer of an object that is being deleted."""
        before = meta(old)
        if finalizers(new) or not before.get("deletionTimestamp") or before.get("deletionGracePeriodSeconds"):
            return False
        is_held = served.strategy.is_held
        return is_held is None or not is_held(new)

    async def put(
        self,
        served: Served,
        key: Key,
        tree: Tree,
        terms: Terms,
        there: StoredObject | None = None,
        *,
        bytes_max: int = 0,
        record: bool = False,
    ) -> StoredObject:
        """Store an object unless this is a dry run; the object as it is, or would be, stored."""
        tree = ordered(tree, served.resource.kind, served.stored_version)
        uid = str(meta(tree)["uid"])
        if terms.dry_run:
            shown = with_meta(tree, resourceVersion=str(there.version) if there else None)
            body = msgspec.json.encode(shown)
            if bytes_max and len(body) > bytes_max:
                raise unstorable()
            return StoredObject(key, there.version if there else 0, uid, body)
        self.check_room(served, key, tree, terms, there)
        try:
            held = await self.store.put(key, tree, uid=uid, bytes_max=bytes_max, record=record)
        except TooLargeError:
            raise unstorable() from None
        if not record:
            self.trees.keep(held, tree)
        self.plugins.forget(key)
        follow = self.after.get(served.storage)
        if follow is not None:
            await follow(served, msgspec.json.decode(held.body))
        return held

    def check_room(self, served: Served, key: Key, tree: Tree, terms: Terms, there: StoredObject | None) -> None:
        """Refuse a write that would use the space that is kept on the disk for deletions and our own updates."""
        controller = terms.who.is_controller
        if there is None:
            self.store.spare_reserve(key, record=controller and served.strategy.is_record)
        elif not controller and self.store.is_short():
            grown = len(msgspec.json.encode(tree)) - len(there.body)
            if not meta(tree).get("deletionTimestamp") or grown > DELETION_BYTES:
                self.store.spare_reserve(key)

    async def drop(self, served: Served, key: Key, tree: Tree, terms: Terms) -> StoredObject:
        """Remove an object unless this is a dry run; the object as it was."""
        tree = ordered(tree, served.resource.kind, served.stored_version)
        if terms.dry_run:
            return StoredObject(
                key, version_in(str(meta(tree).get("resourceVersion") or "")), "", msgspec.json.encode(tree)
            )
        held = await self.store.drop(key, tree)
        self.trees.drop(key)
        self.plugins.forget(key)
        follow = self.after.get(served.storage)
        if follow is not None:
            await follow(served, {})
        return held

    def validated_new(self, served: Served, tree: Tree, sent: Tree, terms: Terms, now: str) -> Tree:
        """A new object with server-set fields; a `StatusError` if it is invalid.

        Schema errors refer to the version of the request.
        """
        tree = lifecycle.prepare_create(served, tree, now)
        if terms.who.is_controller:
            return tree
        shown = tree if served.is_stored else lifecycle.prepare_create(served, sent, now)
        errors = lifecycle.errors_of_new(served, tree, shown)
        if errors:
            raise invalid(judged_as(served), str(meta(tree).get("name") or ""), errors)
        for text in lifecycle.warnings_of(served, tree, None):
            terms.warn(text)
        return tree

    def validated_change(
        self, served: Served, new: Tree, old: Tree, made: Tree, live: Tree, terms: Terms, subresource: str
    ) -> Tree:
        """A changed object without changes that this write cannot make; a `StatusError` if it is invalid."""
        new = lifecycle.prepare_update(served, new, old, subresource)
        shown = new if served.is_stored else lifecycle.prepare_update(served, made, live, subresource)
        self.check_changed(served, new, old, shown, live, terms, subresource)
        return kept_times(old, ordered(new, served.resource.kind, served.stored_version))

    def check_changed(
        self, served: Served, new: Tree, old: Tree, shown: Tree, live: Tree, terms: Terms, subresource: str
    ) -> None:
        """Refuse an invalid changed object; `shown` and `live` are in the version of the request."""
        if terms.who.is_controller:
            return
        errors = lifecycle.errors_of_changed(served, new, old, shown, live, subresource)
        if errors:
            raise invalid(judged_as(served), str(meta(old).get("name") or ""), errors)
        for text in lifecycle.warnings_of(served, new, old):
            terms.warn(text)
