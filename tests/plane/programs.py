"""How does a manager run on a plane? Our own, or the real Kueue, each as its own process as the cluster's would.

    with Site.on(plane, ours()) as site:           # the manifests, but for the Deployment: that is us
        with site.ours(config={"waitForPodsReady": {"timeout": "3s"}}) as manager:
            …                                      # ready: /readyz has said so
            manager.stop()                         # SIGTERM; seconds that it took
        with site.kueue() as manager: …            # the real one in its place

A manager has the token of the service account that the manifests grant, and webhooks are called through their Service:
its address is one of the loopback, where a proxy passes each call on to whichever manager is up.
"""

import base64
import contextlib
import copy
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.plane.client import ApiError, Client, Tree, path_of, resource_of
from tests.plane.plane import ROOT, Plane, documents, executables
from tests.plane.process import Program, free_ports
from tests.plane.proxy import Proxy

NAMESPACE = "kueue-system"
ACCOUNT = "kueue-controller-manager"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
LEASE = "c1f6bfd2.kueue.x-k8s.io"
SHORT_LEASE = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
"""For stories that kill managers and wait until the Lease expires."""
LONG_LEASE = {"leaseDuration": "60s", "renewDeadline": "50s", "retryPeriod": "1s"}
"""For all other managers: several control planes start at once on few cores, and an API server that answers late must
not end the manager of all stories that follow. `ManagerProcess.kill` deletes it."""

WEBHOOK_SERVICE = "kueue-webhook-service"
WEBHOOK_SECRET = "kueue-webhook-server-cert"
WEBHOOK_ADDRESS = "127.64.0.10"
LEFT_OUT = frozenset({"Deployment", "APIService", "ServiceMonitor", "PodDisruptionBudget"})
"""What is not applied: the manager runs beside the cluster. While nobody serves an API of an APIService, namespaces
cannot be deleted, and most stories start and stop managers; `test_visibility` applies them itself."""


def ours() -> list[Tree]:
    """Our manifests."""
    made = subprocess.run([sys.executable, "-m", "pykueue", "manifests"], check=True, capture_output=True, text=True)
    return documents(made.stdout)


