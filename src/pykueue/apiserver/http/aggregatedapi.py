"""Serves groups that have no stored objects, beside the kinds of the catalog.

Rights are checked before (`auth.access`).
"""

from collections.abc import Iterable, Iterator

from pykueue.apiserver.auth.access import Access
from pykueue.apiserver.http.resources import disallowed
from pykueue.apiserver.kinds.served import Served, Subresource
from pykueue.apiserver.kinds.strategy import Strategy
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.messages import CREATED, OK, Request, Response, json_response
from pykueue.apiserver.wire.paths import RequestInfo, check_names
from pykueue.apiserver.wire.statuserrors import StatusError, unserved
from pykueue.kube.aggregated import AggregatedCall, AggregatedError, AggregatedGroup, Caller
from pykueue.kube.port import Resource


class AuthorizedIdentity:
    """A user of this server who has asked something."""

    def __init__(self, who: Identity, access: Access) -> None:
        self.who = who
        self.access = access

    @property
    def name(self) -> str:
        """The name of the user."""
        return self.who.name

    async def may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        """Whether the user may use a verb on a resource."""
        plural, _, subresource = resource.partition("/")
        return self.access.may(self.who, verb, group, plural, subresource, namespace, "")


class AggregatedApi:
    """Answers calls on the groups."""

    def __init__(self, groups: Iterable[AggregatedGroup] = ()) -> None:
        self.groups = {group.name: group for group in groups}

    def kinds(self) -> Iterator[Served]:
        """The resources, for discovery."""
        for group in self.groups.values():
            for version in group.versions:
                for same in group.by_plural():
                    one = same[0]
                    resource = Resource(group.name, version, one.plural, one.kind, one.namespaced)
                    subresources = {
                        sub.subresource: Subresource(sub.kind, (sub.verb,)) for sub in same if sub.subresource
                    }
                    verbs = tuple(sub.verb for sub in same if not sub.subresource)
                    yield Served(
                        resource, "", "", one.singular, Strategy(), verbs=verbs, subresources=subresources, custom=True
                    )

    async def answer(self, call: RequestInfo, request: Request, caller: Caller) -> Response:
        """The response to a call on one of the groups."""
        group = self.groups[call.group]
        known = next((one for one in group.resources if one.path == call.resource), None)
        if known is None or call.rest or known.namespaced != bool(call.namespace):
            raise unserved()
        if call.verb != known.verb or request.verb == "HEAD":
            raise disallowed()
        check_names(call)
        asked = AggregatedCall(
            call.version, call.resource, call.namespace, call.name, caller, request.query, request.body
        )
        try:
            return json_response(CREATED if known.verb == "create" else OK, await group.answer(asked))
        except AggregatedError as error:
            raise StatusError(error.code, error.reason, error.message, error.details) from None
