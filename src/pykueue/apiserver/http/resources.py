"""Requests on resources: parses parameters and body, calls the Registry, and formats the response."""

import functools
from typing import Final, cast

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.names import Annotation
from pykueue.api.trees import text
from pykueue.apiserver.http.connections import CONNECTIONS, connection
from pykueue.apiserver.http.lists import Lists, form_of
from pykueue.apiserver.http.pendingview import Reasons, with_reason
from pykueue.apiserver.http.queries import Listing, listing
from pykueue.apiserver.http.tables import included, partial, table_of
from pykueue.apiserver.http.watchlines import Lines, too_slow
from pykueue.apiserver.http.yamlwriter import pieces_of
from pykueue.apiserver.kinds.selectors import selection
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.storage.feed import AT_ONCE_BYTES
from pykueue.apiserver.storage.store import Key
from pykueue.apiserver.verbs.duplicatekeys import check_duplicates
from pykueue.apiserver.verbs.offload import is_large_body
from pykueue.apiserver.verbs.patching import patches_of, unknown_patch
from pykueue.apiserver.verbs.reading import version_in
from pykueue.apiserver.verbs.registry import Registry
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.logquery import log_query
from pykueue.apiserver.wire.messages import (
    ACCEPTED,
    CREATED,
    NO_CONTENT,
    OK,
    Request,
    Response,
    error_response,
    json_response,
    object_response,
    with_warnings,
)
from pykueue.apiserver.wire.negotiation import (
    JSON,
    TEXT,
    YAML,
    Negotiated,
    check_media,
    is_pretty,
    media_of,
    object_in,
    wanted,
)
from pykueue.apiserver.wire.options import delete_terms, first, write_terms
from pykueue.apiserver.wire.paths import RequestInfo, check_names
from pykueue.apiserver.wire.statuserrors import (
    StatusError,
    bad_request,
    forbidden,
    internal,
    not_allowed,
    not_found,
    success,
    unserved,
)
from pykueue.apiserver.wire.writeterms import DeleteOptions, Terms
from pykueue.base.clock import Clock
from pykueue.base.turns import Turns
from pykueue.kube.execs import ExecSource
from pykueue.kube.logs import END_HEADER, PART_HEADER, POD_UID, SECRET, LogError, LogSource
from pykueue.kube.port import Patch

WATCH_SECONDS: Final = 1800
"""The default timeout of a watch."""
ON_ALL: Final[tuple[str, ...]] = ("list", "watch", "create", "deletecollection")
ON_ONE: Final[tuple[str, ...]] = ("get", "watch", "update", "patch", "delete")
OCTETS: Final = "application/octet-stream"
SUMMARY_BYTES: Final = 30
YAML_BYTES: Final = 16 * 1024
"""Larger objects are written as YAML in chunks."""


