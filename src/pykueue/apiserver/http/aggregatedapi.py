"""Serves read-only groups that have no stored objects, beside the kinds of the catalog.

Rights are checked before (`auth.access`).
"""

from collections.abc import Iterable, Iterator

from pykueue.apiserver.http.resources import disallowed
from pykueue.apiserver.kinds.served import Served, Subresource
from pykueue.apiserver.kinds.strategy import Strategy
from pykueue.apiserver.wire.messages import OK, Request, Response, json_response
from pykueue.apiserver.wire.paths import RequestInfo, check_names
from pykueue.apiserver.wire.statuserrors import StatusError, unserved
from pykueue.kube.aggregated import AggregatedCall, AggregatedError, AggregatedGroup
from pykueue.kube.port import Resource


class AggregatedApi:
    """Answers calls on the groups."""

    def __init__(self, groups: Iterable[AggregatedGroup] = ()) -> None:
        self.groups = {group.name: group for group in groups}

    def kinds(self) -> Iterator[Served]:
        """The resources, for discovery."""
        for group in self.groups.values():
            for version in group.versions:
                for one in group.resources:
                    resource = Resource(group.name, version, one.plural, one.kind, one.namespaced)
                    subresources = {one.subresource: Subresource(one.kind, ("get",))}
                    yield Served(
                        resource, "", "", one.singular, Strategy(), verbs=(), subresources=subresources, custom=True
                    )

    async def answer(self, call: RequestInfo, request: Request) -> Response:
        """The response to a call on one of the groups."""
        group = self.groups[call.group]
        known = next((one for one in group.resources if one.path == call.resource), None)
        if known is None or call.rest or known.namespaced != bool(call.namespace):
            raise unserved()
        if call.verb != "get" or request.verb != "GET":
            raise disallowed()
        check_names(call)
        asked = AggregatedCall(call.version, call.resource, call.namespace, call.name, request.query)
        try:
            return json_response(OK, await group.answer(asked))
        except AggregatedError as error:
            raise StatusError(error.code, error.reason, error.message, error.details) from None
