"""Measure how long one request blocks the event loop: known attacks, and lists of everything in every form.

The server's watchdog says how late a timer of its event loop was while a request was answered. What else runs on this
machine only makes that later: the time in which the loop's thread waited for a CPU is taken off, and a request that
holds the loop for too long is tried again.
"""

import http.client
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
import yaml

from bench import kernel
from bench.floors import Floor, Result
from bench.keptjobs import KEPT, filled
from bench.upserver import Server, job, serving
from pykueue.kube.client.connection import Connection
from tests.apiserver.hostile import ATTACKS, JOBS, MAPS, NAMESPACE, Attack

TRIES: Final = 3
ANSWER_SECONDS: Final = 60.0
READ_BYTES: Final = 8_000_000
"""The most bytes of a response that are read; longer ones behave alike."""
WATCHES: Final = 200
SETTLED_SECONDS: Final = 0.2
"""The time until the watchdog has measured and written its log."""
OUTPUT_LINES: Final = 1_300_000
"""Lines of a pod's log of about ten megabytes."""
HELD: Final = re.compile(rb"was blocked seconds=([\d.]+) computed=[\d.]+ waited_for_cpu=([\d.]+)")
EVERYTHING: Final = "/apis/batch/v1/jobs"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
INITIAL: Final = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
NEEDS: Final = {"strategic merge patches": "a Job with many environment variables"}
"""Attacks that change an object of another one."""

HOLD: Final = Floor(
    "longest hold", "ms", 100, f"the event loop under any one request, {KEPT:,} finished Jobs kept", scales=True
)
UNREAD: Final = Floor("unread watches", "MB", 150, f"memory for {WATCHES} watches of {KEPT:,} Jobs that are not read")


class Ask(NamedTuple):
    """A request with a large response."""

    name: str
    target: str
    accept: str = ""


ASKS: Final = (
    Ask("a list in JSON", EVERYTHING),
    Ask("a list that is laid out", f"{EVERYTHING}?pretty=true"),
    Ask("a list in YAML", EVERYTHING, "application/yaml"),
    Ask("a list as a Table", EVERYTHING, TABLE),
    Ask("a list as a Table in YAML", EVERYTHING, TABLE.replace("json", "yaml")),
    Ask("a list with a limit of 100,000", f"{EVERYTHING}?limit=100000"),
    Ask("a list of nothing among all", f"{EVERYTHING}?labelSelector=not%3Dthere"),
    Ask("a watch with initial events", f"{EVERYTHING}?{INITIAL}"),
    Ask("a watch from version 0", f"{EVERYTHING}?watch=1&resourceVersion=0&timeoutSeconds=10"),
    Ask("a watch of Tables", f"{EVERYTHING}?{INITIAL}", TABLE),
    Ask("a watch of nothing among all", f"{EVERYTHING}?{INITIAL}&labelSelector=not%3Dthere"),
)


