"""Environment variables of a container, as a kubelet builds them, with `$(NAME)` expanded.

Pure: `sources_of` names the ConfigMaps and Secrets that are needed, and `environment` takes their content.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from pykueue.api.core import Tree
from pykueue.api.trees import amount, has, mapping, mappings, member, text
from pykueue.base.struct import Frozen
from pykueue.base.units import Quantity

EXPANDED_MAX: Final = 6 * 1024 * 1024
"""The most characters that all variables with their names, or all arguments, may have after expansion.

Linux starts no program with more.
"""
TOO_LONG: Final = f"variables or arguments are longer than {EXPANDED_MAX >> 20} MiB after expansion"
REFERENCE: Final = re.compile(r"\$(\$|\(([^()]*)\))")
SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
NAME: Final = re.compile(r"[^\0=]+")


class Source(Frozen):
    """A ConfigMap or Secret of the pod's namespace."""

    kind: str
    name: str


Holdings: TypeAlias = Mapping[Source, Mapping[str, bytes] | None]
"""The content of sources; None for one that does not exist."""


class ConfigError(Exception):
    """The container cannot be created as configured; the message is the kubelet's."""


def sources_of(container: Mapping[str, object]) -> set[Source]:
    """The ConfigMaps and Secrets that the environment of a container refers to."""
    found = set()
    for _, bundle in mappings(container, "envFrom"):
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if has(bundle, field):
                found.add(Source(kind, text(bundle, field, "name")))
    for _, variable in mappings(container, "env"):
        for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if has(variable, "valueFrom", field):
                found.add(Source(kind, text(variable, "valueFrom", field, "name")))
    return found


def held(tree: Tree) -> dict[str, bytes]:
    """The content of a ConfigMap or Secret."""
    secret = text(tree, "kind") == "Secret"
    values: dict[str, bytes] = {}
    for key, value in mapping(tree, "data").items():
        if isinstance(value, str):
            values[key] = decoded(value) if secret else value.encode()
    for key, value in mapping(tree, "binaryData").items():
        if isinstance(value, str):
            values[key] = decoded(value)
    return values


def decoded(value: str) -> bytes:
    """Decode base64; empty if malformed."""
    try:
        return base64.b64decode(value)
    except (binascii.Error, ValueError):
        return b""


def environment(
    pod: Tree,
    container: Mapping[str, object],
    holdings: Holdings,
    *,
    node: Mapping[str, Quantity],
    host: str,
) -> dict[str, str]:
    """The variables of a container; raises `ConfigError` if one cannot be resolved, or if they are too long together.

    `node` has the node's resources, for limits that the container does not set. Variables that refer to the same key
    share one value.
    """
    made: dict[str, str] = {}
    left = EXPANDED_MAX
    shared: dict[int, str] = {}

    def take(name: str, length: int) -> None:
        nonlocal left
        left -= len(name) + length
        if left < 0:
            raise ConfigError(TOO_LONG)

    def put(name: str, value: bytes) -> None:
        # Before it is decoded: thousands of variables may refer to one key of a megabyte.
        take(name, len(value))
        if id(value) not in shared:
            shared[id(value)] = value.decode(errors="replace")
        made[name] = shared[id(value)]

    for _, bundle in mappings(container, "envFrom"):
        prefix = text(bundle, "prefix")
        for key, content in bundled(bundle, holdings).items():
            if NAME.fullmatch(prefix + key):
                put(prefix + key, content)
    for _, variable in mappings(container, "env"):
        name = text(variable, "name")
        if has(variable, "valueFrom"):
            found = derived(pod, container, mapping(variable, "valueFrom"), holdings, node=node, host=host)
            if isinstance(found, bytes):
                put(name, found)
            elif found is not None:
                take(name, len(found))
                made[name] = found
        else:
            value = expanded(text(variable, "value"), made, left)
            take(name, len(value))
            made[name] = value
    return made


def bundled(bundle: Mapping[str, object], holdings: Holdings) -> Mapping[str, bytes]:
    """All entries of a ConfigMap or Secret."""
    for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        if has(bundle, field):
            name = text(bundle, field, "name")
            found = holdings.get(Source(kind, name))
            if found is None and member(bundle, field, "optional") is not True:
                raise ConfigError(f'{kind.lower()} "{name}" not found')
            return found or {}
    return {}


