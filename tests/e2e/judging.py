"""What have our rules against an object, in the words of an API server? And what has a server said against it?"""

import json
from copy import deepcopy
from typing import Any

import pytest

from pykueue.api import schema
from pykueue.api.fields import FieldError
from pykueue.api.install.crds import ONE_WRITER
from pykueue.api.kinds import KINDS
from pykueue.api.names import GROUP
from pykueue.api.rules.rule import Rule
from pykueue.api.rules.table import RULES, check_schema
from pykueue.api.trees import Tree
from tests.api.rules.cases import FLAVOR_CASES, QUEUE_CASES
from tests.api.rules.cases_workload import WORKLOAD_CASES
from tests.plane.client import Calls

RULE = {rule.id: rule for rule in RULES}
CASES = [case for case in (*QUEUE_CASES, *FLAVOR_CASES, *WORKLOAD_CASES) if KINDS[RULE[case.rule].kind].group == GROUP]
UNCHECKED = "some validation rules were not checked"


def complete(tree: Any) -> Any:
    """The tree with what a case leaves out though the schema demands it, and that is not what the case is about."""
    made = deepcopy(tree)
    for state in made.get("status", {}).get("admissionChecks", []):
        state.setdefault("message", "")
        state.setdefault("lastTransitionTime", "2026-01-31T12:00:00Z")
    for pod_set in made.get("spec", {}).get("podSets", []):
        spec = pod_set.setdefault("template", {}).get("spec", {})
        for group in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(group, [])):
                container.setdefault("name", f"{group}-{index}".lower())
    return made


def expected(kind: str, version: str, new: Tree, old: Tree | None) -> set[str]:
    """What our rules have against an object, in the words of a server; it asks CEL only of what has the right shape."""
    view = KINDS[kind].view
    if version == "v1beta2":
        new = schema.defaults(view, new)  # type: ignore[arg-type]  # decoded JSON is Json
        old = None if old is None else schema.defaults(view, old)  # type: ignore[arg-type]  # decoded JSON is Json
    return set(map(str, misshapen(kind, version, new))) or {
        worded(error) for error in check_schema(kind, new, old, version=version)
    }


def misshapen(kind: str, version: str, tree: Any) -> list[FieldError]:
    """What the schema has against an object by its types: nothing in templates, nor twins in lists that are atomic."""
    return [
        error
        for error in schema.problems(KINDS[kind].view, tree, version)
        if ".template." not in error.path
        and (error.code != "Duplicate" or error.path.rpartition("[")[0] not in ONE_WRITER.get(kind, ()))
    ]


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


def refused(client: Calls, verb: str, path: str, tree: dict[str, Any]) -> set[str]:
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
