"""Decodes a patch by its media type, applies it, and checks the result."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.apiserver.kinds.metadata import meta
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.schema.apply import ApplyConflictError, ApplyError, kind_text
from pykueue.apiserver.schema.godecoder import unconvertible, unreadable
from pykueue.apiserver.schema.jsonpatch import json_patch, merge_patch, mismatch, strategic_patch
from pykueue.apiserver.schema.strategicpatch import PatchError
from pykueue.apiserver.schema.typefaults import go_text
from pykueue.apiserver.verbs.bodies import STRICT, check_fields, json_in, other_kind, uncoded, unfit, yaml_in
from pykueue.apiserver.wire.statuserrors import StatusError, apply_conflict, bad_request, quoted, unsupported_media
from pykueue.apiserver.wire.writeterms import Terms
from pykueue.kube.port import Patch

PATCHES: Final = (Patch.JSON, Patch.MERGE, Patch.STRATEGIC, Patch.APPLY)
CUSTOM_PATCHES: Final = (Patch.JSON, Patch.MERGE, Patch.APPLY)
REASONS: Final = {400: "BadRequest", 413: "RequestEntityTooLarge", 422: "Invalid"}


@contextmanager
def raised() -> Iterator[None]:
    """Raise errors of patches and applies as `StatusError`s."""
    try:
        yield
    except ApplyConflictError as error:
        causes = [cause for cause in error.causes if isinstance(cause, dict)]
        raise apply_conflict(error.message, causes) from None
    except ApplyError as error:
        raise StatusError(error.code, REASONS.get(error.code, ""), error.message) from None
    except PatchError as error:
        details: Tree | None = {} if error.code == 422 else None
        raise StatusError(error.code, REASONS.get(error.code, ""), error.message, details) from None


class Patching:
    """A decoded patch."""

    def __init__(self, served: Served, how: str, value: Json, terms: Terms, subresource: str) -> None:
        self.served = served
        self.how = how
        self.value = value
        self.terms = terms
        self.subresource = subresource

    def wanted(self) -> Tree:
        """The object of an apply."""
        if not isinstance(self.value, dict):
            trouble = mismatch(self.value, "map[string]interface {}")
            raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {trouble}")
        return self.value

    def check_steps(self, made: Tree) -> None:
        """Refuse unknown fields in the operations of a JSON patch, or warn of them, as the request asks."""
        steps = self.value if isinstance(self.value, list) else []
        unknown = [
            f"json patch unknown field {quoted(f'[{index}].{name}')}"
            for index, step in enumerate(steps)
            for name in (step if isinstance(step, dict) else ())
            if name not in STEP
        ]
        if unknown and self.terms.validation == "Strict":
            raise unfit(self.error_value(made), STRICT + ", ".join(unknown))
        if self.terms.validation == "Warn":
            for told in unknown:
                self.terms.warn(told)

    def made(self, live: Tree) -> Tree:
        """The object after the patch, in the version of the request; a `StatusError` if it does not fit the kind."""
        schema = self.served.schema
        with raised():
            match self.how:
                case Patch.JSON:
                    made = json_patch(live, self.value)
                    self.check_steps(made)
                case Patch.MERGE:
                    made = merge_patch(live, self.value)
                case _:
                    if schema is None or not schema.native:
                        raise unknown_patch(self.served)
                    made = strategic_patch(live, self.value, schema)
        if schema is not None and schema.native and not self.terms.who.is_controller:
            trouble = other_kind(self.served, made)
            if self.how == Patch.STRATEGIC:
                trouble = trouble or unconvertible(schema, made)
            trouble = trouble or unreadable(schema, made) or uncoded(self.served.strategy.bytes_field, made)
            if trouble:
                raise unfit(self.error_value(made), trouble)
        check_fields(self.served, made, self.terms, patched=partial(self.error_value, made))
        return made

    def error_value(self, made: Tree) -> str:
        """The value in an error: the patched object, or the patch itself if it is a strategic one."""
        if self.how == Patch.STRATEGIC:
            return go_text(self.value)
        shown = in_order(made, ())
        if not self.served.custom:
            shown["metadata"] = in_order(meta(made), META)
        return msgspec.json.encode(shown).decode()


def check_applied(served: Served, made: Tree, wanted: Tree) -> None:
    """Refuse an apply whose result does not fit the types of a built-in kind; its schema does not check all."""
    schema = served.schema
    if schema is None or not schema.native:
        return
    trouble = unconvertible(schema, made) or unreadable(schema, made) or uncoded(served.strategy.bytes_field, made)
    if trouble:
        kind, said = kind_text(served.api_version, served.resource.kind), meta(wanted)
        where = f"{said.get('namespace', '')}/{said.get('name', '')}; {kind}"
        raise StatusError(
            500,
            "",
            f"failed to convert new object ({where}) to proper version: unable to convert unstructured object to "
            f"{kind}: {trouble}",
        )


META: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
"""The order in which kube-apiserver writes the metadata of built-in kinds."""
ENTRY: Final = ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")


def in_order(tree: Tree, first: tuple[str, ...]) -> Tree:
    """An object with its fields in this order, the rest sorted by name."""
    names = [*(name for name in first if name in tree), *sorted(name for name in tree if name not in first)]
    return {name: sorted_value(tree[name], ENTRY if first and name == "managedFields" else ()) for name in names}


def sorted_value(value: Json, first: tuple[str, ...]) -> Json:
    """A value with its fields sorted; objects in a list use this order."""
    if isinstance(value, dict):
        return in_order(value, ())
    if isinstance(value, list):
        return [in_order(one, first) if isinstance(one, dict) else one for one in value]
    return value


STEP: Final = frozenset({"op", "path", "from", "value"})
"""The fields of one operation of a JSON patch."""


def patches_of(served: Served) -> tuple[Patch, ...]:
    """The kinds of patch that a resource accepts."""
    return CUSTOM_PATCHES if served.custom else PATCHES


def unknown_patch(served: Served) -> StatusError:
    """The refusal of a patch of another media type than the resource accepts."""
    offered = ", ".join(patches_of(served))
    return unsupported_media(
        f"the body of the request was in an unknown format - accepted media types include: {offered}"
    )


def patched(served: Served, body: bytes, how: str, terms: Terms, subresource: str) -> Patching:
    """The patch in a body of this media type."""
    if how not in patches_of(served):
        raise unknown_patch(served)
    value = yaml_in(body) if how == Patch.APPLY else json_in(body)
    return Patching(served, how, value, terms, subresource)
