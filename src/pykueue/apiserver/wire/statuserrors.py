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
"""The cause types of a Status, by error code."""
MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"
LACKING: Final = "the server could not find the requested resource"
ERRORS_MAX: Final = 100
"""The most errors collected for one request; a body can have a million."""
BODY_MAX: Final = 3 * 1024 * 1024
"""The most bytes of a body and of a stored object, which patches could otherwise make grow without limit."""


class StatusError(Exception):
    """An error response of the API."""

    def __init__(
        self, code: int, reason: str, message: str, details: Tree | None = None, *, continue_: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.detailed = details is not None
        """Whether the Status has details, even if empty."""
        self.details: Tree = {name: value for name, value in (details or {}).items() if value not in ("", [], 0)}
        self.continue_ = continue_
        """The token with which a list can continue at another version."""

    def status(self) -> Tree:
        """The Status object of the response."""
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
        """The seconds of the Retry-After header; 0 for none."""
        found = self.details.get("retryAfterSeconds", 0)
        return found if isinstance(found, int) else 0

    @classmethod
    def about(cls, code: int, reason: str, message: str, resource: Resource, name: str = "", **more: Json) -> Self:
        """An error that concerns an object."""
        return cls(code, reason, message, {"name": name, "group": resource.group, "kind": resource.plural, **more})


def success(details: Tree) -> Tree:
    """The Status of a successful request."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def not_found(resource: Resource, name: str) -> StatusError:
    """404: the object does not exist."""
    return StatusError.about(404, "NotFound", f"{resource} {quoted(name)} not found", resource, name)


def unserved() -> StatusError:
    """404: the kind or subresource is not served."""
    return StatusError(404, "NotFound", LACKING, {})


def exists(resource: Resource, name: str) -> StatusError:
    """409: the name is in use."""
    return StatusError.about(409, "AlreadyExists", f"{resource} {quoted(name)} already exists", resource, name)


def no_name_left(resource: Resource, name: str) -> StatusError:
    """409: every generated name that was tried is in use."""
    message = (
        f"{resource} {quoted(name)} already exists, the server was not able to generate a unique name for the object"
    )
    return StatusError.about(409, "AlreadyExists", message, resource, name, retryAfterSeconds=1)


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> StatusError:
    """409: the object has changed since it was read."""
    message = f"Operation cannot be fulfilled on {resource} {quoted(name)}: {why}"
    return StatusError.about(409, "Conflict", message, resource, name)


def apply_conflict(message: str, causes: Sequence[Tree]) -> StatusError:
    """409: other managers own fields of the apply."""
    return StatusError(409, "Conflict", message, {"causes": [*causes]})


def invalid(resource: Resource, name: str, errors: Iterable[FieldError]) -> StatusError:
    """422: the object is invalid."""
    found = [*errors]
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f"{kind} {quoted(name)} is invalid" + (f": {aggregate(found)}" if found else "")
    causes: list[Json] = [
        {"reason": CAUSES[error.code], "message": error_body(error), "field": error.path} for error in found
    ]
    details: Tree = {"name": name, "group": resource.group, "kind": resource.kind, "causes": causes}
    return StatusError(422, "Invalid", message, details)


def error_body(error: FieldError) -> str:
    """A field error without its path."""
    return str(error)[len(error.path) + 2 :] if error.path else str(error)


def bad_request(message: str) -> StatusError:
    """400: the request is malformed."""
    return StatusError(400, "BadRequest", message)


def forbidden(resource: Resource, name: str, why: str) -> StatusError:
    """403: the caller may not do this."""
    subject = f"{resource} {quoted(name)}" if name else str(resource)
    return StatusError.about(403, "Forbidden", f"{subject} is forbidden: {why}", resource, name)


def unauthorized(why: str = "") -> StatusError:
    """401: the caller is unknown, or their credentials are no longer valid for this reason."""
    return StatusError(401, "Unauthorized", f"Unauthorized: {why}" if why else "Unauthorized")


def gone(message: str, continue_: str = "") -> StatusError:
    """410: the version, or the rest of a list, is no longer kept."""
    return StatusError(410, "Expired", message, continue_=continue_)


def too_new(version: int, current: int) -> StatusError:
    """504: the version is newer than anything stored."""
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
    """405: the kind does not support this verb."""
    message = f'{action} is not supported on resources of kind "{resource}"'
    return StatusError(405, "MethodNotAllowed", message, {"group": resource.group, "kind": resource.plural})


def too_large(most: int = BODY_MAX) -> StatusError:
    """413: the body is too large."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {most}")


def unstorable() -> StatusError:
    """500: the object is too large to store, in the words of etcd."""
    return StatusError(500, "", "etcdserver: request is too large")


def unsupported_media(message: str) -> StatusError:
    """415: the body has an unsupported media type."""
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(message: str) -> StatusError:
    """406: the client accepts no supported media type."""
    return StatusError(406, "NotAcceptable", message)


def too_many(message: str, retry_after: int = 0) -> StatusError:
    """429: retry later."""
    return StatusError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after})


def internal(message: str) -> StatusError:
    """500: an internal error."""
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def unavailable(message: str) -> StatusError:
    """503: the server cannot do this at present."""
    return StatusError(503, "ServiceUnavailable", message)


def quoted(text: str) -> str:
    """A text in quotes, as Kubernetes' messages print names."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