class Client:
    """Sends requests to a server, and reads from its log how long they blocked the loop."""

    def __init__(self, server: Server) -> None:
        self.server = server
        known: Connection = server.connection
        place = urlsplit(known.server)
        self.address = (place.hostname or "", place.port or 443)
        self.context = ssl.create_default_context(cadata=known.authority)
        config = yaml.safe_load((server.folder / "kubeconfig").read_text())
        self.token = config["users"][0]["user"]["token"]
        self.log = server.folder.parent / "up.log"

    def send(self, verb: str, target: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """The status code and the start of the body; 0 if there was no response."""
        made = http.client.HTTPSConnection(*self.address, context=self.context, timeout=ANSWER_SECONDS)
        found = bytearray()
        try:
            known = {name.replace("_", "-"): value for name, value in headers.items() if value}
            made.request(verb, target, body, {"Authorization": f"Bearer {self.token}", **known})
            answer = made.getresponse()
            while len(found) < READ_BYTES and (piece := answer.read1(1 << 20)):
                found += piece
                if b"initial-events-end" in found[-1000:]:
                    break
            return answer.status, bytes(found)
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            made.close()

    def holds(self, since: int) -> Iterator[float]:
        """The milliseconds of each block of the loop that the log reports after a position."""
        for held, starved in HELD.findall(self.log.read_bytes()[since:]):
            yield max(0.0, float(held) - float(starved)) * 1000

    def longest(self, *requests: tuple[str, str, bytes, dict[str, str]]) -> tuple[float, list[tuple[int, bytes]]]:
        """The longest block in milliseconds during consecutive requests, and the responses."""
        since = self.log.stat().st_size
        begin = monotonic()
        answers = [self.send(verb, target, body, **headers) for verb, target, body, headers in requests]
        if self.send("GET", "/livez")[0] != 200:
            # It is dead, or still busy.
            return (monotonic() - begin) * 1000, answers
        sleep(SETTLED_SECONDS)
        return max(self.holds(since), default=0.0), answers


class Measured(NamedTuple):
    """How long a request blocked the loop, and a comment."""

    name: str
    held: float


def asked(client: Client, ask: Ask) -> float:
    """The longest block by a request with a large response."""
    held, ((code, _),) = client.longest(("GET", ask.target, b"", {"Accept": ask.accept}))
    assert code in (0, 200), f"{ask.name}: {code}"
    return held


def attacked(client: Client, attack: Attack) -> float:
    """The longest block by an attack."""
    if attack.name in NEEDS:
        attacked(client, next(one for one in ATTACKS if one.name == NEEDS[attack.name]))
    requests = []
    for call in attack.calls:
        body = call.body()
        requests.append((call.verb, call.target, body.content, {"Content-Type": body.media}))
    held, _ = client.longest(*requests)
    for target in (JOBS, MAPS):
        client.send("DELETE", target)
    return held


def log_read(client: Client) -> float:
    """The longest block while one full log is read."""
    name = "loud"
    client.send("POST", JOBS, job(name, ["seq", str(OUTPUT_LINES)]), Content_Type="application/json")
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    end = monotonic() + ANSWER_SECONDS
    while monotonic() < end:
        sleep(0.5)
        _, body = client.send("GET", f"{pods}?labelSelector=job-name%3D{name}")
        found = msgspec.json.decode(body)["items"]
        if found and found[0]["status"].get("phase") == "Succeeded":
            break
    else:
        raise RuntimeError(f"the pod of {name} did not end in {ANSWER_SECONDS:.0f} s")
    target = f"{pods}/{found[0]['metadata']['name']}/log"
    held, answers = client.longest(("GET", target, b"", {}), ("GET", f"{target}?tailLines=10", b"", {}))
    assert len(answers[0][1]) > 1_000_000, f"only {len(answers[0][1]):,} bytes of the log were read"
    client.send("DELETE", JOBS)
    return held


def unread(client: Client) -> float:
    """The megabytes that a server uses for watches that no client reads."""
    before = client.server.memory()
    begin = f"GET {EVERYTHING}?{INITIAL} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {client.token}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(WATCHES):
            plain = stack.enter_context(socket.create_connection(client.address, timeout=ANSWER_SECONDS))
            secured = client.context.wrap_socket(plain, server_hostname=client.address[0])
            stack.enter_context(secured)
            secured.sendall(begin.encode())
        peak = before
        end = monotonic() + 10
        while monotonic() < end:
            sleep(0.5)
            peak = max(peak, client.server.memory())
        # The server has cut those off.
        with suppress(OSError):
            stack.close()
    return peak - before


def measured(client: Client, slowness: float) -> Iterator[Measured]:
    """Every request, each repeated while it blocks the loop for too long."""
    measures: list[tuple[str, Callable[[], float]]] = [(one.name, partial(asked, client, one)) for one in ASKS]
    measures += [(one.name, partial(attacked, client, one)) for one in ATTACKS]
    measures.append(("one full log", partial(log_read, client)))
    for name, measure in measures:
        held = measure()
        for _ in range(1, TRIES):
            if HOLD.holds(held, slowness):
                break
            held = min(held, measure())
        yield Measured(name, held)


def holds(data: Path | None = None) -> list[Result]:
    """The longest block per request, and the memory of unread watches."""
    before = kernel.seconds()
    slowness = before / kernel.REFERENCE
    found: list[Measured] = []
    with serving(data or filled(), log_level="debug") as server:
        client = Client(server)
        # Measure only after the server's startup reads.
        while client.send("GET", "/readyz")[0] != 200:
            sleep(0.5)
        sleep(3)
        for one in measured(client, slowness):
            found.append(one)
            print(f"  {one.name:<50} {one.held:>6.0f} ms", flush=True)
        taken = unread(client)
    slowness = kernel.slowness(before)
    longest = max(found, key=lambda one: one.held)
    return [
        Result(HOLD, longest.held, slowness, f"{longest.name}, of {len(found)} requests"),
        Result(UNREAD, taken, 1, "more than before, at the most"),
    ]
