"""A webhook server in a process of its own, so that a test can measure its memory: `python -m ... CERTIFICATE`.

Prints its port, and serves until its standard input ends.
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import uvloop

from pykueue.base.clock import SystemClock
from pykueue.controllers.endpoints.endpoints import Endpoints, Listening
from pykueue.controllers.endpoints.webhooks import Webhooks
from pykueue.jobs.admit_world import AdmitWorld
from pykueue.kube.certmaking import renewed
from pykueue.kube.tls import server_context, use
from tests.controllers.endpoints.reviews import Reviewer
from tests.prometheus import rendered


async def known(namespace: str, owner: Mapping[str, object] | None) -> AdmitWorld:
    return AdmitWorld()


async def main(certificate: Path) -> None:
    context = server_context()
    bundle = renewed(None, ("localhost", "127.0.0.1"), SystemClock().now())
    use(context, bundle.certificate, bundle.key)
    certificate.write_bytes(bundle.authority)
    plan = Listening(webhook="127.0.0.1:0", health="0", metrics="0")
    endpoints = Endpoints(
        plan,
        SystemClock(),
        Reviewer(),
        webhooks=Webhooks(known),
        context=context,
        page=rendered,
        missing=tuple,
    )
    await endpoints.start()
    print(endpoints.webhook_port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await endpoints.stop()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
