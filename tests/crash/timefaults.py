"""Faults of leaders, clocks, stores and certificates: something is older or newer than it should be."""

import base64
import itertools
import signal
import socket
import ssl
import tempfile
import time
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from pykueue.base.clock import SystemClock
from pykueue.base.units import micro_time
from pykueue.kube import certmaking
from pykueue.kube.certs import ENTRIES, Names
from tests.clockshim import FakeTime
from tests.plane.client import Client, Late, Tree
from tests.plane.programs import ACCOUNT, NAMESPACE, WEBHOOK_ADDRESS, WEBHOOK_SECRET, WEBHOOK_SERVICE
from tests.prometheus import samples

if TYPE_CHECKING:
    from tests.crash.crew import Member
    from tests.crash.faults import Figures, Scene
    from tests.plane.plane import Plane

ANY_REPLICA = frozenset(
    {
        "leases",
        "secrets",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "customresourcedefinitions",
        "subjectaccessreviews",
        "tokenreviews",
    }
)
"""What a manager writes whether it leads or not."""
EXIT_SECONDS = 30
HOUR = 3600
SKEW_SECONDS = -600
"""How far one clock is behind. One that is ahead would let the backoffs that it began last longer by so much."""
UNDER_LOAD_SECONDS = 6
PATIENT_LEASE_SECONDS = 24
"""A lease that a busy machine does not lose, nor a restart of API server and etcd."""
UNDONE_SECONDS = 8
VALID_SECONDS = 40
"""How long the certificates are valid when the manager starts; it must renew them 30 s before they expire."""
VALID_BEFORE_SECONDS = 50
TOKEN_CACHE_SECONDS = 10
"""How long the API server accepts a token that is no longer valid."""


def freeze_leader(scene: "Scene") -> "Figures":
    """The leader is stopped while its writes are under way, another takes over, and the first is resumed.

    What was under way arrives after the takeover and must be harmless. After the resume, the first may write nothing.
    """
    crew, plane = scene.crew, scene.plane
    crew.have_two()
    old = crew.leading()
    time.sleep(scene.rng.uniform(0, 2))
    old.proxy.cut()
    time.sleep(scene.rng.uniform(0.3, 1.0))
    old.process.signal(signal.SIGSTOP)
    took = crew.await_leader(unlike=old.name)
    taken = str(crew.lease()["acquireTime"])
    old.proxy.release()
    time.sleep(1)
    resumed = micro_time(SystemClock().now())
    old.process.signal(signal.SIGCONT)
    exits = await_exit(old)
    late = [one for one in plane.logged_writes(str(old.token)) if leaders(one) and one["stageTimestamp"] > taken]
    second = [one for one in late if one["requestReceivedTimestamp"] > resumed]
    assert not second, f"{old.name} wrote after {crew.leader()} had taken over: {second[:5]}"
    accepted = sum(one["responseStatus"]["code"] < 300 for one in late)
    crew.mend()
    crew.keep_one()
    return {"takeover_seconds": took, "arrived_late": len(late), "of_them_accepted": accepted, "exit_seconds": exits}


def leaders(entry: Tree) -> bool:
    """Whether only a leader may make this write."""
    return entry.get("objectRef", {}).get("resource") not in ANY_REPLICA


def await_exit(member: "Member") -> float:
    """Seconds until a manager ends by itself."""
    start = time.monotonic()
    if not Client.soon(lambda: not member.process.alive(), EXIT_SECONDS):
        raise Late(f"{member.name} still runs after {EXIT_SECONDS} s:\n{member.process.tail()}")
    return time.monotonic() - start


def faked(scene: "Scene", seconds: float = 0) -> FakeTime:
    """A wall clock for one manager that is so many seconds ahead."""
    clock = FakeTime(Path(tempfile.mkdtemp(prefix="clock-", dir=scene.plane.folder)))
    clock.step(seconds)
    return clock


def metric(member: "Member", name: str, **labels: str) -> float:
    """The sum of a manager's series of this name that have these labels."""
    asked = urllib.request.Request(
        f"https://127.0.0.1:{member.process.ports['metrics']}/metrics",
        headers={"Authorization": member.process.site.plane.client.headers["Authorization"]},
    )
    with urllib.request.urlopen(asked, timeout=10, context=ssl._create_unverified_context()) as answer:
        text = answer.read().decode()
    return sum(one.value for one in samples(text) if one.name == name and labels.items() <= one.labels.items())


def step_clock(scene: "Scene") -> "Figures":
    """The leader's clock is set an hour forward, two hours back and right again."""
    crew = scene.crew
    clock = faked(scene)
    member = crew.start(environment=clock.environment, lease_seconds=PATIENT_LEASE_SECONDS)
    crew.lead_alone(member)
    for seconds in (HOUR, -2 * HOUR, HOUR):
        clock.step(seconds)
        time.sleep(UNDER_LOAD_SECONDS)
    steps = metric(member, "pykueue_clock_steps_total")
    assert crew.leader() == member.name, f"{member.name} leads no more:\n{member.process.tail()}"
    crew.lead_alone(crew.start())
    return {"steps": steps}


