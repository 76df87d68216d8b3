"""docs/fields.md has every field of every kind, and every label and annotation has its place."""

import re

import pytest

from pykueue.api.kinds import KINDS
from pykueue.api.names import Annotation, Label
from tests.docsite.fields import accepted, kinds, page, rows, schema_of, type_of
from tests.docsite.labelwords import MEANINGS, SET_BY_CONTROLLERS, UNBUILT
from tests.storyfile import ROOT


def test_the_page_is_current() -> None:
    assert (ROOT / "docs/fields.md").read_text() == page(), "write it again: make docs"


def test_every_field_is_described() -> None:
    described = re.compile(r"^\| `[^`]+`( \\\*)? \| [^|]+ \| .* \| [A-Z][^|]*\.( .*)? \|$")
    assert [row for kind in kinds() for row in rows(schema_of(kind), "") if not described.match(row)] == []


def test_fields_inside_of_lists_and_maps_have_rows() -> None:
    found = "\n".join(rows(schema_of(KINDS["ClusterQueue"]), ""))
    assert "| `spec.resourceGroups[].flavors[].resources[].nominalQuota` \\* | quantity |  | " in found
    assert "`metadata" not in found


@pytest.mark.parametrize(
    ("schema", "name", "text"),
    [
        ({"type": "string", "enum": ["A", "B"], "default": "A"}, "text", "`A` or `B`; default `A`"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 8}, "[text]", "items at most 8"),
        ({"type": "boolean", "default": True}, "boolean", "default `true`"),
        ({"type": "integer", "minimum": 1}, "integer", "at least 1"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map of integer", ""),
        ({"x-kubernetes-int-or-string": True, "anyOf": []}, "quantity", ""),
        ({"type": "string", "format": "date-time"}, "time", ""),
    ],
)
def test_types_and_what_is_accepted(schema: dict[str, object], name: str, text: str) -> None:
    assert (type_of(schema), accepted(schema)) == (name, text)


def test_every_label_and_annotation_is_explained_or_internal_or_not_built() -> None:
    explained = {key.key for key in MEANINGS}
    groups = (explained, SET_BY_CONTROLLERS, UNBUILT)
    assert sum(map(len, groups)) == len(set().union(*groups)), "each has one place"
    assert set().union(*groups) == {*Label, *Annotation}
