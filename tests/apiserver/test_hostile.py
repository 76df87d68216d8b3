"""Does one request of an ordinary user hold up everyone else? A real `pykueue up`, and bodies made to freeze it.

The server measures how late a timer on its event loop comes, and shows it at /metrics. The bound is scaled by how long
the benchmarks' kernel takes here and now, of which this process waits for other programs too.
"""

import http.client
import json
import os
import pwd
import ssl
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import pytest
import yaml

from bench.upserver import Server, serving
from tests.apiserver.hostile import ATTACKS, JOBS, JSON, NAMESPACE, Attack, Body, Call, many_env, queued_containers
from tests.patience import slowness
from tests.prometheus import samples

HELD_SECONDS: Final = 0.1
ANSWER_SECONDS: Final = 240
SETTLE_SECONDS: Final = 1.0
"""In which the controllers have seen what was stored."""
BUCKET: Final = "pykueue_event_loop_delay_seconds_bucket"
FOUND = (
    "nested YAML brackets",
    "a YAML integer in base 60",
    "a million YAML scalars",
    "empty containers in JSON",
    "empty containers in protobuf",
    "owner references",
    "server-side apply by two managers",
)
"""Requests that froze or ended the server once; `python -m bench.machine holds` sends all of `ATTACKS`."""
TOGETHER: Final = {
    "strategic merge patches": "a Job with many environment variables",
}
"""Attacks on an object that another one creates."""


class Caller:
    """Somebody with a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        said = yaml.safe_load(kubeconfig.read_text())
        cluster, user = said["clusters"][0]["cluster"], said["users"][0]["user"]
        self.context = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
        self.headers = {}
        if "token" in user:
            self.headers["Authorization"] = f"Bearer {user['token']}"
        else:
            pair = kubeconfig.with_suffix(".pem")
            pair.write_bytes(b64decode(user["client-certificate-data"]) + b64decode(user["client-key-data"]))
            self.context.load_cert_chain(pair)
        host, _, port = cluster["server"].removeprefix("https://").rpartition(":")
        self.place = host, int(port)

    def ask(self, verb: str, target: str, body: Body | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(*self.place, context=self.context, timeout=ANSWER_SECONDS)
        try:
            headers = {**self.headers, "Content-Type": body.media} if body else self.headers
            connection.request(verb, target, body.content if body else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def send(self, call: Call) -> tuple[int, bytes]:
        return self.ask(call.verb, call.target, call.body())


class Attacked:
    """A server, its administrator, and a user."""

    def __init__(self, server: Server, user: Path) -> None:
        self.server = server
        self.admin = Caller(server.folder / "kubeconfig")
        self.user = Caller(user)

    def delays(self) -> dict[float, int]:
        """How many ticks of the server's timer came at most so late, by seconds."""
        code, page = self.admin.ask("GET", "/metrics")
        assert code == 200
        ticks = (sample for sample in samples(page.decode()) if sample.name == BUCKET)
        return {float(sample.labels["le"]): int(sample.value) for sample in ticks}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    folder = tmp_path_factory.mktemp("hostile")
    with serving(folder / "data") as server:
        user = folder / "user.kubeconfig"
        name = pwd.getpwuid(os.getuid()).pw_name if os.getuid() else "nobody"
        command = [sys.executable, "-m", "pykueue", "user", "add", name, "--namespace=default", f"--out={user}"]
        command.append(f"--data={server.folder}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        # A server that root did not start has no users but its own.
        made = Attacked(server, user if done.returncode == 0 else server.folder / "kubeconfig")
        sleep(SETTLE_SECONDS)
        yield made


def measured(attacked: Attacked, attack: Attack) -> tuple[float, list[tuple[Call, int, bytes]]]:
    """The least bound that every tick kept while an attack and what follows from it went on, and the answers."""
    before = attacked.delays()
    answers = [(call, *attacked.user.send(call)) for call in attack.calls]
    sleep(SETTLE_SECONDS)
    after = attacked.delays()
    since = {bound: after[bound] - before.get(bound, 0) for bound in after}
    return min(bound for bound, count in since.items() if count == max(since.values())), answers


@pytest.mark.parametrize("attack", [one for one in ATTACKS if one.name in FOUND], ids=lambda attack: attack.name)
def test_no_request_holds_the_event_loop(attacked: Attacked, attack: Attack) -> None:
    if attack.name in TOGETHER:
        attacked.user.ask("POST", attack.calls[0].target.rpartition("/")[0], many_env())
    slow = slowness()
    held, answers = measured(attacked, attack)
    slow = max(slow, slowness())
    for call, code, body in answers:
        assert code < 300 if call.accepted else code < 500, (call.target, code, body[:500])
        assert len(body) < 3 * 1024 * 1024 or code < 300, f"a refusal of {len(body)} bytes"
    allowed = min(bound for bound in attacked.delays() if bound >= HELD_SECONDS * slow)
    assert held <= allowed, f"held for up to {held} s where {HELD_SECONDS * slow:.3f} s are allowed"


def test_a_small_body_of_brackets_does_not_end_the_server(attacked: Attacked) -> None:
    for opening in (b"[", b"{a: ", b"- ", b"? ", b"[{a: "):
        code, body = attacked.user.ask(
            "POST", "/apis/batch/v1/namespaces/default/jobs", Body(opening * 30_000, "application/yaml")
        )
        assert code == 400, body[:300]
    assert attacked.admin.ask("GET", "/readyz")[0] == 200


def test_a_refusal_names_a_hundred_mistakes_at_most(attacked: Attacked) -> None:
    attack = next(one for one in ATTACKS if one.name == "empty containers in JSON")
    code, body = attacked.user.send(attack.calls[0])
    status: Any = json.loads(body)
    assert code == 422
    assert len(status["details"]["causes"]) == 100


def test_a_pod_of_too_many_containers_fails_and_says_why(attacked: Attacked) -> None:
    crowd = json.loads(queued_containers(300).content)
    crowd["metadata"]["name"] = "crowd"
    crowd["spec"]["backoffLimit"] = 0
    assert attacked.user.ask("POST", JOBS, Body(json.dumps(crowd).encode(), JSON))[0] == 201
    due = monotonic() + ANSWER_SECONDS
    said: set[str] = set()
    while not said and monotonic() < due:
        sleep(0.2)
        code, body = attacked.user.ask(
            "GET", f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=batch.kubernetes.io/job-name%3Dcrowd"
        )
        assert code == 200
        statuses = [pod["status"] for pod in json.loads(body)["items"]]
        said = {status["message"] for status in statuses if status["phase"] == "Failed"}
    assert said == {"Pod was rejected: more than 256 containers; use several pods"}