def theirs() -> list[Tree]:
    """The manifests of the real Kueue."""
    built = executables("kueue")
    made = subprocess.run(
        [built / "kubectl", "kustomize", built / "kueue" / "config" / "default"],
        check=True,
        capture_output=True,
        text=True,
    )
    return documents(made.stdout)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A tree with another laid over it."""
    found = dict(base)
    for key, value in over.items():
        under = found.get(key)
        found[key] = merged(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return found


class Site:
    """A plane with the manifests of a manager on it. Managers come and go. Make it by `Site.on`."""

    def __init__(self, plane: Plane, webhook_port: int) -> None:
        self.plane = plane
        self.webhook_port = webhook_port
        self.backends = plane.folder / "webhook-backends"
        self.certificates = plane.folder / "webhook-certificates"
        self.kubeconfig = plane.folder / f"{ACCOUNT}.kubeconfig"
        self.hooks: list[Tree] = []
        self.proxy: Proxy | None = None
        """The way from the API server to the webhooks; None if another process made the site."""
        for folder in (self.backends, self.certificates):
            folder.mkdir(exist_ok=True)

    @classmethod
    @contextlib.contextmanager
    def on(cls, plane: Plane, manifests: list[Tree], *, webhooks: bool = True) -> "Iterator[Site]":
        """A site with these manifests, and the way from the API server to the webhooks, until the block ends."""
        (port,) = free_ports(1)
        site = cls(plane, port)
        (plane.folder / "site.json").write_text(json.dumps({"webhook_port": port}))
        with Proxy(site.live, WEBHOOK_ADDRESS, port) as site.proxy:
            site.install(manifests, webhooks=webhooks)
            yield site

    @classmethod
    def attached(cls, plane: Plane) -> "Site":
        """The site that another process made on a plane, and will end."""
        return cls(plane, json.loads((plane.folder / "site.json").read_text())["webhook_port"])

    def live(self) -> list[int]:
        """Ports on which managers answer webhooks, the newest first."""
        found = sorted(self.backends.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
        return [int(file.name) for file in found]

    def install(self, manifests: list[Tree], *, webhooks: bool = True) -> None:
        """Apply manifests as a cluster needs them that has no kubelet."""
        chosen = [self.fitted(tree) for tree in manifests if tree["kind"] not in LEFT_OUT]
        self.hooks = [tree for tree in chosen if tree["kind"].endswith("WebhookConfiguration")]
        rest = [tree for tree in chosen if tree not in self.hooks]
        order = ["Namespace", "CustomResourceDefinition", "ServiceAccount"]
        rest.sort(key=lambda tree: order.index(tree["kind"]) if tree["kind"] in order else len(order))
        self.plane.apply_all([*rest, *(self.hooks if webhooks else [])])
        for tree in rest:
            if tree["kind"] == "CustomResourceDefinition":
                self.plane.await_defined(tree["metadata"]["name"])
        self.plane.kubeconfig_for(self.plane.token(NAMESPACE, ACCOUNT), ACCOUNT)

    def set_webhooks(self, on: bool) -> None:
        """Register the webhooks with the API server, or take them away; conversion stays."""
        for tree in self.hooks:
            if on != (self.plane.client.find(tree["kind"], tree["metadata"]["name"]) is not None):
                if on:
                    self.plane.client.apply(tree)
                else:
                    self.plane.client.delete(tree["kind"], tree["metadata"]["name"])

    def await_webhooks(self, on: bool) -> None:
        """Return when the API server, which learns of webhooks by a watch of its own, acts as they were set."""
        if not Client.soon(lambda: self.completes() == self.judges() == on):
            raise AssertionError(f"the API server does not {'call' if on else 'let go of'} the webhooks")

    def completes(self) -> bool:
        """Whether the mutating webhooks are called: a new ClusterQueue is then held by a finalizer."""
        made = self.tried("1")
        return made is None or "finalizers" in made["metadata"]

    def judges(self) -> bool:
        """Whether the validating webhooks are called: a quota below nothing is then refused."""
        return self.tried("-1") is None

    def tried(self, quota: str) -> Tree | None:
        """What would become of a new ClusterQueue with this quota; nothing where it is refused."""
        flavor = {"name": "probe", "resources": [{"name": "cpu", "nominalQuota": quota}]}
        tree = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "probe"},
            "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]},
        }
        try:
            return self.plane.client.request("POST", f"{path_of(resource_of(tree))}?dryRun=All", tree)
        except ApiError as error:
            if "denied the request" in error.message or "failed calling webhook" in error.message:
                return None
            raise

    def fitted(self, manifest: Tree) -> Tree:
        """A manifest whose Service is reached at the proxy."""
        tree = copy.deepcopy(manifest)
        if tree["kind"] == "Service" and tree["metadata"]["name"] == WEBHOOK_SERVICE:
            tree["spec"]["clusterIP"] = WEBHOOK_ADDRESS
            tree["spec"]["ports"][0]["port"] = self.webhook_port
        for config in client_configs(tree):
            config["service"]["port"] = self.webhook_port
        return tree

    def holder(self) -> str:
        """Who holds the Lease that all managers share; empty when nobody does."""
        lease = self.plane.client.find("Lease", LEASE, NAMESPACE)
        return str((lease or {}).get("spec", {}).get("holderIdentity") or "")

    def mount(self) -> None:
        """Put the webhook's certificate where a pod would have it mounted, as the kubelet would do."""
        secret = self.plane.client.find("Secret", WEBHOOK_SECRET, NAMESPACE)
        for name, data in ((secret or {}).get("data") or {}).items():
            file = self.certificates / name
            content = base64.b64decode(data)
            if not file.exists() or file.read_bytes() != content:
                file.write_bytes(content)

    def settings(
        self, folder: Path, config: Mapping[str, Any], lease: Mapping[str, Any]
    ) -> tuple[Path, dict[str, int]]:
        """A Configuration file on free ports of the loopback, and those ports."""
        health, metrics, webhook, visibility = free_ports(4)
        base: dict[str, Any] = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
            "webhook": {"port": webhook, "host": "127.0.0.1"},
            "visibilityServer": {"bindPort": visibility, "bindAddress": "127.0.0.1"},
            "leaderElection": {
                "leaderElect": True,
                "resourceName": LEASE,
                "resourceNamespace": NAMESPACE,
                **lease,
            },
            "integrations": {"frameworks": ["batch/job"]},
        }
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"config-{webhook}.yaml"
        found = merged(base, config)
        if found["apiVersion"] != base["apiVersion"]:
            # Older versions do not have it, and the server is on its default port.
            found.pop("visibilityServer")
        file.write_text(yaml.safe_dump(found))
        return file, {"health": health, "metrics": metrics, "webhook": webhook, "visibility": visibility}

    def ours(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        gates: Mapping[str, bool] | None = None,
        args: tuple[str, ...] = (),
        name: str = "pykueue",
        lease: Mapping[str, Any] | None = None,
        kubeconfig: Path | None = None,
        ready: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> "ManagerProcess":
        """Start our manager, and wait until it is ready unless told otherwise."""
        file, ports = self.settings(self.plane.folder / name, config or {}, lease or LONG_LEASE)
        command = [
            sys.executable,
            "-m",
            "pykueue",
            "manager",
            f"--config={file}",
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            *([f"--feature-gates={listed(gates)}"] if gates else []),
            *args,
        ]
        process = ManagerProcess(self, name, command, ports, ready=ready, environment=environment)
        process.holds_long = lease is None
        return process

    def kueue(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        gates: Mapping[str, bool] | None = None,
        name: str = "kueue",
        lease: Mapping[str, Any] | None = None,
        ready: bool = True,
    ) -> "ManagerProcess":
        """Start the real Kueue."""
        mounted = {"webhook": {"certDir": str(self.certificates)}, "metrics": {"bindAddress": "0"}}
        file, ports = self.settings(self.plane.folder / name, merged(mounted, config or {}), lease or {})
        command = [
            str(executables("kueue") / "kueue" / "bin" / "kueue"),
            f"--config={file}",
            f"--kubeconfig={self.kubeconfig}",
            f"--feature-gates={listed({'VisibilityOnDemand': False, **(gates or {})})}",
            "--zap-log-level=2",
        ]
        return ManagerProcess(self, name, command, ports, ready=ready, timeout=60)


def listed(gates: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())


def client_configs(tree: Tree) -> Iterator[Tree]:
    """Where a manifest says how the API server reaches us."""
    if tree["kind"].endswith("WebhookConfiguration"):
        for hook in tree["webhooks"]:
            yield hook["clientConfig"]
    if tree["kind"] == "CustomResourceDefinition":
        conversion = tree["spec"].get("conversion", {})
        if conversion.get("strategy") == "Webhook":
            yield conversion["webhook"]["clientConfig"]


class ManagerProcess(Program):
    """A manager that runs. Use it in a `with`, or stop or kill it."""

    def __init__(
        self,
        site: Site,
        name: str,
        command: list[str],
        ports: Mapping[str, int],
        *,
        ready: bool = True,
        timeout: float = 20.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.site = site
        self.ports = ports
        self.holds_long = False
        """Whether the next manager would wait long for the Lease of this one."""
        self.registered = site.backends / str(ports["webhook"])
        start = time.monotonic()
        given = {"PYTHONPATH": str(ROOT / "src"), **(environment or {})}
        super().__init__(name, command, site.plane.folder / f"{name}.log", given)
        self.registered.touch()
        self.ready_seconds = 0.0
        """How long it took from its start until it was ready."""
        if ready:
            try:
                self.await_ready(timeout)
            except BaseException:
                self.kill()
                raise
            self.ready_seconds = time.monotonic() - start

    def await_ready(self, timeout: float = 20.0) -> None:
        """Return when its /readyz says that it is, or say what it logged instead."""

        def ready() -> bool:
            if not self.alive():
                raise AssertionError(f"{self.name} ended at its start, code {self.popen.returncode}:\n{self.tail(60)}")
            self.site.mount()
            return self.probe("/readyz") == 200

        if not Client.soon(ready, timeout):
            raise AssertionError(f"{self.name} is not ready after {timeout} s:\n{self.tail(60)}")

    def probe(self, path: str) -> int:
        """The code that its health port answers with; 0 when nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["health"], timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def stop(self, timeout: float = 15.0) -> float:
        """Seconds from SIGTERM to its end. Webhooks go to others from now on."""
        self.unregister()
        return super().stop(timeout)

    def kill(self) -> None:
        """Kill it outright, as a node that vanishes would."""
        self.unregister()
        super().kill()
        holder = self.site.holder() if self.holds_long else ""
        if holder and f"leading identity={holder}" in self.logged():
            self.site.plane.client.delete("Lease", LEASE, NAMESPACE)

    def unregister(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.registered)

    def __enter__(self) -> "ManagerProcess":
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()
