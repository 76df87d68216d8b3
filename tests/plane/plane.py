"""How does a test get a Kubernetes of its own? A `Plane`: the real thing on free ports of the loopback, in a folder.

    with Plane.start() as plane:                  # about ten seconds; stopped and removed at the end, whatever happens
        plane.kubectl("apply", "--server-side", "-f", "deploy/crds.yaml")
        plane.client.create({"apiVersion": "batch/v1", "kind": "Job", …})
        plane.client.wait_for("Job", "x", "default", lambda job: job["status"].get("active") == 1)
        plane.token("kueue-system", "kueue-controller-manager")        # of a service account
        plane.kubeconfig_for(token, "manager")                         # a file with it
        plane.stop_apiserver(); plane.start_apiserver(); plane.compact()

etcd, kube-apiserver, kube-controller-manager and kube-scheduler are built by `controlplane/build`; nodes and the life
of pods are KWOK's (`stages` says how an annotation steers a pod). A plane belongs to the thread that started it: the
kernel ends its programs with that thread. `programs` holds what runs on it: our manager, and the real Kueue;
`autoscaler` adds nodes to it when they are asked for.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.plane.client import ApiError, Client, condition
from tests.plane.keys import Authority, key_pair
from tests.plane.process import Program, free_ports
from tests.plane.stages import stages_text

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "controlplane" / "build"

PREFIX = "plane-"
ADMIN_TOKEN = "admin"
FRONT_PROXY = "front-proxy"
"""The name of the API server as a client of aggregated APIs, and of the authority that signs its certificate."""
SERVICE_RANGE = "127.64.0.0/16"
"""Services get addresses of the loopback, so that the API server reaches a webhook through its Service."""

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)


def executables(*also: str) -> Path:
    """The folder with the control plane's executables, built first if need be (minutes, once)."""
    made = subprocess.run([BUILD, *also], check=True, stdout=subprocess.PIPE, text=True)
    return Path(made.stdout.strip().splitlines()[-1])


