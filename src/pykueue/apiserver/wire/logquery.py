"""Parses the parameters of `kubectl logs` into a `LogQuery`."""

from typing import Final

from pykueue.api.core import Tree
from pykueue.api.fields import FieldError, forbidden, invalid
from pykueue.api.trees import mappings, text
from pykueue.apiserver.wire.options import first, whole
from pykueue.apiserver.wire.paths import Query, is_true
from pykueue.apiserver.wire.statuserrors import StatusError, bad_request
from pykueue.apiserver.wire.statuserrors import invalid as invalid_object
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.kube.logs import HOLD, POSITION, SECRET, LogQuery
from pykueue.kube.port import Resource

POSITIVE: Final = "must be greater than 0"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
SECONDS_MAX: Final = (2**63 - 1) // 10**9
"""The longest duration in Go, 292 years: Kubernetes counts nanoseconds in 64 bits."""


def log_query(query: Query, pod: Tree, now: Instant) -> LogQuery:
    """Parse the parameters of a log request; raises `StatusError` if they are invalid."""
    seconds, tail, limit = (whole(query, name) for name in ("sinceSeconds", "tailLines", "limitBytes"))
    position = whole(query, POSITION)
    errors: list[FieldError] = []
    if position is not None and position < 0:
        errors.append(invalid(POSITION, position, NOT_NEGATIVE))
    if tail is not None and tail < 0:
        errors.append(invalid("tailLines", tail, NOT_NEGATIVE))
    if limit is not None and limit < 1:
        errors.append(invalid("limitBytes", limit, POSITIVE))
    if seconds is not None and "sinceTime" in query:
        errors.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if seconds is not None and seconds < 1:
        errors.append(invalid("sinceSeconds", seconds, POSITIVE))
    if seconds is not None and seconds > SECONDS_MAX:
        raise bad_request(f"sinceSeconds: {seconds} is too long ago; use at most {SECONDS_MAX}, or omit it")
    if errors:
        raise invalid_object(Resource("", "v1", "", "PodLogOptions"), text(pod, "metadata", "name"), errors)
    return LogQuery(
        container=container_of(pod, first(query, "container")),
        follow=is_true(query.get("follow", ())),
        previous=is_true(query.get("previous", ())),
        timestamps=is_true(query.get("timestamps", ())),
        since=Instant(max(0, now - seconds * MICROS)) if seconds is not None else since_of(first(query, "sinceTime")),
        tail=tail,
        limit_bytes=limit,
        position=position,
        hold=is_true(query.get(HOLD, ())),
        secret=first(query, SECRET),
    )


def since_of(moment: str) -> Instant | None:
    """Parse a time parameter; None if absent, raises `StatusError` if malformed."""
    if not moment:
        return None
    try:
        return Instant(max(0, parse_instant(moment)))
    except ValueError:
        raise bad_request(f'parsing time "{moment[:64]}" as "2006-01-02T15:04:05Z07:00": cannot parse it') from None


def container_of(pod: Tree, asked: str) -> str:
    """The selected container; raises `StatusError` if it is ambiguous or does not exist."""
    name = text(pod, "metadata", "name")
    own = [text(one, "name") for _, one in mappings(pod, "spec", "containers")]
    first_ones = [text(one, "name") for _, one in mappings(pod, "spec", "initContainers")]
    if not asked and len(own) == 1:
        return own[0]
    if asked in (*own, *first_ones):
        return asked
    if asked:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    raise unclear(name, own, first_ones)


def unclear(pod: str, own: list[str], first_ones: list[str]) -> StatusError:
    """The error for a pod with several containers if none is named."""
    message = f"a container name must be specified for pod {pod}"
    if own:
        message += f", choose one of: [{' '.join(own)}]"
    if first_ones:
        message += f" or one of the init containers: [{' '.join(first_ones)}]"
    return bad_request(message)
