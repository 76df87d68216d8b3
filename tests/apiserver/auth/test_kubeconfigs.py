"""How does kubectl find us? A kubeconfig with a token or a certificate, written where only its owner reads it."""

import stat
from base64 import b64decode
from pathlib import Path

import yaml

from pykueue.apiserver.auth.authority import Credentials
from pykueue.apiserver.auth.kubeconfigs import kubeconfig, write


def test_a_kubeconfig_with_a_token() -> None:
    made = yaml.safe_load(kubeconfig("https://127.0.0.1:6443", b"PEM", user="ann", namespace="lab", token="secret"))
    assert made["current-context"] == "pykueue"
    assert made["contexts"][0]["context"] == {"cluster": "pykueue", "user": "ann", "namespace": "lab"}
    assert made["users"] == [{"name": "ann", "user": {"token": "secret"}}]
    assert made["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert b64decode(made["clusters"][0]["cluster"]["certificate-authority-data"]) == b"PEM"


def test_a_kubeconfig_with_a_certificate() -> None:
    text = kubeconfig("https://x", b"PEM", user="ann", credentials=Credentials(b"CERT", b"KEY"))
    (user,) = yaml.safe_load(text)["users"]
    assert {name: b64decode(value) for name, value in user["user"].items()} == {
        "client-certificate-data": b"CERT",
        "client-key-data": b"KEY",
    }


def test_only_the_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    write(path, "first")
    write(path, "second")
    assert path.read_text() == "second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [one.name for one in path.parent.iterdir()] == ["config"]
