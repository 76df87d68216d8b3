"""Who decides on tokens in tests? An API server in memory that knows a few, and what they may do."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pykueue.base.clock import ManualClock
from pykueue.kube.port import ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from tests.fakes.faulty import Faulty


class Reviewer(Faulty):
    """Answers TokenReviews and SubjectAccessReviews, and keeps what it was asked."""

    def __init__(self, tokens: Mapping[str, str] | None = None, readers: set[str] | None = None) -> None:
        super().__init__(ManualClock())
        self.tokens = dict(tokens or {})
        self.readers = readers or set()
        self.asked: list[dict[str, Any]] = []
        self.fail: Callable[[], None] = lambda: None

    async def create(self, resource: Resource, body: bytes, namespace: str = "", **more: str) -> bytes:
        tree = msgspec.json.decode(body)
        self.asked.append(tree)
        self.fail()
        spec = tree["spec"]
        if resource is TOKEN_REVIEWS:
            name = self.tokens.get(spec["token"])
            user = {"username": name, "uid": "u", "groups": ["g"], "extra": {"pod": ["p"]}}
            status = {"authenticated": name is not None, "user": user if name else {}}
        else:
            assert resource is ACCESS_REVIEWS
            wanted = spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
            status = {"allowed": wanted and spec["user"] in self.readers}
        return msgspec.json.encode({**tree, "status": status})
