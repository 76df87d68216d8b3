"""Content negotiation: decodes bodies by their content type, and selects a form by the Accept header."""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import msgspec
import yaml

from pykueue.api.core import Json, Tree
from pykueue.api.yamltext import BODY, Builder, Unreadable, raw_events
from pykueue.apiserver.wire.protobuf import MEDIA as PROTOBUF
from pykueue.apiserver.wire.protobuf import object_of
from pykueue.apiserver.wire.statuserrors import StatusError, bad_request, not_acceptable, unsupported_media
from pykueue.base.struct import Frozen

Form: TypeAlias = Literal["object", "table", "metadata", "discovery"]

JSON: Final = "application/json"
YAML: Final = "application/yaml"
TEXT: Final = "text/plain"
OBJECTS: Final = (JSON, YAML)
"""Media types of responses."""
BODIES: Final = (JSON, YAML, PROTOBUF)
"""Media types of request bodies."""
META_VERSIONS: Final = ("v1", "v1beta1")
DISCOVERY_VERSIONS: Final = ("v2", "v2beta1")
AGENTS: Final = ("curl", "Wget", "Mozilla/5.0")
"""User agents of interactive clients, which get indented JSON."""
INDENT: Final = 2
PLACE: Final = re.compile(r"\(byte (\d+)\)")
GO_TYPE: Final = (
    r"""struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"""
)
"""The Go type that kube-apiserver first decodes a body into."""


class Negotiated(Frozen):
    """The requested form of a response."""

    form: Form = "object"
    media: str = JSON
    version: str = "v1"
    """The version of the form's group."""
    stream: bool = False
    pretty: bool = False


class Clause(Frozen):
    """One media type of an Accept header."""

    media: str
    parameters: Mapping[str, str]
    quality: float


@lru_cache(maxsize=256)
def clauses(header: str) -> tuple[Clause, ...]:
    """The media types of an Accept header, by descending quality."""
    found = []
    for part in header.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        pairs = (piece.partition("=") for piece in rest)
        parameters = {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}
        found.append(Clause(media.lower(), parameters, quality_of(parameters.pop("q", "1"))))
    return tuple(sorted(found, key=lambda clause: -clause.quality))


def quality_of(text: str) -> float:
    """The quality of a media type, from 0 to 1; a malformed one counts as 1."""
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 1.0


@lru_cache(maxsize=256)
def wanted(
    header: str, *, forms: tuple[Form, ...] = ("object", "table", "metadata"), types: tuple[str, ...] = OBJECTS
) -> Negotiated:
    """The first acceptable form among those on offer; raises `StatusError` if there is none."""
    if not header.strip():
        return Negotiated()
    known = False
    for clause in clauses(header):
        for media in types:
            if clause.media in (media, f"{media.partition('/')[0]}/*", "*/*"):
                known = True
                if found := offered(clause.parameters, media, forms):
                    return found
    offer = ", ".join(types)
    if known:
        raise not_acceptable(f"only the following media types are accepted: {offer}")
    raise StatusError(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {offer}", {})


def offered(parameters: Mapping[str, str], media: str, forms: tuple[Form, ...]) -> Negotiated | None:
    """The form that the parameters of a media type name; None if it is not on offer."""
    if parameters.get("stream", "watch") != "watch":
        return None
    kind, group, version = (parameters.get(name, "") for name in ("as", "g", "v"))
    stream, pretty = "stream" in parameters, parameters.get("pretty") == "1"
    form: Form
    match kind, group:
        case "", "":
            return Negotiated("object", media, "v1", stream, pretty) if not version else None
        case "Table", "meta.k8s.io":
            form, known = "table", META_VERSIONS
        case (("PartialObjectMetadata" | "PartialObjectMetadataList"), "meta.k8s.io"):
            form, known = "metadata", META_VERSIONS
        case "APIGroupDiscoveryList", "apidiscovery.k8s.io":
            form, known = "discovery", DISCOVERY_VERSIONS
        case _:
            return None
    return Negotiated(form, media, version, stream, pretty) if form in forms and version in known else None


def is_pretty(choice: Negotiated, parameter: str, agent: str) -> bool:
    """Whether the response is indented for people."""
    if parameter:
        return parameter.lower() in ("1", "t", "true")
    return choice.pretty or agent.startswith(AGENTS)


def encoded(tree: object, media: str = JSON, *, pretty: bool = False) -> bytes:
    """A tree encoded in a media type."""
    if media == YAML:
        return yaml.dump(tree, Dumper=DUMPER, sort_keys=True, allow_unicode=True, default_flow_style=False).encode()
    body = msgspec.json.encode(tree)
    return msgspec.json.format(body, indent=INDENT) + b"\n" if pretty else body + b"\n"


DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def media_of(header: str) -> str:
    """The media type of a Content-Type header, without parameters; JSON if absent."""
    return header.partition(";")[0].strip().lower() or JSON


def check_media(header: str, known: tuple[str, ...] = BODIES) -> str:
    """The media type of a body; raises `StatusError` if it is not one of these."""
    media = media_of(header)
    if media in known:
        return media
    raise unsupported_media(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(known)}"
    )


def decoded(body: bytes, media: str) -> Json:
    """Decode a body of this media type; raises `StatusError` if it is malformed."""
    if media == YAML:
        return from_yaml(body)
    if media == PROTOBUF:
        return object_of(body)
    try:
        found: Json = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unparsed(body, str(error)) from None
    return found


def object_in(body: bytes, media: str) -> Tree:
    """Decode the object in a body of this media type; raises `StatusError` if there is none."""
    found = decoded(body, media)
    if isinstance(found, dict) or found is None:
        return found or {}
    raise unversioned(f"json: cannot unmarshal {json_type(found)} into Go value of type {GO_TYPE}")


def from_yaml(body: bytes) -> Json:
    """Decode a YAML body into JSON values."""
    builder = Builder(BODY)
    try:
        text = body.decode("utf-16" if body.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
        for event in raw_events(text):
            builder.take(event)
    except Unreadable as error:
        raise bad_request(f"yaml: {error.mistake}") from None
    except yaml.MarkedYAMLError as error:
        # Go's parser counts lines from 0 in its messages.
        line = f"line {error.problem_mark.line}: " if error.problem_mark and error.problem_mark.line else ""
        raise bad_request(f"yaml: {line}{error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise bad_request(f"yaml: {' '.join(str(error).split())}") from None
    return builder.root


def json_type(value: Json) -> str:
    """Go's name of a JSON value that is not an object."""
    match value:
        case list():
            return "array"
        case str():
            return "string"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case _:
            return "null"


def unparsed(body: bytes, why: str) -> StatusError:
    """The error for malformed JSON, in Go's words."""
    if "truncated" in why:
        return unversioned("unexpected end of JSON input")
    if "recursion" in why:
        return unversioned("invalid character '{' exceeded max depth")
    place = PLACE.search(why)
    at = int(place[1]) if place else 0
    letter = body[at : at + 1].decode(errors="replace")
    return unversioned(f"invalid character '{letter}' at byte {at + 1}: {why}")


def unversioned(why: str) -> StatusError:
    """The error for a body without apiVersion and kind."""
    return bad_request(f"couldn't get version/kind; json parse error: {why}")
