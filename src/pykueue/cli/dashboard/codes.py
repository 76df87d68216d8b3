"""Codes for the page that the server of one machine has itself: asked for with a kubeconfig, never with a cookie."""

from typing import Final

import click
import msgspec

from pykueue.base.struct import Wire
from pykueue.cli.messages import tell
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import KubeError, UnansweredError

PATH: Final = "/ui/code"
SECONDS_MIN: Final = 60
SECONDS_MAX: Final = 30 * 24 * 60 * 60
NOT_SERVED: Final = (
    "this server has no page of its own, as only `pykueue up` has; `pykueue dashboard` without --code works with any "
    "server"
)
ERROR: Final = 1


class CodeRequest(Wire, omit_defaults=False):
    """What a session is asked for."""

    seconds: int
    view_only: bool = False


class CodeAnswer(Wire, omit_defaults=False):
    """A code, and where it is exchanged."""

    code: str
    address: str


async def printed(kube: HttpKube, seconds: int, *, view_only: bool) -> int:
    """Print a code; returns the exit code."""
    body = msgspec.json.encode(CodeRequest(seconds, view_only))
    try:
        answer = await kube.call(Call("POST", PATH, "get a code for the dashboard", body))
        found = msgspec.json.decode(answer, type=CodeAnswer)
    except UnansweredError:
        raise
    except msgspec.DecodeError:
        tell(NOT_SERVED)
        return ERROR
    except KubeError as error:
        if error.code in (403, 404, 405):
            tell(NOT_SERVED)
            return ERROR
        raise
    tell(f"enter this code at {found.address} within a minute; it works once:")
    click.echo(found.code)
    return 0
