"""The API server's own count of requests, by verb and kind."""

import re
import ssl
import urllib.request
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from pykueue.base.struct import Frozen

COUNTED: Final = "apiserver_request_total"
SERIES: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
READS: Final = frozenset({"GET", "LIST", "WATCH", "CONNECT"})
PAGE: Final = 500
WORKLOADS: Final = "/apis/kueue.x-k8s.io/v1beta2/workloads"


def series(text: str, family: str) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of each series of a family, in Prometheus' text form."""
    for line in text.splitlines():
        if line.startswith(family) and (match := SERIES.match(line)) and match[1] == family:
            yield dict(LABEL.findall(match[2] or "")), float(match[3])


def counted(text: str) -> Counter[str]:
    """Requests by `VERB resource[/subresource]`, and refused ones once more by `CODE VERB resource`."""
    found: Counter[str] = Counter()
    for labels, value in series(text, COUNTED):
        kind = labels.get("resource") or "other"
        if below := labels.get("subresource"):
            kind = f"{kind}/{below}"
        asked = f"{labels['verb']} {kind}"
        found[asked] += int(value)
        if labels["code"] >= "400":
            found[f"{labels['code']} {asked}"] += int(value)
    return found


def writes(requests: Mapping[str, float]) -> float:
    """How many requests change something; refused ones count once."""
    return sum(number for asked, number in requests.items() if not asked[0].isdigit() and asked.split()[0] not in READS)


class Tally(Frozen):
    """How many workloads there are, and how many have finished."""

    workloads: int
    finished: int


class ConditionSeen(msgspec.Struct):
    """The fields of a condition that are read here."""

    type: str
    status: str


class StatusSeen(msgspec.Struct):
    """The fields of a Workload's status that are read here."""

    conditions: list[ConditionSeen] = []


class WorkloadSeen(msgspec.Struct):
    """The fields of a Workload that are read here."""

    status: StatusSeen = msgspec.field(default_factory=StatusSeen)


class Continued(msgspec.Struct):
    """The continue token of a list."""

    token: str = msgspec.field(default="", name="continue")


class ListSeen(msgspec.Struct):
    """A page of Workloads."""

    items: list[WorkloadSeen]
    metadata: Continued


def read_page(body: bytes) -> tuple[Tally, str]:
    """The tally of a page of Workloads, and the continue token, which is empty at the end."""
    page = msgspec.json.decode(body, type=ListSeen)
    finished = [
        any(seen.type == "Finished" and seen.status == "True" for seen in item.status.conditions) for item in page.items
    ]
    return Tally(len(finished), sum(finished)), page.metadata.token


class Server:
    """The API server of a run, with administrator access."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        document: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        server: str = cluster["server"].rstrip("/")
        self.address = server if "://" in server else f"https://{server}"
        self.trust = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
        # A certificate can only be loaded from a file.
        pair = folder / "administrator.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(b64decode(user["client-certificate-data"]) + b"\n" + b64decode(user["client-key-data"]))
        self.trust.load_cert_chain(pair)

    def get(self, path: str, seconds: float = 60) -> bytes:
        """The response to a GET."""
        with urllib.request.urlopen(f"{self.address}{path}", timeout=seconds, context=self.trust) as answer:
            body: bytes = answer.read()
            return body

    def requests(self) -> Counter[str]:
        """The count of each request so far."""
        return counted(self.get("/metrics").decode())

    def tally(self) -> Tally:
        """The tally of all workloads, read from the server."""
        workloads = finished = 0
        onward = f"{WORKLOADS}?limit={PAGE}"
        while onward:
            part, token = read_page(self.get(onward))
            workloads, finished = workloads + part.workloads, finished + part.finished
            onward = f"{WORKLOADS}?limit={PAGE}&continue={token}" if token else ""
        return Tally(workloads, finished)
