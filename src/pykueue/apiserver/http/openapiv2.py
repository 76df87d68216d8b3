"""The OpenAPI 2 document of all kinds, as JSON and as protobuf.

kubectl leaves field validation to the server if OpenAPI 3 says that the server supports it. For a kind that it does not
find there it reads this document, in protobuf only, before it reports that the kind does not exist. The field numbers
are those of gnostic's `OpenAPIv2.proto`.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.apiserver.schema.nodes import REF
from pykueue.apiserver.wire.negotiation import JSON, clauses
from pykueue.apiserver.wire.statuserrors import not_acceptable

PATH: Final = "/openapi/v2"
PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PROTOBUF_BEFORE: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""The media type that clients request; it contains a character that is not allowed in a response's media type."""
OFFERED: Final = {JSON: JSON, PROTOBUF_BEFORE: PROTOBUF, PROTOBUF: PROTOBUF}
DEFINITIONS: Final = "#/definitions/"
LEFT_OUT: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "nullable"})
"""Keywords that OpenAPI 2 lacks, or that its clients cannot read."""
ANY: Final[Tree] = {}
VARINT, DOUBLE, BYTES = 0, 1, 2


def media_for(accept: str) -> str:
    """The media type to use for the document; raises `StatusError` if none is acceptable to the client."""
    for clause in clauses(accept.strip() or "*/*"):
        for asked, given in OFFERED.items():
            if clause.media in (asked, "application/*", "*/*"):
                return given
    raise not_acceptable(f"only the following media types are accepted: {', '.join(OFFERED)}")


def document(documents: Iterable[Tree], info: Tree) -> Tree:
    """The OpenAPI 2 document that corresponds to these OpenAPI 3 documents."""
    paths: Tree = {}
    definitions: Tree = {}
    for one in documents:
        for path, item in tree(one.get("paths")).items():
            paths[path] = {method: operation(tree(held)) for method, held in tree(item).items()}
        for name, held in tree(tree(one.get("components")).get("schemas")).items():
            if name not in definitions:
                definitions[name] = schema(tree(held))
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": dict(sorted(definitions.items()))}


def tree(value: Json) -> Tree:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def operation(held: Tree) -> Tree:
    """An operation in OpenAPI 2, where parameters have their types inline."""
    made = dict(held)
    parameters = held.get("parameters")
    if isinstance(parameters, list):
        made["parameters"] = [
            {name: value for name, value in tree(one).items() if name != "schema"} | tree(tree(one).get("schema"))
            for one in parameters
        ]
    made["responses"] = {
        code: {"description": tree(answer).get("description") or "", "schema": schema(answer_schema(tree(answer)))}
        for code, answer in tree(held.get("responses")).items()
    }
    return made


def answer_schema(answer: Tree) -> Tree:
    """The schema of a response; it is the same for each media type."""
    return next((tree(tree(one).get("schema")) for one in tree(answer.get("content")).values()), ANY)


def schema(held: Tree) -> Tree:
    """A schema in OpenAPI 2: references stand alone, and constructs that clients cannot read are omitted."""
    reference = reference_of(held)
    if reference:
        described = held.get("description")
        made: Tree = {"$ref": reference.replace(REF, DEFINITIONS)}
        return made | ({"description": described} if described else {})
    made = {name: value for name, value in held.items() if name not in LEFT_OUT}
    if held.get("nullable") is True or held.get("x-kubernetes-int-or-string") is True:
        drop(made, "type", "items", "properties")
    elif held.get("x-kubernetes-preserve-unknown-fields") is True:
        # Clients refuse fields that are not among the properties.
        drop(made, "items", "properties")
    elif "type" not in made and "oneOf" in held:
        # A quantity or int-or-string: both may be written as text.
        made["type"] = "string"
    properties, items, rest = made.get("properties"), made.get("items"), made.get("additionalProperties")
    if isinstance(properties, dict):
        made["properties"] = {name: schema(tree(one)) for name, one in properties.items()}
    if isinstance(items, dict):
        made["items"] = schema(items)
    elif made.get("type") == "array":
        drop(made, "type", "items")
    if isinstance(rest, dict):
        made["additionalProperties"] = schema(rest)
    return made


def drop(held: Tree, *names: str) -> None:
    """Remove fields from a tree, in place."""
    for name in names:
        held.pop(name, None)


def reference_of(held: Tree) -> str:
    """The definition that a schema refers to, directly or through a single `allOf`; empty if none."""
    found = held.get("$ref")
    extended = held.get("allOf")
    if isinstance(extended, list) and len(extended) == 1 and "properties" not in held:
        found = found or tree(extended[0]).get("$ref")
    return found if isinstance(found, str) else ""


def encoded(document: Tree) -> bytes:
    """The document as protobuf."""
    info = tree(document.get("info"))
    paths = (
        field(
            2, named(path, b"".join(field(METHODS[method], operated(tree(one))) for method, one in tree(item).items()))
        )
        for path, item in tree(document.get("paths")).items()
    )
    return b"".join(
        (
            text(1, document.get("swagger")),
            field(2, text(1, info.get("title")) + text(2, info.get("version"))),
            field(8, b"".join(paths)),
            field(9, schemas(document.get("definitions"))),
        )
    )


METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def operated(held: Tree) -> bytes:
    """An Operation."""
    given = held.get("parameters")
    parameters = (
        parameter(str(one.get("name")), str(one.get("type")), unique=one.get("uniqueItems") is True)
        for one in map(tree, given if isinstance(given, list) else ())
    )
    answers = (
        field(1, named(code, field(1, answered(tree(one))))) for code, one in tree(held.get("responses")).items()
    )
    return b"".join((text(5, held.get("operationId")), *parameters, field(9, b"".join(answers)), extensions(13, held)))


def answered(held: Tree) -> bytes:
    """A Response."""
    return text(1, held.get("description")) + field(2, schema_message(1, held.get("schema")))


@lru_cache(maxsize=256)
def parameter(name: str, kind: str, *, unique: bool) -> bytes:
    """A query parameter: case 3 of NonBodyParameter, which is case 2 of Parameter."""
    query = text(2, "query") + text(4, name) + text(6, kind) + flag(20, unique)
    return field(8, field(1, field(2, field(3, query))))


def schemas(held: Json) -> bytes:
    """Definitions, or Properties: schemas by name."""
    return b"".join(field(1, named(name, schema_fields(tree(one)))) for name, one in tree(held).items())


def schema_fields(held: Tree) -> bytes:
    """A Schema."""
    found = []
    for name, value in held.items():
        known = FIELDS.get(name)
        if known is not None:
            found.append(known[1](known[0], value))
    return b"".join((*found, extensions(31, held)))


def schema_message(number: int, held: Json) -> bytes:
    """A Schema as a field."""
    return field(number, schema_fields(tree(held)))


def extensions(number: int, held: Tree) -> bytes:
    """Vendor extensions, each a NamedAny."""
    return b"".join(
        field(number, named(name, anything(value))) for name, value in held.items() if name.startswith("x-")
    )


def named(name: str, value: bytes) -> bytes:
    """A message with a name and a value, which is how maps are encoded."""
    return text(1, name) + field(2, value)


def anything(value: Json) -> bytes:
    """An Any: its value as YAML, for which JSON is written."""
    return field(2, msgspec.json.encode(value))


def field(number: int, value: bytes) -> bytes:
    """A length-delimited field: a message or text."""
    return b"%b%b%b" % (varint(number << 3 | BYTES), varint(len(value)), value)


def text(number: int, value: Json) -> bytes:
    """Text as a field; nothing if it is empty."""
    return field(number, value.encode(errors="replace")) if isinstance(value, str) and value else b""


def texts(number: int, value: Json) -> bytes:
    """A list of texts as fields; a single text counts as a list of one."""
    return b"".join(text(number, one) for one in (value if isinstance(value, list) else [value]))


def flag(number: int, value: Json) -> bytes:
    """A boolean field; nothing if false."""
    return varint(number << 3 | VARINT) + b"\1" if value is True else b""


def whole(number: int, value: Json) -> bytes:
    """An integer field."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return varint(number << 3 | VARINT) + varint(value & (1 << 64) - 1) if isinstance(value, int) and value else b""


def double(number: int, value: Json) -> bytes:
    """A field of a 64-bit float."""
    return varint(number << 3 | DOUBLE) + struct.pack("<d", value) if isinstance(value, int | float) and value else b""


@lru_cache(maxsize=1 << 14)
def varint(value: int) -> bytes:
    """A number as a varint: seven bits in each byte."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def anythings(number: int, value: Json) -> bytes:
    """Several values, each an Any."""
    return b"".join(field(number, anything(one)) for one in (value if isinstance(value, list) else ()))


def additional(number: int, value: Json) -> bytes:
    """`additionalProperties`: a schema or a boolean."""
    return field(number, schema_message(1, value) if isinstance(value, dict) else flag(2, value))


FIELDS: Final[Mapping[str, tuple[int, Callable[[int, Json], bytes]]]] = {
    "$ref": (1, text),
    "format": (2, text),
    "title": (3, text),
    "description": (4, text),
    "default": (5, lambda number, value: field(number, anything(value))),
    "multipleOf": (6, double),
    "maximum": (7, double),
    "exclusiveMaximum": (8, flag),
    "minimum": (9, double),
    "exclusiveMinimum": (10, flag),
    "maxLength": (11, whole),
    "minLength": (12, whole),
    "pattern": (13, text),
    "maxItems": (14, whole),
    "minItems": (15, whole),
    "uniqueItems": (16, flag),
    "maxProperties": (17, whole),
    "minProperties": (18, whole),
    "required": (19, texts),
    "enum": (20, anythings),
    "additionalProperties": (21, additional),
    "type": (22, lambda number, value: field(number, texts(1, value))),
    "items": (23, lambda number, value: field(number, schema_message(1, value))),
    "properties": (25, lambda number, value: field(number, schemas(value))),
}
"""The number of each field of a Schema, and how its value is encoded."""
