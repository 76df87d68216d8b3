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
"""What may follow a namespace's name without being a resource in it."""
MISCODED: Final = re.compile(r";|%(?![0-9A-Fa-f]{2})")
QUERY_MAX: Final = 100
"""Parameters that a query may have."""
NOT_SEGMENTS: Final = (".", "..")
NEVER_IN_SEGMENTS: Final = ("/", "%")


class Asked(Frozen):
    """A call on a resource."""

    verb: Verb
    """Empty where the method is none that resources know."""
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()
    """What follows the subresource."""

    @property
    def resource(self) -> str:
        """The resource as rules and messages name it, with its subresource."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


def asked(method: str, path: str, query: Query) -> Asked | None:
    """The call that a method and a decoded path make; nothing where the path is not one of resources."""
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
        # An old way to say `?watch=true`, which old clients still use.
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
    return Asked(verb, group, version, plural, namespace, name, subresource, tuple(rest[3:]))


def wants_watch(query: Query) -> bool:
    """Whether a list is to be watched."""
    return switched_on(query.get("watch", ()))


def switched_on(values: Sequence[str]) -> bool:
    """Whether a parameter says yes; given without a value, or with an odd one, it does."""
    return bool(values) and values[0].lower() not in ("false", "0")


def split(target: str) -> tuple[str, dict[str, list[str]]]:
    """The decoded path and the query of a request's target; a `StatusError` where there is too much of it.

    A parameter that is not encoded as it should be is passed over, as Go does.
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


def check_names(call: Asked) -> None:
    """Raise a `StatusError` if a name in the path could not be the name of anything."""
    for what, name in (("Name", call.name), ("Namespace", call.namespace)):
        if wrong := segment_error(name):
            raise bad_request(f"{what} parameter invalid: {quoted(name)}: {wrong}")


def segment_error(name: str) -> str:
    """What is wrong with a name as a part of a path; empty where nothing is."""
    if name in NOT_SEGMENTS:
        return f"may not be '{name}'"
    return ";".join(f"may not contain '{never}'" for never in NEVER_IN_SEGMENTS if never in name)


def cannot(user: str, verb: str, *, call: Asked | None, path: str) -> str:
    """What somebody is told who may not do this."""
    if call is None:
        return f"User {quoted(user)} cannot {verb} path {quoted(path)}"
    where = f"in the namespace {quoted(call.namespace)}" if call.namespace else "at the cluster scope"
    return (
        f"User {quoted(user)} cannot {verb} resource {quoted(call.resource)} in API group {quoted(call.group)} {where}"
    )
