"""`StatusError`: errors with the codes, reasons, messages and details of Kubernetes' `Status`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

from pykueue.api.core import Json, Tree
from pykueue.api.fields import Code, FieldError, aggregate
from pykueue.kube.port import Resource

CAUSES: Final[Mapping[Code, str]] = {
    "Invalid": "FieldValueInvalid",
    "Required": "FieldValueRequired",
    "Forbidden": "FieldValueForbidden",
    "Duplicate": "FieldValueDuplicate",
    "NotFound": "FieldValueNotFound",
    "NotSupported": "FieldValueNotSupported",
    "TooMany": "FieldValueTooMany",
    "TooLong": "FieldValueTooLong",
    "TypeInvalid": "FieldValueTypeInvalid",
    "Unknown": "FieldValueInvalid",
}
"""How a Status names the sort of a mistake."""
MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"
LACKING: Final = "the server could not find the requested resource"
ERRORS_MAX: Final = 100
"""Mistakes that are collected in one request; a body can hold a million."""
BODY_MAX: Final = 3 * 1024 * 1024
"""Bytes that a body may have, and an object that is stored: patches could make it grow for ever."""


class StatusError(Exception):
    """A refusal, or a failure, as the API tells it."""

    def __init__(
        self, code: int, reason: str, message: str, details: Tree | None = None, *, continue_: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.detailed = details is not None
        """Whether the answer has details, be they empty."""
        self.details: Tree = {name: value for name, value in (details or {}).items() if value not in ("", [], 0)}
        self.continue_ = continue_
        """Where a list can go on, if it need not be of one version."""

    def status(self) -> Tree:
        """The object that a client is sent."""
        told: Tree = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_} if self.continue_ else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            told["reason"] = self.reason
        if self.detailed:
            told["details"] = self.details
        return told | {"code": self.code}

    @property
    def retry_after(self) -> int:
        """Seconds after which to ask again, as the header says it; 0 for no advice."""
        found = self.details.get("retryAfterSeconds", 0)
        return found if isinstance(found, int) else 0

    @classmethod
    def about(cls, code: int, reason: str, message: str, resource: Resource, name: str = "", **more: Json) -> Self:
        """A refusal that concerns an object."""
        return cls(code, reason, message, {"name": name, "group": resource.group, "kind": resource.plural, **more})


def success(details: Tree) -> Tree:
    """The object that says that all went well."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def not_found(resource: Resource, name: str) -> StatusError:
    """There is no such object."""
    return StatusError.about(404, "NotFound", f"{resource} {quoted(name)} not found", resource, name)


def unserved() -> StatusError:
    """There is no such kind or subresource."""
    return StatusError(404, "NotFound", LACKING, {})


def exists(resource: Resource, name: str) -> StatusError:
    """The name is taken."""
    return StatusError.about(409, "AlreadyExists", f"{resource} {quoted(name)} already exists", resource, name)


def no_name_left(resource: Resource, name: str) -> StatusError:
    """Every name that was tried is taken."""
    message = (
        f"{resource} {quoted(name)} already exists, the server was not able to generate a unique name for the object"
    )
    return StatusError.about(409, "AlreadyExists", message, resource, name, retryAfterSeconds=1)


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> StatusError:
    """The object is not what the caller thought it was."""
    message = f"Operation cannot be fulfilled on {resource} {quoted(name)}: {why}"
    return StatusError.about(409, "Conflict", message, resource, name)


def apply_conflict(message: str, causes: Sequence[Tree]) -> StatusError:
    """Others own what the caller applies."""
    return StatusError(409, "Conflict", message, {"causes": [*causes]})


def invalid(resource: Resource, name: str, errors: Iterable[FieldError]) -> StatusError:
    """The object breaks rules."""
    found = [*errors]
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f"{kind} {quoted(name)} is invalid" + (f": {aggregate(found)}" if found else "")
    causes: list[Json] = [
        {"reason": CAUSES[error.code], "message": error_body(error), "field": error.path} for error in found
    ]
    details: Tree = {"name": name, "group": resource.group, "kind": resource.kind, "causes": causes}
    return StatusError(422, "Invalid", message, details)


def error_body(error: FieldError) -> str:
    """What a mistake is, without where it is."""
    return str(error)[len(error.path) + 2 :] if error.path else str(error)


def bad_request(message: str) -> StatusError:
    """What was asked makes no sense."""
    return StatusError(400, "BadRequest", message)


def forbidden(resource: Resource, name: str, why: str) -> StatusError:
    """It may not be done."""
    subject = f"{resource} {quoted(name)}" if name else str(resource)
    return StatusError.about(403, "Forbidden", f"{subject} is forbidden: {why}", resource, name)


def unauthorized() -> StatusError:
    """Nobody knows who asks."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def gone(message: str, continue_: str = "") -> StatusError:
    """The version, or the rest of a list, is no longer kept."""
    return StatusError(410, "Expired", message, continue_=continue_)


def too_new(version: int, current: int) -> StatusError:
    """Nothing of this version was ever seen."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def not_allowed(resource: Resource, action: str) -> StatusError:
    """The kind does not do this."""
    message = f'{action} is not supported on resources of kind "{resource}"'
    return StatusError(405, "MethodNotAllowed", message, {"group": resource.group, "kind": resource.plural})


def too_large(most: int = BODY_MAX) -> StatusError:
    """The body has too many bytes."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {most}")


def unstorable() -> StatusError:
    """The object has too many bytes to be stored; the words are those of the store that Kubernetes has."""
    return StatusError(500, "", "etcdserver: request is too large")


def unsupported_media(message: str) -> StatusError:
    """The body is in a format that is not read here."""
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(message: str) -> StatusError:
    """The client takes no format that is written here."""
    return StatusError(406, "NotAcceptable", message)


def too_many(message: str, retry_after: int = 0) -> StatusError:
    """Not now; later perhaps."""
    return StatusError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after})


def internal(message: str) -> StatusError:
    """Something failed that is not the caller's fault."""
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def unavailable(message: str) -> StatusError:
    """The server cannot do this at present."""
    return StatusError(503, "ServiceUnavailable", message)


def quoted(text: str) -> str:
    """A text in quotes, as Kubernetes' messages print names."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
