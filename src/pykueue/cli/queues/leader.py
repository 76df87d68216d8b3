"""Whether a manager leads on a cluster, by the Lease of its election."""

from typing import Final

import msgspec

from pykueue.api.config.types import DEFAULT_NAMESPACE, LEADER_LEASE
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.kube.lease import Lease
from pykueue.kube.port import LEASES, Kube, KubeError

SLACK_MICROS: Final = 60 * MICROS
"""How far the clock of this machine may be ahead of the cluster's."""


async def without_leader(kube: Kube, now: Instant) -> str:
    """A note that no manager leads; empty if one does, or if the Lease is missing or this user may not read it."""
    try:
        spec = msgspec.json.decode(await kube.get(LEASES, LEADER_LEASE, DEFAULT_NAMESPACE), type=Lease).spec
        renewed = "" if spec is None else spec.renew_time or ""
        if spec is None or not renewed:
            return ""
        until = parse_instant(renewed) + (spec.lease_duration_seconds or 0) * MICROS + SLACK_MICROS
    except (KubeError, msgspec.DecodeError, ValueError):
        return ""
    if spec.holder_identity and now < until:
        return ""
    lease = f"{DEFAULT_NAMESPACE}/{LEADER_LEASE}"
    return (
        f"no manager is running: the Lease {lease} was last renewed at {renewed}; until one is, jobs are "
        "neither started nor stopped"
    )
