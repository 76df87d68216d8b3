"""Does `pykueue up` say when its event loop is held?"""

import os
import signal
import time
from pathlib import Path

from tests.cli.machine import machine_in
from tests.patience import soon
from tests.prometheus import Page

STOPPED_SECONDS = 1.0
LONGEST = "pykueue_event_loop_delay_max_seconds"


def test_a_held_loop_is_a_metric_and_is_logged(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    with machine_in(tmp_path) as machine:
        machine.up("--log-file", str(log))
        # To the loop a process that is stopped is the same as a step that does not end.
        os.kill(machine.pid, signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        os.kill(machine.pid, signal.SIGCONT)
        assert soon(lambda: Page(machine.kubectl("get", "--raw", "/metrics"))[LONGEST] >= STOPPED_SECONDS / 2)
        assert soon(lambda: "event loop: was blocked" in log.read_text())
