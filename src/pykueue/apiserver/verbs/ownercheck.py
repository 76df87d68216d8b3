"""Rejects owner references that the user may not set: users may only name owners that they created."""

import asyncio
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import Annotation
from pykueue.api.trees import items, text
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.kinds.metadata import meta
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.storage.store import Store
from pykueue.apiserver.verbs.reading import key_of
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.statuserrors import forbidden, quoted

CHUNK: Final = 200
"""The most owners that are looked up at once."""


async def check_owners(
    store: Store, catalog: Catalog, served: Served, new: Tree, old: Tree | None, namespace: str, who: Identity
) -> None:
    """Refuse a new reference to an owner that another user created; admins may name any."""
    named = items(new, "metadata", "ownerReferences")
    if who.admin or not named:
        return
    known = set(map(msgspec.json.encode, items(old or {}, "metadata", "ownerReferences")))
    added = [one for one in named if msgspec.json.encode(one) not in known]
    kinds = {(one.resource.group, one.resource.kind): one for one in catalog.stored()} if added else {}
    claimed = (tuple(text(one, field) for field in ("apiVersion", "kind", "name", "uid")) for one in added)
    for number, (version, kind, name, uid) in enumerate(dict.fromkeys(claimed), start=1):
        if number % CHUNK == 0:
            # Each is a read of the store, and there can be tens of thousands.
            await asyncio.sleep(0)
        owning = kinds.get((version.rpartition("/")[0], kind))
        held = None if owning is None else store.latest(key_of(owning, namespace, name))
        if held is None or held.uid != uid:
            # The garbage collector soon deletes an object whose owner does not exist.
            continue
        creator = text(msgspec.json.decode(held.body), "metadata", "annotations", Annotation.CREATOR)
        if creator != who.name:
            by = quoted(creator) if creator else "another user"
            why = f"its owner {kind} {quoted(name)} was created by {by}, and User {quoted(who.name)} may only name "
            raise forbidden(served.resource, str(meta(new).get("name") or ""), f"{why}owners of their own")
