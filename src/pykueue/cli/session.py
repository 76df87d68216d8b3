"""Ask a server something and exit with a sentence if it cannot answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pykueue.base.clock import SystemClock
from pykueue.cli.serverstate import UNAUTHORIZED, fail, rejected_credentials
from pykueue.cli.target import Target
from pykueue.kube.client.credentials import CredentialError
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import KubeError, UnansweredError

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
    return target.unanswered(error) if isinstance(error, UnansweredError) else f"{target.connection.server}: {error}"
