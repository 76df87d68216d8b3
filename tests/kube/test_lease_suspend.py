"""Does a leader that was suspended for longer than its lease write nothing when it resumes?"""

import subprocess
import sys
from os import environ
from pathlib import Path

from tests.clockshim import Shim
from tests.fakes.tinyapi import in_background

LEADER = """
import asyncio, sys
import uvloop
from pykueue.base.clock import SystemClock
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, Fixed
from pykueue.kube.client.http import HttpKube
from pykueue.kube.fenced import Fenced
from pykueue.kube.lease import Election
from pykueue.kube.port import NotLeadingError, Resource

THINGS = Resource("example.com", "v1", "things", "Thing", True)
clock = SystemClock()
connection = Connection(sys.argv[1], Fixed(Credential()))

def say(word):
    print(word, flush=True)

async def main():
    terms = {"lease": 60, "renew": 40, "retry": 5}
    election = Election(lambda: HttpKube(connection, clock), clock, "one", "system", "leader", **terms)
    kube = HttpKube(connection, clock, may_write=lambda: election.leading)
    fenced = Fenced(kube, election)
    running = asyncio.create_task(election.run(lambda: say("leads"), lambda why: say("stopped: " + why)))
    loop = asyncio.get_running_loop()
    for way in (kube, fenced):
        name = await loop.run_in_executor(None, sys.stdin.readline)
        while name.strip():
            try:
                await way.create(THINGS, b'{"metadata":{"name":"%b"}}' % name.strip().encode(), "default")
                say("written")
            except NotLeadingError:
                say("refused")
            name = await loop.run_in_executor(None, sys.stdin.readline)
    await running

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""


def test_a_leader_that_was_suspended_for_longer_than_its_lease_writes_nothing(tmp_path: Path) -> None:
    clock = Shim(tmp_path)
    with (
        in_background() as api,
        subprocess.Popen(
            [sys.executable, "-c", LEADER, api.url],
            env={**environ, **clock.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as leader,
    ):
        try:
            assert leader.stdin is not None
            assert leader.stdout is not None

            ends: list[str] = []

            def told(name: str) -> str:
                assert leader.stdin is not None
                assert leader.stdout is not None
                leader.stdin.write(f"{name}\n")
                leader.stdin.flush()
                while (line := leader.stdout.readline().strip()).startswith("stopped"):
                    ends.append(line)
                return line

            assert leader.stdout.readline() == "leads\n"
            assert told("before") == "written"
            # Less than the time in which it must renew: it goes on.
            clock.suspend(20)
            assert told("short") == "written"
            renewed = api.objects["leases"]["system/leader"]["spec"]["renewTime"]
            clock.suspend(3600)
            # Both by the gate right before the first byte is sent and by the fence above it.
            assert told("gate") == "refused"
            leader.stdin.write("\n")
            assert told("fence") == "refused"
            leader.stdin.close()
            # Its own timer had 5 s to go when it was suspended, and is set again at the resume.
            ends += leader.stdout.read().splitlines()
            assert ends == ["stopped: the lease could not be renewed within 40 s"]
            assert leader.wait(20) == 0
            assert sorted(api.objects["things"]) == ["default/before", "default/short"]
            assert api.objects["leases"]["system/leader"]["spec"]["renewTime"] == renewed
        finally:
            leader.kill()
