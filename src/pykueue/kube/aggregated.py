"""API groups that this process answers from what it knows, not from stored objects: to get, or to create a question.

The embedded API server serves them beside its own kinds; on a cluster the API server forwards calls on them to the
manager, by an APIService. Who serves a group has authenticated and authorized the call.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias

from pykueue.api.core import Tree
from pykueue.base.struct import Frozen

BODY_MAX: Final = 3 * 1024 * 1024
"""The most bytes of a question, as of any object in Kubernetes."""


class Caller(Protocol):
    """Who calls, and what else the caller may read."""

    @property
    def name(self) -> str:
        """The authenticated user."""

    async def may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        """Whether the caller may use a verb on a resource; in all namespaces if none is given."""


class AggregatedCall(Frozen):
    """A call on a resource."""

    version: str
    resource: str
    """With its subresource: `localqueues/pendingworkloads`."""
    namespace: str
    """Empty for a resource of the cluster."""
    name: str
    """Empty for a question that is created."""
    caller: Caller
    query: Mapping[str, Sequence[str]] = {}
    body: bytes = b""


class AggregatedError(Exception):
    """A refusal, with the fields of Kubernetes' Status."""

    def __init__(self, code: int, reason: str, message: str, details: Tree | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details


Answer: TypeAlias = Callable[[AggregatedCall], Awaitable[bytes]]
"""The response to a call, in JSON; raises `AggregatedError`."""


class AggregatedResource(Frozen):
    """A resource that has no objects: a subresource to get, or questions to create."""

    plural: str
    singular: str
    subresource: str
    """Empty for questions."""
    kind: str
    """Of the response."""
    namespaced: bool = False

    @property
    def path(self) -> str:
        """The resource with its subresource, as rules and `AggregatedCall` name it."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural

    @property
    def verb(self) -> Literal["get", "create"]:
        """The only verb."""
        return "get" if self.subresource else "create"


class AggregatedGroup(Frozen):
    """An API group and who answers it."""

    name: str
    versions: tuple[str, ...]
    """The preferred one first."""
    resources: tuple[AggregatedResource, ...]
    answer: Answer

    def by_plural(self) -> Iterator[tuple[AggregatedResource, ...]]:
        """The resources; subresources of one resource together."""
        for plural in dict.fromkeys(one.plural for one in self.resources):
            yield tuple(one for one in self.resources if one.plural == plural)


def not_found(group: str, singular: str, name: str) -> AggregatedError:
    """The object that a call names does not exist, in Kubernetes' words."""
    details: Tree = {"name": name, "group": group, "kind": singular}
    return AggregatedError(404, "NotFound", f'{singular}.{group} "{name}" not found', details)


def bad_request(message: str) -> AggregatedError:
    """A parameter is malformed."""
    return AggregatedError(400, "BadRequest", message)


def too_many(message: str, retry_seconds: int) -> AggregatedError:
    """The caller, or everyone together, asks too much at once."""
    return AggregatedError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_seconds})


def unavailable(message: str, retry_seconds: int) -> AggregatedError:
    """This process cannot answer at present."""
    return AggregatedError(503, "ServiceUnavailable", message, {"retryAfterSeconds": retry_seconds})
