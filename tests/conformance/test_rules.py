"""Does the embedded API judge our kinds by every rule, in either version, as a real server does by our definitions?

A real server's verdicts on the same cases are in `tests/e2e/test_crds`. Here the status is written apart, so that a
case with a status takes two writes, each judged by what it changes. The webhooks are not asked.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pykueue.api.kinds import KINDS
from pykueue.api.names import GROUP
from pykueue.kube.port import Resource
from pykueue.testing.embedded import Embedded
from tests.api.rules.cases import Case
from tests.e2e.backend import on_plane
from tests.e2e.embedded import Direct
from tests.e2e.judging import JUDGED, RULE, complete, expected, refused
from tests.plane.client import Calls, path_of

if on_plane():
    pytest.skip("the embedded API is judged by `make test`", allow_module_level=True)

Tree = dict[str, Any]


@pytest.fixture(scope="module")
def client() -> Iterator[Calls]:
    with contextlib.closing(Embedded(acting=False, admission=False)) as system:
        yield Direct(system)


class Place:
    """Where an object of a case is kept."""

    def __init__(self, client: Calls, kind: str, version: str) -> None:
        known = KINDS[kind]
        self.client = client
        self.kind = kind
        self.version = version
        self.resource = Resource(GROUP, version, known.plural, kind, known.scope == "Namespaced")
        self.namespace = "default" if self.resource.namespaced else ""
        self.path = path_of(self.resource, self.namespace, "one")

    def clear(self) -> None:
        """Have nothing there, whoever holds it."""
        merge = "application/merge-patch+json"
        self.client.raw("DELETE", self.path)
        self.client.raw("PATCH", self.path, {"metadata": {"finalizers": None}}, merge)

    def written(self, new: Tree, old: Tree | None) -> tuple[set[str], set[str]]:
        """What the server has against an object, and what our rules have, over all the writes that it takes."""
        said, known = set(), set()
        for verb, path, tree, before in self.writes(new, old):
            said |= refused(self.client, verb, path, self.sent(tree, verb))
            wrong = expected(self.kind, self.version, tree, before)
            # A server that is given the status alone calls that the body.
            known |= {one.replace(": status.", ": ") for one in wrong} if path.endswith("/status") else wrong
        return said, known

    def writes(self, new: Tree, old: Tree | None) -> Iterator[tuple[str, str, Tree, Tree | None]]:
        """The writes that make one object of another: verb, path, the object after it, and before it."""
        status = {} if old is None or "status" not in old else {"status": old["status"]}
        first = {**{key: value for key, value in new.items() if key != "status"}, **status}
        if old is None:
            yield "POST", path_of(self.resource, self.namespace), first, None
        elif first != old:
            yield "PUT", self.path, first, old
        if first != new and self.client.raw("GET", self.path)[0] == 200:
            yield "PUT", f"{self.path}/status", new, first

    def sent(self, tree: Tree, verb: str) -> Tree:
        """An object as it is sent."""
        place = {"namespace": self.namespace} if self.namespace else {}
        metadata = {**tree.get("metadata", {}), "name": "one", **place}
        if verb == "PUT":
            stored = self.client.request("GET", self.path)
            metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
        return {**tree, "apiVersion": f"{GROUP}/{self.version}", "kind": self.kind, "metadata": metadata}


@pytest.mark.parametrize(("case", "version", "good"), JUDGED)
def test_the_embedded_api_judges_as_the_rules_do(client: Calls, case: Case, version: str, good: bool) -> None:
    new, old = (case.good, case.good_before) if good else (case.bad, case.bad_before)
    place = Place(client, RULE[case.rule].kind, version)
    place.clear()
    if old is not None:
        said, known = place.written(complete(old), None)
        assert said == known
    said, known = place.written(complete(new), None if old is None else complete(old))
    assert said == known
