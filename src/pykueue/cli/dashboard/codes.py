"""Codes for the page that the server of one machine has itself: asked for with a kubeconfig, never with a cookie."""

from typing import Final

import click
import msgspec

from pykueue.base.struct import Wire
from pykueue.cli.messages import tell
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import KubeError

PATH: Final = "/ui/code"
SECONDS_MIN: Final = 60
SECONDS_MAX: Final = 30 * 24 * 60 * 60
NO_PAGE: Final = (403, 404, 405)
"""How servers respond that have no page of their own."""


class CodeRequest(Wire, omit_defaults=False):
    """What a session is asked for."""

    seconds: int
    view_only: bool = False


class CodeAnswer(Wire, omit_defaults=False):
    """A code, and where it is exchanged."""

    code: str
    address: str


async def served_code(kube: HttpKube, seconds: int, *, view_only: bool) -> CodeAnswer | None:
    """A code for the page of the server itself; None if it has none."""
    body = msgspec.json.encode(CodeRequest(seconds, view_only))
    try:
        answer = await kube.call(Call("POST", PATH, "get a code for the dashboard", body))
        return msgspec.json.decode(answer, type=CodeAnswer)
    except msgspec.DecodeError:
        return None
    except KubeError as error:
        if error.code in NO_PAGE:
            return None
        raise


def print_code(found: CodeAnswer) -> None:
    """Print a code, and where to enter it."""
    tell(f"enter this code at {found.address} within a minute; it works once:")
    click.echo(found.code)
