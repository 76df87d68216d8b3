"""Parses a method and a path into a verb on a resource, as kube-apiserver does."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote, unquote_plus

from pykueue.apiserver.wire.statuserrors import bad_request, quoted
from pykueue.base.struct import Frozen

Verb: TypeAlias = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", ""]
Query: TypeAlias = Mapping[str, Sequence[str]]

VERBS: Final[Mapping[str, Verb]] = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
OF_NAMESPACES: Final = ("status", "finalize")
"""Subresources of a namespace; other segments after its name are resources."""
MISCODED: Final = re.compile(r";|%(?![0-9A-Fa-f]{2})")
QUERY_MAX: Final = 100
"""The most parameters of a query."""
NOT_SEGMENTS: Final = (".", "..")
NEVER_IN_SEGMENTS: Final = ("/", "%")


class RequestInfo(Frozen):
    """A request on a resource."""

    verb: Verb
    """Empty for an unsupported method."""
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()
    """The path after the subresource."""

    @property
    def resource(self) -> str:
        """The resource with its subresource, as rules and messages name it."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


def request_info(method: str, path: str, query: Query) -> RequestInfo | None:
    """Parse a method and a decoded path; None if the path is not a resource."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return None
    verb = VERBS.get(method, "")
    if rest[0] == "watch" and len(rest) > 1:
        # The deprecated form of `?watch=true`, which old clients still use.
        rest, verb = rest[1:], "watch"
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in OF_NAMESPACES:
            rest = rest[2:]
    plural, name, subresource = (*rest[:3], "", "")[:3]
    if verb == "get" and not name:
        verb = "watch" if wants_watch(query) else "list"
    if verb == "delete" and not name:
        verb = "deletecollection"
    return RequestInfo(verb, group, version, plural, namespace, name, subresource, tuple(rest[3:]))


def wants_watch(query: Query) -> bool:
    """Whether a list request is a watch."""
    return is_true(query.get("watch", ()))


def is_true(values: Sequence[str]) -> bool:
    """Whether a boolean parameter is true; an empty or unknown value counts as true."""
    return bool(values) and values[0].lower() not in ("false", "0")


def split(target: str) -> tuple[str, dict[str, list[str]]]:
    """The decoded path and query of a request target; raises `StatusError` if there are too many parameters.

    A malformed parameter is skipped, as in Go.
    """
    path, _, text = target.partition("?")
    if text.count("&") >= QUERY_MAX:
        raise bad_request(f"the query has more than {QUERY_MAX} parameters")
    query: dict[str, list[str]] = {}
    for part in text.split("&"):
        if part and not MISCODED.search(part):
            name, _, value = part.partition("=")
            query.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return unquote(path), query


def check_names(call: RequestInfo) -> None:
    """Raise a `StatusError` if a name in the path is not a valid path segment."""
    for what, name in (("Name", call.name), ("Namespace", call.namespace)):
        if wrong := segment_error(name):
            raise bad_request(f"{what} parameter invalid: {quoted(name)}: {wrong}")


def segment_error(name: str) -> str:
    """Why a name is not a valid path segment; empty if it is."""
    if name in NOT_SEGMENTS:
        return f"may not be '{name}'"
    return ";".join(f"may not contain '{never}'" for never in NEVER_IN_SEGMENTS if never in name)


def cannot(user: str, verb: str, *, call: RequestInfo | None, path: str) -> str:
    """The message for a forbidden request."""
    if call is None:
        return f"User {quoted(user)} cannot {verb} path {quoted(path)}"
    where = f"in the namespace {quoted(call.namespace)}" if call.namespace else "at the cluster scope"
    return (
        f"User {quoted(user)} cannot {verb} resource {quoted(call.resource)} in API group {quoted(call.group)} {where}"
    )
