"""Responses of the API server: the error that each one means, and whether to retry."""

from collections.abc import Mapping
from typing import Final

import msgspec

from pykueue.kube.port import (
    STATUS,
    ConflictError,
    DeniedError,
    ExistsError,
    GoneError,
    KubeError,
    NotFoundError,
    RejectedError,
    Status,
    UnansweredError,
)

TEXT_MAX: Final = 1024
"""An error repeats this many characters of a response that is not a Status."""
BY_CODE: Final[Mapping[int, type[KubeError]]] = {
    401: DeniedError,
    404: NotFoundError,
    408: UnansweredError,
    410: GoneError,
    429: UnansweredError,
}


def status_of(code: int, body: bytes) -> Status:
    """The Status of a response, from the server itself or from an intermediary."""
    try:
        said = STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Status(message=body[:TEXT_MAX].decode(errors="replace").strip(), code=code)
    return said if said.message or said.reason else Status(message=body[:TEXT_MAX].decode(errors="replace"), code=code)


def error_of(what: str, code: int, said: Status) -> KubeError:
    """The error for a response with this code."""
    if code == 403:
        kind: type[KubeError] = DeniedError if denied(said) else RejectedError
    elif code == 409:
        kind = ExistsError if said.reason == "AlreadyExists" else ConflictError
    elif code in BY_CODE:
        kind = BY_CODE[code]
    else:
        kind = UnansweredError if code >= 500 else RejectedError
    return kind(what, code, said.reason, said.message)


def denied(said: Status) -> bool:
    """Whether a 403 refuses us; otherwise it refuses the object, as a webhook, a policy or a quota does."""
    if said.message.startswith("admission webhook "):
        return False
    return 'User "' in said.message or "is forbidden: " not in said.message


def unprocessed(code: int, retry_after: float | None) -> bool:
    """Whether the server did not start processing the request."""
    return code == 429 or (code == 503 and retry_after is not None)


def seconds_of(header: str | None) -> float | None:
    """The seconds in a Retry-After header; None if absent."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None
