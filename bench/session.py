"""Record a terminal session: type each command on a terminal, against a server of its own, and print what is shown.

python -m bench.session day > build/day.txt
"""

import contextlib
import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pykueue.cli.serverstate import OWN_KUBECONFIG, data_folder

DAY: Final = (
    "pykueue queue add vision --share 50%",
    "pykueue queue add speech --share 50%",
    "pykueue run -q speech --name survey --cpu 3 --detach -- sleep 1h",
    "pykueue run -q vision --name train --cpu 2 --time 2:00:00 --detach -- sh -c 'sleep 30; echo accuracy 0.93'",
    "pykueue run -q vision --name report --after-ok train --detach -- echo written",
    "pykueue jobs",
    "pykueue top --once",
    "pykueue attach train",
    "pykueue run -q vision --name sweep --array 0-5%2 --cpu 500m -- sh -c 'echo seed $PYKUEUE_ARRAY_TASK_ID'",
    "pykueue logs sweep --index 3",
    "pykueue cancel survey",
    "pykueue jobs --finished",
)
WHY: Final = (
    "pykueue queue add vision --share 50%",
    "pykueue queue add speech --share 50%",
    "pykueue run -q speech --name survey --cpu 4 --time 0:30:00 --detach -- sleep 1h",
    "pykueue run -q speech --name align --cpu 2 --detach -- sleep 1m",
    "pykueue explain align",
    "pykueue eta align",
    "pykueue preview --set clusterqueue/speech.cpu=6",
    "pykueue run -q vision --name train --cpu 2 --detach -- sleep 1m",
    "pykueue explain survey",
    "pykueue history survey",
)
SESSIONS: Final[Mapping[str, tuple[str, ...]]] = {"day": DAY, "why": WHY}
COLUMNS: Final = 110
ROWS: Final = 40
PORT: Final = 7443
PAUSE_SECONDS: Final = 3.0
"""After each command, as a person reads what it printed; jobs start and stop meanwhile."""


def shown(command: str, environment: dict[str, str], folder: Path) -> str:
    """What a terminal shows while a command runs; raises `CalledProcessError` if it fails."""
    screen, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(
        ["sh", "-c", command], cwd=folder, env=environment, stdin=end, stdout=end, stderr=end
    ) as running:
        os.close(end)
        text = b""
        # A terminal whose last process has ended is an error to read.
        with contextlib.suppress(OSError):
            while block := os.read(screen, 65536):
                text += block
    os.close(screen)
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command, text)
    return text.decode().replace("\r\n", "\n")


def main() -> None:
    """Print the session of this name."""
    parser = ArgumentParser(prog="python -m bench.session", description="Record a terminal session.")
    parser.add_argument("name", choices=[*SESSIONS])
    commands = SESSIONS[parser.parse_args().name]
    folder = Path(tempfile.mkdtemp(prefix="pykueue-session-"))
    home, data = folder / "home", str(folder / "data")
    environment = {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "TERM": "xterm-256color",
    }
    if data_folder(environment=environment).exists():
        sys.exit(f"{data_folder(environment=environment)}: a server is set up here, which the commands would ask")
    server = ["pykueue", "up", "--data", data, "--port", str(PORT), "--detach", "--on-stop", "terminate"]
    offers = ["--cpus", "4", "--memory", "16Gi", "--gpus", "0"]
    try:
        subprocess.run([*server, *offers], env=environment, check=True, stdout=subprocess.DEVNULL)
        (home / OWN_KUBECONFIG).parent.mkdir(parents=True)
        shutil.copy(Path(data) / "kubeconfig", home / OWN_KUBECONFIG)
        for command in commands:
            print(f"\x1b[32m$ {command}\x1b[0m\n{shown(command, environment, home)}", end="", flush=True)
            time.sleep(PAUSE_SECONDS)
    finally:
        subprocess.run(["pykueue", "down", "--data", data], env=environment, check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