def skew_clocks(scene: "Scene") -> "Figures":
    """The leader is killed, and one whose clock differs by ten minutes takes over, four times."""
    crew = scene.crew
    takeovers = []
    for seconds in (SKEW_SECONDS, 0, SKEW_SECONDS, 0):
        crew.have_two(environment=faked(scene, seconds).environment if seconds else None)
        leader = crew.leader()
        crew.end(crew.leading())
        takeovers.append(crew.await_leader(unlike=leader))
        time.sleep(UNDER_LOAD_SECONDS)
    return {"takeover_seconds": max(takeovers), "takeovers": len(takeovers)}


def restore_etcd(scene: "Scene") -> "Figures":
    """etcd is restored from a backup a few seconds old while the manager runs."""
    crew, plane = scene.crew, scene.plane
    member = crew.start(lease_seconds=PATIENT_LEASE_SECONDS)
    crew.lead_alone(member)
    backup = plane.back_up()
    time.sleep(UNDONE_SECONDS)
    before = int(plane.revision())
    plane.restore(backup)
    start = time.monotonic()
    lost = scene.load.relearn()
    back = before - int(plane.revision())
    assert back > 0, "the store did not go back"
    await_exit(member)
    noticed = time.monotonic() - start
    assert "went back from version" in member.process.logged(), f"it ended for another reason:\n{member.process.tail()}"
    crew.await_leader(unlike=member.name)
    return {"versions_back": back, "jobs_lost": lost, "noticed_seconds": noticed, "back_seconds": crew.await_alive()}


def expire_certificates(scene: "Scene") -> "Figures":
    """The webhooks' certificate and its authority expire, and the manager's token is replaced and becomes invalid."""
    crew, plane = scene.crew, scene.plane
    store_short_bundle(plane)
    expires = time.monotonic() + VALID_SECONDS
    first = bound_token(plane)
    file = plane.folder / f"token-{first[0]}"
    file.write_text(first[1])
    member = crew.start(token=file, lease_seconds=PATIENT_LEASE_SECONDS)
    crew.lead_alone(member)
    shown = served(scene)
    file.write_text(bound_token(plane)[1])
    plane.client.delete("Secret", first[0], NAMESPACE)
    time.sleep(TOKEN_CACHE_SECONDS)
    refused = metric(member, "rest_client_requests_total", code="401")
    if not Client.soon(lambda: served(scene) != shown, expires - time.monotonic()):
        raise Late(f"the certificate was not renewed:\n{member.process.tail(about='certificates')}")
    early = expires - time.monotonic()
    time.sleep(1)
    jobs_refused = scene.load.refused
    time.sleep(max(0.0, expires - time.monotonic()) + 2)
    served(scene)
    jobs_refused = scene.load.refused - jobs_refused
    assert not jobs_refused, f"{jobs_refused} Jobs were refused after the renewal: {scene.load.refusal}"
    assert crew.leader() == member.name, f"{member.name} leads no more:\n{member.process.tail()}"
    crew.lead_alone(crew.start())
    return {"renewed_seconds_before": early, "token_refused": refused}


def store_short_bundle(plane: "Plane") -> None:
    """Put certificates in the place of the webhooks' that expire soon, authority included."""
    names = Names(NAMESPACE, also=("localhost", "127.0.0.1"))
    days = VALID_SECONDS / 86400
    begin = timedelta(seconds=VALID_BEFORE_SECONDS)
    with patch.multiple(certmaking, AUTHORITY_DAYS=days, SERVING_DAYS=days, SKEW=begin):
        made = certmaking.renewed(None, names.served, SystemClock().now())
    values = (made.authority, made.authority_key, made.certificate, made.key)
    data = {key: base64.b64encode(value).decode() for key, value in zip(ENTRIES, values, strict=True)}
    plane.client.patch("Secret", WEBHOOK_SECRET, {"data": data}, NAMESPACE)


def served(scene: "Scene") -> bytes:
    """The certificate that the webhooks show now to a client that trusts what the API server is told to trust."""
    (trusted,) = {
        hook["clientConfig"]["caBundle"]
        for tree in scene.plane.client.objects("ValidatingWebhookConfiguration")
        for hook in tree["webhooks"]
    }
    context = ssl.create_default_context(cadata=base64.b64decode(trusted).decode())
    with (
        socket.create_connection((WEBHOOK_ADDRESS, scene.crew.site.webhook_port), timeout=10) as raw,
        context.wrap_socket(raw, server_hostname=f"{WEBHOOK_SERVICE}.{NAMESPACE}.svc") as secure,
    ):
        return secure.getpeercert(binary_form=True) or b""


NUMBERS = itertools.count()


def bound_token(plane: "Plane") -> tuple[str, str]:
    """The name of a new Secret, and a token that is valid while that exists."""
    name = f"binding-{next(NUMBERS)}"
    made = plane.client.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}}
    )
    bound = {"kind": "Secret", "apiVersion": "v1", "name": name, "uid": made["metadata"]["uid"]}
    return name, plane.token(NAMESPACE, ACCOUNT, boundObjectRef=bound)
