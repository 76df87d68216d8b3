"""What kinds a server serves: find the resource of a type that a user typed, or of an owner reference."""

import asyncio
from collections.abc import Iterable

import msgspec

from pykueue.api.trees import Tree, items, mappings, member, text
from pykueue.base.struct import Frozen
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import DeniedError, NotFoundError, Resource, UnansweredError


class Served(Frozen):
    """A kind that a server serves."""

    resource: Resource
    singular: str
    short_names: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Kind and group in lower case: `job.batch`."""
        name = self.resource.kind.lower()
        return f"{name}.{self.resource.group}" if self.resource.group else name

    def is_called(self, name: str) -> bool:
        """Whether this is one of its names."""
        return name in (self.resource.plural, self.singular, self.resource.kind.lower(), *self.short_names)


async def fetched(kube: HttpKube, path: str) -> Tree:
    """A discovery document; empty if the server does not show it."""
    try:
        found: Tree = msgspec.json.decode(await kube.call(Call("GET", path, f"get {path}", repeatable=True)))
    except UnansweredError as error:
        if error.code == 0:
            raise
        # An aggregated API whose server is down.
        return {}
    except (NotFoundError, DeniedError):
        return {}
    return found


def served_in(document: Tree) -> list[Served]:
    """The kinds in the document of a group and version."""
    group, _, version = text(document, "groupVersion").rpartition("/")
    return [
        Served(
            Resource(group, version, text(one, "name"), text(one, "kind"), member(one, "namespaced") is True),
            text(one, "singularName") or text(one, "kind").lower(),
            tuple(str(short) for short in items(one, "shortNames")),
        )
        for _, one in mappings(document, "resources")
        if "/" not in text(one, "name")
    ]


async def kinds_of(kube: HttpKube, api_versions: Iterable[str]) -> dict[str, list[Served]]:
    """The kinds of each group and version; none of those that the server does not show."""
    wanted = list(dict.fromkeys(api_versions))
    paths = [f"/apis/{one}" if "/" in one else f"/api/{one}" for one in wanted]
    found = await asyncio.gather(*(fetched(kube, path) for path in paths))
    return {one: served_in(document) for one, document in zip(wanted, found, strict=True)}


async def resource_called(kube: HttpKube, name: str) -> Served | None:
    """The kind of this name, as `jobs` or `jobs.batch`, in its preferred version; None if no kind has it."""
    typed, _, group = name.lower().partition(".")
    groups = mappings(await fetched(kube, "/apis"), "groups")
    preferred = [
        text(one, "preferredVersion", "groupVersion") for _, one in groups if not group or text(one, "name") == group
    ]
    known = await kinds_of(kube, [*([] if group else ["v1"]), *preferred])
    return next((one for kinds in known.values() for one in kinds if one.is_called(typed)), None)


class ForError(Exception):
    """The object that --for names cannot be found; the message says why."""


async def object_called(kube: HttpKube, given: str, namespace: str) -> tuple[Served, Tree]:
    """The kind and the object that `TYPE[.GROUP]/NAME` names."""
    typed, slash, name = given.partition("/")
    if "/" in name:
        raise ForError("arguments in resource/name form may not have more than one slash")
    if not slash or not typed or not name:
        raise ForError(f"invalid value '{given}' used in --for flag; value must be in the format TYPE[.API-GROUP]/NAME")
    served = await resource_called(kube, typed)
    if served is None:
        raise ForError(f'--for: the server doesn\'t have a resource type "{typed}"')
    within = namespace if served.resource.namespaced else ""
    try:
        found: Tree = msgspec.json.decode(await kube.get(served.resource, name, within))
    except NotFoundError as error:
        where = f" in namespace {within}" if within else ""
        raise ForError(f"--for: {served.resource} {name} not found{where}") from error
    return served, found
