"""Writes the kubeconfig with which kubectl finds this server and identifies its user."""

from base64 import b64encode
from pathlib import Path
from typing import Final

import yaml

from pykueue.api.core import Tree
from pykueue.apiserver.auth.authority import Credentials
from pykueue.base.datafolder import FOLDER_MODE, put

CLUSTER: Final = "pykueue"


def kubeconfig(
    server: str,
    authority: bytes,
    *,
    user: str,
    namespace: str = "default",
    token: str = "",
    credentials: Credentials | None = None,
) -> str:
    """A kubeconfig for one user of the server at this URL, with a token or a certificate."""
    proof: Tree = {"token": token} if token else {}
    if credentials is not None:
        proof = {
            "client-certificate-data": b64encode(credentials.certificate).decode(),
            "client-key-data": b64encode(credentials.key).decode(),
        }
    cluster: Tree = {"server": server, "certificate-authority-data": b64encode(authority).decode()}
    made: Tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER, "cluster": cluster}],
        "users": [{"name": user, "user": proof}],
        "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": user, "namespace": namespace}}],
        "current-context": CLUSTER,
    }
    return yaml.safe_dump(made, sort_keys=False)


def write(path: Path, text: str) -> None:
    """Write a kubeconfig atomically, readable by its owner only; creates its folder if necessary."""
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    put(path, text.encode())
