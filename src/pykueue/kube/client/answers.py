"""What does an answer of the API server mean? The error that it is, and whether to ask again."""

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
"""Characters of an answer that is no Status that an error repeats."""
BY_CODE: Final[Mapping[int, type[KubeError]]] = {
    401: DeniedError,
    404: NotFoundError,
    408: UnansweredError,
    410: GoneError,
    429: UnansweredError,
}


def status_of(code: int, body: bytes) -> Status:
    """What an answer says, of the server itself or of something between."""
    try:
        said = STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Status(message=body[:TEXT_MAX].decode(errors="replace").strip(), code=code)
    return said if said.message or said.reason else Status(message=body[:TEXT_MAX].decode(errors="replace"), code=code)


def error_of(what: str, code: int, said: Status) -> KubeError:
    """The error that an answer with this code is."""
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
    """Whether a 403 speaks of us; otherwise it speaks of the object, as a webhook, a policy or a quota would."""
    if said.message.startswith("admission webhook "):
        return False
    return 'User "' in said.message or "is forbidden: " not in said.message


def unprocessed(code: int, retry_after: float | None) -> bool:
    """Whether the server says that it has not begun with what was asked."""
    return code == 429 or (code == 503 and retry_after is not None)


def seconds_of(header: str | None) -> float | None:
    """The seconds that a Retry-After header asks for; None where it says none."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None
