"""Ask a server something and exit with a sentence if it cannot answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from pykueue.api.core import Tree
from pykueue.api.trees import mappings
from pykueue.base.clock import SystemClock
from pykueue.cli.serverstate import UNAUTHORIZED, fail, rejected_credentials
from pykueue.cli.target import Target
from pykueue.kube.client.credentials import CredentialError
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import Kube, KubeError, Resource, UnansweredError

Answer = TypeVar("Answer")


def asked(target: Target, command: str, question: Callable[[HttpKube], Awaitable[Answer]], *, code: int = 1) -> Answer:
    """The answer to a question; exits with this code if the server refuses it or does not respond.

    `command` names the command in the server's logs.
    """
    return asyncio.run(answered(target, command, question, code=code))


async def answered(
    target: Target, command: str, question: Callable[[HttpKube], Awaitable[Answer]], *, code: int = 1
) -> Answer:
    """The answer to a question, within a running event loop."""
    kube = HttpKube(target.connection, SystemClock(), agent=f"pykueue-{command}")
    try:
        return await question(kube)
    except (KubeError, CredentialError) as error:
        fail(explained(error, target), code)
    finally:
        await kube.close()


def explained(error: KubeError | CredentialError, target: Target) -> str:
    """What to print about a request that failed."""
    if isinstance(error, KubeError) and error.code == UNAUTHORIZED:
        return rejected_credentials(target.file, target.context, error.message)
    hint = target.hint() if isinstance(error, UnansweredError) else ""
    return f"{target.connection.server}: {error}{hint}"


async def everything(kube: Kube, resource: Resource, namespace: str = "", *, labels: str = "") -> list[Tree]:
    """All objects of a kind, of one namespace or of all; each names its kind, as the items of a list need not."""
    kind: Tree = {"apiVersion": resource.api_version, "kind": resource.kind}
    found: list[Tree] = []
    async for page in kube.pages(resource, namespace, labels=labels):
        found += [{**kind, **one} for _, one in mappings(msgspec.json.decode(page), "items")]  # type: ignore[dict-item]
    return found
