"""Authorization of metrics scrapes by the API server, with a cache of its answers."""

import hashlib
import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import MICROS, Moment
from pykueue.kube.port import ACCESS_REVIEWS, TOKEN_REVIEWS, Kube, KubeError

LOG: Final = logging.getLogger(__name__)

METRICS_PATH: Final = "/metrics"
GRANTED_SECONDS: Final = 60
REFUSED_SECONDS: Final = 10
REMEMBERED_MAX: Final = 1000

OK: Final = 200
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
UNAVAILABLE: Final = 503


class User(Wire):
    """The user of a token."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class TokenStatus(Wire):
    """The API server's answer about a token."""

    authenticated: bool = False
    user: User = User()


class TokenReview(Wire):
    """A TokenReview."""

    status: TokenStatus = TokenStatus()


class AccessStatus(Wire):
    """The API server's answer about an access."""

    allowed: bool = False


class AccessReview(Wire):
    """A SubjectAccessReview."""

    status: AccessStatus = AccessStatus()


TOKEN_REVIEW: Final = msgspec.json.Decoder(TokenReview)
ACCESS_REVIEW: Final = msgspec.json.Decoder(AccessReview)


class Remembered(Frozen):
    """An answer, and until when it is valid."""

    status: int
    until: Moment


class Access:
    """Admits clients that may `get` the path `/metrics` by the roles of the cluster."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self.kube = kube
        self.clock = clock
        self.remembered: dict[bytes, Remembered] = {}

    async def judge(self, headers: Mapping[str, str]) -> int:
        """The HTTP status for a request with these headers: 200 if it may read the metrics."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return UNAUTHORIZED
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        known = self.remembered.get(key)
        if known is not None and self.clock.moment() < known.until:
            return known.status
        try:
            status = await self.ask(token)
        except (KubeError, msgspec.DecodeError) as error:
            LOG.error("metrics: cannot authorize a scrape error=%s", error)
            return UNAVAILABLE
        self.remember(key, status)
        return status

    async def ask(self, token: str) -> int:
        """Ask the API server about the holder of the token."""
        asked: Tree = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.kind, "spec": {"token": token}}
        answer = TOKEN_REVIEW.decode(await self.kube.create(TOKEN_REVIEWS, msgspec.json.encode(asked))).status
        if not answer.authenticated:
            return UNAUTHORIZED
        user = answer.user
        groups: list[Json] = [*(user.groups or ())]
        extra: Tree = {key: [*values] for key, values in (user.extra or {}).items()}
        spec: Tree = {
            "user": user.username,
            "uid": user.uid,
            "groups": groups,
            "extra": extra,
            "nonResourceAttributes": {"path": METRICS_PATH, "verb": "get"},
        }
        asked = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "spec": spec}
        granted = ACCESS_REVIEW.decode(await self.kube.create(ACCESS_REVIEWS, msgspec.json.encode(asked))).status
        return OK if granted.allowed else FORBIDDEN

    def remember(self, key: bytes, status: int) -> None:
        """Cache an answer for a while; the oldest is dropped if there are too many."""
        seconds = GRANTED_SECONDS if status == OK else REFUSED_SECONDS
        self.remembered.pop(key, None)
        while len(self.remembered) >= REMEMBERED_MAX:
            self.remembered.pop(next(iter(self.remembered)))
        self.remembered[key] = Remembered(status, Moment(self.clock.moment() + seconds * MICROS))