class Objects:
    """Carries out requests on resources."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        logs: LogSource | None,
        reasons: Reasons | None = None,
        execs: ExecSource | None = None,
    ) -> None:
        self.registry = registry
        self.reasons = reasons
        """The pending reasons of Workloads that are not written yet."""
        self.clock = clock
        self.logs = logs
        self.execs = execs
        self.turns = Turns()
        """The budget of external clients."""
        self.lists = Lists(registry, clock, self.turns)
        self.lines = Lines(clock, self.turns)

    async def answer(self, call: RequestInfo, request: Request, who: Identity) -> Response:
        """The response to a call; a refusal is raised as a `StatusError`."""
        served = self.served(call)
        namespace = call.namespace if served.resource.namespaced else ""
        check_names(call)
        choice = wanted(request.header("accept"))
        warnings = [served.warning] if served.warning else []
        match call.verb:
            case "get" if call.subresource == "log":
                return await self.log(served, call, request)
            case "get" | "create" if call.subresource in CONNECTIONS:
                return connection(await self.registry.get(served, call.name, namespace), call, request, self.execs)
            case "get":
                body = await self.registry.get(served, call.name, namespace, subresource=call.subresource)
                if self.reasons is not None:
                    body = with_reason(call, body, self.reasons)
                return with_warnings(self.shaped(served, call, body, choice, request), warnings)
            case "list":
                return with_warnings(await self.lists.answer(served, namespace, choice, request), warnings)
            case "watch":
                return with_warnings(self.watch(served, call, namespace, choice, request), warnings)
            case "delete":
                return with_warnings(await self.delete(served, call, namespace, choice, request, who), warnings)
            case "deletecollection":
                return with_warnings(await self.delete_collection(served, namespace, choice, request, who), warnings)
            case "create" | "update" | "patch":
                how = self.patch_media(served, request) if call.verb == "patch" else ""
                verb = "apply" if how == Patch.APPLY else call.verb
                terms = write_terms(verb, request.query, who, request.header("user-agent"))
                try:
                    async with self.registry.offload.turn(who, large=is_large_request(request)):
                        code, body = await self.write(served, call, namespace, request, terms, how)
                    response = self.shaped(served, call, body, choice, request, code=code)
                except StatusError as error:
                    response = error_response(error)
                # A refused request gets its warnings too.
                return with_warnings(response, [*warnings, *terms.warnings])
            case _:
                raise disallowed()

    def creator(self, namespace: str, name: str) -> str | None:
        """The creator of a pod; None if there is no such pod."""
        stored = self.registry.store.latest(Key("pods", namespace, name))
        if stored is None:
            return None
        return text(tree_of(stored.body), "metadata", "annotations", Annotation.CREATOR)

    def served(self, call: RequestInfo) -> Served:
        """The kind that a call is on; a `StatusError` if it is not served or does not support the verb."""
        served = self.registry.catalog.find(call.group, call.version, call.plural)
        if served is None:
            raise unserved()
        namespaced = served.resource.namespaced
        if namespaced != bool(call.namespace) and (not namespaced or call.name) and call.plural != "namespaces":
            raise unserved()
        if call.subresource in served.strategy.connections:
            raise unsupported(call, served.strategy.connections[call.subresource])
        verbs = ON_ONE if call.name else ON_ALL
        if call.subresource:
            sub = served.subresources.get(call.subresource)
            if sub is None or call.rest:
                raise not_found(served.resource, call.name) if served.custom else unserved()
            verbs = sub.verbs
        elif call.verb not in served.verbs:
            raise disallowed()
        if call.verb not in verbs or (namespaced and not call.namespace and call.verb not in ("list", "watch")):
            raise not_allowed(served.resource, call.verb) if served.custom and call.subresource else disallowed()
        return served

    def shaped(
        self, served: Served, call: RequestInfo, body: bytes, choice: Negotiated, request: Request, *, code: int = OK
    ) -> Response:
        """An object in the requested form."""
        pretty = is_pretty(choice, first(request.query, "pretty"), request.header("user-agent"))
        if choice.form == "object" and choice.media == JSON and not pretty:
            return json_response(code, body)
        tree = tree_of(body)
        if choice.form == "metadata":
            tree = partial(tree, choice.version)
        elif choice.form == "table" and call.subresource in ("", "status"):
            include = included(first(request.query, "includeObject"))
            tree = table_of(served, tree, self.clock.now(), include=include, version=choice.version)
        if choice.media == YAML and len(body) > YAML_BYTES:
            return Response(code, pieces_of(tree, self.turns), (("Content-Type", YAML),), held=len(body))
        return object_response(code, tree, media=choice.media, pretty=pretty)

    def watch(
        self, served: Served, call: RequestInfo, namespace: str, choice: Negotiated, request: Request
    ) -> Response:
        """The streamed response of a watch."""
        asked = listing(request.query, watch=True)
        fields = asked.fields
        if call.name:
            fields = f"metadata.name={call.name}"
        # Invalid parameters are reported before the stream starts.
        selection(served, asked.labels, fields)
        check_version(asked.version)
        if choice.media != JSON:
            choice = wanted(JSON)
        seen = self.registry.watch(
            served,
            namespace,
            version=asked.version,
            labels=asked.labels,
            fields=fields,
            bookmarks=asked.bookmarks,
            initial=asked.initial,
            timeout=WATCH_SECONDS if not asked.timeout else asked.timeout,
            turns=self.turns,
        )
        include = included(first(request.query, "includeObject")) if choice.form == "table" else ""
        lines = self.lines.pieces(served, seen, choice, include)
        return Response(OK, lines, (("Content-Type", JSON),), last_chunk=too_slow(), held=AT_ONCE_BYTES)

    async def write(
        self, served: Served, call: RequestInfo, namespace: str, request: Request, terms: Terms, how: str
    ) -> tuple[int, bytes]:
        """Create, update or patch an object; returns the status code and the object."""
        part, name = call.subresource, call.name
        if call.verb == "patch":
            if how in (Patch.MERGE, Patch.STRATEGIC):
                work = functools.partial(check_duplicates, request.body, {}, served, terms)
                await self.registry.offload.run(work, large=is_large_request(request), who=terms.who)
            body, created = await self.registry.patch(
                served, name, request.body, namespace, terms, how=how, subresource=part
            )
            return CREATED if created else OK, body
        media = check_media(request.header("content-type"))
        reading = functools.partial(self.sent, served, request.body, media, terms)
        tree = await self.registry.offload.run(reading, large=is_large_request(request), who=terms.who)
        # Only of JSON the length limits the values: YAML can repeat parts of itself.
        large = is_large_request(request) if media == JSON else None
        if call.verb == "create":
            return CREATED, await self.registry.create(
                served, tree, namespace, terms, name=name, subresource=part, large=large
            )
        # Updates create objects of some kinds.
        creates = not part and self.registry.creates(served, name, namespace)
        body = await self.registry.update(served, name, tree, namespace, terms, subresource=part, large=large)
        return CREATED if creates else OK, body

    def sent(self, served: Served, body: bytes, media: str, terms: Terms) -> Tree:
        """The object in a request body; raises a `StatusError` that names the kind if there is none."""
        kind = served.resource.kind
        try:
            tree = object_in(body, media)
            if served.custom and not tree.get("kind"):
                raise bad_request(f"Object 'Kind' is missing in '{body.decode(errors='replace')}'")
        except StatusError as error:
            raise bad_request(
                f"the object provided is unrecognized (must be of type {kind}): {error.message} ({summary(body)})"
            ) from None
        if media == JSON:
            check_duplicates(body, tree, served, terms)
        return tree

    def patch_media(self, served: Served, request: Request) -> str:
        """The media type of a patch; a `StatusError` if the resource does not accept it."""
        media = media_of(request.header("content-type"))
        if media in patches_of(served):
            return media
        if not served.custom:
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        raise unknown_patch(served)

    async def delete(
        self, served: Served, call: RequestInfo, namespace: str, choice: Negotiated, request: Request, who: Identity
    ) -> Response:
        """Delete an object; the response is the object if it still exists, and a `Status` if it is gone."""
        given = await self.delete_options(request, who)
        options, terms = delete_terms(request.query, given, who, request.header("user-agent"))
        body, is_gone = await self.registry.delete(served, call.name, namespace, options, terms)
        code = ACCEPTED if not is_gone and awaited(options) else OK
        if not is_gone or served.strategy.returns_deleted:
            return with_warnings(self.shaped(served, call, body, choice, request, code=code), terms.warnings)
        resource = served.resource
        details: Tree = {"name": call.name, "group": resource.group, "kind": resource.plural}
        details["uid"] = text(tree_of(body), "metadata", "uid")
        return with_warnings(
            object_response(OK, success({key: value for key, value in details.items() if value})), terms.warnings
        )

    async def delete_collection(
        self, served: Served, namespace: str, choice: Negotiated, request: Request, who: Identity
    ) -> Response:
        """Delete the selected objects; the response is the list of them."""
        asked: Listing = listing(request.query, watch=False)
        given = await self.delete_options(request, who)
        options, terms = delete_terms(request.query, given, who, request.header("user-agent"))
        found = await self.registry.delete_collection(
            served, namespace, options, terms, labels=asked.labels, fields=asked.fields
        )
        return with_warnings(await self.lists.items_response(served, found, form_of(choice, request)), terms.warnings)

    async def delete_options(self, request: Request, who: Identity) -> Tree | None:
        """The DeleteOptions in a body; None if it is empty."""
        large = is_large_request(request)
        async with self.registry.offload.turn(who, large=large):
            return await self.registry.offload.run(functools.partial(delete_body, request), large=large, who=who)

    async def log(self, served: Served, call: RequestInfo, request: Request) -> Response:
        """Serve `pods/log` (`kubectl logs`)."""
        pod = await self.logged_pod(served, call, request)
        asked = log_query(request.query, pod, self.clock.now())
        if not text(pod, "spec", "nodeName"):
            return Response(NO_CONTENT)
        if self.logs is None:
            raise internal("container output is not available on this server")
        if asked.hold and not self.logs.follows(text(pod, "metadata", "uid"), asked.secret):
            raise forbidden(served.resource, call.name, "its output does not wait for this reader")
        try:
            if asked.position is None:
                return Response(OK, await self.logs.stream(pod, asked), (("Content-Type", TEXT),))
            part = await self.logs.part(pod, asked)
        except LogError as error:
            if error.gone:
                raise StatusError(404, "NotFound", str(error)) from error
            raise bad_request(str(error)) from error
        end = () if part.end is None else ((END_HEADER, str(part.end)),)
        return Response(OK, part.body(), (("Content-Type", OCTETS), (PART_HEADER, "1"), *end))

    async def logged_pod(self, served: Served, call: RequestInfo, request: Request) -> Tree:
        """The pod whose log is requested; the `run` that follows it may read the rest after it is deleted."""
        try:
            return tree_of(await self.registry.get(served, call.name, call.namespace))
        except StatusError:
            uid, secret = first(request.query, POD_UID), first(request.query, SECRET)
            if self.logs is None or not (uid and secret and self.logs.follows(uid, secret)):
                raise
            gone: Json = [{"name": first(request.query, "container")}]
            meta: Json = {"name": call.name, "namespace": call.namespace, "uid": uid}
            return {
                "metadata": meta,
                "spec": {"nodeName": "gone", "containers": gone},
                "status": {"phase": "Failed"},
            }


def is_large_request(request: Request) -> bool:
    """Whether the body of a request should be decoded off the event loop."""
    return is_large_body(request.body, media_of(request.header("content-type")))


def check_version(version: str) -> None:
    """Raise a `StatusError` if a watch cannot start at this version; kube-apiserver reports it as a 500."""
    try:
        version_in(version)
    except StatusError as error:
        raise StatusError(500, "", error.message.removeprefix("invalid resource version: ")) from None


def tree_of(body: bytes) -> Tree:
    """Decode an object that the server has encoded."""
    return cast("Tree", msgspec.json.decode(body))


def delete_body(request: Request) -> Tree | None:
    """Decode the DeleteOptions in a body; None if it is empty."""
    if not request.body.strip():
        return None
    tree = object_in(request.body, check_media(request.header("content-type")))
    kind = tree.get("kind", "DeleteOptions")
    if kind != "DeleteOptions":
        version = text(tree, "apiVersion") or "meta.k8s.io/v1"
        raise bad_request(
            f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )
    return tree


def summary(body: bytes) -> str:
    """The start of a malformed body, for an error message."""
    if not body:
        return "<empty>"
    begun, more = body[:SUMMARY_BYTES], " ..." * (len(body) > SUMMARY_BYTES)
    return (begun.decode(errors="replace") if body.startswith(b"{") else begun.hex()) + more


def awaited(options: DeleteOptions) -> bool:
    """Whether the response to a delete says that the deletion is still in progress."""
    return options.orphan_dependents is False


def disallowed() -> StatusError:
    """The 405 error for a verb that the resource does not support."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported(call: RequestInfo, instead: str) -> StatusError:
    """The refusal of a connection to a container; `instead` says what to use in its place."""
    message = f"{call.subresource} is not supported: a pod here is a process of this machine; {instead}"
    return StatusError(501, "NotImplemented", message, {"name": call.name, "kind": call.plural})
