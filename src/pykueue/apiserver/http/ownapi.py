"""Serves `pykueue.io/v1alpha1`: the jobs that run or wait, and the records of those that have finished; read-only.

Rights are checked before (`auth.access`). The group is not in discovery, as its items are no Kubernetes objects.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from pykueue.api.jobsummary import FINISHED_JOBS, OWN_GROUP, OWN_VERSION, SUMMARIES
from pykueue.apiserver.http.resources import disallowed
from pykueue.apiserver.kinds.selectors import requirements
from pykueue.apiserver.storage.finishedjobs import FinishedJobs
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.messages import OK, Request, Response, json_response
from pykueue.apiserver.wire.options import first, whole
from pykueue.apiserver.wire.paths import RequestInfo
from pykueue.apiserver.wire.statuserrors import bad_request

Selects: TypeAlias = Callable[[Mapping[str, str]], bool]
Listed: TypeAlias = Callable[[str, Callable[[str], bool], Selects | None], Awaitable[Sequence[bytes]]]
"""Lists the jobs of a namespace; says of a namespace whether all about its jobs may be seen; selects by labels."""

PAGE_DEFAULT: Final = 500
PAGE_MAX: Final = 5_000
KINDS: Final = {SUMMARIES: "JobSummaryList", FINISHED_JOBS: "FinishedJobList"}


def is_own(call: RequestInfo) -> bool:
    """Whether a call is on this API."""
    return call.group == OWN_GROUP and call.version == OWN_VERSION and call.plural in KINDS


class OwnApi:
    """Answers the calls."""

    def __init__(self, listed: Listed, finished: FinishedJobs, flush: Callable[[], Awaitable[None]]) -> None:
        self.listed = listed
        self.finished = finished
        self.flush = flush
        """Records the Jobs that have just ended."""

    async def answer(self, call: RequestInfo, request: Request, who: Identity) -> Response:
        """The response to a list; anything else is refused."""
        if call.verb != "list" or request.verb != "GET" or call.subresource:
            raise disallowed()
        if call.plural == FINISHED_JOBS:
            return await self.page(call, request)
        labels = first(request.query, "labelSelector")
        wanted = tuple(requirements(labels))

        def selects(found: Mapping[str, str]) -> bool:
            return all(one.holds(found) for one in wanted)

        def sees_whole(namespace: str) -> bool:
            return who.admin or namespace == who.namespace

        items = await self.listed(call.namespace, sees_whole, selects if wanted else None)
        return list_response(SUMMARIES, items)

    async def page(self, call: RequestInfo, request: Request) -> Response:
        """A page of the finished Jobs, the newest first."""
        limit = min(PAGE_MAX, max(0, whole(request.query, "limit") or 0)) or PAGE_DEFAULT
        token = first(request.query, "continue")
        if token and not (token.isascii() and token.isdigit() and len(token) < 19):
            raise bad_request("continue key is not valid")
        if not token:
            await self.flush()
        found = self.finished.page(call.namespace, before=int(token or 0), limit=limit)
        more = found[-1][0] if len(found) == limit else 0
        return list_response(FINISHED_JOBS, [body for _, body in found], str(more) if more else "")


def list_response(plural: str, items: Sequence[bytes], token: str = "") -> Response:
    """A list of items that are already encoded."""
    head = f'{{"kind":"{KINDS[plural]}","apiVersion":"{OWN_GROUP}/{OWN_VERSION}","metadata":{{'
    after = f'"continue":"{token}"' if token else ""
    return json_response(OK, b"".join((head.encode(), after.encode(), b'},"items":[', b",\n".join(items), b"]}")))
