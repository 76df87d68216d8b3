"""Validation of the pod templates of Workloads, whose CustomResourceDefinition leaves them open (ADR 0009)."""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Final, cast

from pykueue.api.core import Json
from pykueue.api.fields import FieldError, invalid
from pykueue.api.rules.podcheck import once, template_types
from pykueue.api.schema import ERRORS_MAX
from pykueue.apiserver.schema.godecoder import wrong
from pykueue.apiserver.schema.nodes import SchemaNode
from pykueue.apiserver.schema.schemas import of_definition, unknown_in
from pykueue.apiserver.schema.validate import duplicates, is_fine, mistakes

TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"
NOT_IN_DEFINITIONS: Final = "NotSupported"
"""Definitions of custom kinds have no enumerations of the built-in types, so Kueue stores any text there."""


class PodTemplates:
    """Finds what Kueue's definition of Workload rejects in a pod template, or drops from it."""

    def errors(self, template: object, path: str) -> tuple[FieldError, ...]:
        """Wrong types, malformed quantities, missing fields and duplicates."""
        found = [*islice(template_errors(template, path), ERRORS_MAX)]
        trouble = "" if found else wrong(schema_node(), cast("Json", template), "", "")
        return (invalid(path, "", trouble),) if trouble else once(found)

    def unknown(self, template: object, path: str) -> Iterator[str]:
        """Paths of fields that pods do not have."""
        return islice(unknown_in(schema_node(), cast("Json", template), path), ERRORS_MAX)


@cache
def schema_node() -> SchemaNode:
    """The schema of pod templates, read at the first use."""
    return of_definition(TEMPLATE).node


def template_errors(template: object, path: str) -> Iterator[FieldError]:
    """The errors that the schemas find: ours for quantities, that of pods for the fields that we do not read."""
    yield from template_types(template, path)
    node, tree = schema_node(), cast("Json", template)
    if not is_fine(node, tree):
        found = (*mistakes(node, tree, path), *duplicates(node, tree, path))
        yield from (error for error in found if error.code != NOT_IN_DEFINITIONS)
