"""How is a list told? A long one in pieces, all of one version, in every form."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from pykueue.apiserver.http import lists
from pykueue.apiserver.wire.messages import Response
from tests.apiserver.standing import Stand, told

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PARTIAL = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
NAMES = [f"c{number}" for number in range(7)]


@asynccontextmanager
async def furnished() -> AsyncIterator[Stand]:
    """A stand with a few objects."""
    stand = Stand()
    await stand.furnish()
    for name in NAMES:
        await stand.call("POST", MAPS, {"metadata": {"name": name}, "data": {"k": "v"}})
    try:
        yield stand
    finally:
        await stand.store.close()


async def joined(response: Response) -> Any:
    """What an answer in pieces says."""
    assert response.code == 200
    assert not isinstance(response.body, bytes)
    return msgspec.json.decode(b"".join([piece async for piece in response.body]))


@pytest.mark.parametrize("headers", [{}, TABLE, PARTIAL], ids=["objects", "a table", "metadata"])
@pytest.mark.parametrize("query", ["", "?labelSelector=none", "?limit=3"], ids=["all", "none", "a page"])
async def test_in_pieces_it_says_the_same_as_at_once(
    headers: dict[str, str], query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with furnished() as stand:
        whole = told(await stand.call("GET", MAPS + query, headers=headers))
        monkeypatch.setattr(lists, "PAGE_ITEMS", 2)
        cut = await stand.call("GET", MAPS + query, headers=headers)
        assert (told(cut) if isinstance(cut.body, bytes) else await joined(cut)) == whole
        assert isinstance(cut.body, bytes) == (query != "")


async def test_it_is_of_one_version_whatever_happens_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "PAGE_ITEMS", 2)
    async with furnished() as stand:
        response = await stand.call("GET", MAPS)
        version = str(stand.store.version)
        assert not isinstance(response.body, bytes)
        pieces = [await anext(response.body)]
        await stand.call("DELETE", f"{MAPS}/c4")
        await stand.call("POST", MAPS, {"metadata": {"name": "c3-later"}})
        await stand.call("PUT", f"{MAPS}/c6", {"metadata": {"name": "c6"}, "data": {"k": "changed"}})
        made = msgspec.json.decode(b"".join(pieces + [piece async for piece in response.body]))
        assert made["metadata"] == {"resourceVersion": version}
        assert [one["metadata"]["name"] for one in made["items"]] == NAMES
        assert {one["data"]["k"] for one in made["items"]} == {"v"}


async def test_people_and_yaml_get_it_in_pieces_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "PAGE_ITEMS", 2)
    async with furnished() as stand:
        pretty = await stand.call("GET", f"{MAPS}?pretty=1")
        assert len((await joined(pretty))["items"]) == len(NAMES)
        text = await stand.call("GET", MAPS, headers={"accept": "application/yaml"})
        assert isinstance(text.body, AsyncIterator)
        assert b"".join([piece async for piece in text.body]).count(b"name: c") == len(NAMES)


FORMS = [{}, {"accept": "application/yaml"}, TABLE, PARTIAL]


@pytest.mark.parametrize("query", ["", "?pretty=true"], ids=["plain", "laid out"])
@pytest.mark.parametrize("headers", FORMS, ids=["objects", "YAML", "a table", "metadata"])
async def test_every_form_is_of_one_version_and_the_same_in_pieces(
    headers: dict[str, str], query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with furnished() as stand:
        whole = await stand.call("GET", MAPS + query, headers=headers)
        assert isinstance(whole.body, bytes)
        monkeypatch.setattr(lists, "PAGE_ITEMS", 2)
        response = await stand.call("GET", MAPS + query, headers=headers)
        assert isinstance(response.body, AsyncIterator)
        text = await anext(response.body) if headers != FORMS[1] else b""
        await stand.call("PUT", f"{MAPS}/c5", {"metadata": {"name": "c5"}, "data": {"k": "changed"}})
        await stand.call("DELETE", f"{MAPS}/c6")
        await stand.call("POST", MAPS, {"metadata": {"name": "c55"}, "data": {"k": "new"}})
        text += b"".join([piece async for piece in response.body])
        # A Table tells ages, and time passes.
        assert re.sub(rb'"\d+s"', b'"some"', text) == re.sub(rb'"\d+s"', b'"some"', whole.body)


async def test_a_list_whose_rest_is_lost_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "PAGE_ITEMS", 2)
    async with furnished() as stand:
        response = await stand.call("GET", MAPS)
        assert isinstance(response.body, AsyncIterator)
        await anext(response.body)
        for number in range(3):
            await stand.call("PUT", f"{MAPS}/c6", {"metadata": {"name": "c6"}, "data": {"k": str(number)}})
        stand.store.feed.compacted = stand.store.version
        with pytest.raises(Exception, match="The provided continue parameter is too old"):
            [piece async for piece in response.body]
