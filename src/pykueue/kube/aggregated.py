"""Read-only API groups that this process answers from what it knows, not from stored objects.

The embedded API server serves them beside its own kinds; on a cluster the API server forwards calls on them to the
manager, by an APIService. Who serves a group has authenticated and authorized the call.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from pykueue.api.core import Tree
from pykueue.base.struct import Frozen


class AggregatedCall(Frozen):
    """A call on a subresource."""

    version: str
    resource: str
    """With its subresource: `localqueues/pendingworkloads`."""
    namespace: str
    """Empty for a resource of the cluster."""
    name: str
    query: Mapping[str, Sequence[str]] = {}


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
    """A resource that has no objects, only a subresource to get."""

    plural: str
    singular: str
    subresource: str
    kind: str
    """Of the response."""
    namespaced: bool = False

    @property
    def path(self) -> str:
        """The resource with its subresource, as rules and `AggregatedCall` name it."""
        return f"{self.plural}/{self.subresource}"


class AggregatedGroup(Frozen):
    """An API group and who answers it."""

    name: str
    versions: tuple[str, ...]
    """The preferred one first."""
    resources: tuple[AggregatedResource, ...]
    answer: Answer


def not_found(group: str, singular: str, name: str) -> AggregatedError:
    """The object that a call names does not exist, in Kubernetes' words."""
    details: Tree = {"name": name, "group": group, "kind": singular}
    return AggregatedError(404, "NotFound", f'{singular}.{group} "{name}" not found', details)


def bad_request(message: str) -> AggregatedError:
    """A parameter is malformed."""
    return AggregatedError(400, "BadRequest", message)


def unavailable(message: str, retry_seconds: int) -> AggregatedError:
    """This process cannot answer at present."""
    return AggregatedError(503, "ServiceUnavailable", message, {"retryAfterSeconds": retry_seconds})