def sweep(base: Path) -> None:
    """Remove the folders of planes whose owner was killed before it could."""
    for known in base.glob(f"{PREFIX}*/plane.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            if not Path(f"/proc/{json.loads(known.read_text())['owner']}").exists():
                shutil.rmtree(known.parent, ignore_errors=True)


class Plane:
    """A running control plane. Make it by `Plane.start`."""

    def __init__(self, folder: Path, executables: Path, ports: dict[str, int]) -> None:
        self.folder = folder
        self.bin = executables
        self.ports = ports
        self.url = f"https://127.0.0.1:{ports['api']}"
        self.programs: dict[str, Program] = {}
        self.audit_log = folder / "audit.log"
        self.audit_flags: list[str] = []
        self.ca = folder / "ca.crt"
        self.kubeconfig = folder / "admin.kubeconfig"
        self.client = Client(self.url, ADMIN_TOKEN, str(self.ca))

    @classmethod
    def make(cls, folder: Path, executables: Path) -> "Plane":
        """A plane that does not run yet, with keys and ports of its own."""
        authority = Authority(folder)
        authority.issue("apiserver", hosts=["127.0.0.1", "localhost", "kubernetes.default.svc"])
        Authority(folder, FRONT_PROXY).issue(f"{FRONT_PROXY}-client", user=FRONT_PROXY)
        key_pair(folder, "service-accounts")
        (folder / "tokens.csv").write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')
        ports = dict(zip(("etcd", "peer", "api", "controllers", "scheduler"), free_ports(5), strict=True))
        known = {"bin": str(executables), "ports": ports, "owner": os.getpid()}
        (folder / "plane.json").write_text(json.dumps(known))
        plane = cls(folder, executables, ports)
        plane.kubeconfig_for(ADMIN_TOKEN, "admin")
        return plane

    @classmethod
    def attached(cls, folder: Path) -> "Plane":
        """A plane that another process started in this folder, and will stop."""
        known = json.loads((folder / "plane.json").read_text())
        return cls(folder, Path(known["bin"]), known["ports"])

    @classmethod
    @contextlib.contextmanager
    def start(cls, *, nodes: int = 4, pods: bool = True, keep: bool = False, logged: str = "") -> "Iterator[Plane]":
        """A plane that is ready, until the block ends.

        Without `pods` only etcd and the API server run. Writes of the user `logged` go to the API server's audit log.
        """
        built = executables()
        # Where memory can hold files, etcd need not touch the disk.
        base = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
        sweep(base)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        plane = None
        try:
            plane = cls.make(folder, built)
            if logged:
                plane.log_writes_of(logged)
            plane.start_etcd()
            plane.start_apiserver()
            if pods:
                plane.start_the_rest(nodes)
            yield plane
        finally:
            if plane is not None:
                plane.stop()
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)

    def run(self, name: str, *command: str | Path) -> Program:
        """Start one of the plane's own programs."""
        self.programs[name] = Program(name, command, self.folder / f"{name}.log")
        return self.programs[name]

    def start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{self.ports[name]}" for name in ("etcd", "peer"))
        self.run(
            "etcd",
            self.bin / "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def start_apiserver(self) -> None:
        """Start the API server, on the same port and data as before, and return when it is ready."""
        self.run(
            "kube-apiserver",
            self.bin / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.ports['etcd']}",
            f"--secure-port={self.ports['api']}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={self.folder / 'apiserver.crt'}",
            f"--tls-private-key-file={self.folder / 'apiserver.key'}",
            f"--client-ca-file={self.ca}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={self.folder / 'service-accounts.key'}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            # Nobody makes the accounts and tokens of pods here.
            "--disable-admission-plugins=ServiceAccount",
            # By these an aggregated API recognises the API server, and knows for whom it calls.
            f"--requestheader-client-ca-file={self.folder / FRONT_PROXY}.crt",
            f"--requestheader-allowed-names={FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self.folder / FRONT_PROXY}-client.crt",
            f"--proxy-client-key-file={self.folder / FRONT_PROXY}-client.key",
            "--profiling=false",
            "--shutdown-delay-duration=0s",
            *self.audit_flags,
        )
        self.await_ready()

    def log_writes_of(self, user: str) -> None:
        """Have the API server log every write of a user, from its next start on."""
        rules = [
            {"level": "Metadata", "users": [user], "verbs": ["create", "update", "patch", "delete"]},
            {"level": "None"},
        ]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        file = self.folder / "audit.yaml"
        file.write_text(yaml.safe_dump(policy))
        self.audit_flags = [
            f"--audit-policy-file={file}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=50",
            "--audit-log-maxbackup=1",
        ]

    def logged_writes(self, token: str) -> list[dict[str, Any]]:
        """The entries of the audit log for a service account's token, which its ID tells from others."""
        claims = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["jti"]
        lines = self.audit_log.read_text().splitlines() if self.audit_log.exists() else []
        return [json.loads(line) for line in lines if f"JTI={found}" in line]

    def stop_apiserver(self) -> None:
        """End the API server at once, as a crash would."""
        self.programs.pop("kube-apiserver").kill()

    def start_the_rest(self, nodes: int) -> None:
        """Start controllers, scheduler and nodes, and return when a pod could run."""
        self.start_controllers()
        for number in range(nodes):
            self.add_node(f"node-{number}", wait=False)
        for number in range(nodes):
            self.await_node(f"node-{number}")

    def start_controllers(self) -> None:
        """Start the programs beside the API server, which keep what is stored going."""
        config = self.folder / "kwok.yaml"
        config.write_text(stages_text())
        self.run(
            "kwok",
            self.bin / "kwok",
            f"--kubeconfig={self.kubeconfig}",
            f"--config={config}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
        )
        trusted = [f"--{name}={self.kubeconfig}" for name in ("authentication-kubeconfig", "authorization-kubeconfig")]
        self.run(
            "kube-controller-manager",
            self.bin / "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            *trusted,
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports['controllers']}",
            f"--cert-dir={self.folder / 'controllers'}",
            "--leader-elect=false",
            f"--controllers={','.join(CONTROLLERS)}",
            "--concurrent-job-syncs=20",
            "--concurrent-gc-syncs=10",
            "--concurrent-namespace-syncs=4",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--min-resync-period=12h",
        )
        self.run(
            "kube-scheduler",
            self.bin / "kube-scheduler",
            f"--kubeconfig={self.kubeconfig}",
            *trusted,
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports['scheduler']}",
            f"--cert-dir={self.folder / 'scheduler'}",
            "--leader-elect=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )

    def back_up(self) -> Path:
        """A copy of etcd's data as it is now."""
        copy, etcd = self.folder / "backup", self.programs["etcd"]
        shutil.rmtree(copy, ignore_errors=True)
        etcd.signal(signal.SIGSTOP)
        try:
            shutil.copytree(self.folder / "etcd", copy)
        finally:
            etcd.signal(signal.SIGCONT)
        return copy

    def restore(self, backup: Path) -> None:
        """Put a backup in the place of etcd's data, with everything of the control plane stopped meanwhile.

        Versions go back: `etcdutl snapshot restore` would do the same without `--bump-revision`.
        """
        for program in ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kwok", "etcd"):
            self.programs.pop(program).kill()
        shutil.rmtree(self.folder / "etcd")
        backup.rename(self.folder / "etcd")
        self.start_etcd()
        self.start_apiserver()
        self.start_controllers()

    def add_node(self, name: str, labels: Mapping[str, str] = {}, *, pods: int = 10_000, wait: bool = True) -> None:
        """Add a node that holds this many pods and more than enough of everything else."""
        capacity = {"cpu": "100k", "memory": "1Pi", "pods": str(pods), "example.com/gpu": "100k"}
        self.client.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
                "status": {"capacity": capacity, "allocatable": capacity},
            }
        )
        if wait:
            self.await_node(name)

    def await_node(self, name: str) -> None:
        def ready(node: dict[str, Any]) -> bool:
            # The taint goes when the node's lifecycle controller has seen the node.
            return condition(node, "Ready").get("status") == "True" and not node["spec"].get("taints")

        self.client.wait_for("Node", name, until=ready, timeout=60, what="Ready")

    def await_defined(self, name: str) -> None:
        """Return when the API server serves a kind, by the name of its definition."""

        def served(definition: dict[str, Any]) -> bool:
            return condition(definition, "Established").get("status") == "True"

        self.client.wait_for("CustomResourceDefinition", name, until=served, what="Established")

    def await_ready(self, timeout: float = 60.0) -> None:
        """Return when the API server says that it is ready."""

        def ready() -> bool:
            for program in self.programs.values():
                if not program.alive():
                    raise AssertionError(f"{program.name} ended at its start:\n{program.tail()}")
            try:
                return self.client.text("/readyz") == "ok"
            except OSError:
                return False

        if not Client.soon(ready, timeout):
            raise AssertionError(
                f"the API server is not ready after {timeout} s:\n{self.programs['kube-apiserver'].tail()}"
            )

    def stop(self) -> None:
        """End everything at once; nothing of a private plane is worth an orderly end."""
        self.client.close()
        for program in reversed(list(self.programs.values())):
            program.kill()
        self.programs.clear()

    def compact(self) -> None:
        """Drop all revisions but the newest, so that older watches cannot go on (410)."""
        self.etcd("kv/compaction", {"revision": self.revision(), "physical": True})

    def revision(self) -> str:
        """The newest revision of the store."""
        answer = self.etcd("kv/range", {"key": "AA==", "limit": 1})
        return str(answer["header"]["revision"])

    def etcd(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports['etcd']}/v3/{call}", json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def kubectl(self, *args: str | Path, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl prints; with `check` a failure is an error that shows what it said."""
        done = subprocess.run(
            [self.bin / "kubectl", f"--kubeconfig={self.kubeconfig}", *map(str, args)],
            check=False,
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, "HOME": str(self.folder)},
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(map(str, args))}: {done.stderr}{done.stdout}")
        return done.stdout if check else done.stdout + done.stderr

    def kubeconfig_for(self, token: str | Path, user: str, url: str = "", **more: Any) -> Path:
        """A kubeconfig file for a token, or a file with one; `url` where the server is to be reached another way."""
        tree = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "plane", "cluster": {"server": url or self.url, "certificate-authority": str(self.ca), **more}}
            ],
            "users": [{"name": user, "user": {"token" if isinstance(token, str) else "tokenFile": str(token)}}],
            "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": user}}],
            "current-context": "plane",
        }
        file = self.folder / f"{user}.kubeconfig"
        file.write_text(yaml.safe_dump(tree))
        return file

    def token(self, namespace: str, account: str, hours: int = 4, **spec: Any) -> str:
        """A token for a service account that exists, by the TokenRequest API, whose other fields may be given."""
        answer = self.client.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": hours * 3600, **spec},
            },
        )
        return str(answer["status"]["token"])

    def namespace(self, name: str, labels: dict[str, str] | None = None) -> str:
        """A new namespace."""
        self.client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}
        )
        return name

    def apply_all(self, documents: list[dict[str, Any]]) -> None:
        """Apply documents in their order; a kind whose definition was just applied may take a moment to be served."""
        for tree in documents:
            self.retried(partial(self.client.apply, tree))

    @staticmethod
    def retried(call: Callable[[], object], timeout: float = 15.0) -> None:
        start = time.monotonic()
        while True:
            try:
                call()
                return
            except ApiError as error:
                if error.code not in (404, 429, 500, 503) or time.monotonic() - start > timeout:
                    raise
                time.sleep(0.1)


def documents(text: str) -> list[dict[str, Any]]:
    """The objects of a YAML file, lists taken apart."""
    found: list[dict[str, Any]] = []
    for tree in yaml.load_all(text, Loader=yaml.CSafeLoader):
        if tree:
            found.extend(tree["items"] if tree.get("kind") == "List" else [tree])
    return found
