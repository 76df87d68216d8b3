"""Decodes objects in Kubernetes' protobuf format into plain trees.

Recent kubectl sends objects that it builds itself (`kubectl create job`, `kubectl auth can-i`) in this format only, and
reads responses in JSON. The field numbers are in `protobuf.json`, as in Kubernetes' sources.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.apiserver.wire.statuserrors import StatusError, bad_request
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, format_second, micro_time

MEDIA: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
VARINT_MAX: Final = 10
"""The most bytes of a varint."""
DEPTH_MAX: Final = 64
SIGN: Final = 1 << 63
ZEROS: Final[tuple[Json, ...]] = ("", 0, False, {}, None)
GROUPS: Final[Mapping[str, str]] = {
    "": "core",
    "authentication.k8s.io": "authentication",
    "authorization.k8s.io": "authorization",
    "autoscaling": "autoscaling",
    "batch": "batch",
    "coordination.k8s.io": "coordination",
    "events.k8s.io": "events",
    "node.k8s.io": "node",
    "policy": "policy",
    "scheduling.k8s.io": "scheduling",
    "meta.k8s.io": "meta",
}
"""The names of groups in the table."""

Value: TypeAlias = int | bytes
Wire: TypeAlias = Iterator[tuple[int, Value]]


class Field(Frozen):
    """A field of a message."""

    name: str
    """Its JSON name; empty if its fields are inlined."""
    kind: str
    is_list: bool
    is_map: bool
    keeps: bool
    """Whether an explicit zero is kept."""


class MalformedError(ValueError):
    """Bytes that are not a protobuf message."""


@cache
def messages() -> dict[str, dict[int, Field]]:
    """The fields of every message, by number."""
    text = (files("pykueue.apiserver.wire") / "protobuf.json").read_bytes()
    rows = msgspec.json.decode(text, type=dict[str, list[tuple[int, str, str, str]]])
    return {
        name: {
            number: Field(field, kind, "r" in flags, "m" in flags, "k" in flags) for number, field, kind, flags in held
        }
        for name, held in rows.items()
    }


def object_of(body: bytes) -> Tree:
    """Decode the object in a body; raises `StatusError` if it is malformed or of an unknown kind."""
    if not body.startswith(MAGIC):
        raise unreadable("the body does not begin as it should")
    try:
        envelope = dict(fields(body[len(MAGIC) :]))
        about = {number: textual(value) for number, value in fields(as_bytes(envelope.get(1, b"")))}
        api_version, kind = about.get(1, ""), about.get(2, "")
        message = messages().get(message_name(api_version, kind))
        if message is None:
            raise unreadable(f'no kind "{kind}" is registered for version "{api_version}"')
        made: Tree = {"apiVersion": api_version, "kind": kind}
        return made | read_message(as_bytes(envelope.get(2, b"")), message, 0)
    except MalformedError as error:
        raise unreadable(str(error)) from None


def message_name(api_version: str, kind: str) -> str:
    """The name of a kind's message in the table."""
    group, _, version = api_version.rpartition("/")
    if kind == "DeleteOptions":
        # Every group has its own name for the same message.
        group, version = "meta.k8s.io", "v1"
    return f"{GROUPS.get(group, group)}/{version}.{kind}"


def unreadable(why: str) -> StatusError:
    """The error for a malformed body."""
    return bad_request(f"couldn't read the protobuf body: {why}")


def fields(data: bytes) -> Wire:
    """The field numbers and values of a message, in order."""
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        number, wire = key >> 3, key & 7
        value: Value
        match wire:
            case 0:
                value, place = varint(data, place)
            case 2:
                size, place = varint(data, place)
                value, place = data[place : place + size], place + size
            case 1 | 5:
                size = 8 if wire == 1 else 4
                value, place = data[place : place + size], place + size
            case _:
                raise MalformedError(f"field {number} is of an unknown wire type")
        if place > len(data):
            raise MalformedError(f"field {number} ends beyond the message")
        yield number, value


