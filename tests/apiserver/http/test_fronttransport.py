"""Does a client within the process have the rights of its user, and nothing more?"""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from pykueue.apiserver.auth.access import identity_of
from pykueue.apiserver.http.fronttransport import FrontTransport
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.statuserrors import unauthorized
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, Fixed
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.transport import UnsentError
from pykueue.kube.port import CONFIG_MAPS, DeniedError, ExistsError, NotFoundError, Patch
from tests.apiserver.standing import Stand


def named(stand: Stand, name: str) -> Callable[[], Identity]:
    def who() -> Identity:
        user = stand.users.named(name)
        if user is None:
            raise unauthorized()
        return identity_of(user)

    return who


def kube_of(stand: Stand, name: str) -> HttpKube:
    connection = Connection("http://inside", Fixed(Credential()))
    return HttpKube(connection, stand.clock, transport=FrontTransport(stand.front, named(stand, name)))


def config(name: str) -> bytes:
    return msgspec.json.encode({"metadata": {"name": name}, "data": {"a": "b"}})


async def test_all_verbs_with_the_rights_of_the_user() -> None:
    stand = Stand()
    await stand.furnish()
    ann = kube_of(stand, "ann")
    await ann.create(CONFIG_MAPS, config("one"), "ann")
    with pytest.raises(ExistsError):
        await ann.create(CONFIG_MAPS, config("one"), "ann")
    await ann.patch(CONFIG_MAPS, "one", b'{"data":{"a":"c"}}', "ann", how=Patch.MERGE)
    found = msgspec.json.decode(await ann.get(CONFIG_MAPS, "one", "ann"))
    assert found["data"] == {"a": "c"}
    assert b'"one"' in b"".join([page async for page in ann.pages(CONFIG_MAPS, "ann")])
    for elsewhere in ("lab", ""):
        with pytest.raises(DeniedError):
            _ = [page async for page in ann.pages(CONFIG_MAPS, elsewhere)]
    with pytest.raises(DeniedError):
        await ann.create(CONFIG_MAPS, config("two"), "lab")
    await ann.delete(CONFIG_MAPS, "one", "ann")
    with pytest.raises(NotFoundError):
        await ann.get(CONFIG_MAPS, "one", "ann")
    await ann.close()
    await stand.store.close()


async def test_rights_are_judged_at_each_request() -> None:
    stand = Stand()
    await stand.furnish()
    ann = kube_of(stand, "ann")
    await ann.create(CONFIG_MAPS, config("one"), "ann")
    stand.users.revoke("ann")
    with pytest.raises(DeniedError) as refused:
        await ann.get(CONFIG_MAPS, "one", "ann")
    assert refused.value.code == 401
    await stand.store.close()


async def test_a_watch_is_streamed_and_containers_are_not_entered() -> None:
    stand = Stand()
    await stand.furnish()
    admin = kube_of(stand, "admin")
    await admin.create(CONFIG_MAPS, config("one"), "ann")
    events = admin.watch(CONFIG_MAPS, "ann")
    lines = [msgspec.json.decode(await asyncio.wait_for(anext(events), 20)) for _ in range(2)]
    assert [(line["type"], line["object"]["metadata"].get("name")) for line in lines] == [
        ("ADDED", "one"),
        ("BOOKMARK", None),
    ]
    await events.aclose()  # type: ignore[attr-defined]  # it is a generator
    with pytest.raises(UnsentError):
        await admin.transport.dial()
    await stand.store.close()
