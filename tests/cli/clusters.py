"""A server that is not ours, for the commands: what they ask it and what they print."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from pykueue.cli.main import cli
from tests.fakes.tinyapi import TinyApi


def kubeconfig_of(api: TinyApi, folder: Path) -> Path:
    """A kubeconfig for this server."""
    file = folder / "kubeconfig"
    tree = {
        "clusters": [{"name": "tiny", "cluster": {"server": api.url}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "tiny", "context": {"cluster": "tiny", "user": "me"}}],
        "current-context": "tiny",
    }
    file.write_text(json.dumps(tree))
    return file


def asked(api: TinyApi, folder: Path, line: str) -> Result:
    """What a command prints about this server, which answers in the background."""
    return CliRunner().invoke(cli, [*line.split(), "--kubeconfig", str(kubeconfig_of(api, folder))])