def derived(
    pod: Tree,
    container: Mapping[str, object],
    origin: Mapping[str, object],
    holdings: Holdings,
    *,
    node: Mapping[str, Quantity],
    host: str,
) -> str | bytes | None:
    """The value of a variable with a `valueFrom`, as bytes if it is a key's; None if it is optional and missing."""
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if has(origin, field):
            name, key = text(origin, field, "name"), text(origin, field, "key")
            optional = member(origin, field, "optional") is True
            found = holdings.get(Source(kind, name))
            if found is not None and key in found:
                return found[key]
            if optional:
                return None
            if found is None:
                raise ConfigError(f'{kind.lower()} "{name}" not found')
            namespace = text(pod, "metadata", "namespace")
            raise ConfigError(f"couldn't find key {key} in {kind} {namespace}/{name}")
    if has(origin, "fieldRef"):
        return field_value(pod, text(origin, "fieldRef", "fieldPath"), host=host)
    if has(origin, "resourceFieldRef"):
        return resource_value(pod, container, mapping(origin, "resourceFieldRef"), node)
    raise ConfigError("a variable has a kind of valueFrom that local pods do not support")


def field_value(pod: Tree, path: str, *, host: str) -> str:
    """The value of a field of the pod, as the downward API provides it."""
    subscript = SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        return text(pod, "metadata", subscript.group(1), subscript.group(2))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid" | "spec.nodeName" | "spec.serviceAccountName":
            return text(pod, *path.split("."))
        case "metadata.labels" | "metadata.annotations":
            values = mapping(pod, *path.split("."))
            return "\n".join(f"{key}={quoted(value)}" for key, value in sorted(values.items()))
        case "status.hostIP" | "status.hostIPs" | "status.podIP" | "status.podIPs":
            return host
    raise ConfigError(f"unsupported fieldPath: {path}")


def quoted(value: object) -> str:
    """A text in quotation marks, as the downward API writes it."""
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def resource_value(
    pod: Tree, container: Mapping[str, object], reference: Mapping[str, object], node: Mapping[str, Quantity]
) -> str:
    """A request or limit of a container, in units of the divisor, rounded up."""
    which, _, resource = text(reference, "resource").partition(".")
    other = text(reference, "containerName")
    if other:
        every = [found for field in ("containers", "initContainers") for _, found in mappings(pod, "spec", field)]
        container = next((one for one in every if text(one, "name") == other), {})
    asked = amount(member(container, "resources", which, resource))
    if asked is None and which == "limits":
        # Without a limit of its own, the node's capacity is the limit.
        asked = node.get(resource)
    divisor = amount(member(reference, "divisor"))
    unit = divisor.nanos if divisor is not None and divisor.nanos > 0 else 10**9
    return str(-(-(asked.nanos if asked is not None else 0) // unit))


def expanded(value: str, variables: Mapping[str, str], most: int = EXPANDED_MAX) -> str:
    """A text with each known `$(NAME)` replaced; `$$` stands for a dollar sign.

    Raises `ConfigError` if the result is longer than `most`: variables that name each other twice grow exponentially.
    """
    length = len(value)

    def replaced(found: re.Match[str]) -> str:
        nonlocal length
        if found.group(1) == "$":
            return "$"
        known = variables.get(found.group(2), found.group(0))
        length += len(known)
        if length > most:
            raise ConfigError(TOO_LONG)
        return known

    return REFERENCE.sub(replaced, value) if "$" in value else value


def command_line(container: Mapping[str, object], variables: Mapping[str, str]) -> tuple[str, ...]:
    """The command and its arguments; empty if there is no command."""
    command, args = (strings(member(container, field)) for field in ("command", "args"))
    return expanded_all((*command, *args) if command else (), variables)


def expanded_all(values: Iterable[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Expanded arguments; raises `ConfigError` if they are too long together."""
    made: list[str] = []
    left = EXPANDED_MAX
    for value in values:
        made.append(expanded(value, variables, left))
        left -= len(made[-1])
        if left < 0:
            raise ConfigError(TOO_LONG)
    return tuple(made)


def strings(value: object) -> Iterable[str]:
    """The texts in a list."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
