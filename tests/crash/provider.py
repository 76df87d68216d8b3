"""Who answers for capacity during a crash run? A thread that says of each ProvisioningRequest what its script says."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException

from pykueue.base.clock import SystemClock
from pykueue.base.units import format_instant
from tests.plane.autoscaler import define_requests
from tests.plane.client import ApiError, Client, Tree
from tests.plane.plane import Plane

Script = list[tuple[float, str]]
"""What is said of a request, and how many seconds after the one before."""

BUSY = (ApiError, OSError, HTTPException)
"""What a call ends with while the server is away."""
LOOK_SECONDS = 0.1

FOUND: Script = [(0.0, "Accepted"), (0.3, "Provisioned")]
SCRIPTS: dict[str, tuple[int, Script]] = {
    "found": (60, FOUND),
    "found at once": (10, [(0.0, "Provisioned")]),
    "found late": (8, [(0.5, "Accepted"), (3.0, "Provisioned")]),
    "failed": (12, [(0.2, "Failed")]),
    "failed late": (4, [(0.0, "Accepted"), (2.0, "Failed")]),
    "expired": (4, [(0.0, "Accepted"), (0.5, "BookingExpired")]),
    "found and expired": (4, [*FOUND, (0.1, "BookingExpired")]),
    "revoked": (2, [*FOUND, (1.0, "CapacityRevoked")]),
}
"""How often, and what, an autoscaler answers under load; nobody who starts again has bad rng for ever."""


def by_luck(rng: random.Random) -> Callable[[Tree], Script]:
    """An autoscaler that mostly finds what it is asked for."""

    def script(_request: Tree) -> Script:
        names = list(SCRIPTS)
        return SCRIPTS[rng.choices(names, [SCRIPTS[name][0] for name in names])[0]][1]

    return script


def define(plane: Plane) -> None:
    """Have a plane serve ProvisioningRequests, and return when its garbage collector, too, has heard of them.

    It looks for new kinds every half minute. Until then what belongs to a request would outlive it.
    """
    define_requests(plane)
    spec = {"provisioningClassName": "probe", "podSets": [{"podTemplateRef": {"name": "probe"}, "count": 1}]}
    meta = {"name": "probe", "namespace": "default"}
    kind = {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest"}
    plane.retried(lambda: plane.client.create({**kind, "metadata": meta, "spec": spec}))
    made = plane.client.get("ProvisioningRequest", "probe", "default")
    owner = {**kind, "name": "probe", "uid": made["metadata"]["uid"], "controller": True}
    template = {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    owned = {**meta, "ownerReferences": [owner]}
    plane.client.create({"apiVersion": "v1", "kind": "PodTemplate", "metadata": owned, "template": template})
    plane.client.delete("ProvisioningRequest", "probe", "default")
    plane.client.wait_gone("PodTemplate", "probe", "default", timeout=90)


class Provider:
    """A thread that answers requests, and lets those try again whom it has turned down for good."""

    def __init__(self, client: Client, script: Callable[[Tree], Script], *, revives: bool = True) -> None:
        self.client, self.script, self.revives = client, script, revives
        self.plans: dict[str, tuple[float, Script]] = {}
        """What is still to be said of each request, by UID, and when the first of it is."""
        self.said: dict[str, set[str]] = {}
        """What was said of each request, by UID."""
        self.enough = threading.Event()
        self.thread = threading.Thread(target=self.run, name="provider", daemon=True)

    def __enter__(self) -> "Provider":
        self.thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.enough.set()
        self.thread.join()

    def run(self) -> None:
        while not self.enough.wait(LOOK_SECONDS):
            with suppress(*BUSY):
                for request in self.client.objects("ProvisioningRequest"):
                    # Nobody waits for long because another cannot be answered now.
                    with suppress(*BUSY):
                        self.answer(request)
                if self.revives:
                    self.revive()

    def answer(self, request: Tree) -> None:
        """Say what is due of a request."""
        uid, now = request["metadata"]["uid"], time.monotonic()
        known = {one["type"] for one in request.get("status", {}).get("conditions") or []}
        # A store that was restored from a backup may have forgotten what was said.
        if uid not in self.plans or not self.said[uid] <= known:
            self.said[uid] = set()
            planned = self.script(request)
            self.plans[uid] = (now + planned[0][0] if planned else now, planned)
        due, left = self.plans[uid]
        while left and due <= now and "deletionTimestamp" not in request["metadata"]:
            request = self.say(request, left[0][1])
            self.said[uid].add(left[0][1])
            left = left[1:]
            due = now + left[0][0] if left else now
            self.plans[uid] = due, left

    def say(self, request: Tree, type_: str) -> Tree:
        """The request once it says this."""
        told = {
            "type": type_,
            "status": "True",
            "reason": type_,
            "message": f"It is {type_}",
            "lastTransitionTime": format_instant(SystemClock().now()),
        }
        # It may have been said before, and only the answer been lost.
        known = request.get("status", {}).get("conditions") or []
        before = [one for one in known if one["type"] != type_]
        meta = request["metadata"]
        # The version is given lest something be said of another request of this name.
        patch = {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [*before, told]}}
        return self.client.patch("ProvisioningRequest", meta["name"], patch, meta["namespace"], subresource="status")

    def revive(self) -> None:
        """Turn those on again that were turned off, as their owners would."""
        for workload in self.client.objects("Workload"):
            if not workload["spec"].get("active", True):
                meta = workload["metadata"]
                self.client.patch("Workload", meta["name"], {"spec": {"active": True}}, meta["namespace"])