def varint(data: bytes, place: int) -> tuple[int, int]:
    """Decode a varint; returns it and the position after it."""
    found = 0
    for index in range(VARINT_MAX):
        if place + index >= len(data):
            break
        byte = data[place + index]
        found |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return found & (2 * SIGN - 1), place + index + 1
    raise MalformedError("a number has no end")


def read_message(data: bytes, message: Mapping[int, Field], depth: int) -> Tree:
    """Decode a message into a tree."""
    if depth > DEPTH_MAX:
        raise MalformedError("it is too deep")
    made: Tree = {}
    for number, value in fields(data):
        field = message.get(number)
        if field is None:
            continue
        if field.is_map:
            pair = dict(fields(as_bytes(value)))
            held = made.setdefault(field.name, {})
            assert isinstance(held, dict), f"{field.name} is a map"
            held[textual(pair.get(1, b""))] = single(pair.get(2, b""), field.kind, depth)
        elif field.is_list:
            items = made.setdefault(field.name, [])
            assert isinstance(items, list), f"{field.name} is a list"
            items.append(single(value, field.kind, depth))
        elif not field.name:
            made |= read_message(as_bytes(value), messages()[field.kind], depth + 1)
        else:
            found = single(value, field.kind, depth)
            # Unset fields are sent as zero.
            if field.keeps or found not in ZEROS:
                made[field.name] = found
    return made


def single(value: Value, kind: str, depth: int) -> Json:
    """Decode one value of a field."""
    match kind:
        case "s":
            return textual(value)
        case "b":
            return bool(number_in(value))
        case "i":
            return signed(number_in(value))
        case "y":
            return b64encode(as_bytes(value)).decode()
        case "f":
            raise MalformedError("fractions are not expected")
        case _:
            return special(as_bytes(value), kind, depth)


def special(data: bytes, kind: str, depth: int) -> Json:
    """Decode a nested message: a well-known type, or one of the table."""
    match kind:
        case "Quantity":
            return textual(dict(fields(data)).get(1, b""))
        case "IntOrString":
            held = dict(fields(data))
            return textual(held.get(3, b"")) if held.get(1) else signed(number_in(held.get(2, 0)))
        case "Time" | "MicroTime":
            return moment(data, micro=kind == "MicroTime")
        case "FieldsV1" | "RawExtension":
            return raw_json(as_bytes(dict(fields(data)).get(1, b"")))
        case "Duration":
            return f"{number_in(dict(fields(data)).get(1, 0))}ns"
        case "List:s":
            return [textual(value) for _, value in fields(data)]
        case _:
            return read_message(data, messages()[kind], depth + 1)


def signed(number: int) -> int:
    """A number as a signed 64-bit integer."""
    return number - 2 * SIGN if number >= SIGN else number


def moment(data: bytes, *, micro: bool) -> Json:
    """A time in JSON's form; None if unset."""
    held = dict(fields(data))
    if not held:
        return None
    seconds, nanos = signed(number_in(held.get(1, 0))), number_in(held.get(2, 0))
    try:
        return micro_time(Instant(seconds * MICROS + nanos // 1000)) if micro else format_second(seconds)
    except (OverflowError, ValueError):
        raise MalformedError("a time is out of range") from None


def raw_json(data: bytes) -> Json:
    """Decode embedded JSON."""
    try:
        found: Json = msgspec.json.decode(data) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedError("a part of it is no JSON") from None
    return found


def textual(value: Value) -> str:
    """Decode a text."""
    try:
        return as_bytes(value).decode()
    except UnicodeDecodeError:
        raise MalformedError("a text is not in UTF-8") from None


def as_bytes(value: Value) -> bytes:
    """The value as bytes; raises `MalformedError` if it is a number."""
    if isinstance(value, bytes):
        return value
    raise MalformedError("a number stands where bytes should")


def number_in(value: Value) -> int:
    """The value as a number; raises `MalformedError` if it is bytes."""
    if isinstance(value, int):
        return value
    raise MalformedError("bytes stand where a number should")
