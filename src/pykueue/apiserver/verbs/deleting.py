"""Deletes objects: at once, after a grace period, or when no finalizer holds them."""

import msgspec

from pykueue.api.core import Tree
from pykueue.api.trees import text, whole
from pykueue.apiserver.kinds.conversion import body_served
from pykueue.apiserver.kinds.metadata import collector_finalizers, finalizers, meta, with_meta
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.storage.store import Key, StoredObject
from pykueue.apiserver.verbs.reading import Listed, Reading, key_of
from pykueue.apiserver.verbs.writing import REPEATS_MAX, Writing
from pykueue.apiserver.wire.statuserrors import StatusError, conflict, forbidden, not_found
from pykueue.apiserver.wire.writeterms import DeleteOptions, Terms
from pykueue.base.turns import DECODED, ITEM_MICROS
from pykueue.base.units import MICROS, Instant, format_instant, parse_instant
from pykueue.kube.port import Resource


class Deleting:
    """Deletes objects and collections."""

    def __init__(self, reading: Reading, writing: Writing) -> None:
        self.reading = reading
        self.writing = writing
        self.store = writing.store
        self.clock = writing.clock

    async def delete(
        self, served: Served, name: str, namespace: str, options: DeleteOptions, terms: Terms
    ) -> tuple[bytes, bool]:
        """Delete an object; returns its last state and whether it is gone."""
        strategy = served.strategy
        if name in strategy.undeletable:
            raise forbidden(served.resource, name, f"this {served.singular} may not be deleted")
        if strategy.delete_warning and not options.propagation and options.orphan_dependents is None:
            terms.warn(strategy.delete_warning)
        key = key_of(served, namespace, name)
        for _ in range(REPEATS_MAX):
            there = self.store.latest(key)
            if there is None:
                await self.writing.shown(key)
                raise not_found(served.resource, name)
            old: Tree = msgspec.json.decode(there.body)
            try:
                check_preconditions(served, old, options)
            except StatusError:
                await self.writing.shown(key)
                raise
            if not terms.who.is_controller:
                await self.writing.admission.run("validate", served, "DELETE", old, old, "", terms)
                now = self.store.latest(key)
                if now is None or now.version != there.version:
                    continue
            held, gone = await self.end(served, key, there, old, options, terms)
            return body_served(served, held.body), gone
        raise conflict(served.resource, name)

    async def end(
        self, served: Served, key: Key, there: StoredObject, old: Tree, options: DeleteOptions, terms: Terms
    ) -> tuple[StoredObject, bool]:
        """Remove an object, or mark it as being deleted; returns the object and whether it is gone."""
        strategy, deleting = served.strategy, bool(meta(old).get("deletionTimestamp"))
        if deleting and strategy.is_held is not None:
            if strategy.is_held(old):
                return there, False
            return await self.writing.drop(served, key, old, terms), True
        if not deleting and strategy.terminate is not None:
            new = strategy.terminate(old, options, format_instant(self.clock.now()))
            return await self.writing.put(served, key, new, terms, there), False
        new, graceful = old, strategy.grace_seconds is not None
        if strategy.grace_seconds is not None:
            grace = strategy.grace_seconds(old, options)
            if deleting:
                left = whole(meta(old), "deletionGracePeriodSeconds")
                if left and (options.grace is None or grace >= left):
                    return there, False
                if left:
                    new = self.shortened(new, left, grace)
            else:
                new = self.marked(new, grace)
        held_back = collector_finalizers(new, options, strategy.dependents)
        if held_back != finalizers(new):
            new = with_meta(new, finalizers=[*held_back] or None)
        ending = graceful and whole(meta(new), "deletionGracePeriodSeconds")
        if finalizers(new) and not ending:
            new = self.marked_now(new)
        if finalizers(new) or ending:
            if new == old:
                return there, False
            return await self.writing.put(served, key, new, terms, there), False
        return await self.writing.drop(served, key, new if graceful else old, terms), True

    def marked(self, tree: Tree, grace: int) -> Tree:
        """An object whose deletion starts now, with this many seconds of grace."""
        due = format_instant(Instant(self.clock.now() + grace * MICROS))
        return with_meta(counted(tree), deletionTimestamp=due, deletionGracePeriodSeconds=grace)

    def shortened(self, tree: Tree, left: int, grace: int) -> Tree:
        """An object with a shorter grace period; `left` is the previous one."""
        due = parse_instant(text(tree, "metadata", "deletionTimestamp")) - left * MICROS + grace * MICROS
        now = self.clock.now()
        if due < now:
            due = now
            grace = 1 if grace else 0
        return with_meta(tree, deletionTimestamp=format_instant(Instant(due)), deletionGracePeriodSeconds=grace)

    def marked_now(self, tree: Tree) -> Tree:
        """An object whose deletion waits only for its finalizers."""
        now = format_instant(self.clock.now())
        before = meta(tree).get("deletionTimestamp")
        made = tree if before else counted(tree)
        when = before if isinstance(before, str) and before <= now else now
        return with_meta(made, deletionTimestamp=when, deletionGracePeriodSeconds=0)

    async def delete_collection(
        self, served: Served, namespace: str, options: DeleteOptions, terms: Terms, labels: str, fields: str
    ) -> Listed:
        """Delete the selected objects and return them; objects that are already gone are skipped.

        If admission refuses one of them, none is deleted.
        """
        found = await self.reading.list(served, namespace, labels=labels, fields=fields)
        abouts: list[Tree] = []
        for item in found.items:
            await self.reading.turns.take(ITEM_MICROS + len(item) // DECODED)
            tree: Tree = msgspec.json.decode(item)
            await self.writing.admission.run("validate", served, "DELETE", tree, tree, "", terms)
            abouts.append(meta(tree))
        for about in abouts:
            name, inside = str(about.get("name") or ""), str(about.get("namespace") or "")
            try:
                await self.delete(served, name, inside or namespace, options, terms)
            except StatusError as error:
                if error.code != 404:
                    raise
        return found


def counted(tree: Tree) -> Tree:
    """An object with its generation incremented, if it has one."""
    generation = whole(meta(tree), "generation")
    return with_meta(tree, generation=generation + 1) if generation else tree


def check_preconditions(served: Served, tree: Tree, options: DeleteOptions) -> None:
    """Refuse to delete an object whose uid or resourceVersion is not the expected one."""
    uid, version = str(meta(tree).get("uid") or ""), str(meta(tree).get("resourceVersion") or "")
    resource, name = served.resource, text(tree, "metadata", "name")
    first = served.strategy.checks_preconditions_first
    named = resource if first else Resource(resource.group, resource.version, resource.kind, resource.kind)
    if options.uid and options.uid != uid:
        why = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {uid}"
        if not first:
            why = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). The object "
                "might have been deleted and then recreated"
            )
        raise conflict(named, name, why)
    if options.version and options.version != version:
        why = f"Precondition failed: ResourceVersion in precondition: {options.version}, "
        why += f"ResourceVersion in object meta: {version}"
        if not first:
            why = (
                f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in "
                f"record ({version}). The object might have been modified"
            )
        raise conflict(named, name, why)
