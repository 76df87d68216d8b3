"""Parses the query parameters of lists, watches and logs, and refuses values that are out of range.

`wire.options` parses those of writes.
"""

from typing import Final

from pykueue.api.fields import FieldError, forbidden, not_supported
from pykueue.apiserver.kinds.selectors import TERM, split, unescaped
from pykueue.apiserver.wire.options import first, refused, whole
from pykueue.apiserver.wire.paths import Query, is_true
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.base.struct import Frozen

NOT_OLDER: Final = "NotOlderThan"
EXACT: Final = "Exact"
LIMIT_MAX: Final = 1_000_000
"""A limit of more items counts as no limit."""
SECONDS_MAX: Final = 24 * 3600
"""A watch ends after a day, whatever its timeout."""


class Listing(Frozen):
    """The parameters of a list or watch."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_: str = ""
    version: str = ""
    match: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial: bool | None = None
    timeout: int | None = None
    """Seconds after which a watch ends."""


def listing(query: Query, *, watch: bool | None = None) -> Listing:
    """Parse the parameters of a list or watch; raises `StatusError` if they are invalid."""
    asked = Listing(
        labels=first(query, "labelSelector"),
        fields=first(query, "fieldSelector"),
        limit=min(LIMIT_MAX, max(0, whole(query, "limit") or 0)),
        continue_=first(query, "continue"),
        version=first(query, "resourceVersion"),
        match=first(query, "resourceVersionMatch"),
        watch=is_true(query.get("watch", ())) if watch is None else watch,
        bookmarks=is_true(query.get("allowWatchBookmarks", ())),
        initial=is_true(query["sendInitialEvents"]) if "sendInitialEvents" in query else None,
        timeout=None if (seconds := whole(query, "timeoutSeconds")) is None else min(SECONDS_MAX, seconds),
    )
    errors = watch_errors(asked) if asked.watch else list_errors(asked)
    if errors:
        raise refused("ListOptions", errors)
    return asked


def list_errors(asked: Listing) -> list[FieldError]:
    """Errors in the parameters of a list."""
    errors: list[FieldError] = []
    path = "resourceVersionMatch"
    if asked.match:
        if not asked.version:
            errors.append(forbidden(path, f"{path} is forbidden unless resourceVersion is provided"))
        if asked.continue_:
            errors.append(forbidden(path, f"{path} is forbidden when continue is provided"))
        if asked.match not in (EXACT, NOT_OLDER):
            errors.append(not_supported(path, asked.match, (EXACT, NOT_OLDER, "")))
        if asked.match == EXACT and asked.version == "0":
            errors.append(forbidden(path, f'{path} "exact" is forbidden for resourceVersion "0"'))
    if asked.initial is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def watch_errors(asked: Listing) -> list[FieldError]:
    """Errors in the parameters of a watch."""
    errors: list[FieldError] = []
    path = "resourceVersionMatch"
    if asked.initial is not None and asked.match != NOT_OLDER:
        errors.append(forbidden(path, f"sendInitialEvents requires setting {path} to {NOT_OLDER}"))
    if asked.match:
        if asked.initial is None:
            errors.append(forbidden(path, f"{path} is forbidden for watch unless sendInitialEvents is provided"))
        if asked.match != NOT_OLDER:
            errors.append(not_supported(path, asked.match, (NOT_OLDER,)))
        if asked.continue_:
            errors.append(forbidden(path, f"{path} is forbidden when continue is provided"))
    return errors


def exact_name(selector: str) -> str:
    """The name that a field selector requires; empty if it requires none or is malformed."""
    try:
        for part in split(selector):
            found = TERM.fullmatch(part)
            if found and found[1] == "metadata.name" and found[2] != "!=":
                return unescaped(found[3])
    except StatusError:
        return ""
    return ""
