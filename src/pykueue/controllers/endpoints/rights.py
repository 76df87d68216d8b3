"""Rights of users on aggregated APIs: asked of the API server, with a cache of its answers."""

import hashlib
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Moment
from pykueue.controllers.endpoints.access import ACCESS_REVIEW
from pykueue.controllers.endpoints.frontproxy import RemoteUser
from pykueue.kube.aggregated import AggregatedError, unavailable
from pykueue.kube.port import ACCESS_REVIEWS, Kube, KubeError

REMEMBERED_SECONDS: Final = 10
"""As in Kubernetes' own aggregated servers."""
REMEMBERED_MAX: Final = 1000
RETRY_SECONDS: Final = 1


class Attributes(Frozen):
    """What a user wants to do."""

    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str


class Rights:
    """Asks whether users may do things."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self.kube = kube
        self.clock = clock
        self.remembered: dict[bytes, tuple[bool, Moment]] = {}

    async def check(self, user: RemoteUser, wanted: Attributes) -> None:
        """Raise `AggregatedError` if a user may not do this, or the API server does not say."""
        if not await self.granted(user, wanted):
            raise forbidden(user, wanted)

    async def granted(self, user: RemoteUser, wanted: Attributes) -> bool:
        """Whether a user may do this; raises `AggregatedError` if the API server does not say."""
        try:
            return await self.may(user, wanted)
        except (KubeError, msgspec.DecodeError) as error:
            raise unavailable(f"the API server did not say whether you may do this: {error}", RETRY_SECONDS) from error

    async def may(self, user: RemoteUser, wanted: Attributes) -> bool:
        """Whether a user may do this."""
        spec: Tree = {
            "user": user.name,
            "uid": user.uid,
            "groups": [*user.groups],
            "extra": {key: [*values] for key, values in user.extra},
            "resourceAttributes": msgspec.to_builtins(wanted),
        }
        key = hashlib.sha256(msgspec.json.encode(spec)).digest()
        known = self.remembered.get(key)
        if known is not None and self.clock.moment() < known[1]:
            return known[0]
        asked: Tree = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "spec": spec}
        granted = ACCESS_REVIEW.decode(await self.kube.create(ACCESS_REVIEWS, msgspec.json.encode(asked))).status
        self.remembered.pop(key, None)
        while len(self.remembered) >= REMEMBERED_MAX:
            self.remembered.pop(next(iter(self.remembered)))
        self.remembered[key] = (granted.allowed, Moment(self.clock.moment() + REMEMBERED_SECONDS * MICROS))
        return granted.allowed


def forbidden(user: RemoteUser, wanted: Attributes) -> AggregatedError:
    """The user may not do this, in Kubernetes' words."""
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    subject = f"{wanted.resource}.{wanted.group}" + (f' "{wanted.name}"' if wanted.name else "")
    resource = f"{wanted.resource}/{wanted.subresource}" if wanted.subresource else wanted.resource
    message = (
        f'{subject} is forbidden: User "{user.name}" cannot {wanted.verb} resource '
        f'"{resource}" in API group "{wanted.group}" {where}'
    )
    details: Tree = {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}
    return AggregatedError(403, "Forbidden", message, details)
