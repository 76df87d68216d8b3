"""Does a real API server take our definitions, and judge objects by them as our rules do, with no webhook to help?"""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from pykueue.api import schema
from pykueue.api.crds import crds
from pykueue.api.fields import FieldError
from pykueue.api.kinds import KINDS
from pykueue.api.names import GROUP
from pykueue.api.rule import Rule
from pykueue.api.rules import RULES, check
from pykueue.api.trees import Tree
from pykueue.kube.port import Resource
from tests.api.rule_cases import FLAVOR_CASES, QUEUE_CASES, Case
from tests.api.rule_cases_workload import WORKLOAD_CASES
from tests.plane.client import Client, path_of
from tests.plane.plane import Plane

RULE = {rule.id: rule for rule in RULES}
CASES = [case for case in (*QUEUE_CASES, *FLAVOR_CASES, *WORKLOAD_CASES) if KINDS[RULE[case.rule].kind].group == GROUP]
GROUPS = {"v1beta2": "newer.example.com", "v1beta1": "older.example.com"}
"""Each version stands alone in a group of its own, so that it is the stored one and needs no conversion."""
UNCHECKED = "some validation rules were not checked"


def alone(version: str) -> list[dict[str, Any]]:
    """The definitions of one version only, with the status beside the rest, so that one write carries all."""
    found: list[dict[str, Any]] = deepcopy([*crds()])
    for crd in found:
        spec = crd["spec"]
        crd["metadata"]["name"] = f"{spec['names']['plural']}.{GROUPS[version]}"
        spec |= {"group": GROUPS[version], "conversion": {"strategy": "None"}}
        spec["versions"] = [one | {"storage": True} for one in spec["versions"] if one["name"] == version]
        spec["versions"][0].pop("subresources", None)
    return found


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane.start(pods=False) as started:
        started.apply_all([*crds()])
        for version in GROUPS:
            started.apply_all(alone(version))
        for plural in (kind.plural for kind in KINDS.values() if kind.group == GROUP):
            for group in (GROUP, *GROUPS.values()):
                name = f"{plural}.{group}"
                started.client.wait_for("CustomResourceDefinition", name, until=established, what="Established")
        yield started
        started.client.forget_connection()


def established(crd: dict[str, Any]) -> bool:
    found = {one["type"]: one["status"] for one in crd.get("status", {}).get("conditions", [])}
    assert found.get("NonStructuralSchema", "False") == "False"
    return found.get("Established") == "True"


def resource(kind: str, version: str) -> Resource:
    known = KINDS[kind]
    return Resource(GROUPS[version], version, known.plural, kind, known.scope == "Namespaced")


def complete(tree: Any) -> Any:
    """The tree with what a case leaves out though the schema demands it, and that is not what the case is about."""
    made = deepcopy(tree)
    for state in made.get("status", {}).get("admissionChecks", []):
        state.setdefault("message", "")
        state.setdefault("lastTransitionTime", "2026-01-31T12:00:00Z")
    for pod_set in made.get("spec", {}).get("podSets", []):
        pod_set.setdefault("template", {})
    return made


def sent(tree: Tree, kind: str, version: str) -> dict[str, Any]:
    """The object as it is sent."""
    place = {"namespace": "default"} if resource(kind, version).namespaced else {}
    metadata = {**tree.get("metadata", {}), "name": "one", **place}  # type: ignore[dict-item]
    return {**tree, "apiVersion": f"{GROUPS[version]}/{version}", "kind": kind, "metadata": metadata}


def refused(client: Client, verb: str, path: str, tree: dict[str, Any]) -> set[str]:
    """What the server has against an object, mistake by mistake."""
    code, body = client.raw(verb, path, tree)
    answer = json.loads(body)
    if code < 300:
        return set()
    assert code == 422, answer
    causes = answer["details"]["causes"]
    said = (
        f"{cause.get('field', '<nil>')}: {cause['message']}" for cause in causes if UNCHECKED not in cause["message"]
    )
    return set(said)


def expected(kind: str, version: str, new: Tree, old: Tree | None) -> set[str]:
    """What our rules have against an object, in the words of a server; it asks CEL only of what has the right shape."""
    view = KINDS[kind].view
    if version == "v1beta2":
        new = schema.defaults(view, new)  # type: ignore[arg-type]
        old = None if old is None else schema.defaults(view, old)  # type: ignore[arg-type]
    shape = {str(error) for error in schema.problems(view, new, version) if ".template." not in error.path}
    return shape or {worded(error) for error in check(kind, new, old, version=version, surface="CEL")}


def worded(error: FieldError) -> str:
    """A rule's mistake as this server puts it: it has a path even for the root, and shows no objects nor lists."""
    shown = str(error) if error.path else f"<nil>: {error}"
    return shown.replace(': "object": ', ": ").replace(': "array": ', ": ")


def versions(rule: Rule) -> tuple[str, ...]:
    return ("v1beta2", "v1beta1") if rule.version == "any" else (rule.version,)


JUDGED = [
    pytest.param(case, version, good, id=f"{case.rule} {case.title}, {'good' if good else 'bad'}, {version}")
    for case in CASES
    for version in versions(RULE[case.rule])
    for good in (True, False)
]


@pytest.mark.parametrize(("case", "version", "good"), JUDGED)
def test_the_server_judges_as_the_rules_do(plane: Plane, case: Case, version: str, good: bool) -> None:
    kind = RULE[case.rule].kind
    new, old = (case.good, case.good_before) if good else (case.bad, case.bad_before)
    new, old = complete(new), None if old is None else complete(old)
    where = resource(kind, version)
    place = "default" if where.namespaced else ""
    path, client = path_of(where, place, "one"), plane.client
    client.raw("DELETE", path)
    tree = sent(new, kind, version)
    if old is None:
        found = refused(client, "POST", path_of(where, place), tree)
    else:
        stored = client.request("POST", path_of(where, place), sent(old, kind, version))
        tree["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        found = refused(client, "PUT", path, tree)

    assert found == expected(kind, version, new, old)
    assert RULE[case.rule].surface == "webhook" or bool(found) == (not good)
