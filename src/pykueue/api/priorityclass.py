"""PriorityClass of scheduling.k8s.io/v1, which pod templates name; Kueue's own class is in `kueue`."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from pykueue.api.core import Int32, KubeObject, Tree, about
from pykueue.api.pods import TemplateError, without_nulls
from pykueue.api.schema import problems

GROUP: Final = "scheduling.k8s.io"
VERSION: Final = f"{GROUP}/v1"
VALUE_MAX: Final = 1_000_000_000
RESERVED: Final = "system-"
SYSTEM: Final[Mapping[str, int]] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that every cluster has."""


class PriorityClass(KubeObject):
    """A name for a pod's priority."""

    value: Annotated[Int32, about("The priority; higher goes first.", required=True)] = 0
    global_default: Annotated[bool, about("Whether pods that name no class get this one.")] = False
    description: Annotated[str | None, about("When to use it.")] = None
    preemption_policy: Annotated[
        Literal["PreemptLowerPriority", "Never"] | None, about("Whether its pods preempt others on their nodes.")
    ] = None


def read_priority_class(tree: Tree) -> PriorityClass:
    """Decode a PriorityClass; raises only `TemplateError`."""
    for error in problems(PriorityClass, tree):
        raise TemplateError(path=error.path, problem=str(error).removeprefix(f"{error.path}: "))
    found = msgspec.convert(without_nulls(tree), PriorityClass)
    most = SYSTEM.get(found.name, VALUE_MAX)
    if found.value > most:
        raise TemplateError(path="value", problem=f"Invalid value: {found.value}: must be at most {most}")
    if found.name.startswith(RESERVED) and found.name not in SYSTEM:
        detail = f"names that begin with {RESERVED!r} are for the classes that every cluster has"
        raise TemplateError(path="metadata.name", problem=f"Invalid value: {found.name}: {detail}")
    return found
